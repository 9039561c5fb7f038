"""Flash attention: the attention of day 8, to the rounding, without its T × T matrix of weights.

Day 8 writes down all scores, turns them into weights, and keeps those for the backward pass. Here a score
lives in a small tile, is used, and is forgotten. The softmax is computed on the way: what was summed under
an earlier maximum is scaled down as soon as a higher score comes. The backward pass computes each tile
again, from one number a query that the forward pass kept. There is more to compute, and far less to store.

From symbols to names
    B               batch: all leading dimensions in one
    T_q, T_k        time: of the queries, of the keys and values
    B_r, B_c        rows and columns of a tile, `block` of each; fewer at the ends
    S, P            scores and weights of a tile
    m, ℓ            highest, total: of each query the highest score so far, and the sum of exp(S − m)
    L               log_sum: m + log ℓ after the last tile, the logarithm of Σ exp(S) over all keys
    O               output
    dQ, dK, dV, dO  grad_query, grad_key, grad_value, grad_output
    dP, dS          grad_weights, grad_scores
    D               along: the sum of dO · O over a query's features

The same forward pass as a kernel for a GPU stands in `flash_triton.py`.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

# --- Given: a function with a derivative of its own -----------------------------------------------


def by_hand(
    forward: Callable[..., tuple[Tensor, ...]],
    backward: Callable[..., tuple[Tensor, ...]],
    *inputs,
) -> Tensor:
    """Call `forward`, and let autograd differentiate the result by `backward`, not by its own record.

    Args:
        forward: called with the inputs, returns the output and then whatever else `backward` needs.
            Nothing inside is recorded, and autocast does not narrow anything.
        backward: called with the output's gradient, the inputs, the output, and what else `forward`
            returned, in this order. It returns one gradient for each input.
        inputs: tensors.

    Returns:
        The output. What `backward` is called with is kept until then, and nothing else. The gradients
        cannot be differentiated again: torch says so.
    """
    output: Tensor = _ByHand.apply(forward, backward, *inputs)
    return output


class _ByHand(torch.autograd.Function):
    """What `by_hand` does, in torch's words."""

    @staticmethod
    def forward(ctx, forward, backward, *inputs):
        ctx.derivative = backward
        with torch.autocast(inputs[0].device.type, enabled=False):
            output, *others = forward(*inputs)
        ctx.save_for_backward(*inputs, output, *others)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        with torch.autocast(grad_output.device.type, enabled=False):
            return None, None, *ctx.derivative(grad_output, *ctx.saved_tensors)


# --- Day 33 · Flash attention ---------------------------------------------------------------------


def flash_attention(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    block: int = 64,
    causal: bool = False,
) -> Float[Tensor, "*batch T_q d_v"]:
    """Scaled dot-product attention, tile by tile: softmax(Q Kᵀ / √d_k) V, and no matrix of weights.

    For each tile of scores S with values V, beginning at m = −∞, ℓ = 0, O = 0:

        m' = max(m, rowmax S)      P = exp(S − m')
        ℓ ← exp(m − m') ℓ + rowsum P      O ← exp(m − m') O + P V      m ← m'

    and at the end O / ℓ, and L = m + log ℓ. Backward, with P = exp(S − L) and D = rowsum(dO · O):

        dV += Pᵀ dO      dS = P · (dO Vᵀ − D)      dQ += dS K / √d_k      dK += dSᵀ Q / √d_k

    Args:
        query: what each position looks for, `(…, T_q, d_k)`, with any leading batch dimensions.
        key: what each position offers to be found by, `(…, T_k, d_k)`.
        value: what each position hands over, `(…, T_k, d_v)`; d_v may differ from d_k.
        block: queries, and keys, of a tile. No length need be a multiple of it, or as long. The result
            depends on it by no more than rounding.
        causal: True hides later keys. The last query belongs to the last key, so that query i, counted
            from 0, sees keys 0 to T_k − T_q + i.

    Returns:
        The output alone, `(…, T_q, d_v)`, in the inputs' dtype. It is that of `attention` of day 8, and
        so are the gradients of query, key and value. A query that may attend to nothing (a causal one
        with T_q > T_k + i, or any where T_k = 0) has an output of exactly 0, never NaN, and passes no
        gradient on. T_q may be 0. Halves are widened to float32 in each tile, and all sums are in it:
        the result is that of float32 to the dtype's rounding. float64 is computed in float64.

        At no time does the function hold T_q × T_k numbers for each leading index, in one tensor or in
        several together: not in the forward pass, not between the passes, not in the backward pass.
        What it holds grows linearly with T_q and T_k. (That is said of lengths far above `block`, d_k
        and d_v.) For the backward pass it keeps the inputs, the output, and one number a query.

    Raises:
        ValueError: a `block` below 1; leading dimensions that are not equal; query and key of unequal
            width; key and value of unequal length; dtypes that are not one and the same, or not of
            real numbers.

    Source: Dao et al. 2022, *FlashAttention*, §3.1, algorithm 1, and appendix B for the backward pass;
    queries in the outer loop and one number L a query: Dao 2023, *FlashAttention-2*, §3.1; the softmax:
    Milakov & Gimelshein 2018, *Online normalizer calculation for softmax*, §3.
    """
    _check_sequences(query, key, value, block)
    batch = query.shape[:-2]
    t_q, t_k = query.size(-2), key.size(-2)
    wide = torch.promote_types(query.dtype, torch.float32)
    scale = 1 / math.sqrt(query.size(-1))

    # 1. Say which tiles there are: each block of queries with the blocks of keys that it sees, wholly
    #    or in part.
    def blocks(length: int) -> list[slice]:
        return [slice(start, min(start + block, length)) for start in range(0, length, block)]

    def keys_of(rows: slice) -> list[slice]:
        seen = min(rows.stop + t_k - t_q, t_k) if causal else t_k
        return blocks(max(seen, 0))

    # 2. The scores of one tile. Later keys get −∞; most tiles have none.
    def tile(q: Tensor, k: Tensor, rows: slice, columns: slice) -> Tensor:
        scores = q @ k.mT  # (B, B_r, B_c)
        last = rows.start + t_k - t_q  # the last key that the first query sees
        if causal and columns.stop - 1 > last:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
            scores.masked_fill_(later.triu(last - columns.start + 1), -math.inf)
        return scores

    def forward(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        output = value.new_empty(len(query), t_q, value.size(-1))  # (B, T_q, d_v)
        log_sum = query.new_empty(len(query), t_q, 1, dtype=wide)  # (B, T_q, 1)
        for rows in blocks(t_q):
            # 3. A block of queries has seen no key yet: nothing is summed, and the highest score is the
            #    lowest that there is. Not −∞: −∞ − (−∞) is NaN.
            q = query[:, rows].to(wide) * scale  # (B, B_r, d_k)
            highest = q.new_full((*q.shape[:-1], 1), torch.finfo(wide).min)  # (B, B_r, 1)
            total = torch.zeros_like(highest)  # (B, B_r, 1)
            mixed = q.new_zeros(*q.shape[:-1], value.size(-1))  # (B, B_r, d_v)
            for columns in keys_of(rows):
                k = key[:, columns].to(wide)  # (B, B_c, d_k)
                scores = tile(q, k, rows, columns)  # (B, B_r, B_c)
                # 4. Where there is a higher score, scale down what was summed under the old maximum.
                higher = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))  # (B, B_r, 1)
                shrink = highest.sub_(higher).exp_()  # (B, B_r, 1)
                highest = higher
                # 5. Add this tile's weights, and the values mixed by them.
                weights = scores.sub_(highest).exp_()  # (B, B_r, B_c)
                total.mul_(shrink).add_(weights.sum(dim=-1, keepdim=True))
                v = value[:, columns].to(wide)  # (B, B_c, d_v)
                mixed.mul_(shrink).baddbmm_(weights, v)  # += weights @ v
            # 6. Divide once, at the end. The total is at least 1, or 0 where no key was seen. Keep the
            #    logarithm of Σ exp(S): +∞ where no key was seen, so that exp(S − L) will be 0.
            output[:, rows] = mixed / total.clamp(min=1)
            log_sum[:, rows] = torch.where(total > 0, highest + total.log(), math.inf)
        return output, log_sum

    def backward(
        grad_output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        output: Tensor,
        log_sum: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        grad_query, grad_key, grad_value = (
            torch.zeros_like(one, dtype=wide) for one in (query, key, value)
        )
        for rows in blocks(t_q):
            q = query[:, rows].to(wide) * scale  # (B, B_r, d_k)
            grad = grad_output[:, rows].to(wide)  # (B, B_r, d_v)
            # 7. The mean of a query's grad_weights under its weights, without either of them.
            along = (grad * output[:, rows]).sum(dim=-1, keepdim=True)  # (B, B_r, 1)
            for columns in keys_of(rows):
                k = key[:, columns].to(wide)  # (B, B_c, d_k)
                v = value[:, columns].to(wide)  # (B, B_c, d_v)
                # 8. The tile again, and its weights at once: their sum is known by now.
                scores = tile(q, k, rows, columns)  # (B, B_r, B_c)
                weights = scores.sub_(log_sum[:, rows]).exp_()  # (B, B_r, B_c)
                # 9. Through the mixture, the softmax and the scores, as on day 7.
                grad_value[:, columns].baddbmm_(weights.mT, grad)  # += weights.mT @ grad
                grad_scores = (grad @ v.mT).sub_(along).mul_(weights)  # (B, B_r, B_c)
                grad_query[:, rows].baddbmm_(grad_scores, k)
                grad_key[:, columns].baddbmm_(grad_scores.mT, q)  # q holds the scale
        return (
            (grad_query * scale).to(query.dtype),  # (B, T_q, d_k)
            grad_key.to(query.dtype),  # (B, T_k, d_k)
            grad_value.to(query.dtype),  # (B, T_k, d_v)
        )

    # 10. One batch dimension in place of all the leading ones, and both passes together: `by_hand` calls
    #     forward(query, key, value), and for the gradients backward(grad_output, query, key, value,
    #     output, …) with whatever forward returned behind the output. It keeps these, and nothing else.
    flat = (one.unsqueeze(0).flatten(0, -3) for one in (query, key, value))  # (B, T, d) each
    output = by_hand(forward, backward, *flat)  # (B, T_q, d_v)
    return output.view(*batch, t_q, value.size(-1))  # (…, T_q, d_v)


def _check_sequences(query: Tensor, key: Tensor, value: Tensor, block: int) -> None:
    """Refuse what does not fit together: broadcast, it would have gradients of the wrong shape."""
    if block < 1:
        raise ValueError(f"block must be at least 1, not {block}")
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(one.dim() for one in (query, key, value)) < 2:
        raise ValueError(f"query, key and value must be (…, T, d), not {shapes}")
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError(f"leading dimensions must be equal, and are not: {shapes}")
    if query.size(-1) != key.size(-1):
        raise ValueError(f"query and key must be of one width, and are not: {shapes}")
    if key.size(-2) != value.size(-2):
        raise ValueError(f"key and value must be of one length, and are not: {shapes}")
    if not query.dtype == key.dtype == value.dtype or not query.is_floating_point():
        dtypes = f"{query.dtype}, {key.dtype}, {value.dtype}"
        raise ValueError(f"query, key and value must be real and of one dtype, not {dtypes}")
