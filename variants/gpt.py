"""GPT-2: a Transformer's decoder that has no source, and so is a language model.

Papers: Radford et al. 2018, *Improving Language Understanding by Generative Pre-Training* (GPT), and
Radford et al. 2019, *Language Models are Unsupervised Multitask Learners* (GPT-2); § and eq. below are
theirs. What is new after `implementation.py`: attention to the source is gone, the norm comes first,
positions are learnt, ReLU becomes GELU, and the embedding serves as the output projection.

From symbols to names
    B               batch: sequences worked on side by side
    T               time: tokens of a sequence, at most `context`
    V               vocab, tokens in the vocabulary
    N               n_layers, blocks in the stack
    h               n_heads
    d_model         width of a token's vector everywhere between the blocks
    d_k             width of a query, key or value inside one head: d_model / h
    d_ff            width of the hidden layer of the feed-forward network; 4 · d_model in GPT-2
    W_e, W_p        `embed.weight`, `positions.weight`
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from implementation import (
    EncoderLayer,
    LayerNorm,
    PositionwiseFeedForward,
    attention,
    clones,
)


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT. The defaults are the smallest GPT-2, of 124 million parameters.

    Attributes:
        vocab: V, the number of tokens.
        context: the most tokens that the model can read at once: positions in its table.
        n_layers: N, the number of blocks.
        n_heads: h; it divides d_model.
        d_model: width of the tokens' vectors.
        d_ff: width of the feed-forward networks' hidden layer. It does not follow d_model by itself.
        dropout: the probability with which a feature of the embedding, an attention weight, or a
            feature of a sublayer's output is dropped in training.

    Source: Radford et al. 2019, table 2 and §2.3; dropout, and d_ff = 4 · d_model: Radford et al. 2018,
    §4.1.
    """

    vocab: int = 50257
    context: int = 1024
    n_layers: int = 12
    n_heads: int = 12
    d_model: int = 768
    d_ff: int = 3072
    dropout: float = 0.1


class CausalSelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself, in which no token sees a later one.

        headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k + M) Vᵢ,  M = 0 where the key is no later than the query, else −∞

    Args:
        d_model: width of the tokens' vectors.
        n_heads: h; it divides d_model.
        dropout: the probability with which an attention weight is dropped in training. The output
            is not dropped here: the block does that.

    Attributes:
        w_qkv: `nn.Linear(d_model, 3 · d_model)` with a bias: its outputs are the query, the key and
            the value, d_model features each, side by side in that order. Within each of the three
            head i, counted from 0, owns features i·d_k to (i+1)·d_k − 1.
        w_o: `nn.Linear(d_model, d_model)` with a bias. Nothing else is a parameter, or stands in the
            state dict.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2 and §3.2.3; one projection for the three, and biases: OpenAI's
    published code of GPT-2.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        if n_heads < 1 or d_model % n_heads != 0:
            raise ValueError(
                f"n_heads must divide d_model, and {n_heads} does not divide {d_model}"
            )
        # 1. Keep the number of heads. One projection into query, key and value, one for the output,
        #    and the dropout of the weights.
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype; T = 0 gives `(B, 0, d_model)`.

        Row t of the output depends on `x[:, :t + 1]` alone.
        """
        # 1. Project once, and cut the result into query, key and value.
        query, key, value = self.w_qkv(x).chunk(3, dim=-1)  # (B, T, d_model) each
        # 2. Split the last axis of each into heads.
        query = query.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T, d_k)
        key = key.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T, d_k)
        value = value.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, h, T, d_k)
        # 3. Attend to oneself and to what came before.
        size = x.size(1)
        mask = torch.ones(1, size, size, dtype=torch.bool, device=x.device).tril()  # (1, T, T)
        heads, _ = attention(query, key, value, mask, self.dropout)  # (B, h, T, d_k)
        # 4. Join the heads, and mix them by the output projection.
        return self.w_o(heads.transpose(1, 2).flatten(-2))  # (B, T, d_model)


class FeedForward(PositionwiseFeedForward):
    """The feed-forward network of day 10 with GELU, a smooth ReLU, and without dropout inside.

        FFN(x) = GELU(x W₁ + b₁) W₂ + b₂
        GELU(x) = ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))

    Args:
        d_model: width of the tokens' vectors.
        d_ff: width of the hidden layer.

    Attributes:
        w_1: `nn.Linear(d_model, d_ff)`.
        w_2: `nn.Linear(d_ff, d_model)`.

    Source: Radford et al. 2018, §4.1; Hendrycks & Gimpel 2016, *Gaussian Error Linear Units*, §2, the
    approximation by tanh.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__(d_model, d_ff, dropout=0.0)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """From `(…, d_model)` to the same shape and dtype."""
        hidden = F.gelu(self.w_1(x), approximate="tanh")  # (…, d_ff)
        return self.w_2(hidden)  # (…, d_model)


class Block(EncoderLayer):
    """One layer of GPT-2: an encoder layer in pre-norm, whose attention needs nothing but the tokens.

        x ← x + Dropout(Attention(LN(x)))
        x ← x + Dropout(FFN(LN(x)))

    Args:
        size: d_model.
        self_attn: called as `self_attn(x)`, such as a `CausalSelfAttention`.
        feed_forward: called likewise, such as a `FeedForward`.
        dropout: that of both shortcuts.

    Attributes:
        self_attn, feed_forward: the parts, as given.
        sublayer: two pre-norm `SublayerConnection`s: around attention, around the feed-forward network.
        size: as given.

    Source: Radford et al. 2019, §2.3.
    """

    def __init__(self, size: int, self_attn: nn.Module, feed_forward: nn.Module, dropout: float):
        super().__init__(size, self_attn, feed_forward, dropout, norm="pre")

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype."""
        x = self.sublayer[0](x, self.self_attn)
        return self.sublayer[1](x, self.feed_forward)  # (B, T, d_model)


class GPT(nn.Module):
    """The whole: from the tokens so far to scores of the next one, at every position at once.

        h₀ = Dropout(W_e[tokens] + W_p[0 … T − 1])
        hₙ = Block(hₙ₋₁), n = 1 … N
        logits = LN(h_N) W_eᵀ

    Args:
        config: a `GPTConfig`.

    Attributes:
        config: as given; `generate` reads `config.context`.
        embed: W_e, `nn.Embedding(vocab, d_model)`. It is the output projection as well: the head is
            tied, has no bias, and is no parameter of its own.
        positions: W_p, `nn.Embedding(context, d_model)`, learnt.
        blocks: N `Block`s of a `CausalSelfAttention` and a `FeedForward`, an `nn.ModuleList`.
        norm: the final `LayerNorm(d_model)`.

        These four hold all parameters, and nothing else stands in the state dict. Every matrix, both
        tables among them, starts at N(0, 0.02²); those that write into the shortcut, each block's
        `self_attn.w_o` and `feed_forward.w_2`, at a deviation of 0.02 / √(2 N): there are 2 N of
        them. Biases start at 0, gains at 1.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Radford et al. 2018, §3.1, eq. 2, and §4.1 (0.02, learnt positions, dropout); Radford et al.
    2019, §2.3 (where the norms are, the smaller start of the residual layers).
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        # 1. Keep the config. A table for tokens, one for positions, and the dropout of their sum.
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        # 2. The blocks with weights of their own, and the final norm.
        block = Block(
            config.d_model,
            CausalSelfAttention(config.d_model, config.n_heads, config.dropout),
            FeedForward(config.d_model, config.d_ff),
            config.dropout,
        )
        self.blocks = clones(block, config.n_layers)
        self.norm = LayerNorm(config.d_model)
        # 3. Start every matrix at N(0, 0.02²), those that write into the shortcut smaller: their 2 N
        #    outputs add up. Biases start at 0.
        for name, parameter in self.named_parameters():
            if name.endswith(("w_o.weight", "w_2.weight")):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.n_layers))
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Score what comes next after each token.

        Args:
            tokens: ids `(B, T)`, T ≤ context. There is no padding: the first token of a row stands at
                position 0, and where a shorter row is filled up at its end, what comes before is
                unchanged.

        Returns:
            Logits `(B, T, V)` in the weights' dtype: row t scores the token after `tokens[:, t]`, from
            `tokens[:, :t + 1]` alone. They are not normed: no softmax is applied. T = 0 gives `(B, 0, V)`.

        Raises:
            ValueError: more tokens than `config.context`.
        """
        if tokens.size(1) > self.config.context:
            raise ValueError(
                f"tokens must be at most context = {self.config.context} long, not {tokens.size(1)}"
            )
        # 1. Look up the tokens and their positions, add, and drop some features of the sum.
        positions = torch.arange(tokens.size(1), device=tokens.device)  # (T,)
        x = self.dropout(self.embed(tokens) + self.positions(positions))  # (B, T, d_model)
        # 2. Through the blocks in turn, then through the final norm.
        for block in self.blocks:
            x = block(x)  # (B, T, d_model)
        x = self.norm(x)  # (B, T, d_model)
        # 3. Score each token of the vocabulary by the product with its embedding.
        return F.linear(x, self.embed.weight)  # (B, T, V)
