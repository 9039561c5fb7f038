"""Flash attention: the attention of day 8, up to rounding, without its T × T attention matrix.

Day 8 stores all scores, turns them into weights, and keeps those for the backward pass. Here the scores are
computed in small tiles, and each tile is dropped before the next one is made. The softmax is computed online:
where a tile has a higher score, what was summed under the earlier maximum is scaled down. The backward pass
computes each tile again, from one number per query. That is more arithmetic, and far less memory.

From symbols to names
    B               batch: all leading dimensions in one
    T_q, T_k        time: of the queries, of the keys and values
    B_r, B_c        rows and columns of a tile, `block` of each; fewer at the ends
    S, P            scores and weights of a tile
    m, ℓ, O         running maximum, normalizer and accumulator of each query
    L               logsumexp: m + log ℓ after the last tile, the logarithm of Σ exp(S) over all keys
    dQ, dK, dV, dO  grad_query, grad_key, grad_value, grad_output
    dP, dS          grad_weights, grad_scores
    D               delta: the sum of dO · O over a query's features

`flash_triton.py` is the same forward pass as a kernel for a GPU.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

# --- Day 33 · Flash attention ---------------------------------------------------------------------


def _tiles(
    t_q: int, t_k: int, block: int, offset: int | None
) -> Iterator[tuple[slice, list[slice]]]:
    """Yield each block of queries with the blocks of keys that it sees, all or in part.

    Query i sees keys 0 to offset + i, or all of them where the offset is None.
    """
    # 1. Cut the queries into blocks, and the keys that each of these blocks sees.
    for start in range(0, t_q, block):
        rows = slice(start, min(start + block, t_q))
        visible = t_k if offset is None else min(rows.stop + offset, t_k)
        yield rows, [slice(j, min(j + block, visible)) for j in range(0, visible, block)]


def _scores(q: Tensor, k: Tensor, rows: slice, columns: slice, offset: int | None) -> Tensor:
    """Return the scores S = Q Kᵀ of one tile; those of later keys are −∞."""
    # 2. Compute the scores of one tile. Most tiles have no later key to mask.
    scores = q @ k.mT  # (B, B_r, B_c)
    if offset is not None:
        last = rows.start + offset  # the last key that the first query sees
        if columns.stop - 1 > last:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
            scores.masked_fill_(later.triu(last - columns.start + 1), -math.inf)
    return scores


def _forward(
    query: Float[Tensor, "B T_q d_k"],
    key: Float[Tensor, "B T_k d_k"],
    value: Float[Tensor, "B T_k d_v"],
    block: int,
    offset: int | None,
) -> tuple[Float[Tensor, "B T_q d_v"], Float[Tensor, "B T_q 1"]]:
    """Return the output O / ℓ, and L = m + log ℓ. For each tile, from m = −∞, ℓ = 0, O = 0:

        m' = max(m, rowmax S)      P = exp(S − m')
        ℓ ← exp(m − m') ℓ + rowsum P      O ← exp(m − m') O + P V      m ← m'

    S holds the scores, and Q the factor 1/√d_k. Half precision is upcast to float32, a tile at a time.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    scale = 1 / math.sqrt(query.size(-1))
    output = value.new_empty(*query.shape[:-1], value.size(-1))  # (B, T_q, d_v)
    logsumexp = query.new_empty(*query.shape[:-1], 1, dtype=wide)  # (B, T_q, 1)
    for rows, blocks in _tiles(query.size(1), key.size(1), block, offset):
        # 3. Start a block of queries: nothing is summed yet, and the maximum is the lowest finite number.
        #    Not −∞: −∞ − (−∞) is NaN.
        q = query[:, rows].to(wide) * scale  # (B, B_r, d_k)
        maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(wide).min)  # (B, B_r, 1)
        normalizer = torch.zeros_like(maximum)  # (B, B_r, 1)
        accumulator = q.new_zeros(*q.shape[:-1], value.size(-1))  # (B, B_r, d_v)
        for columns in blocks:
            k, v = key[:, columns].to(wide), value[:, columns].to(wide)  # (B, B_c, d_k or d_v)
            scores = _scores(q, k, rows, columns, offset)  # (B, B_r, B_c)
            # 4. Update the running maximum. Where it rises, scale down the sums so far.
            higher = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))  # (B, B_r, 1)
            rescale = (maximum - higher).exp()  # (B, B_r, 1)
            maximum = higher
            # 5. Add this tile's weights to the normalizer, and its weighted values to the accumulator.
            weights = (scores - maximum).exp()  # (B, B_r, B_c)
            normalizer = rescale * normalizer + weights.sum(dim=-1, keepdim=True)
            accumulator = rescale * accumulator + weights @ v
        # 6. Divide once, at the end. The normalizer is at least 1, or 0 where no key was seen. There L is
        #    +∞, so that exp(S − L) will be 0.
        output[:, rows] = accumulator / normalizer.clamp(min=1)
        logsumexp[:, rows] = torch.where(normalizer > 0, maximum + normalizer.log(), math.inf)
    return output, logsumexp


def _backward(
    grad_output: Float[Tensor, "B T_q d_v"],
    query: Float[Tensor, "B T_q d_k"],
    key: Float[Tensor, "B T_k d_k"],
    value: Float[Tensor, "B T_k d_v"],
    output: Float[Tensor, "B T_q d_v"],
    logsumexp: Float[Tensor, "B T_q 1"],
    block: int,
    offset: int | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value. For each tile, with D = rowsum(dO · O):

    P = exp(S − L)      dP = dO Vᵀ      dS = P · (dP − D)
    dV += Pᵀ dO      dQ += dS K / √d_k      dK += dSᵀ Q / √d_k
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    scale = 1 / math.sqrt(query.size(-1))
    grad_query, grad_key, grad_value = (
        torch.zeros_like(tensor, dtype=wide) for tensor in (query, key, value)
    )
    for rows, blocks in _tiles(query.size(1), key.size(1), block, offset):
        q = query[:, rows].to(wide) * scale  # (B, B_r, d_k)
        grad = grad_output[:, rows].to(wide)  # (B, B_r, d_v)
        # 7. The mean of a query's grad_weights, weighted by its weights, needs neither of them.
        delta = (grad * output[:, rows]).sum(dim=-1, keepdim=True)  # (B, B_r, 1)
        for columns in blocks:
            k, v = key[:, columns].to(wide), value[:, columns].to(wide)  # (B, B_c, d_k or d_v)
            # 8. Compute the tile again, and its weights at once, from L.
            scores = _scores(q, k, rows, columns, offset)  # (B, B_r, B_c)
            weights = (scores - logsumexp[:, rows]).exp()  # (B, B_r, B_c)
            # 9. Go back through the weighted sum, the softmax and the scores, as on day 7. Where a product is
            #    added in place, neither the product nor the slice is copied.
            grad_value[:, columns].baddbmm_(weights.mT, grad)  # += weights.mT @ grad
            grad_weights = grad @ v.mT  # (B, B_r, B_c)
            grad_scores = weights * (grad_weights - delta)  # (B, B_r, B_c)
            grad_query[:, rows].baddbmm_(grad_scores, k, alpha=scale)  # += scale * grad_scores @ k
            grad_key[:, columns].baddbmm_(grad_scores.mT, q)  # q has the factor 1/√d_k
    return grad_query.to(query.dtype), grad_key.to(query.dtype), grad_value.to(query.dtype)


class _FlashAttention(torch.autograd.Function):
    """The custom autograd function: autograd records neither pass, and autocast narrows nothing."""

    @staticmethod
    def forward(ctx, query, key, value, block, offset):
        # 10. Make the two passes a custom autograd function. It saves the inputs, the output and one number
        #     per query, and its backward pass returns None for arguments that are not tensors.
        with torch.autocast(query.device.type, enabled=False):
            output, logsumexp = _forward(query, key, value, block, offset)
        ctx.save_for_backward(query, key, value, output, logsumexp)
        ctx.block, ctx.offset = block, offset
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        with torch.autocast(grad_output.device.type, enabled=False):
            grads = _backward(grad_output, *ctx.saved_tensors, ctx.block, ctx.offset)
        return *grads, None, None


def flash_attention(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    block: int = 64,
    causal: bool = False,
) -> Float[Tensor, "*batch T_q d_v"]:
    """Compute scaled dot-product attention in tiles of `block` queries and keys.

        softmax(Q Kᵀ / √d_k) V

    With `causal`, the last query belongs to the last key: query i sees keys 0 to T_k − T_q + i. A query that
    may attend to nothing gets exactly 0. Memory is linear in T_q and T_k.

    Raises:
        ValueError: `block` below 1, shapes that do not fit together, or dtypes that are not the same
            floating-point dtype.

    Source: Dao et al. 2022, *FlashAttention*, §3.1, algorithm 1, and appendix B for the backward pass;
    queries in the outer loop and one number L per query: Dao 2023, *FlashAttention-2*, §3.1; the softmax:
    Milakov & Gimelshein 2018, *Online normalizer calculation for softmax*, §3.
    """
    _check_sequences(query, key, value, block)
    # 11. Attend with one batch dimension in place of all leading ones. Causal: the last query belongs to the
    #     last key.
    offset = key.size(-2) - query.size(-2) if causal else None
    flat = (tensor.unsqueeze(0).flatten(0, -3) for tensor in (query, key, value))  # (B, T, d) each
    output = _FlashAttention.apply(*flat, block, offset)  # (B, T_q, d_v)
    return output.view(*query.shape[:-1], value.size(-1))  # (…, T_q, d_v)


def _check_sequences(query: Tensor, key: Tensor, value: Tensor, block: int) -> None:
    """Refuse what does not fit together: broadcast, it would have gradients of the wrong shape."""
    if block < 1:
        raise ValueError(f"block must be at least 1, got {block}")
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(tensor.dim() for tensor in (query, key, value)) < 2:
        raise ValueError(f"query, key and value must be (…, T, d), got {shapes}")
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError(f"leading dimensions must be equal, got {shapes}")
    if query.size(-1) != key.size(-1):
        raise ValueError(f"query and key must have the same width, got {shapes}")
    if key.size(-2) != value.size(-2):
        raise ValueError(f"key and value must have the same length, got {shapes}")
    if not query.dtype == key.dtype == value.dtype or not query.is_floating_point():
        dtypes = f"{query.dtype}, {key.dtype}, {value.dtype}"
        raise ValueError(f"inputs must have the same floating-point dtype, got {dtypes}")
