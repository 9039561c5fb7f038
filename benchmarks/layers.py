"""The time of layers: how it grows with the length of the text, and what experts and checkpoints take.

A forward and a backward pass, float32, on one thread of the CPU. First over texts of 1,024 to 16,384 tokens,
two heads of width 64:

    attention   `implementation.attention` with a causal mask, up to 4,096 tokens: at 16,384 its scores
                alone would be 2 GiB, and so would each tensor on the way to the weights
    linear      `linear_attention` over all tokens
    causal      the same with `causal=True`, in chunks
    window      `sliding_window_attention`, 128 tokens to either side, and one global token
    Mamba       a layer of `Mamba` with its projections and its convolution, width 64, inner width 128

T^e is fitted to the medians of each contender's CPU seconds. e must be at most 1.15 for linear attention,
causal or not, and for Mamba. A window writes exactly O(T) numbers (a test counts them), but tensors above
32 MiB are requested from the system at every call, which costs more per number. The contenders do different
work, so only exponents are compared. Then over 4 rows of 1,024 tokens:

    dense       `SwiGLU`, d_model 256, d_ff 688
    mixture     `MixtureOfExperts` of 8 such networks, 2 per token: at least twice the work, at most 2.6 times
                the time

Last a GPT of 12 layers, width 256 and 4 heads with dropout, on 4 rows of 256 tokens, and the same with
activation checkpoints, which must have the same gradients, bit by bit. Checkpoints may keep at most 40% of
the bytes that the forward pass allocates and does not free, and take at most 1.45 times as long.

    python benchmarks/layers.py
"""

from __future__ import annotations

import copy
import statistics
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import frame
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from implementation import attention, subsequent_mask
from variants.activations import SwiGLU
from variants.efficient import Checkpointed
from variants.gpt import GPT, GPTConfig
from variants.linear import linear_attention
from variants.mamba import Mamba, MambaConfig
from variants.moe import MixtureOfExperts
from variants.sliding_window import sliding_window_attention

LENGTHS = [1024, 2048, 4096, 8192, 16384]
MAX_LENGTHS = {"attention": 4096}  # for a contender that stops before the last length
MAMBA = MambaConfig(n_layers=1, d_model=64, dt_rank=4)
GPT_CONFIG = GPTConfig(256, 256, 12, 4, 256, 1024, dropout=0.1)
EXPONENT, SLOWER, KEPT, AGAIN = 1.15, 2.6, 0.4, 1.45  # the most that is allowed

Act = Callable[[], Tensor]


def main() -> None:
    """Measure, print and assert."""
    rounds = frame.options(__doc__, rounds=5).parse_args().rounds
    frame.on_one_thread(34)
    medians: dict[str, dict[int, float]] = {name: {} for name in contenders(LENGTHS[0])}
    for length in LENGTHS:
        acts = contenders(length)
        some = {name: acts[name] for name in acts if length <= MAX_LENGTHS.get(name, length)}
        for name, seconds in both_passes_of(some, rounds).items():
            medians[name][length] = statistics.median(seconds)
    columns = [*(f"{length:,}" for length in LENGTHS), "exponent"]
    lines = frame.table([""], columns, f"Milliseconds of both passes, medians of {rounds}")
    exponents = {name: frame.exponent(seconds) for name, seconds in medians.items()}
    for name, seconds in medians.items():
        cells = [f"{1e3 * seconds[size]:,.1f}" if size in seconds else "–" for size in LENGTHS]
        lines.add_row(name, *cells, f"{exponents[name]:.2f}")
    frame.console.print(lines)
    title = f"4,096 tokens, 8 experts, 2 for each; medians of {rounds}"
    slower = frame.compare(title, both_passes_of(experts(), rounds), "dense")["mixture"]
    share, again = checkpoints(rounds)
    for name in ("linear", "causal", "Mamba"):
        assert exponents[name] <= EXPONENT, f"{name} grows like T^{exponents[name]:.2f}"
    assert slower <= SLOWER, f"a mixture takes {slower:.2f} times the dense layer's time"
    assert share <= KEPT and again <= AGAIN, f"checkpoints: {share:.1%}, {again:.2f} times"


def both_passes_of(acts: dict[str, Act], rounds: int) -> frame.Taken:
    """Return the CPU seconds of a forward and a backward pass of each contender."""
    passes = {name: lambda act=act: act().sum().backward() for name, act in acts.items()}
    return frame.timed_in_turns(passes, rounds)


def contenders(length: int) -> dict[str, Act]:
    """Return what is measured at a length."""
    heads = [torch.randn(1, 2, length, 64, requires_grad=True) for _ in range(3)]
    mask, layer = subsequent_mask(min(length, MAX_LENGTHS["attention"])), Mamba(MAMBA)
    x = torch.randn(1, length, MAMBA.d_model, requires_grad=True)
    return {
        "attention": lambda: attention(*heads, mask)[0],
        "linear": lambda: linear_attention(*heads),
        "causal": lambda: linear_attention(*heads, causal=True),
        "window": lambda: sliding_window_attention(*heads, 128, global_tokens=1),
        "Mamba": lambda: layer(x),
    }


def experts() -> dict[str, Act]:
    """Return a dense layer and a mixture."""
    dense, mixture = SwiGLU(256, 688), MixtureOfExperts(256, 688, 8, 2)
    x = torch.randn(4, 1024, 256, requires_grad=True)
    return {"dense": lambda: dense(x), "mixture": lambda: mixture(x)}


def checkpoints(rounds: int) -> tuple[float, float]:
    """Print and return the share of the bytes that checkpoints keep, and how many times as long they take."""
    plain = GPT(GPT_CONFIG)
    checkpointed = copy.deepcopy(plain)
    checkpointed.blocks = nn.ModuleList(map(Checkpointed, checkpointed.blocks))
    models = {"all kept": plain, "checkpoints": checkpointed}
    tokens = torch.randint(GPT_CONFIG.vocab, (4, GPT_CONFIG.context + 1))

    def loss_of(model: GPT) -> Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    def step(model: GPT) -> list[Tensor]:
        model.zero_grad()
        torch.manual_seed(1)  # dropout is the same for both
        loss_of(model).backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    acts = {name: partial(step, model) for name, model in models.items()}
    assert all(map(torch.equal, *(act() for act in acts.values()))), "another gradient"
    stored = []
    for model in models.values():
        with Allocations(*model.parameters(), tokens) as allocations:
            loss = loss_of(model)
            stored.append(sum(allocations.sizes.values()))
            del loss
    share = stored[1] / stored[0]
    frame.console.print(f"checkpoints keep {share:.1%} of {frame.in_mib(stored[0])}")
    title = f"A training step, medians of {rounds}"
    times = frame.compare(title, frame.timed_in_turns(acts, rounds), "all kept")
    return share, times["checkpoints"]


class Allocations(TorchDispatchMode):
    """Count the bytes of all storages that operations create in the context, until they are freed."""

    def __init__(self, *before: Tensor) -> None:
        super().__init__()
        self.sizes = {id(tensor.untyped_storage()): 0 for tensor in before}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and id(storage := leaf.untyped_storage()) not in self.sizes:
                self.sizes[id(storage)] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, id(storage))
        return result


if __name__ == "__main__":
    main()
