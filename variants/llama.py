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
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.activations import SwiGLU
from variants.grouped_query import GroupedQueryAttention
from variants.kv_cache import CachedBlock, KVCache, past_length
from variants.norms import RMSNorm
from variants.rope import apply_rope, rope_angles

# --- Day 32 · LLaMA -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LLaMAConfig:
    """The sizes of a LLaMA. The defaults are those of the smallest one in the paper, 6.7 billion parameters.

    `context` is the maximum number of tokens, those in a cache included. n_heads divides d_model into an even
    d_k, and n_kv_heads divides n_heads. `base` is that of the angles: 500,000 in LLaMA 3.

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


class RotaryAttention(GroupedQueryAttention):
    """Attend with grouped queries and rotated queries and keys, with or without a cache.

    `angles` is `rope_angles(d_k, context, base)`, one tensor for all layers. It is neither a parameter nor a
    buffer: `model.to(torch.bfloat16)` would round a buffer, and from position 256 on neighboring positions
    would share an angle.

    Source: Touvron et al. 2023, §2.2; the halves layout: Hugging Face's conversion (Meta's
    own code rotates interleaved pairs).
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, angles: Tensor):
        super().__init__(d_model, n_heads, n_kv_heads)
        self.angles = angles  # (context, pairs)

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: KVCache | None = None,
        layer: int | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token of a chunk to itself and to all earlier ones.

        The cache holds rotated keys. The chunk starts at position `cache.length`, which does not count the
        chunk before the last layer has appended it.
        """
        query, key, value = self.project(
            x
        )  # (B, n_heads, T, d_k), then twice (B, n_kv_heads, T, d_k)
        past = 0 if cache is None else cache.length
        angles = self.angles[past : past + x.size(1)]  # (T, pairs)
        if x.device.type != "mps":  # MPS has no float64: there the angles stay on the CPU
            angles = angles.to(x.device)
        query = apply_rope(query, angles, layout="halves")  # (B, n_heads, T, d_k)
        key = apply_rope(key, angles, layout="halves")  # (B, n_kv_heads, T, d_k)
        if cache is not None:
            key, value = cache.update(layer, key, value)  # (B, n_kv_heads, T_k, d_k) each
        return self.w_o(self.attend(query, key, value))  # (B, T, d_model)


class LLaMABlock(CachedBlock):
    """Apply one layer of LLaMA, called as `block(x, cache, layer)`.

        x ← x + Attention(RMSNorm(x))
        x ← x + SwiGLU(RMSNorm(x))

    Source: Touvron et al. 2023, §2.2.
    """

    def __init__(self, config: LLaMAConfig, angles: Tensor):
        attention = RotaryAttention(config.d_model, config.n_heads, config.n_kv_heads, angles)
        feed_forward = SwiGLU(config.d_model, config.d_ff)
        super().__init__(config.d_model, attention, feed_forward, dropout=0.0)
        for connection in self.sublayer:
            connection.norm = RMSNorm(config.d_model, config.eps)


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
        past_length(tokens, cache, self.config)
        x = self.embed(tokens)  # (B, T, d_model)
        # 2. Apply the blocks in turn, each with its own layer of the cache.
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)  # (B, T, d_model)
        # 3. Normalize, and compute the logits.
        return self.head(self.norm(x))  # (B, T, V)
