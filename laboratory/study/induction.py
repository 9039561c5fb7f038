"""Induction heads: heads that look at what came after a token before, and say it again.

[A][B] … [A] → [B] (Elhage et al. 2021, *A Mathematical Framework for Transformer Circuits*; Olsson et al.
2022, *In-context Learning and Induction Heads*). While a model learns, `look` says what each of its heads
looks at; at the end, `figures` says what replacing the output of each costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from laboratory.study.layers import Fused, PositionedAttention
from laboratory.study.repeats import SYMBOLS, Repeated, Repeats
from training.data.tasks import Task
from training.errors import Refused
from training.models.architectures import Model

__all__ = ["ABLATIONS", "Look", "Repeats", "figures", "look", "strongest"]

FORMED = 0.5  # from here on, most of a head's weight lies where induction asks for it
EARLY, LATE = 50 / 512, 500 / 512  # of the context: the tokens that Olsson et al. 2022 compare

ABLATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "zero": torch.zeros_like,
    "mean": lambda output: output.mean(dim=(0, 1), keepdim=True),
    "position": lambda output: output.mean(dim=0, keepdim=True),
    "resampled": lambda output: output.roll(1, dims=0),
}
"""What takes the place of a head's output, `(B, T, d_k)`: zeros; its mean over all rows and positions; its
mean over the rows at each position; or its output on a different row."""

Look = dict[str, Any]


# --- What a head looks at -------------------------------------------------------------------------


def attentions(model: Model) -> list[PositionedAttention]:
    """The attention of each layer, the first first.

    Raises:
        Refused: a model that has others.
    """
    layers = [module for module in model.modules() if isinstance(module, PositionedAttention)]
    if not layers or any(type(layer) not in (PositionedAttention, Fused) for layer in layers):
        raise Refused(
            "Heads are looked at in a model with attention=full, fused, grouped or multi_query, and "
            "positions that are not t5 or alibi"
        )
    return layers


def attention_weights(model: Model, tokens: Tensor) -> list[Tensor]:
    """The weights of each layer, `(B, h, T, T)`, for tokens `(B, T)`.

    They are computed once more from what entered the layer: the model that is trained keeps none.
    """
    entered: list[Tensor] = []
    layers = attentions(model)
    with ExitStack() as hooks, torch.no_grad():
        for layer in layers:
            handle = layer.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
            hooks.callback(handle.remove)
        model(tokens)
        return [_weights(layer, x) for layer, x in zip(layers, entered, strict=True)]


def _weights(layer: PositionedAttention, x: Tensor) -> Tensor:
    query, key, _ = layer.met(x)  # (B, h, T, d_k), (B, G, T, d_k)
    key = key.repeat_interleave(layer.n_heads // layer.n_kv_heads, dim=1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    weights: Tensor = scores.masked_fill(later, -math.inf).softmax(dim=-1)
    return weights


def prefix_matching(weights: Tensor, rows: Repeated) -> Tensor:
    """The weight that each head gives, from a symbol that is said again, to the one after its first place.

    A mean over the repeated symbols whose next one is repeated too, and that stand nowhere else before: a
    symbol with two places would be ambiguous. Always there, it is 1; for T equal weights, 1/T.

    Args:
        weights: `(B, h, T, T)`.
        rows: what was attended to, of T symbols or of one more.

    Returns:
        `(h,)`.

    Source: Olsson et al. 2022, "prefix matching".
    """
    size = weights.size(-1)
    tokens = rows.tokens[:, :size]
    positions = torch.arange(size, device=tokens.device)
    inside = (positions >= rows.second[:, None]) & (
        positions < (rows.second + rows.length - 1)[:, None]
    )
    same = tokens[:, :, None] == tokens[:, None, :]  # (B, T, T)
    counted = inside & (same.tril(-1).sum(dim=-1) == 1)  # (B, T)
    sources = (positions - rows.lag[:, None] + 1).clamp(min=0)  # (B, T)
    index = sources[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    matched = weights.gather(-1, index).squeeze(-1)  # (B, h, T)
    return (matched * counted[:, None]).sum(dim=(0, 2)) / counted.sum()


def previous_token(weights: Tensor) -> Tensor:
    """The mean weight that each head gives to the token just before: from `(B, h, T, T)` to `(h,)`.

    An induction head finds a token by the one before it, which such a head of an earlier layer has carried
    there (Elhage et al. 2021, "Induction Heads").
    """
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 2))


def strongest(scores: list[list[float]]) -> tuple[int, int]:
    """Layer and head of the largest score; of equal ones, the first."""
    return ranked(scores)[0]


def ranked(scores: list[list[float]]) -> list[tuple[int, int]]:
    """Layer and head of each score, the largest first; of equal ones, in the order of the model."""
    places = [(layer, head) for layer, some in enumerate(scores) for head in range(len(some))]
    return sorted(places, key=lambda pair: -scores[pair[0]][pair[1]])


# --- What the model makes of it -------------------------------------------------------------------


def losses(model: Model, tokens: Tensor) -> Tensor:
    """The loss of each token but the first: from `(B, T)` to `(B, T − 1)`."""
    with torch.no_grad():
        log_probs = model.generator(model(tokens[:, :-1]))  # (B, T − 1, V)
    return F.nll_loss(log_probs.transpose(1, 2), tokens[:, 1:], reduction="none")


def said_again(loss: Tensor, rows: Repeated) -> tuple[float, float]:
    """The mean loss of segments where they come first, and where they come again. Without the first symbol of
    each: that a segment begins, nothing tells.

    Args:
        loss: of all symbols but the first, `(B, T − 1)`.
        rows: of T symbols.
    """
    positions = torch.arange(1, loss.size(1) + 1, device=loss.device)

    def over(start: Tensor) -> float:
        inside = (positions > start[:, None]) & (positions < (start + rows.length)[:, None])
        return float(loss[inside].double().mean())

    return over(rows.second - rows.lag), over(rows.second)


@contextmanager
def replaced(
    layer: PositionedAttention, head: int, replacement: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Replace a head's output, `(B, T, d_k)`, before the output projection reads it. No weight changes."""
    width = layer.w_o.in_features // layer.n_heads
    features = slice(head * width, (head + 1) * width)

    def hook(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        outputs = inputs[0].clone()  # (B, T, h · d_k)
        outputs[..., features] = replacement(inputs[0][..., features])
        return (outputs,)

    handle = layer.w_o.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


# --- On the way, and at the end -------------------------------------------------------------------


def look(model: Model, task: Task, device: torch.device) -> Look:
    """What the heads of a model do just now, on the validation split. The model is in evaluation mode.

    Returns:
        `prefix`, `previous`: scores of each layer's heads.
        `first`, `again`: the loss where segments come first, and where they come again.
        `score`: the loss late in the context minus that early in it: the in-context learning score of Olsson
            et al. 2022, their 500th and 50th of 512 tokens scaled to this context.
    """
    rows = _rows(task, "validation", device)
    inputs = rows.tokens[:, :-1]
    weights = attention_weights(model, inputs)
    loss = losses(model, rows.tokens)
    first, again = said_again(loss, rows)
    early, late = (
        float(loss[:, round(share * loss.size(1)) - 1].mean()) for share in (EARLY, LATE)
    )
    return {
        "prefix": [prefix_matching(layer_weights, rows).tolist() for layer_weights in weights],
        "previous": [previous_token(layer_weights).tolist() for layer_weights in weights],
        "first": first,
        "again": again,
        "score": late - early,
    }


def figures(
    model: Model, task: Task, looks: Sequence[Look], device: torch.device
) -> dict[str, float]:
    """What became of a model's heads, and what replacing the output of each costs.

    Heads are chosen by their scores on the validation split; all else is of the test split.

    Returns:
        `prefix_matching`: of the best head, which has the largest score.
        `first`, `again`, `in_context`: the losses of `look`, and again − first.
        `WAY_L_H`: by how much `again` grows where the output of head H of layer L, both counted from 0, is
            replaced in one of the `ABLATIONS`.
        `WAY_both`: the same where two heads are replaced at once: of the layers below the best head's, the
            two that attend most to the token before.
        `WAY_control`: the same of the first of these and the head that attends least to the token before.
        `formed_at`, `fell_at`: the first look with a score of one half, and the first at which `again` was
            half of what chance loses. What never came is left out.
    """
    layers = attentions(model)
    rows = _rows(task, "test", device)
    last = looks[-1]
    best = strongest(last["prefix"])
    weights = attention_weights(model, rows.tokens[:, :-1])[best[0]]
    first, again = said_again(losses(model, rows.tokens), rows)
    groups = {f"{layer}_{head}": [(layer, head)] for layer, head in ranked(last["prefix"])}
    if below := ranked(last["previous"][: best[0]]):
        groups |= {"both": below[:2], "control": [below[0], below[-1]]}
    costs = {}
    for way, replacement in ABLATIONS.items():
        for name, heads in groups.items():
            with ExitStack() as hooks:
                for layer, head in heads:
                    hooks.enter_context(replaced(layers[layer], head, replacement))
                costs[f"{way}_{name}"] = said_again(losses(model, rows.tokens), rows)[1] - again
    return {
        "prefix_matching": float(prefix_matching(weights, rows)[best[1]]),
        "first": first,
        "again": again,
        "in_context": again - first,
        **costs,
        **_when(looks),
    }


def _when(looks: Sequence[Look]) -> dict[str, float]:
    """The steps at which a head formed and at which the loss on repeated symbols fell, if they did."""
    chance = math.log(SYMBOLS)
    formed = [entry["step"] for entry in looks if max(map(max, entry["prefix"])) >= FORMED]
    fell = [entry["step"] for entry in looks if entry["again"] <= chance / 2]
    steps = {"formed_at": formed, "fell_at": fell}
    return {name: float(reached[0]) for name, reached in steps.items() if reached}


def _rows(task: Task, split: str, device: torch.device) -> Repeated:
    """The rows of a split on a device."""
    if not isinstance(task, Repeats):
        raise TypeError(f"induction heads are looked for in Repeats, not in {type(task).__name__}")
    return Repeated(*(tensor.to(device) for tensor in vars(task.repeated(split)).values()))
