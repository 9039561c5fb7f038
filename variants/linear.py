"""Linear attention: a product of feature maps in place of the softmax.

It replaces `attention` of day 8. Softmax attention has to compare every query with every key before it
can mix a value. Where the similarity is a product, φ(q)ᵀ φ(k), the brackets may be moved: all keys and
values are added up into one small matrix, once, and each query reads that. There is no T × T anywhere.

From symbols to names
    T_q, T_k        time: of the queries, of the keys and values
    d_k, d_v        width of a query or key, of a value, inside one head
    φ               the feature map elu(x) + 1
    C               size, the tokens of a chunk
    N               chunks, the last of them filled up
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
    """Every query takes a weighted mean of the values, in time and memory that grow like T.

        V′ᵢ = φ(Qᵢ)ᵀ Sᵢ / φ(Qᵢ)ᵀ Zᵢ,    Sᵢ = Σⱼ φ(Kⱼ) Vⱼᵀ,    Zᵢ = Σⱼ φ(Kⱼ),    φ(x) = elu(x) + 1

    The sums run over all keys or, where it is causal, over those at j ≤ i. So query i weighs key j by
    φ(Qᵢ)ᵀ φ(Kⱼ), divided by the sum of these weights. Nothing is divided by √d_k.

    Args:
        query: what each position looks for, `(…, T_q, d_k)`, with any leading batch dimensions.
        key: what each position offers to be found by, `(…, T_k, d_k)`.
        value: what each position hands over, `(…, T_k, d_v)`; d_v may differ from d_k.
        causal: whether query i sees only the keys up to position i; then T_q is T_k.

    Returns:
        The output `(…, T_q, d_v)`, in the inputs' dtype. float16 and bfloat16 are computed in float32,
        float64 in float64: the result is right to the dtype's rounding, however long the sums.
        φ is x + 1 above 0 and eˣ below, and as exact there as eˣ is: a query or key of features
        about −20 still weighs the values rightly. (Float32's elu(x) + 1 is exactly 0 from −17.4 on.)
        A sum of weights that is exactly 0, as where T_k is 0, gives an output of 0, never NaN; nothing
        else is added to a denominator. T_q may be 0 as well.
        No tensor on the way holds T_q × T_k numbers. Where it is causal, the work is done in chunks of C
        tokens, C a fixed number such as 64: inside a chunk queries meet keys, of all earlier chunks they
        read the S and Z that these have left. There is a state for each chunk, and not for each token:
        what is kept for a backward pass are (T / C) · d_k · d_v numbers, and not T · d_k · d_v.

    Raises:
        ValueError: `causal`, and T_q is not T_k.

    Source: Katharopoulos et al. 2020, *Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention*, eqs. 4 to 7; causal: eqs. 8 to 12. A backward pass of their own, §3.3.1, does
    without any states kept.
    """
    t_q, t_k = query.size(-2), key.size(-2)
    if causal and t_q != t_k:
        raise ValueError(
            f"causal needs as many queries as keys, and there are {t_q} queries and {t_k} keys"
        )
    dtype, wide = value.dtype, torch.promote_types(value.dtype, torch.float32)
    with torch.autocast(value.device.type, enabled=False):  # which would narrow the sums again
        # 1. Widen halves. Make every feature of queries and keys positive: φ.
        query, key, value = query.to(wide), key.to(wide), value.to(wide)
        query = torch.where(query > 0, query + 1, query.clamp(max=0).exp())  # (…, T_q, d_k)
        key = torch.where(key > 0, key + 1, key.clamp(max=0).exp())  # (…, T_k, d_k)
        # 2. Give each token one more value, 1: what becomes of it is the sum of the weights. So S and Z
        #    are one matrix.
        value = F.pad(value, (0, 1), value=1.0)  # (…, T_k, d_v + 1)
        if not causal:
            # 3. Not causal: add up all keys and values, then let each query read the sum.
            state = key.transpose(-2, -1) @ value  # (…, d_k, d_v + 1)
            sums = query @ state  # (…, T_q, d_v + 1)
        else:
            # 4. Causal: cut time into chunks, and fill the last one up with nothing.
            size = 64  # about d_k: then a chunk's scores and its state take up the same room
            chunks = -(-t_k // size)
            missing = chunks * size - t_k
            query, key, value = (
                F.pad(x, (0, 0, 0, missing)).unflatten(-2, (chunks, size))
                for x in (query, key, value)
            )  # (…, N, C, d_k or d_v + 1)
            # 5. Inside a chunk each query meets the keys up to its own.
            weights = (query @ key.transpose(-2, -1)).tril()  # (…, N, C, C)
            # 6. Of the chunks before it, each chunk gets one sum.
            state = key.transpose(-2, -1) @ value  # (…, N, d_k, d_v + 1)
            earlier = F.pad(state, (0, 0, 0, 0, 1, 0))[..., :-1, :, :].cumsum(dim=-3)
            # 7. Add the two, and put the chunks together again.
            sums = weights @ value + query @ earlier  # (…, N, C, d_v + 1)
            sums = sums.flatten(-3, -2)[..., :t_q, :]  # (…, T_q, d_v + 1)
        # 8. Divide by the sum of the weights, where there is any weight.
        mixed, total = sums[..., :-1], sums[..., -1:]  # (…, T_q, d_v), (…, T_q, 1)
        output = mixed / total.masked_fill(total == 0, 1.0)
    return output.to(dtype)  # (…, T_q, d_v)
