"""Measures of a trained model: a small function for each figure, or for a few that go together.

Those of `MEASURES` give the same numbers on every run on the same kind of CPU; those of `TIMED` depend on the
clock or on the device. Each is called as `measure(model, task, settings, device)`, and returns figures by
their names; a loss as the losses of all tokens in the order of the text, `(N,)`, whose mean is the figure. A
figure that a model does not have, such as routing without experts, is left out.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from laboratory.study.layers import TAPS, Convolved, Linear, PositionedAttention, Windowed
from laboratory.study.timed import Figures, memory, speed
from training.data.batches import Rows
from training.data.tasks import Task
from training.models.architectures import Model
from training.settings import Settings
from variants.mamba import Mamba
from variants.moe import MixtureOfExperts

READ = (64, 128, 256, 512, 1024)  # characters, whatever the trained context
LENGTHS = (256, 1024, 4096)  # tokens that a cache holds
BLOCKS = 100  # of the validation split; about 1,100 characters of Shakespeare each

Measured = Mapping[str, float | Tensor]


# --- What the model says of the held-out split ----------------------------------------------------


def predictions(
    model: Model, batches: list[Rows], device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Log-probabilities `(N, V)` and targets `(N,)`, batch by batch, in float32."""
    model.eval()
    with torch.no_grad():
        for rows in batches:
            target = rows.target.to(device)
            yield model.generator(model(target[:, :-1])).flatten(0, 1), target[:, 1:].flatten()


def _losses(model: Model, batches: list[Rows], device: torch.device) -> Tensor:
    """The loss of each token, `(N,)`, in float64."""
    predicted = predictions(model, batches, device)
    return torch.cat([F.nll_loss(*pair, reduction="none").double().cpu() for pair in predicted])


def in_blocks(losses: Tensor) -> list[float]:
    """The mean losses of the blocks of a text, as many tokens in each: what another text would be made of."""
    return [
        round(float(block.mean()), 4) for block in losses.tensor_split(min(BLOCKS, len(losses)))
    ]


def loss(model: Model, task: Task, settings: Settings, device: torch.device) -> Measured:
    """The loss per token on the entire validation split, without smoothing."""
    return {"loss": _losses(model, task.held_out("validation"), device)}


def lengths(model: Model, task: Task, settings: Settings, device: torch.device) -> Measured:
    """The loss where L characters are read at once, `read_L`, all of the same text; and by the position in
    the longest windows: `at_L` from position L / 2 to L, `at_64` from the first.

    Windows do not overlap, as in Press et al. 2021, *Train Short, Test Long*, §2.2. Lengths that
    the model cannot read are left out.
    """
    text = _joined(task.held_out("validation"))
    end = (len(text) - 1) // READ[-1] * READ[-1] + 1
    figures: dict[str, float | Tensor] = {}
    if end == 1:
        return figures
    for length in READ:
        if model.longest is not None and length > model.longest:
            return figures
        losses = _losses(model, _windows(text[:end], length), device)
        figures[f"read_{length}"] = losses
    by_position = losses.view(-1, READ[-1]).mean(0)  # (L,)
    for first, last in itertools.pairwise((0, *READ)):
        figures[f"at_{last}"] = float(by_position[first:last].mean())
    return figures


def _windows(text: Tensor, length: int) -> list[Rows]:
    """Windows of a text that do not overlap, as many at once as have a million scores in a head."""
    rows = text.unfold(0, length + 1, length)
    return [Rows(None, some) for some in torch.split(rows, max(1, 2**20 // length**2))]


def _joined(batches: list[Rows]) -> Tensor:
    """A text from its windows, each of which begins with the last token of the one before."""
    parts = [rows.target[:, :-1].flatten() for rows in batches]
    return torch.cat([*parts, batches[-1].target[-1, -1:]])


def routing(model: Model, task: Task, settings: Settings, device: torch.device) -> Figures:
    """How evenly the held-out tokens are spread over the experts, a mean over the layers.

    `largest_share` is the share of all choices that fall on the favorite: 1/N where all are equally busy.
    `routing_entropy` is −Σ f log f over log N: 1 if all are equally busy, 0 if one expert has every token.
    """
    mixtures = [module for module in model.modules() if isinstance(module, MixtureOfExperts)]
    if not mixtures:
        return {}
    counts = [torch.zeros(len(mixture.experts), dtype=torch.float64) for mixture in mixtures]
    for _ in predictions(model, task.held_out("validation"), device):
        for count, mixture in zip(counts, mixtures, strict=True):
            assert mixture.chosen is not None
            count += mixture.chosen.flatten().bincount(minlength=len(count)).cpu()
    shares = [count / count.sum() for count in counts]
    return {
        "largest_share": statistics.fmean(float(share.max()) for share in shares),
        "routing_entropy": statistics.fmean(
            float(torch.special.entr(share).sum()) / math.log(max(2, len(share)))
            for share in shares
        ),
    }


# --- What decoding has to keep --------------------------------------------------------------------


def cache(model: Model, task: Task, settings: Settings, device: torch.device) -> Figures:
    """Bytes that one sequence of T tokens leaves behind, for the next one to read: `cache_256`, and so on.

    By the shapes of the references, in the weights' dtype. Keys and values: 2 · G · d_k for each token and
    layer, of the last `window` tokens in a window; before a short convolution, also what it saw last. Linear
    attention keeps its sums S and Z, h · d_k · (d_k + 1); Mamba its state and what its convolution saw last,
    D · (N + d_conv − 1).
    """
    size = next(model.parameters()).element_size()
    return {
        f"cache_{tokens}": float(size * sum(_kept(block, tokens) for block in model.blocks))
        for tokens in LENGTHS
    }


def _kept(block: nn.Module, tokens: int) -> int:
    """The activations that a layer caches for a number of tokens."""
    for module in block.modules():
        if isinstance(module, Mamba):
            sizes = module.config
            return sizes.d_inner * (sizes.d_state + sizes.d_conv - 1)
        if isinstance(module, PositionedAttention):
            d_k = module.w_q.out_features // module.n_heads
            if isinstance(module, Linear):
                return module.n_heads * d_k * (d_k + 1)
            visible = min(tokens, module.window) if isinstance(module, Windowed) else tokens
            inputs = (TAPS - 1) * module.w_q.in_features if isinstance(module, Convolved) else 0
            return 2 * module.n_kv_heads * d_k * visible + inputs
    raise TypeError(f"{type(block).__name__} has neither attention nor a state")


Measure = Callable[[Model, Task, Settings, torch.device], Measured]
MEASURES: dict[str, Measure] = {
    "loss": loss,
    "lengths": lengths,
    "cache": cache,
    "routing": routing,
}
TIMED: dict[str, Measure] = {"speed": speed, "memory": memory}
