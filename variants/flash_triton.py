"""The forward pass of flash attention as one kernel for a GPU, in Triton.

The algorithm is that of `flash.py`. Here one program per block of queries keeps the running maximum, the
normalizer and the accumulator in registers, and reads keys and values through the fast on-chip memory. Scores
are never written to the GPU's main memory, which makes the kernel fast: day 8 writes them there and reads
them back several times.

It supports float16, bfloat16 and float32 on a CUDA device, a block of 16, 32, 64 or 128, and widths up to
256, where its tiles fit into the registers (use a smaller block for wide float32). There is no backward pass.
`flash.py` never imports this file, which needs Triton. With TRITON_INTERPRET=1 it runs on a CPU, slowly, and
not in bfloat16; `tests/variants/test_flash.py` compares it with day 8 in this way where there is no GPU.

Source: Dao 2023, *FlashAttention-2*, §3.1, algorithm 1; the layout of the kernel follows Triton's tutorial on
fused attention.
"""

import math

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor


@triton.jit
def _forward(
    query,  # (B, T_q, d_k), and so on: all contiguous
    key,
    value,
    output,
    logsumexp,
    t_q,
    t_k,
    d_k,
    d_v,
    scale,
    block: tl.constexpr,
    wide_k: tl.constexpr,  # d_k and d_v, up to a power of two
    wide_v: tl.constexpr,
    causal: tl.constexpr,
):
    batch = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * block
    rows = start + tl.arange(0, block)
    in_k = tl.arange(0, wide_k)
    in_v = tl.arange(0, wide_v)
    query += batch * t_q * d_k
    key += batch * t_k * d_k
    value += batch * t_k * d_v
    output += batch * t_q * d_v
    logsumexp += batch * t_q

    row_exists = (rows < t_q)[:, None]
    q = tl.load(
        query + rows[:, None] * d_k + in_k[None, :],
        mask=row_exists & (in_k < d_k)[None, :],
        other=0.0,
    )
    maximum = tl.full([block], -3.0e38, tl.float32)
    normalizer = tl.zeros([block], tl.float32)
    accumulator = tl.zeros([block, wide_v], tl.float32)
    stop = t_k
    if causal:
        stop = tl.minimum(t_k, start + block + t_k - t_q)
    for first in range(0, stop, block):
        columns = first + tl.arange(0, block)
        key_exists = (columns < t_k)[:, None]
        k = tl.load(
            key + columns[:, None] * d_k + in_k[None, :],
            mask=key_exists & (in_k < d_k)[None, :],
            other=0.0,
        )
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        visible = (columns < t_k)[None, :]
        if causal:
            visible = visible & (columns[None, :] <= rows[:, None] + t_k - t_q)
        scores = tl.where(visible, scores, float("-inf"))
        higher = tl.maximum(maximum, tl.max(scores, 1))
        rescale = tl.exp(maximum - higher)
        maximum = higher
        weights = tl.exp(scores - maximum[:, None])
        normalizer = normalizer * rescale + tl.sum(weights, 1)
        v = tl.load(
            value + columns[:, None] * d_v + in_v[None, :],
            mask=key_exists & (in_v < d_v)[None, :],
            other=0.0,
        )
        accumulator = accumulator * rescale[:, None] + tl.dot(
            weights.to(v.dtype), v, input_precision="ieee"
        )
    accumulator = accumulator / tl.maximum(normalizer, 1.0)[:, None]
    tl.store(
        output + rows[:, None] * d_v + in_v[None, :],
        accumulator.to(output.dtype.element_ty),
        mask=row_exists & (in_v < d_v)[None, :],
    )
    some = normalizer > 0.0
    logs = tl.where(some, maximum + tl.log(tl.where(some, normalizer, 1.0)), float("inf"))
    tl.store(logsumexp + rows, logs, mask=rows < t_q)


def flash_forward(
    query: Float[Tensor, "*batch T_q d_k"],
    key: Float[Tensor, "*batch T_k d_k"],
    value: Float[Tensor, "*batch T_k d_v"],
    block: int = 64,
    causal: bool = False,
) -> tuple[Float[Tensor, "*batch T_q d_v"], Float[Tensor, "*batch T_q"]]:
    """Compute `flash_attention`'s output and L in one launch. L, `(…, T_q)`, is in float32.

    L is +∞ where a query may attend to nothing. Weights are rounded to the values' dtype before the product,
    as on day 8.

    Raises:
        ValueError: what the kernel does not support: different dtypes, or one that is none of those three; a
            different `block`; a width above 256; shapes that do not fit together; inputs that require
            gradients.
    """
    inputs = query, key, value
    if len({tensor.dtype for tensor in inputs}) > 1 or query.dtype not in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
    ):
        raise ValueError(
            f"inputs must all be float16, bfloat16 or float32, got {[x.dtype for x in inputs]}"
        )
    if block not in (16, 32, 64, 128):
        raise ValueError(f"block must be 16, 32, 64 or 128, got {block}")
    t_q, t_k, d_k, d_v = query.size(-2), key.size(-2), query.size(-1), value.size(-1)
    batch = query.shape[:-2]
    if (*batch, t_k, d_k) != key.shape or (*batch, t_k, d_v) != value.shape:
        raise ValueError(f"shapes must fit together, got {[tuple(x.shape) for x in inputs]}")
    if max(d_k, d_v) > 256:
        raise ValueError(f"d_k and d_v must be at most 256, got {d_k=}, {d_v=}")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        raise ValueError("inputs must not require gradients: detach them, or use flash.py")
    output = query.new_empty(*batch, t_q, d_v)
    logsumexp = query.new_empty(*batch, t_q, dtype=torch.float32)
    if logsumexp.numel():
        _forward[(math.prod(batch), triton.cdiv(t_q, block))](
            query.contiguous(),
            key.contiguous(),
            value.contiguous(),
            output,
            logsumexp,
            t_q,
            t_k,
            d_k,
            d_v,
            1 / math.sqrt(d_k),
            block=block,
            wide_k=max(16, triton.next_power_of_2(d_k)),
            wide_v=max(16, triton.next_power_of_2(d_v)),
            causal=causal,
        )
    return output, logsumexp
