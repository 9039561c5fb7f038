"""Fused kernels for the course's models: what `training` and `course generate` run.

The classes of the lessons are written to be read: they build a mask, store all scores, and compute a norm in
six steps. `fuse(model)` replaces the `forward` of a model's modules by one that calls PyTorch's kernels.
Parameters, names and signatures stay, and results agree up to rounding. `fuse(model, False)` restores them.

    attention           `F.scaled_dot_product_attention`: no scores in memory, and no mask for a whole text or
                        for a single cached query
    RoPE                cosines and sines of all positions once, on the model's device
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

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from implementation import LayerNorm
from variants.activations import SwiGLU
from variants.gpt import GPT, CausalSelfAttention
from variants.grouped_query import GroupedQueryAttention
from variants.kv_cache import CachedGPT, CachedSelfAttention, KVCache, past_length
from variants.llama import LLaMA, RotaryAttention
from variants.norms import RMSNorm

# --- The switch -----------------------------------------------------------------------------------


def fuse(model: nn.Module, on: bool = True) -> nn.Module:
    """Switch the modules of a model to fused kernels, or with `on=False` back to what their classes define.

    Only modules of a class in `FUSED` change; subclasses do not. `MultiHeadedAttention` has this switch
    already: its `keep_weights` becomes `not on`. A fused module has the attribute `fused`, True.
    """
    rotations: dict[int, Rotation] = {}
    for module in model.modules():
        if hasattr(module, "keep_weights"):
            module.keep_weights = not on
        if type(module) not in FUSED:
            continue
        if not on:
            for name in ("forward", "fused", "rotation"):
                module.__dict__.pop(name, None)
            continue
        module.fused = True
        module.forward = MethodType(FUSED[type(module)], module)
        if isinstance(module, RotaryAttention):  # the layers of a model share one table
            module.rotation = rotations.setdefault(id(module.angles), Rotation())
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


def causal_attention(
    query: Float[Tensor, "B h T_q d_k"],
    key: Float[Tensor, "B G T_k d_k"],
    value: Float[Tensor, "B G T_k d_k"],
    dropout: float = 0.0,
) -> Float[Tensor, "B T_q d_model"]:
    """Attend causally in one kernel, and join the heads. The queries are the last T_q of T_k positions."""
    t_q, t_k = query.size(2), key.size(2)
    if t_q == 1:
        # 1. A single query sees every key, so there is no mask, and the query heads of a group are simply
        #    more queries for its keys.
        grouped = query.reshape(query.size(0), key.size(1), -1, query.size(3))  # (B, G, h/G, d_k)
        heads = F.scaled_dot_product_attention(grouped, key, value, dropout_p=dropout)
        return heads.reshape(query.size(0), 1, -1)  # (B, 1, d_model)
    # 2. For a whole text the kernel knows the mask. A chunk behind a cache needs one.
    mask = None
    if t_q != t_k:
        mask = torch.ones(t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)
    heads = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=mask is None,
        enable_gqa=query.size(1) != key.size(1),
    )  # (B, h, T_q, d_k)
    return heads.transpose(1, 2).flatten(-2)  # (B, T_q, d_model)


def _self_attention(
    self: Any,
    x: Float[Tensor, "B T d_model"],
    cache: KVCache | None = None,
    layer: int | None = None,
) -> Float[Tensor, "B T d_model"]:
    """`forward` of `CausalSelfAttention` and `CachedSelfAttention`."""
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


# --- RoPE -----------------------------------------------------------------------------------------


class Rotation:
    """Cosines and sines of all positions, computed once for each device and dtype.

    Not a buffer: `model.to(torch.bfloat16)` would round it, and from position 256 on neighbors would
    share an angle.
    """

    def __init__(self) -> None:
        self.angles: Tensor | None = None  # those that `cos` and `sin` are computed from
        self.cos = self.sin = torch.empty(0)

    def at(
        self, angles: Float[Tensor, "context pairs"], start: int, x: Float[Tensor, "B T d_model"]
    ) -> tuple[Float[Tensor, "T d_k"], Float[Tensor, "T d_k"]]:
        """Cosines and sines for the tokens of a chunk that starts at a position, in float32 at least."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        if self.angles is not angles or (self.cos.dtype, self.cos.device) != (dtype, x.device):
            # 1. Compute in float64 on the angles' own device, then convert: not every device has float64.
            cos, sin = angles.cos(), angles.sin()  # (context, pairs)
            self.cos = torch.cat([cos, cos], dim=-1).to(x.device, dtype)  # (context, d_k)
            self.sin = torch.cat([-sin, sin], dim=-1).to(x.device, dtype)  # (context, d_k)
            self.angles = angles
        end = start + x.size(1)
        return self.cos[start:end], self.sin[start:end]  # (T, d_k) each


def rotate(
    x: Float[Tensor, "*batch T d_k"], cos: Float[Tensor, "T d_k"], sin: Float[Tensor, "T d_k"]
) -> Float[Tensor, "*batch T d_k"]:
    """`apply_rope` in the layout "halves": (a cos − b sin, b cos + a sin), with (b, a) by one `roll`."""
    wide = x.to(cos.dtype)
    swapped = wide.roll(x.size(-1) // 2, dims=-1)  # (…, T, d_k), halves b, a
    return torch.addcmul(wide * cos, swapped, sin).to(x.dtype)  # (…, T, d_k)


def _rotary_attention(
    self: Any,
    x: Float[Tensor, "B T d_model"],
    cache: KVCache | None = None,
    layer: int | None = None,
) -> Float[Tensor, "B T d_model"]:
    query, key, value = self.project(x)  # (B, h, T, d_k), twice (B, G, T, d_k)
    cos, sin = self.rotation.at(self.angles, 0 if cache is None else cache.length, x)
    query, key = rotate(query, cos, sin), rotate(key, cos, sin)
    if cache is not None:
        key, value = cache.update(layer, key, value)  # (B, G, T_k, d_k) each
    return self.w_o(causal_attention(query, key, value))  # (B, T, d_model)


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
        x = block(x) if cache is None else block(x, cache, layer)  # (B, T, d_model)
    x = x[:, -1:] if last else x
    return F.linear(self.norm(x), self.embed.weight)  # (B, T, V)


def _llama(
    self: Any, tokens: Int[Tensor, "B T"], cache: KVCache | None = None, last: bool = False
) -> Float[Tensor, "B T V"]:
    """`last`: the logits `(B, 1, V)` of the last position only."""
    past_length(tokens, cache, self.config)
    x = self.embed(tokens)  # (B, T, d_model)
    for layer, block in enumerate(self.blocks):
        x = block(x, cache, layer)  # (B, T, d_model)
    x = x[:, -1:] if last else x
    return self.head(self.norm(x))  # (B, T, V)


FUSED: dict[type[nn.Module], Callable[..., Tensor]] = {
    CausalSelfAttention: _self_attention,
    CachedSelfAttention: _self_attention,
    GroupedQueryAttention: _grouped_query_attention,
    RotaryAttention: _rotary_attention,
    LayerNorm: _layer_norm,
    RMSNorm: _rms_norm,
    SwiGLU: _swiglu,
    GPT: _gpt,
    CachedGPT: _gpt,
    LLaMA: _llama,
}
