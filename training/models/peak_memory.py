"""The peak memory of training and inference, computed from a model's sizes: the parts of
`variants.memory`, and temporary tensors. The symbols are those of that file."""

from __future__ import annotations

from training.settings import Settings
from variants.memory import (
    Sizes,
    Step,
    activations,
    kv_cache,
    layer_activations,
    moments,
    tables,
    weights,
)


def sizes_of(settings: Settings, vocab: int) -> Sizes:
    """Return the sizes of a run's language model, given the size of its vocabulary."""
    return Sizes(
        model=settings.model,
        vocab=vocab,
        layers=settings.layers,
        d_model=settings.d_model,
        heads=settings.heads,
        d_ff=settings.d_ff,
        kv_heads=settings.kv_heads,
        context=settings.context,
        norm=settings.norm,
        tie=settings.tie,
    )


def to_look_at(sizes: Sizes, step: Step) -> int:
    """Return the memory of the attention weights that the paper's decoder stores until its next forward
    pass, unless it is fused: N B h T² s. While autograd stores them as well, they are the same bytes."""
    held = sizes.model == "paper" and not step.fused
    return sizes.layers * _pairs(sizes, step) * step.number * held


def _pairs(sizes: Sizes, step: Step) -> int:
    """Queries and keys that meet in a layer, B h T²; none where they are never written down."""
    written = step.dropped or (sizes.model == "paper" and not step.fused)
    return step.batch * sizes.heads * step.tokens**2 if written else 0


def training_peak(sizes: Sizes, step: Step) -> dict[str, int]:
    """Return the parts of a training step at its peak, with torch's Adam, which updates one tensor
    at a time.

    There are two candidates for the peak, and the larger is returned. Between them, gradients are
    created and activations are freed.

        backward begins   weights + moments + activations + max(2 B T V, B h T² · 1, B T f) s
        Adam steps        weights + moments + gradients + 2 · the largest matrix

    At the first, the temporary tensors are the gradients of log-probabilities and logits; or those
    of attention weights and of scores, while the weights themselves are freed (the paper's decoder
    keeps them: B h T² · 2); or that of the hidden layer. If layers are recomputed, the activations
    of the last layer are added. At the second, they are two copies of Adam's denominator.
    """
    s, rows, pairs = step.number, step.batch * step.tokens, _pairs(sizes, step)
    held = {"weights": weights(sizes, s) + tables(sizes, s), "moments": moments(sizes, s)}
    looked_at = to_look_at(sizes, step)
    anew = sum(layer_activations(sizes, step).values()) if step.recompute else 0
    gradients = max(2 * rows * sizes.vocab, pairs * (2 if looked_at else 1), rows * sizes.d_ff) * s
    turn = held | {
        "gradients": 0,
        "activations": activations(sizes, step),
        # of all layers but the last, whose weights are among the activations
        "to look at": looked_at * (sizes.layers - 1) // sizes.layers if step.recompute else 0,
        "at work": anew + gradients,
    }
    largest = sizes.d_model * max(sizes.vocab, sizes.d_ff, 3 * sizes.d_model)
    end = held | {
        "gradients": weights(sizes, s),
        "activations": 0,
        "to look at": looked_at,
        "at work": 2 * largest * s,
    }
    return max(turn, end, key=lambda parts: sum(parts.values()))


def inference_peak(sizes: Sizes, step: Step, room: int = 0) -> dict[str, int]:
    """Return the parts at the peak when a model reads B · T tokens at once, without gradients.

        weights + cache + max(B T V, 3 B h T², B T f · 2) s      LLaMA: B T f · 3

    The temporary tensors are the logits (for the paper's decoder also their logarithms, 2 B T V);
    or scores, weights and masked weights, of which the paper's decoder stores one for inspection;
    or the hidden layer.

    Args:
        sizes, step: the sizes of the model, and of its input.
        room: the number of tokens for which the cache has room; 0 means no cache.
    """
    s, rows, pairs = step.number, step.batch * step.tokens, _pairs(sizes, step)
    looked_at = to_look_at(sizes, step)
    head = rows * sizes.vocab * (2 if sizes.model == "paper" else 1)
    hidden = rows * sizes.d_ff * (3 if sizes.model == "llama" else 2)
    return {
        "weights": weights(sizes, s) + tables(sizes, s),
        "cache": kv_cache(sizes, step.batch, room, s),
        "to look at": looked_at,
        "at work": max(head, pairs * (2 if looked_at else 3), hidden) * s,
    }
