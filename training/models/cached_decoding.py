"""Decoding with a cache: a model does not recompute tokens that it has read.

This is for models of the reference's parts. A model of a learner's own parts gets the full text
each time, unless its `forward` takes a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from implementation import attention
from training.generation.generate import NextLogits
from training.models.architectures import Model
from training.models.parts import REFERENCES, Parts
from training.settings import Settings
from variants.kv_cache import CachedModel, KVCache, new_cache
from variants.onnx_export import OnnxModel


def cached_forward(
    model: Model, settings: Settings, parts: Parts, context: int | None = None
) -> NextLogits:
    """Return a function that calls a language model on a text and its continuations.

    Args:
        context: the maximum number of tokens per call; the run's window if omitted.
    """
    context = context or settings.context
    if isinstance(model, OnnxModel):
        return model  # which keeps what it has read by itself
    cached = with_a_cache(model, settings, parts)
    if cached is not None:
        return CachedModel(cached, context)
    if parts is not REFERENCES[settings.model]:
        return lambda tokens: model.generator(model(tokens))
    return CachedModel(_CachedLanguageModel(model, settings), settings.context)


def with_a_cache(model: Model, settings: Settings, parts: Parts) -> Any:
    """Return a GPT or a LLaMA that can be called as `model(tokens, cache)`; None for any other model."""
    if isinstance(model, OnnxModel):
        return None
    own_gpt = settings.model == "gpt" and parts is not REFERENCES["gpt"]  # `forward(tokens)` alone
    return None if settings.model == "paper" or own_gpt else model


@dataclass(frozen=True)
class _Sizes:
    """What a cache has to know of the paper's decoder."""

    n_layers: int
    n_heads: int
    d_model: int
    context: int


def _sizes(settings: Settings, context: int) -> Any:  # it stands in for a `GPTConfig`
    return _Sizes(settings.layers, settings.heads, settings.d_model, context)


class _CachedLanguageModel(nn.Module):
    """The paper's decoder without a source, called as `model(tokens, cache)`."""

    def __init__(self, model: Model, settings: Settings):
        super().__init__()
        self.model: Any = model
        self.config = _sizes(settings, settings.context)

    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Return log-probabilities `(B, T, V)` of the tokens that follow the cached text."""
        if cache is None:
            cache = new_cache(self.config, len(tokens), tokens.size(1))
        x = _embedded(self.model.embed, tokens, cache.length)  # (B, T, d_model)
        for number, layer in enumerate(self.model.decoder.layers):
            x = layer.sublayer[0](x, _cached_self_attention(layer.self_attn, cache, number))
            x = layer.sublayer[1](x, layer.feed_forward)
        norm = self.model.decoder.norm
        log_probs: Tensor = self.model.generator(x if norm is None else norm(x))
        return log_probs


class CachedEncoderDecoder:
    """An encoder-decoder for `greedy_decode` and `beam_search` that computes each token's states
    once.

    The source's keys and values are computed once for each layer; those of the answer are appended.
    The tokens of a row determine which cached past it continues, so that beams can change places.
    """

    def __init__(self, model: Model, settings: Settings, longest: int, beam: int = 1):
        """Begin the answers to a batch.

        Args:
            model: an `EncoderDecoder` of the reference's parts, in evaluation mode.
            settings: the settings with which it was trained.
            longest: the maximum number of tokens in an answer.
            beam: how many neighboring rows are hypotheses of one source.
        """
        self.generator = model.generator
        self._model = model
        self._sizes = _sizes(settings, longest)
        self._beam = beam
        self._source: list[tuple[Tensor, Tensor]] = []
        self._cache: KVCache | None = None
        self._seen: Tensor | None = None

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        """Return the memory `(B, S, d_model)` of a source."""
        memory: Tensor = self._model.encode(src, src_mask)
        return memory

    def decode(self, memory: Tensor, src_mask: Tensor, tgt: Tensor, tgt_mask: Tensor) -> Tensor:
        """Return the states of the tokens that are new since the last call, `(B, T, d_model)`.

        Args:
            memory: `(B, S, d_model)`, the same at every call.
            src_mask: `(B, 1, S)`.
            tgt: the answers so far, `(B, t)`, longer at every call.
            tgt_mask: must be causal; the cache implies this mask.
        """
        layers = self._model.decoder.layers
        if self._cache is None or self._seen is None:
            self._cache = new_cache(self._sizes, len(tgt), self._sizes.context)
            self._source = [_keys_and_values(layer.src_attn, memory) for layer in layers]
        else:
            self._cache.reorder(self._parents(self._seen, tgt))
        past, self._seen = self._cache.length, tgt
        x = _embedded(self._model.tgt_embed, tgt[:, past:], past)  # (B, T, d_model)
        for number, layer in enumerate(layers):
            x = layer.sublayer[0](x, _cached_self_attention(layer.self_attn, self._cache, number))
            x = layer.sublayer[1](
                x, _cached_cross_attention(layer.src_attn, self._source[number], src_mask)
            )
            x = layer.sublayer[2](x, layer.feed_forward)
        norm = self._model.decoder.norm
        states: Tensor = x if norm is None else norm(x)
        return states

    def _parents(self, previous: Tensor, tgt: Tensor) -> Tensor:
        """For each row, one of the rows seen last that it begins with, `(B,)`: among its neighbors."""
        t = previous.size(1)
        old, new = (rows[:, :t].reshape(-1, self._beam, t) for rows in (previous, tgt))
        is_same = (new.unsqueeze(2) == old.unsqueeze(1)).all(dim=-1)  # (sources, beam, beam)
        position = is_same.int().argmax(dim=-1)  # (sources, beam)
        first = self._beam * torch.arange(len(position), device=position.device)  # (sources,)
        return (first.unsqueeze(1) + position).flatten()


# --- What both are made of ------------------------------------------------------------------------


def _embedded(embed: Any, tokens: Tensor, past: int) -> Tensor:
    """Tokens `(B, T)` as vectors, their positions counted on from the past."""
    lookup, positional = embed
    vectors: Tensor = lookup(tokens) + positional.pe[:, past : past + tokens.size(1)]
    return vectors


def _cached_self_attention(heads: Any, cache: KVCache, number: int) -> Callable[[Tensor], Tensor]:
    """Attention of a layer to the past that a cache holds, and to the tokens themselves."""

    def attend(x: Tensor) -> Tensor:
        key, value = cache.update(number, *_keys_and_values(heads, x))
        t_q, t_k = x.size(1), key.size(2)
        mask = x.new_ones(t_q, t_k).bool().tril(t_k - t_q)
        return _joined(heads, x, key, value, mask)

    return attend


def _cached_cross_attention(
    heads: Any, keys_and_values: tuple[Tensor, Tensor], src_mask: Tensor
) -> Callable[[Tensor], Tensor]:
    """Attention of a layer to the source, whose keys and values are there."""
    return lambda x: _joined(heads, x, *keys_and_values, src_mask.unsqueeze(1))


def _keys_and_values(heads: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """`(B, h, T, d_k)` each."""
    return split(heads.w_k(x), heads.h), split(heads.w_v(x), heads.h)


def _joined(heads: Any, x: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    mixed, _ = attention(split(heads.w_q(x), heads.h), key, value, mask)  # (B, h, T, d_k)
    joined: Tensor = heads.w_o(mixed.transpose(1, 2).flatten(-2))
    return joined


def split(x: Tensor, heads: int) -> Tensor:
    """Split `(B, T, d_model)` into `(B, h, T, d_k)`."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
