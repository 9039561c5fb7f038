"""Fused kernels for the course's models: what `training` and `course generate` run.

The classes of the lessons are written to be read: day 8's attention stores all scores, and a norm takes six
steps. `fuse(model)` replaces the `forward` of a model's modules by one that calls PyTorch's kernels.
Parameters, names and signatures stay, and results agree up to rounding. `fuse(model, False)` restores them.

    attention           `F.scaled_dot_product_attention` for what computes day 8's: no scores in memory
    norms, SwiGLU       `F.layer_norm`, `F.rms_norm`, `F.silu`
    generation          `LastLogits`: those of the last position only

From symbols to names
    B, T            batch, time: tokens of a chunk
    T_q, T_k        time, where attention is meant: of the queries, of the keys and values
    h, G            query heads, key/value heads
    d_k             width of a query or key inside one head
"""

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from implementation import LayerNorm
from variants.activations import SwiGLU
from variants.gpt import GPT
from variants.grouped_query import GroupedQueryAttention
from variants.kv_cache import CachedGPT, CachedSelfAttention, KVCache, past_length
from variants.llama import LLaMA, causal_attention, rotation_of
from variants.norms import RMSNorm

# --- The switch -----------------------------------------------------------------------------------


def fuse(model: nn.Module, on: bool = True) -> nn.Module:
    """Switch the modules of a model to fused kernels, or with `on=False` back to what their classes define.

    Only modules of a class in `FUSED` change; subclasses do not. `MultiHeadedAttention` has this switch
    already: its `keep_weights` becomes `not on`. A fused module has the attribute `fused`, True.
    """
    for module in model.modules():
        if hasattr(module, "keep_weights"):
            module.keep_weights = not on
        if type(module) not in FUSED:
            continue
        if not on:
            for name in ("forward", "fused"):
                module.__dict__.pop(name, None)
            continue
        module.fused = True
        module.forward = MethodType(FUSED[type(module)], module)
    return model


class LastLogits(nn.Module):
    """A fused `CachedGPT` or `LLaMA` that computes the logits of the last position only: `(B, 1, V)`."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model
        self.config = model.config

    def forward(
        self, tokens: Int[Tensor, "B T"], cache: KVCache | None = None
    ) -> Float[Tensor, "B 1 V"]:
        return self.model(tokens, cache, last=True)


def last_alone(model: nn.Module) -> nn.Module:
    """Return the model; a fused one wrapped so that it computes the logits of the last position only."""
    return LastLogits(model) if getattr(model, "fused", False) else model


# --- Attention ------------------------------------------------------------------------------------


def _cached_self_attention(
    self: Any,
    x: Float[Tensor, "B T d_model"],
    cache: KVCache | None = None,
    layer: int | None = None,
) -> Float[Tensor, "B T d_model"]:
    heads = self.w_qkv(x).unflatten(-1, (3, self.n_heads, -1))  # (B, T, 3, h, d_k)
    query, key, value = heads.transpose(1, 3).unbind(2)  # (B, h, T, d_k) each
    if cache is not None:
        key, value = cache.update(layer, key, value)  # (B, h, T_k, d_k) each
    dropout = self.dropout.p if self.training else 0.0
    return self.w_o(causal_attention(query, key, value, dropout))  # (B, T, d_model)


def _grouped_query_attention(
    self: Any, x: Float[Tensor, "B T d_model"]
) -> Float[Tensor, "B T d_model"]:
    return self.w_o(causal_attention(*self.project(x)))  # (B, T, d_model)


# --- Norms and the gate ---------------------------------------------------------------------------


def _layer_norm(self: Any, x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    if x.dtype != self.gain.dtype:  # the kernel would round the gain, or return its dtype
        return type(self).forward(self, x)
    return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps).to(x.dtype)


def _rms_norm(self: Any, x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    if x.dtype != self.gain.dtype:
        return type(self).forward(self, x)
    return F.rms_norm(x, self.gain.shape, self.gain, self.eps).to(x.dtype)


def _swiglu(self: Any, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    return self.w_down(F.silu(self.w_gate(x)) * self.w_up(x))  # (…, d_model)


# --- The models -----------------------------------------------------------------------------------


def _gpt(
    self: Any, tokens: Int[Tensor, "B T"], cache: KVCache | None = None, last: bool = False
) -> Float[Tensor, "B T V"]:
    """`forward` of `GPT` and `CachedGPT`. `last`: the logits `(B, 1, V)` of the last position only."""
    past = past_length(tokens, cache, self.config)
    x = self.embed(tokens) + self.positions.weight[past : past + tokens.size(1)]
    x = self.dropout(x)  # (B, T, d_model)
    for layer, block in enumerate(self.blocks):
        if cache is None:
            x = block(x)  # (B, T, d_model)
            continue
        attn, ffn = block.sublayer
        attended = _cached_self_attention(block.self_attn, attn.norm(x), cache, layer)
        x = x + attn.dropout(attended)  # (B, T, d_model)
        x = x + ffn.dropout(block.feed_forward(ffn.norm(x)))  # (B, T, d_model)
    x = x[:, -1:] if last else x
    return F.linear(self.norm(x), self.embed.weight)  # (B, T, V)


def _llama(
    self: Any, tokens: Int[Tensor, "B T"], cache: KVCache | None = None, last: bool = False
) -> Float[Tensor, "B T V"]:
    """`last`: the logits `(B, 1, V)` of the last position only."""
    past = past_length(tokens, cache, self.config)
    x = self.embed(tokens)  # (B, T, d_model)
    rotation = None
    for layer, block in enumerate(self.blocks):
        rotation = rotation or rotation_of(block.self_attn, past, x)  # (T, d_k) each
        x = block(x, cache, layer, rotation)  # (B, T, d_model)
    x = x[:, -1:] if last else x
    return self.head(self.norm(x))  # (B, T, V)


FUSED: dict[type[nn.Module], Callable[..., Tensor]] = {
    CachedSelfAttention: _cached_self_attention,
    GroupedQueryAttention: _grouped_query_attention,
    LayerNorm: _layer_norm,
    RMSNorm: _rms_norm,
    SwiGLU: _swiglu,
    GPT: _gpt,
    CachedGPT: _gpt,
    LLaMA: _llama,
}
