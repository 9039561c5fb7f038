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

from variants.activations import SwiGLU
from variants.kv_cache import KVCache, past_length
from variants.norms import RMSNorm
from variants.rope import rope_angles

Rotation = tuple[Tensor, Tensor]  # cosines and sines of a chunk's positions, (T, d_k) each

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


def rotation_of(module: nn.Module, start: int, x: Float[Tensor, "B T d_model"]) -> Rotation:
    """Return cosines and sines for a chunk whose first token is at position `start`, by a module's `angles`.

    The angles move to the device of x at their first use, so that later calls copy nothing from the CPU. (MPS
    has no float64, and "meta" no values.)
    """
    if module.angles.device != x.device and x.device.type not in ("mps", "meta"):
        module.angles = module.angles.to(x.device)
    chunk = module.angles[start : start + x.size(1)]  # (T, pairs)
    cos, sin = chunk.cos(), chunk.sin()  # (T, pairs) each
    wide = torch.promote_types(x.dtype, torch.float32)
    return (
        torch.cat([cos, cos], dim=-1).to(x.device, wide),
        torch.cat([-sin, sin], dim=-1).to(x.device, wide),
    )  # (T, d_k) each


def rotate(x: Float[Tensor, "B h T d_k"], rotation: Rotation) -> Float[Tensor, "B h T d_k"]:
    """Rotate features i and i + d_k/2 as a pair (a, b): (a cos − b sin, b cos + a sin).

    It is `apply_rope` of day 29 in the layout "halves", as in Hugging Face's conversion; Meta's own code
    rotates neighboring features.
    """
    cos, sin = rotation
    wide = x.to(cos.dtype)
    return (wide * cos + wide.roll(x.size(-1) // 2, dims=-1) * sin).to(x.dtype)


def causal_attention(
    query: Float[Tensor, "B n_heads T d_k"],
    key: Float[Tensor, "B n_kv_heads T_k d_k"],
    value: Float[Tensor, "B n_kv_heads T_k d_k"],
    dropout: float = 0.0,
) -> Float[Tensor, "B T d_model"]:
    """Attend causally in one kernel, and join the heads. The queries are the last T of T_k positions."""
    (batch, n_heads, t, d_k), (_, n_kv_heads, t_k, _) = query.shape, key.shape
    if t == 1:
        # A single query sees every key. Query heads of a group are simply more queries for its keys.
        query = query.reshape(batch, n_kv_heads, n_heads // n_kv_heads, d_k)
        heads = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        return heads.reshape(batch, 1, n_heads * d_k)  # (B, 1, d_model)
    # For a whole text the kernel knows the mask. A chunk behind a cache needs one.
    mask = None
    if t != t_k:
        mask = torch.ones(t, t_k, dtype=torch.bool, device=query.device).tril(t_k - t)  # (T, T_k)
    heads = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=mask is None,
        enable_gqa=n_heads != n_kv_heads,
    )  # (B, n_heads, T, d_k)
    return heads.transpose(1, 2).flatten(-2)  # (B, T, d_model)


class RotaryAttention(nn.Module):
    """Attend with grouped queries and rotated queries and keys, with or without a cache.

    `angles` is `rope_angles(d_k, context, base)`, one tensor for all layers. It is neither a parameter nor a
    buffer: `model.to(torch.bfloat16)` would round a buffer, and from position 256 on neighboring positions
    would share an angle.

    Raises:
        ValueError: n_heads does not divide d_model, or n_kv_heads does not divide n_heads.

    Source: Touvron et al. 2023, §2.2; grouped queries: Ainslie et al. 2023, §2.2.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, angles: Tensor):
        super().__init__()
        if n_heads < 1 or d_model % n_heads != 0:
            raise ValueError(f"n_heads must divide d_model, got {n_heads=}, {d_model=}")
        if n_kv_heads < 1 or n_heads % n_kv_heads != 0:
            raise ValueError(f"n_kv_heads must divide n_heads, got {n_kv_heads=}, {n_heads=}")
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        d_kv = d_model // n_heads * n_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_kv, bias=False)
        self.w_v = nn.Linear(d_model, d_kv, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.angles = angles  # (context, pairs)

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: KVCache | None = None,
        layer: int | None = None,
        rotation: Rotation | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token of a chunk to itself and to all earlier ones; the cache holds rotated keys.

        `rotation` is the model's, the same for all layers; None: it is computed here.
        """
        if rotation is None:
            # `length` does not count the chunk before the last layer has appended it.
            rotation = rotation_of(self, 0 if cache is None else cache.length, x)
        # 1. Project, and split into heads.
        query, key, value = self.project(x)
        # 2. Rotate queries and keys by their positions.
        query, key = rotate(query, rotation), rotate(key, rotation)
        # 3. Append to the cache, and take all keys and values so far.
        if cache is not None:
            key, value = cache.update(layer, key, value)  # (B, n_kv_heads, T_k, d_k) each
        # 4. Attend, and apply the output projection.
        return self.w_o(causal_attention(query, key, value))  # (B, T, d_model)

    def project(
        self, x: Float[Tensor, "B T d_model"]
    ) -> tuple[
        Float[Tensor, "B n_heads T d_k"],
        Float[Tensor, "B n_kv_heads T d_k"],
        Float[Tensor, "B n_kv_heads T d_k"],
    ]:
        """Project the tokens to queries, keys and values, and split these into heads."""
        query, key, value = self.w_q(x), self.w_k(x), self.w_v(x)  # (B, T, heads · d_k) each
        query = query.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, n_heads, T, d_k)
        key = key.unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2)  # (B, n_kv_heads, T, d_k)
        value = value.unflatten(-1, (self.n_kv_heads, -1)).transpose(
            1, 2
        )  # (B, n_kv_heads, T, d_k)
        return query, key, value


class LLaMABlock(nn.Module):
    """Apply one layer of LLaMA, called as `block(x, cache, layer)`.

        x ← x + Attention(RMSNorm(x))
        x ← x + SwiGLU(RMSNorm(x))

    Source: Touvron et al. 2023, §2.2.
    """

    def __init__(self, config: LLaMAConfig, angles: Tensor):
        super().__init__()
        self.self_attn = RotaryAttention(config.d_model, config.n_heads, config.n_kv_heads, angles)
        self.feed_forward = SwiGLU(config.d_model, config.d_ff)
        # The norm of each part, with day 12's names.
        self.sublayer = nn.ModuleList(
            nn.ModuleDict({"norm": RMSNorm(config.d_model, config.eps)}) for _ in range(2)
        )

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: KVCache | None = None,
        layer: int | None = None,
        rotation: Rotation | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Map `(B, T, d_model)` to the same shape and dtype."""
        x = x + self.self_attn(self.sublayer[0].norm(x), cache, layer, rotation)
        return x + self.feed_forward(self.sublayer[1].norm(x))  # (B, T, d_model)


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
        # 4. Initialize every matrix from N(0, 0.02²).
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(
        self, tokens: Int[Tensor, "B T"], cache: KVCache | None = None
    ) -> Float[Tensor, "B T V"]:
        """Return logits for the token that follows each token of a chunk.

        The chunk follows what the cache holds; without a cache it is the full text.

        Raises:
            ValueError: cache and chunk together exceed `config.context`, or the cache has other layers,
                heads or rows, a different dtype or device, or no room.
        """
        # 1. Check that cached and new tokens fit into the context. Only attention uses positions.
        past = past_length(tokens, cache, self.config)
        x = self.embed(tokens)  # (B, T, d_model)
        # 2. Apply the blocks in turn, each with its own layer of the cache. Compute the cosines and sines of
        #    these positions once: the layers share their angles.
        rotation = None
        for layer, block in enumerate(self.blocks):
            rotation = rotation or rotation_of(block.self_attn, past, x)  # (T, d_k) each
            x = block(x, cache, layer, rotation)  # (B, T, d_model)
        # 3. Normalize, and compute the logits.
        return self.head(self.norm(x))  # (B, T, V)
