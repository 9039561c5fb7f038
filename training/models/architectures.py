"""The models: the paper's encoder-decoder, a decoder-only model of the same parts, GPT-2 and LLaMA.

The parts are the references', or a learner's own with the same names. A language model maps tokens
to states, and its `generator` maps states to log-probabilities; the states of GPT-2 and LLaMA are
their logits.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import implementation
from training.data.vocabulary import PAD, Languages
from training.errors import Refused
from training.models.base_model import PublishedConfig
from training.models.fused import fuse
from training.models.parts import REFERENCES, Parts
from training.settings import Settings
from variants.gpt import GPTConfig
from variants.rope_scaling import stretch
from variants.shipping import quantize_model

MAX_NAMES = 5  # of parameters, that a message lists

Model = Any
"""An `nn.Module`: `implementation.EncoderDecoder`, a learner's own, or a `LanguageModel`. torch's types
hide what the parts of a module are."""


class LanguageModel(nn.Module):
    """A decoder without a source, which predicts each token from the tokens before it.

    Without a source the paper's decoder layer has the two sublayers of an encoder layer, and keeps
    its causal mask (Radford et al. 2018, *Improving Language Understanding by Generative
    Pre-Training*, §3.1; Liu et al. 2018, *Generating Wikipedia by Summarizing Long Sequences*,
    §4.2.3).

    Attributes:
        embed: maps tokens `(B, T)` to vectors `(B, T, d_model)`, including positions.
        decoder: a stack of layers with one attention each.
        generator: maps states to log-probabilities.
    """

    def __init__(self, embed: nn.Module, decoder: Any, generator: Any):
        super().__init__()
        self.embed = embed
        self.decoder: Any = decoder
        self.generator: Any = generator

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens `(B, T)` to states `(B, T, d_model)`."""
        size, device = tokens.size(1), tokens.device
        earlier = torch.ones(1, size, size, dtype=torch.bool, device=device).tril()  # (1, T, T)
        states: Tensor = self.decoder(self.embed(tokens), earlier)
        return states


def build(
    settings: Settings,
    languages: Languages,
    parts: Parts | None = None,
    base: PublishedConfig | None = None,
) -> Model:
    """Build the model of a run, with initial weights drawn from torch's generator.

    Args:
        settings: the kind and sizes of the model.
        parts: the model's parts; the reference's if omitted.
        base: the published model to fine-tune, whose weights the caller loads.

    Raises:
        Refused: a learner's parts do not form the same model as the reference's.
    """
    reference = REFERENCES[settings.model]
    parts = parts or reference
    with parts.attribute_errors("do not make a model:"):
        model = _built(settings, languages, parts.module, base)
        shapes = shapes_of(model)
    if parts is reference:
        return model
    with torch.device("meta"):
        expected = shapes_of(_built(settings, languages, reference.module, base))
    if shapes != expected:
        raise Refused(
            f"The parts in {parts.answers} make another model than the reference's: "
            f"{_differing(shapes, expected)}. `course check` tells which part is wrong"
        )
    return model


def _differing(some: dict[str, tuple[int, ...]], other: dict[str, tuple[int, ...]]) -> str:
    """The names that only one has, or both with another shape: a few of them."""
    odd = sorted({name for name, _ in some.items() ^ other.items()})
    more = f" and {len(odd) - MAX_NAMES} more" if len(odd) > MAX_NAMES else ""
    return ", ".join(odd[:MAX_NAMES]) + more


def _built(
    settings: Settings, languages: Languages, parts: ModuleType, base: PublishedConfig | None
) -> Model:
    if settings.model != "paper":
        return _build_gpt_or_llama(settings, len(languages.target), parts, base)
    sizes: dict[str, Any] = {
        "n": settings.layers,
        "d_model": settings.d_model,
        "d_ff": settings.d_ff,
        "h": settings.heads,
        "dropout": settings.dropout,
        "norm": settings.norm,
        "tie": settings.tie,
    }
    if languages.source is not None:
        model = parts.make_model(len(languages.source), len(languages.target), **sizes)
    else:
        model = _language_model(parts, len(languages.target), **sizes)
    return fuse(model, settings.fused)


def _build_gpt_or_llama(
    settings: Settings, vocabulary: int, parts: ModuleType, base: PublishedConfig | None
) -> Model:
    """GPT-2 or LLaMA, with a generator to its logits."""
    sizes = {
        "vocab": vocabulary,
        "context": settings.context,
        "n_layers": settings.layers,
        "n_heads": settings.heads,
        "d_model": settings.d_model,
        "d_ff": settings.d_ff,
    }
    if base is not None:
        model = _build_pretrained(settings, parts, base)
    elif settings.model == "gpt":
        model = parts.GPT(parts.GPTConfig(**sizes, dropout=settings.dropout))
    else:
        kv_heads = settings.kv_heads or settings.heads
        model = parts.LLaMA(parts.LLaMAConfig(**sizes, n_kv_heads=kv_heads))
        _init_by_width(model)
    model.generator = nn.LogSoftmax(dim=-1)
    return model


def _build_pretrained(settings: Settings, parts: ModuleType, base: PublishedConfig) -> Model:
    """GPT-2 or LLaMA of a published model's sizes, its head and angles."""
    if isinstance(base.config, GPTConfig):
        return parts.GPT(replace(base.config, dropout=settings.dropout))
    model = parts.LLaMA(base.config)
    if base.tied:
        model.head.weight = model.embed.weight
    if base.divisors is not None:  # not on torch's device "meta", as the angles
        stretch(model, torch.tensor(base.divisors, dtype=torch.float64, device="cpu"))
    return model


def _init_by_width(model: Model) -> None:
    """Xavier's start for every matrix, as for the paper's decoder. The published 0.02 is that of a width of
    2,500; a model of 128 learns from it only slowly."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    nn.init.normal_(model.embed.weight)


def _language_model(
    parts: ModuleType,
    vocabulary: int,
    *,
    n: int,
    d_model: int,
    d_ff: int,
    h: int,
    dropout: float,
    norm: str,
    tie: bool,
) -> LanguageModel:
    layer = parts.EncoderLayer(
        d_model,
        parts.MultiHeadedAttention(h, d_model, dropout),
        parts.PositionwiseFeedForward(d_model, d_ff, dropout),
        dropout,
        norm,
    )
    embeddings = parts.Embeddings(d_model, vocabulary)
    model = LanguageModel(
        nn.Sequential(embeddings, parts.PositionalEncoding(d_model, dropout)),
        parts.Encoder(layer, n),
        parts.Generator(d_model, vocabulary),
    )
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    if tie:
        model.generator.proj.weight = embeddings.lut.weight
    return model


def layers(model: Model) -> list[nn.Module]:
    """Return all layers of a model's stacks, in the order of use."""
    if hasattr(model, "blocks"):
        return list(model.blocks)
    stacks = [model.encoder, model.decoder] if hasattr(model, "encoder") else [model.decoder]
    return [layer for stack in stacks for layer in stack.layers]


def recompute_layers(model: Model) -> None:
    """Store only the input of each layer, and recompute the rest in the backward pass (Chen et al.
    2016, *Training Deep Nets with Sublinear Memory Cost*): memory for about a third more time."""
    for layer in layers(model):
        layer.forward = _recomputed(layer.forward)


def _recomputed(forward: Any) -> Any:
    def recomputing(*inputs: Any) -> Any:
        return checkpoint(forward, *inputs, use_reentrant=False)

    return recomputing


class Objective(nn.Module):
    """Map rows to two summed losses: one to differentiate, and one to report.

    The first is the paper's, with smoothed labels (§5.4); the second is the plain cross-entropy,
    whose mean over tokens is a perplexity's logarithm.
    """

    def __init__(self, model: Model, smoothing: float):
        super().__init__()
        self.model: Model = model
        self.smoothing = smoothing

    def forward(
        self,
        source: Tensor | None,
        target: Tensor,
        labels: Tensor | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Map the tensors of `Rows` to two 0-d tensors."""
        if source is None:
            if labels is None:
                target, labels = target[:, :-1], target[:, 1:]
            how = {} if mask is None else {"positions": positions, "mask": mask}
            states = self.model(target, **how)
            log_probs = self.model.generator(states)  # (B, T, V)
            plain = nn.functional.nll_loss(
                log_probs.flatten(0, 1), labels.flatten(), reduction="sum"
            )
            return plain, plain.detach()
        batch = implementation.Batch(source, target, pad=PAD)
        states = self.model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
        log_probs = self.model.generator(states).flatten(0, 1)  # (B · (T − 1), V)
        targets = target[:, 1:].flatten()
        plain = nn.functional.nll_loss(log_probs, targets, ignore_index=PAD, reduction="sum")
        return smoothed(plain, log_probs, targets, self.smoothing), plain.detach()


def smoothed(plain: Tensor, log_probs: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Compute the loss of `implementation.LabelSmoothing` without its target matrix.

    Args:
        plain: the summed negative log-probability of the targets.
        log_probs: `(N, V)`; class 0 is padding.
        labels: the targets, `(N,)`.
        smoothing: ε, below 1.
    """
    if smoothing == 0:
        return plain
    real = labels != PAD
    share = smoothing / (log_probs.size(1) - 2)
    # −log p of every wrong class, summed over the rows
    wrong = ((log_probs[:, PAD] - log_probs.sum(dim=1)) * real).sum() - plain
    entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(share)
    return (1 - smoothing) * plain + share * wrong - real.sum().to(plain.dtype) * entropy


def count(model: Model) -> int:
    """Count the parameters, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def weights_of(model: Model) -> dict[str, Tensor]:
    """Return the parameters by name, tied ones under the first of their names."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def shapes_of(model: Model) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters by name."""
    return {name: tuple(weight.shape) for name, weight in weights_of(model).items()}


def copy_weights(model: Model, weights: dict[str, Tensor]) -> None:
    """Load weights into a model.

    Raises:
        Refused: the names or shapes are not the model's.
    """
    weights = _renamed(model, weights)
    _refuse_another(model, weights)
    with torch.no_grad():
        for name, parameter in weights_of(model).items():
            parameter.copy_(weights[name])


def _renamed(model: Model, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights with the present names of the norms in a block of GPT-2 or LLaMA: older runs have others."""
    block = next(iter(getattr(model, "blocks", ())), None)
    for names in (("norm_1", "norm_2"), ("attention_norm", "ffn_norm")):
        if hasattr(block, names[0]):
            for number, new in enumerate(names):
                old = re.compile(rf"^(blocks\.\d+\.)sublayer\.{number}\.norm")
                weights = {old.sub(rf"\1{new}", name): weight for name, weight in weights.items()}
    return weights


def state_of(model: Model) -> dict[str, Tensor]:
    """Return the parameters and buffers by name, shared ones under the first of their names."""
    first: dict[int, str] = {}
    state = model.state_dict()
    for name, tensor in state.items():
        first.setdefault(tensor.untyped_storage().data_ptr(), name)
    return {name: state[name] for name in first.values()}


def is_quantized(weights: dict[str, Tensor]) -> bool:
    """Return whether these are the weights of a quantized model."""
    return any(weight.dtype == torch.int8 for weight in weights.values())


def with_weights(model: Model, weights: dict[str, Tensor]) -> Model:
    """Return the model with these weights: the same model, or a quantized copy if the weights are
    int8.

    Raises:
        Refused: the names or shapes are not the model's.
    """
    if not is_quantized(weights):
        copy_weights(model, weights)
        return model
    small = quantize_model(model)
    weights = _renamed(model, weights)
    shapes, weight_shapes = (
        {name: tuple(weight.shape) for name, weight in some.items()}
        for some in (state_of(small), weights)
    )
    if shapes != weight_shapes:
        raise Refused(f"These weights are of another model: {_differing(shapes, weight_shapes)}")
    small.load_state_dict(weights, strict=False)  # without the other names of what is shared
    return small


def assign_weights(model: Model, weights: dict[str, Tensor]) -> None:
    """Assign these tensors to a model that was built without values, in their dtype.

    Raises:
        Refused: the names or shapes are not the model's.
    """
    _refuse_another(model, weights)
    model.load_state_dict(weights, assign=True)


def _refuse_another(model: Model, weights: dict[str, Tensor]) -> None:
    weight_shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    if shapes_of(model) != weight_shapes:
        raise Refused(
            f"These weights are of another model: {_differing(shapes_of(model), weight_shapes)}"
        )
