"""The language models that are compared: put together of the references' parts, as a recipe says."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from implementation import Embeddings, Generator, LayerNorm, PositionalEncoding, SublayerConnection
from laboratory.study.layers import (
    GATES,
    MAX_POSITIONS,
    AlibiBias,
    Biased,
    Convolved,
    FeedForward,
    Fused,
    GatedFeedForward,
    Learned,
    Linear,
    PositionedAttention,
    Rotary,
    T5Bias,
    UnnormalizedRouter,
    Windowed,
)
from laboratory.study.recipe import GROUPS, Recipe
from training.data.vocabulary import Languages
from training.settings import Settings
from variants.activations import SwiGLU
from variants.latent import QKNorm
from variants.mamba import MambaBlock, MambaConfig
from variants.moe import MixtureOfExperts, load_balancing_loss
from variants.norms import GroupNorm, RMSNorm

__all__ = ["Composed", "Recipe", "build"]

EPS = 1e-5  # of every norm, as day 11's has it
MAMBA_BLOCKS = 2  # for each layer: so they have as many parameters (Gu & Dao 2023, §3.4)


class Composed(nn.Module):
    """A language model: each token from those before it.

    Attributes:
        embed: tokens `(B, T)` to vectors `(B, T, d_model)`, with positions where these are added.
        blocks: the layers, called as `block(x)`.
        norm: the last norm, where the layers norm before their sublayers.
        generator: states to log-probabilities.
        longest: the most tokens that it can read at once; None where there is no end.
    """

    def __init__(self, recipe: Recipe, settings: Settings, vocabulary: int):
        super().__init__()
        d_model = settings.d_model
        embeddings = Embeddings(d_model, vocabulary)
        self.embed = nn.Sequential(embeddings, _added_positions(recipe, settings))
        self.blocks = nn.ModuleList(_blocks(recipe, settings))
        final = recipe.normalized_by if recipe.final_norm == "same" else recipe.final_norm
        self.norm = _norm(final, d_model) if settings.norm == "pre" else nn.Identity()
        self.generator = Generator(d_model, vocabulary)
        if settings.tie:
            self.generator.proj.weight = embeddings.lut.weight
        self.balance = recipe.balance
        self.longest = {
            "learned": settings.context,
            "sinusoid": MAX_POSITIONS,
            "rope": MAX_POSITIONS,
        }.get(recipe.positions)

    def forward(self, tokens: Tensor) -> Tensor:
        """From tokens `(B, T)` to states `(B, T, d_model)`.

        Raises:
            Refused: more tokens than learned positions.
        """
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        states: Tensor = self.norm(x)
        return states

    def auxiliary(self) -> Tensor:
        """What is added to the mean loss of a token, of the last call: the experts' balance, weighted (Fedus,
        Zoph & Shazeer 2021, *Switch Transformers*, §2.2). A 0-d tensor, 0 where there are no experts."""
        total = torch.zeros((), device=self.generator.proj.weight.device)
        for module in self.modules():
            if isinstance(module, MixtureOfExperts):
                assert module.probs is not None and module.chosen is not None
                total = total + self.balance * load_balancing_loss(module.probs, module.chosen)
        return total


def build(recipe: Recipe, settings: Settings, languages: Languages) -> Composed:
    """The model of a recipe, with its initial weights.

    Every matrix has Xavier uniform initialization, as in `training.models.architectures`, so that variants
    are not compared by their initialization. It is drawn from the seed and the layer's name, so that variants
    with one seed begin with the same weights in the layers that they share. The embedding matrices, T5's bias
    and Mamba's step are initialized as in their papers, from torch's generator.

    Args:
        settings: its sizes, and where the norms are.
        languages: its vocabularies.

    Raises:
        Refused: a recipe that does not go with the sizes.
    """
    recipe.check(settings)
    model = Composed(recipe, settings, len(languages.target))
    for name, module in model.named_modules():
        tied = settings.tie and module is model.generator.proj
        if isinstance(module, nn.Linear) and not tied and not name.endswith("dt_proj"):
            generator = torch.Generator().manual_seed(
                zlib.crc32(f"{settings.seed} {name}".encode())
            )
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:  # as PyTorch initializes it
                bound = module.in_features**-0.5
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
    return model


def gated_width(recipe: Recipe, d_ff: int) -> int:
    """The hidden width of a gated network, three matrices that are to hold what two of width d_ff do: ⅔ of
    d_ff (Shazeer 2020, *GLU Variants Improve Transformer*, §2). Where there are experts, it is that of one of
    them: a token's top_k together have it, so that they multiply and add as often as the one network."""
    chosen = recipe.top_k if recipe.experts else 1
    return max(1, round(2 * d_ff / (3 * chosen)))


# --- Parts ----------------------------------------------------------------------------------------


def _norm(kind: str, d_model: int) -> nn.Module:
    match kind:
        case "layer":
            return LayerNorm(d_model, EPS)
        case "rms":
            return RMSNorm(d_model, EPS)
        case "group":
            return GroupNorm(GROUPS, d_model, EPS)
        case _:
            return nn.Identity()


def _added_positions(recipe: Recipe, settings: Settings) -> nn.Module:
    match recipe.positions:
        case "sinusoid":
            return PositionalEncoding(settings.d_model, settings.dropout, MAX_POSITIONS)
        case "learned":
            return Learned(settings.context, settings.d_model, settings.dropout)
        case _:
            return nn.Dropout(settings.dropout)


def _attention(recipe: Recipe, settings: Settings) -> Callable[[], nn.Module]:
    """What makes the attention of each layer."""
    d_model, heads = settings.d_model, settings.heads

    def rotate() -> nn.Module:
        if recipe.positions != "rope":
            return nn.Identity()
        return Rotary(d_model // heads, settings.context, recipe.longer)

    match recipe.attention, recipe.positions:
        case _, "alibi":
            slopes = AlibiBias(heads, settings.context)
            return lambda: Biased(d_model, heads, slopes)
        case _, "t5":
            table = T5Bias(heads, d_model)
            return lambda: Biased(d_model, heads, table)
        case "window", _:
            return lambda: Windowed(d_model, heads, recipe.window, rotate())
        case _ if recipe.longer == "window":
            window = (settings.context - 1) // 2 * 2  # no distance that was not trained
            return lambda: Windowed(d_model, heads, window, rotate(), settings.context)
        case "linear", _:
            return lambda: Linear(d_model, heads, heads, rotate())
        case "full", _:
            return lambda: PositionedAttention(d_model, heads, heads, rotate())
        case "convolved", _:
            return lambda: Convolved(d_model, heads, heads, rotate())
        case kind, _:
            n_kv_heads = {"grouped": recipe.groups, "multi_query": 1}.get(kind, heads)
            return lambda: Fused(d_model, heads, n_kv_heads, rotate())


def _feed_forward(recipe: Recipe, settings: Settings) -> nn.Module:
    d_model, d_ff = settings.d_model, settings.d_ff
    if recipe.experts:
        width = gated_width(recipe, d_ff)
        mixture = MixtureOfExperts(d_model, width, recipe.experts, recipe.top_k)
        if not recipe.renormalized:
            mixture.router = UnnormalizedRouter(d_model, recipe.experts, recipe.top_k)
        return mixture
    if recipe.activation in GATES:
        return GatedFeedForward(d_model, gated_width(recipe, d_ff), recipe.activation)
    if recipe.activation == "swiglu":
        return SwiGLU(d_model, gated_width(recipe, d_ff))
    return FeedForward(d_model, d_ff, settings.dropout, recipe.activation)


# --- Layers ---------------------------------------------------------------------------------------


def _blocks(recipe: Recipe, settings: Settings) -> list[nn.Module]:
    if recipe.attention == "mamba":
        return [_mamba(recipe, settings) for _ in range(MAMBA_BLOCKS * settings.layers)]
    attention = _attention(recipe, settings)
    blocks: list[nn.Module] = []
    for _ in range(settings.layers):
        parts = attention(), _feed_forward(recipe, settings)
        if recipe.qk_norm:
            parts[0].norm = QKNorm(settings.d_model // settings.heads)
        blocks.append(_serial(recipe, settings, *parts))
    return blocks


class SerialBlock(nn.Module):
    """A block of day 23 with its norms before the sublayers or after the additions."""

    def __init__(
        self, size: int, attention: nn.Module, network: nn.Module, dropout: float, norm: str
    ):
        super().__init__()
        self.self_attn = attention
        self.feed_forward = network
        self.sublayer = nn.ModuleList(SublayerConnection(size, dropout, norm) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """From `(B, T, d_model)` to the same shape."""
        x = self.sublayer[0](x, self.self_attn)
        return cast(Tensor, self.sublayer[1](x, self.feed_forward))


def _serial(
    recipe: Recipe, settings: Settings, attention: nn.Module, network: nn.Module
) -> SerialBlock:
    """Attention, then the feed-forward network, with these norms."""
    block = SerialBlock(settings.d_model, attention, network, settings.dropout, settings.norm)
    for connection in block.sublayer:
        connection.norm = _norm(recipe.normalized_by, settings.d_model)
    return block


def _mamba(recipe: Recipe, settings: Settings) -> MambaBlock:
    """A block of day 37 with this norm."""
    rank = math.ceil(settings.d_model / 16)
    block: Any = MambaBlock(MambaConfig(d_model=settings.d_model, dt_rank=rank))
    block.norm = _norm(recipe.normalized_by, settings.d_model)
    return block  # type: ignore[no-any-return]
