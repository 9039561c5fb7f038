"""LLaMA: the GPT of day 23 with every part but the attention's core replaced.

Paper: Touvron et al. 2023, *LLaMA: Open and Efficient Foundation Language Models*; LLaMA 2 (Touvron et al.
2023) adds grouped queries, LLaMA 3 (Grattafiori et al. 2024) a base of 500,000. What is new after `gpt.py`:

    LayerNorm                               RMSNorm (day 28)
    GELU, two matrices                      SwiGLU, three (day 28)
    learnt positions, added to the tokens   queries and keys turned, in every layer (day 29)
    keys and values for each head           one set for a group of heads (day 31)
    biases, dropout, the embedding as head  none of the three

From symbols to names
    B, T            batch, time: tokens of a chunk, which are read at once
    V               vocab, tokens in the vocabulary
    N               n_layers, blocks in the stack
    d_model         width of a token's vector everywhere between the blocks
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
    """The sizes of a LLaMA. The defaults are the smallest of the paper, of 6.7 billion parameters.

    Attributes:
        vocab: V, the number of tokens.
        context: the most tokens that the model can read, those in a cache included.
        n_layers: N, the number of blocks.
        n_heads: heads that ask; they divide d_model, and d_model / n_heads is even.
        n_kv_heads: heads that answer; they divide n_heads.
        d_model: width of the tokens' vectors.
        d_ff: width of the feed-forward networks' hidden layer. It does not follow d_model by itself.
        eps: that of every norm.
        base: that of the angles: 10,000 in LLaMA 1 and 2, 500,000 in LLaMA 3.

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
    """Grouped-query attention between turned queries and keys, with or without a cache.

    Args:
        d_model, n_heads, n_kv_heads: as for `GroupedQueryAttention`.
        angles: `rope_angles(d_k, context, base)`, one table for all layers.

    Attributes:
        w_q, w_k, w_v, w_o: those of `GroupedQueryAttention`, and nothing else in the state dict.
        angles: as given: no parameter, and no buffer either. `model.to(torch.bfloat16)` would round a
            buffer, and from position 256 on neighbours would share an angle.

    Source: Touvron et al. 2023, §2.2; the halves layout: Hugging Face's published weights.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, angles: Tensor):
        super().__init__(d_model, n_heads, n_kv_heads)
        self.angles = angles  # (context, pairs)

    def forward(
        self, x: Float[Tensor, "B T d_model"], cache: KVCache | None = None, layer: int = 0
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token of a chunk to itself and to all that came before it.

        The cache holds turned keys. The chunk's first position is `cache.length`: every layer is asked in
        turn, and the last one has yet to append its chunk.
        """
        query, key, value = self.project(x)  # (B, n_heads, T, d_k), twice (B, n_kv_heads, T, d_k)
        past = 0 if cache is None else cache.length
        angles = self.angles[past : past + x.size(1)]  # (T, pairs)
        if x.device.type != "mps":  # which has no float64: there the cosines are taken on the CPU
            angles = angles.to(x.device, non_blocking=True)
        query = apply_rope(query, angles, layout="halves")  # (B, n_heads, T, d_k)
        key = apply_rope(key, angles, layout="halves")  # (B, n_kv_heads, T, d_k)
        if cache is not None:
            key, value = cache.update(layer, key, value)  # (B, n_kv_heads, T_k, d_k) each
        return self.w_o(self.attend(query, key, value))  # (B, T, d_model)


class LLaMABlock(CachedBlock):
    """One layer of LLaMA: the pre-norm block of day 23 with other parts.

        x ← x + Attention(RMSNorm(x))
        x ← x + SwiGLU(RMSNorm(x))

    Attributes:
        self_attn: a `RotaryAttention`.
        feed_forward: a `SwiGLU`.
        sublayer: two `SublayerConnection`s, whose `norm` is an `RMSNorm`.

    It is called as `block(x, cache, layer)`.

    Source: Touvron et al. 2023, §2.2.
    """

    def __init__(self, config: LLaMAConfig, angles: Tensor):
        attention = RotaryAttention(config.d_model, config.n_heads, config.n_kv_heads, angles)
        feed_forward = SwiGLU(config.d_model, config.d_ff)
        super().__init__(config.d_model, attention, feed_forward, dropout=0.0)
        for connection in self.sublayer:
            connection.norm = RMSNorm(config.d_model, config.eps)


class LLaMA(nn.Module):
    """The whole: from the tokens so far to scores of the next one, at every position at once.

        h₀ = W_e[tokens]
        hₙ = Block(hₙ₋₁), n = 1 … N
        logits = RMSNorm(h_N) W_oᵀ

    Args:
        config: a `LLaMAConfig`.

    Attributes:
        config: as given; `generate` and `new_cache` read it.
        embed: W_e, `nn.Embedding(vocab, d_model)`.
        blocks: N `LLaMABlock(config, angles)`, an `nn.ModuleList`, called as `block(x, cache, layer)`, layers
            counted from 0. All have the same table, `rope_angles(d_k, context, base)`: numbers also where
            the weights are made without any, on torch's device "meta".
        norm: the final `RMSNorm(d_model, eps)`.
        head: W_o, `nn.Linear(d_model, vocab, bias=False)`, a matrix of its own. (Where a published model
            is tied, as LLaMA 3.2 of 1B is, it holds a copy of the embedding.)

        These four hold all parameters, and nothing else stands in the state dict. Every matrix starts at
        N(0, 0.02²), gains at 1.

    Raises:
        ValueError: n_heads does not divide d_model, n_kv_heads does not divide n_heads, or d_k is odd.

    Source: Touvron et al. 2023, §2.2; the start, which the paper does not give: `initializer_range` of the
    published configurations.
    """

    def __init__(self, config: LLaMAConfig):
        super().__init__()
        if config.n_heads < 1 or config.d_model % config.n_heads != 0:
            raise ValueError(
                f"n_heads must divide d_model, and {config.n_heads} does not divide {config.d_model}"
            )
        # 1. Keep the config, and make the table for tokens. There is none for positions.
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        # 2. The angles of all positions, once for all layers: never on torch's device "meta".
        with torch.device("cpu"):
            angles = rope_angles(
                config.d_model // config.n_heads, config.context, config.base
            )  # (context, pairs)
        # 3. The blocks with weights of their own, the final norm, and the head.
        self.blocks = nn.ModuleList(LLaMABlock(config, angles) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.d_model, config.eps)
        self.head = nn.Linear(config.d_model, config.vocab, bias=False)
        # 4. Start every matrix at N(0, 0.02²).
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(
        self, tokens: Int[Tensor, "B T"], cache: KVCache | None = None
    ) -> Float[Tensor, "B T V"]:
        """Score what comes next after each token of a chunk.

        Args:
            tokens: ids `(B, T)`: the chunk that follows what the cache holds; T may be 0. There is no
                padding: where a shorter row is filled up at its end, what comes before is unchanged.
            cache: a cache of `new_cache(config, B, max_len)` that has read the tokens before these; it
                then has read these too. No gradient passes through it. None: the chunk is the whole text.

        Returns:
            Logits `(B, T, V)` in the weights' dtype: row t scores the token after `tokens[:, t]`, from
            that and all before it. They are not normed: no softmax is applied. A text read in any chunks
            has the logits of the whole, to the dtype's rounding. In half precision the angles are still
            those of float32 or better.

        Raises:
            ValueError: cache and chunk together are more than `config.context`, or a cache that does not
                fit: of other layers, heads or rows, another dtype or device, or without room.
        """
        # 1. Does the chunk fit behind what is held? Its positions enter only in the attention.
        past_length(tokens, cache, self.config)
        x = self.embed(tokens)  # (B, T, d_model)
        # 2. Through the blocks in turn, each with its own layer of the cache.
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)  # (B, T, d_model)
        # 3. Norm, and score each token of the vocabulary.
        return self.head(self.norm(x))  # (B, T, V)
