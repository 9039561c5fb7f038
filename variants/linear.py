"""Linear attention: a product of feature maps in place of the softmax.

It replaces `attention` of day 8. Softmax attention has to compare every query with every key. Where the
similarity is a product, φ(q)ᵀ φ(k), the multiplications can be reordered: all keys and values are summed into
one small matrix, once, and each query is multiplied by it. No T × T matrix is computed.

From symbols to names
    T_q, T_k        time: of the queries, of the keys and values
    d_k, d_v        width of a query or key, of a value, inside one head
    φ               the feature map elu(x) + 1
    C               size, the tokens of a chunk
    N               chunks, the last of them padded
    S, Z            state: the sum of φ(k) vᵀ, and in its last column that of φ(k)
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

# --- Day 34 · Linear attention --------------------------------------------------------------------


def linear_attention(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    causal: bool = False,
) -> Float[Tensor, "*batch T_q d_v"]:
    """Compute a weighted mean of the values for every query, in time and memory linear in T.

        V′ᵢ = φ(Qᵢ)ᵀ Sᵢ / φ(Qᵢ)ᵀ Zᵢ,    Sᵢ = Σⱼ φ(Kⱼ) Vⱼᵀ,    Zᵢ = Σⱼ φ(Kⱼ),    φ(x) = elu(x) + 1

    The sums run over all keys or, with `causal`, over those at j ≤ i. So query i weights key j by
    φ(Qᵢ)ᵀ φ(Kⱼ), divided by the sum of these weights; there is no factor 1/√d_k. Half-precision inputs are
    computed in float32. Where the weights sum to 0, the output is 0.

    Raises:
        ValueError: `causal`, and T_q is not T_k.

    Source: Katharopoulos et al. 2020, *Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention*, eqs. 4 to 7; causal: eqs. 8 to 12. Their backward pass, §3.3.1, stores no states.
    """
    t_q, t_k = query.size(-2), key.size(-2)
    if causal and t_q != t_k:
        raise ValueError(f"causal needs as many queries as keys, got {t_q} queries and {t_k} keys")
    dtype, wide = value.dtype, torch.promote_types(value.dtype, torch.float32)
    with torch.autocast(value.device.type, enabled=False):  # which would round the sums again
        # 1. Upcast half precision. Make every feature of queries and keys positive: φ.
        query, key, value = query.to(wide), key.to(wide), value.to(wide)
        query = torch.where(query > 0, query + 1, query.clamp(max=0).exp())  # (…, T_q, d_k)
        key = torch.where(key > 0, key + 1, key.clamp(max=0).exp())  # (…, T_k, d_k)
        # 2. Append the value 1 to each token's values: its weighted sum is the sum of the weights. So S and
        #    Z are one matrix.
        value = F.pad(value, (0, 1), value=1.0)  # (…, T_k, d_v + 1)
        if not causal:
            # 3. Not causal: sum over all keys and values, and multiply each query by the sum.
            state = key.transpose(-2, -1) @ value  # (…, d_k, d_v + 1)
            sums = query @ state  # (…, T_q, d_v + 1)
        else:
            # 4. Causal: cut time into chunks, and pad the last one with zeros.
            size = 64  # about d_k: then a chunk's scores and its state have the same size
            chunks = -(-t_k // size)
            missing = chunks * size - t_k
            query, key, value = (
                F.pad(x, (0, 0, 0, missing)).unflatten(-2, (chunks, size))
                for x in (query, key, value)
            )  # (…, N, C, d_k or d_v + 1)
            # 5. Inside a chunk, weight the keys up to each query's own.
            weights = (query @ key.transpose(-2, -1)).tril()  # (…, N, C, C)
            # 6. For each chunk, sum the states of all earlier chunks.
            state = key.transpose(-2, -1) @ value  # (…, N, d_k, d_v + 1)
            earlier = F.pad(state, (0, 0, 0, 0, 1, 0))[..., :-1, :, :].cumsum(dim=-3)
            # 7. Add the two, and join the chunks.
            sums = weights @ value + query @ earlier  # (…, N, C, d_v + 1)
            sums = sums.flatten(-3, -2)[..., :t_q, :]  # (…, T_q, d_v + 1)
        # 8. Divide by the sum of the weights, where it is not 0.
        mixed, total = sums[..., :-1], sums[..., -1:]  # (…, T_q, d_v), (…, T_q, 1)
        output = mixed / total.masked_fill(total == 0, 1.0)
    return output.to(dtype)  # (…, T_q, d_v)
