"""LLaMA: the GPT of day 23 with different norms, positions, attention heads and feed-forward networks.

Paper: Touvron et al. 2023, *LLaMA: Open and Efficient Foundation Language Models*; LLaMA 2 (Touvron et al.
2023) adds grouped-query attention, LLaMA 3 (Grattafiori et al. 2024) a base of 500,000. Compared to `gpt.py`:

    LayerNorm                                 RMSNorm (day 28)
    GELU, two matrices                        SwiGLU, three (day 28)
    learned positions, added to the tokens    queries and keys rotated, in every layer (day 29)
    keys and values for each query head       one key/value head for a group of query heads (day 31)
    biases, dropout, tied embedding matrix    none of the three

From symbols to names
    B, T            batch, time: tokens of a chunk
    V               vocab, tokens in the vocabulary
    N               n_layers, blocks in the stack
    d_k             width of a query, key or value inside one head: d_model / n_heads
    pairs           d_k / 2
    W_e, W_o        `embed.weight`, `head.weight`
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

import variants.activations
import variants.norms
from variants.grouped_query import GroupedQueryAttention
from variants.kv_cache import KVCache, past_length
from variants.rope import rope_angles

Rotation = tuple[Tensor, Tensor]  # cosines and sines of positions, (…, T, d_k) each

# --- Day 32 · LLaMA -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LLaMAConfig:
    """The sizes of a LLaMA. The defaults are those of the smallest one in the paper, 6.7 billion parameters.

    `context` is the maximum number of tokens, including those in the cache. n_heads divides d_model into an
    even d_k, and n_kv_heads divides n_heads. `base` is that of the angles: 500,000 in LLaMA 3.

    Source: Touvron et al. 2023, table 2 and §2.2; vocabulary, d_ff and eps: its published weights.
    """

    vocab: int = 32000
    context: int = 2048
    n_layers: int = 32
    n_heads: int = 32
    n_kv_heads: int = 32
    d_model: int = 4096
    d_ff: int = 11008
    eps: float = 1e-6
    base: float = 10000.0


def _rotation_tables(angles: Float[Tensor, "T pairs"]) -> Rotation:
    """Return the cosines and sines by which `rotate` multiplies, `(T, d_k)` each."""
    cos, sin = angles.detach().cos(), angles.detach().sin()  # (T, pairs) each
    return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def rotate(x: Float[Tensor, "B h T d_k"], rotation: Rotation) -> Float[Tensor, "B h T d_k"]:
    """Rotate features i and i + d_k/2 as a pair (a, b): (a cos − b sin, b cos + a sin).

    It is `apply_rope` of day 29 in the layout "halves", as in Hugging Face's conversion; Meta's own code
    rotates neighboring features. Half precision is rotated in float32.
    """
    cos, sin = rotation
    wide = x.to(cos.dtype)
    return torch.addcmul(wide * cos, wide.roll(x.size(-1) // 2, dims=-1), sin).to(x.dtype)


def rotation_of(module: nn.Module, start: int, x: Float[Tensor, "B T d_model"]) -> Rotation:
    """Return cosines and sines for a chunk whose first token is at `start`, from a module's `angles`."""
    cos, sin = _rotation_tables(module.angles[start : start + x.size(1)])
    wide = torch.promote_types(x.dtype, torch.float32)
    return cos.to(x.device, wide), sin.to(x.device, wide)


class RotaryAttention(GroupedQueryAttention):
    """The attention of day 31 with rotated queries and keys, with or without a cache, in one kernel.

    `angles` is `rope_angles(d_k, context, base)`, one tensor for all layers, for a call without `rotation`.

    Raises:
        ValueError: n_heads does not divide d_model, or n_kv_heads does not divide n_heads.

    Source: Touvron et al. 2023, §2.2; grouped queries: Ainslie et al. 2023, §2.2.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, angles: Tensor):
        super().__init__(d_model, n_heads, n_kv_heads)
        self.angles = angles  # (context, pairs)

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: KVCache | None = None,
        layer: int | None = None,
        rotation: Rotation | None = None,
        mask=None,  # day 45: (B, 1, T, T), in place of the causal mask
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token to itself and to all earlier ones; the cache holds rotated keys."""
        if rotation is None:
            rotation = rotation_of(self, 0 if cache is None else cache.length, x)
        # 1. Project, split into heads, and rotate queries and keys by their positions.
        query, key, value = self.project(x)  # (B, n_heads, T, d_k), (B, n_kv_heads, T, d_k) twice
        query, key = rotate(query, rotation), rotate(key, rotation)
        # 2. Append to the cache, and take all keys and values so far.
        if cache is not None:
            key, value = cache.update(layer, key, value)  # (B, n_kv_heads, T_k, d_k) each
        # 3. Attend, join the heads, and apply the output projection.
        masks = () if mask is None else (mask,)  # day 31's `attend` takes none
        return self.w_o(self.attend(query, key, value, *masks))  # (B, T, d_model)

    def attend(
        self,
        query: Float[Tensor, "B n_heads T d_k"],
        key: Float[Tensor, "B n_kv_heads T_k d_k"],
        value: Float[Tensor, "B n_kv_heads T_k d_k"],
        mask=None,
    ) -> Float[Tensor, "B T d_model"]:
        """Attend causally, or as the mask allows, in one kernel of PyTorch, and join the heads."""
        t, t_k = query.size(2), key.size(2)
        if mask is None and 1 < t < t_k:  # after those of a cache; a single token sees everything
            mask = torch.ones(t, t_k, dtype=torch.bool, device=query.device).tril(t_k - t)
        heads = F.scaled_dot_product_attention(
            query, key, value, mask, is_causal=mask is None and t == t_k, enable_gqa=True
        )  # (B, n_heads, T, d_k)
        return heads.transpose(1, 2).flatten(-2)


class RMSNorm(variants.norms.RMSNorm):
    """Apply the RMSNorm of day 28, in one kernel of PyTorch."""

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Normalize the last axis, then scale it."""
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)


class SwiGLU(variants.activations.SwiGLU):
    """Apply the gated feed-forward network of day 28: FFN(x) = (Swish(x W) ⊗ x V) W₂."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each position on its own."""
        return self.w_down(F.silu(self.w_gate(x)) * self.w_up(x))  # (…, d_model)


class LLaMABlock(nn.Module):
    """Apply one layer of LLaMA, called as `block(x, cache, layer)`.

        x ← x + Attention(RMSNorm(x))
        x ← x + SwiGLU(RMSNorm(x))

    Source: Touvron et al. 2023, §2.2.
    """

    def __init__(self, config: LLaMAConfig, angles: Tensor):
        super().__init__()
        self.attention_norm = RMSNorm(config.d_model, config.eps)
        self.self_attn = RotaryAttention(config.d_model, config.n_heads, config.n_kv_heads, angles)
        self.ffn_norm = RMSNorm(config.d_model, config.eps)
        self.feed_forward = SwiGLU(config.d_model, config.d_ff)

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: KVCache | None = None,
        layer: int | None = None,
        rotation: Rotation | None = None,
        mask=None,  # day 45
    ) -> Float[Tensor, "B T d_model"]:
        """Map `(B, T, d_model)` to the same shape and dtype."""
        x = x + self.self_attn(self.attention_norm(x), cache, layer, rotation, mask)
        return x + self.feed_forward(self.ffn_norm(x))  # (B, T, d_model)


class LLaMA(nn.Module):
    """A decoder-only language model: predict the next token at every position.

        h₀ = W_e[tokens]
        hₙ = Block(hₙ₋₁), n = 1 … N
        logits = RMSNorm(h_N) W_oᵀ

    Raises:
        ValueError: n_heads does not divide d_model, n_kv_heads does not divide n_heads, or d_k is odd.

    Source: Touvron et al. 2023, §2.2; the initialization, which the paper does not give: `initializer_range`
    of the published configurations.
    """

    def __init__(self, config: LLaMAConfig):
        super().__init__()
        if config.n_heads < 1 or config.d_model % config.n_heads != 0:
            n_heads, d_model = config.n_heads, config.d_model
            raise ValueError(f"n_heads must divide d_model, got {n_heads=}, {d_model=}")
        # 1. Store the config, and make the tokens' embedding matrix. Positions have none.
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        # 2. Compute the angles of all positions, once for all layers, on the CPU: "meta" has no values.
        with torch.device("cpu"):
            angles = rope_angles(
                config.d_model // config.n_heads, config.context, config.base
            )  # (context, pairs)
        # 3. Make the blocks, each with its own weights, the final norm, and the head.
        self.blocks = nn.ModuleList(LLaMABlock(config, angles) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.d_model, config.eps)
        self.head = nn.Linear(config.d_model, config.vocab, bias=False)
        self._set_rotation(angles)
        # 4. Initialize every matrix from N(0, 0.02²).
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        cache: KVCache | None = None,
        positions=None,  # day 45: (B, T), if a row has several texts
        mask=None,  # day 45: (B, T, T), True where a token may attend to another
        last: bool = False,  # later: return the logits of the last position only, (B, 1, V)
    ) -> Float[Tensor, "B T V"]:
        """Return logits for the token that follows each token of a chunk.

        The chunk follows what the cache holds; without a cache it is the full text.

        Raises:
            ValueError: cache and chunk together exceed `config.context`, or the cache has other layers,
                heads or rows, or no room.
        """
        # 1. Check that cached and new tokens fit into the context. Only attention uses positions.
        past = past_length(tokens, cache, self.config)
        x = self.embed(tokens)  # (B, T, d_model)
        # 2. Apply the blocks in turn, each with its own layer of the cache. Compute the cosines and sines of
        #    these positions once: the layers share their angles.
        where = slice(past, past + tokens.size(1)) if positions is None else positions.unsqueeze(1)
        rotation = self.cos[where].to(x.device), self.sin[where].to(x.device)  # (…, T, d_k) each
        mask = None if mask is None else mask.unsqueeze(1)  # (B, 1, T, T)
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer, rotation, mask)  # (B, T, d_model)
        if last:
            x = x[:, -1:]  # (B, 1, d_model)
        # 3. Normalize, and compute the logits.
        return self.head(self.norm(x))  # (B, T, V)

    def _set_rotation(self, angles: Tensor) -> None:
        """Compute cosines and sines of all positions, where the weights are, in float32 at least."""
        weight = next(self.parameters())
        device = "cpu" if weight.is_meta else weight.device  # "meta" has no values
        wide = torch.promote_types(weight.dtype, torch.float32)
        for name, buffer in zip(("cos", "sin"), _rotation_tables(angles), strict=True):
            self.register_buffer(name, buffer.to(device, wide), persistent=False)  # (context, d_k)

    def _apply(self, fn, recurse=True):
        """Move or cast the model. Cosines and sines are computed again: half precision would round them."""
        super()._apply(fn, recurse)
        for block in self.blocks[:1]:
            self._set_rotation(block.self_attn.angles)
        return self
