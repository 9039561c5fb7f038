"""How the time of a layer grows with the length of the text: attention, its replacements, and Mamba.

A forward and a backward pass over texts of 1,024 to 16,384 tokens, float32, on one thread of the CPU, two
heads of width 64:

    attention   `implementation.attention` with a causal mask, up to 4,096 tokens: at 16,384 its scores
                alone would be 2 GiB, and so would each tensor on the way to the weights
    linear      `linear_attention` over all tokens
    causal      the same with `causal=True`, in chunks
    window      `sliding_window_attention`, 128 tokens to either side, and one global token
    Mamba       a layer of `Mamba` with its projections and its convolution, width 64, inner width 128

The contenders alternate, one length after the other. T^e is fitted to the medians of each contender's CPU
seconds. e must be at most 1.15 for linear attention, causal or not, and for Mamba. Attention's exponent
tends to 2; it and the window's are printed beside them. A window writes exactly O(T) numbers (a test counts
them), but tensors above 32 MiB are requested from the system at every call, which costs more per number. The
contenders do different work, so only exponents are compared.

    python benchmarks/linear.py
    python benchmarks/linear.py --rounds 9 --json linear.json
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import frame
import torch
from torch import Tensor

from implementation import attention, subsequent_mask
from variants.linear import linear_attention
from variants.mamba import Mamba, MambaConfig
from variants.sliding_window import sliding_window_attention

LENGTHS = [1024, 2048, 4096, 8192, 16384]
LONGEST = {"attention": 4096}  # for a contender that stops before the last length
MOST = 1.15  # the exponent of what is called linear
HELD_TO_IT = ("linear", "causal", "Mamba")
HEADS, D_K = 2, 64
WINDOW = 128
MAMBA = MambaConfig(n_layers=1, d_model=64, dt_rank=4)


def main() -> None:
    """Measure, print and assert."""
    given = frame.options(__doc__, rounds=5).parse_args()
    facts = frame.on_one_thread(34)
    found: dict[str, dict[int, list[float]]] = {name: {} for name in CONTENDERS}
    for length in LENGTHS:
        for name, seconds in taken_at(length, given.rounds).items():
            found[name][length] = seconds
    medians = {
        name: {length: statistics.median(rounds) for length, rounds in by_length.items()}
        for name, by_length in found.items()
    }
    exponents = {name: frame.exponent(by_length) for name, by_length in medians.items()}
    lines = frame.table(
        [""],
        [*(f"{length:,}" for length in LENGTHS), "exponent"],
        f"Milliseconds forward and backward, medians of {given.rounds}",
    )
    for name, by_length in medians.items():
        cells = [f"{1e3 * by_length[one]:,.1f}" if one in by_length else "–" for one in LENGTHS]
        lines.add_row(name, *cells, f"{exponents[name]:.2f}")
    frame.console.print(lines)
    frame.write({"machine": facts, "seconds": found, "exponents": exponents}, given.json)
    for name in HELD_TO_IT:
        assert exponents[name] <= MOST, f"{name} grows like T^{exponents[name]:.2f}"


def taken_at(length: int, rounds: int) -> frame.Taken:
    """Return the seconds of all contenders that are measured at a length."""
    ways = {
        name: contender(length)
        for name, contender in CONTENDERS.items()
        if length <= LONGEST.get(name, length)
    }
    return frame.timed_in_turns(
        {name: lambda way=way: way().sum().backward() for name, way in ways.items()}, rounds
    )


def heads(length: int) -> list[Tensor]:
    """Return queries, keys and values that require gradients."""
    return [torch.randn(1, HEADS, length, D_K, requires_grad=True) for _ in range(3)]


def full(length: int) -> Callable[[], Tensor]:
    query, key, value = heads(length)
    mask = subsequent_mask(length)
    return lambda: attention(query, key, value, mask)[0]


def linear(length: int, causal: bool = False) -> Callable[[], Tensor]:
    query, key, value = heads(length)
    return lambda: linear_attention(query, key, value, causal=causal)


def window(length: int) -> Callable[[], Tensor]:
    query, key, value = heads(length)
    return lambda: sliding_window_attention(query, key, value, WINDOW, global_tokens=1)


def mamba(length: int) -> Callable[[], Tensor]:
    layer = Mamba(MAMBA)
    x = torch.randn(1, length, MAMBA.d_model, requires_grad=True)
    return lambda: layer(x)


CONTENDERS: dict[str, Callable[[int], Callable[[], Tensor]]] = {
    "attention": full,
    "linear": linear,
    "causal": lambda length: linear(length, causal=True),
    "window": window,
    "Mamba": mamba,
}


if __name__ == "__main__":
    main()
