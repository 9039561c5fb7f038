"""Day 23 · GPT

Lesson  course lesson 23
Hints   course hint 23
Check   course watch 23    (checks at every save; `course check 23` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    LayerNorm(features, eps=1e-5)
        Normalize every vector to mean 0 and variance 1, then scale and shift it.
        called with (x)
            Normalize the last axis, with the biased variance σ² (divisor n).
    attention(query, key, value, mask=None, dropout=None)
        Compute scaled dot-product attention: each query's output is a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`, after dropout.
    clones(module, n)
        Return n deep copies of a module, as an `nn.ModuleList`.
    Block(size, self_attn, feed_forward, dropout)
        One layer of GPT-2: an encoder layer in pre-norm, whose attention needs nothing but the tokens.
        called with (x)
            From `(B, T, d_model)` to the same shape and dtype.
    FeedForward(d_model, d_ff)
        The feed-forward network of day 10 with GELU, a smooth ReLU, and without dropout inside.
        called with (x)
            From `(…, d_model)` to the same shape and dtype.
    GPTConfig(vocab=50257, context=1024, n_layers=12, n_heads=12, d_model=768, d_ff=3072, dropout=0.1)
        The sizes of a GPT.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from implementation import LayerNorm, attention, clones
from variants.gpt import Block, FeedForward, GPTConfig


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
        # 1. Keep the number of heads. One projection into query, key and value, one for the output,
        #    and the dropout of the weights.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype; T = 0 gives `(B, 0, d_model)`.

        Row t of the output depends on `x[:, :t + 1]` alone.
        """
        # 1. Project once, and cut the result into query, key and value.
        # 2. Split the last axis of each into heads.
        # 3. Attend to oneself and to what came before.
        # 4. Join the heads, and mix them by the output projection.
        raise NotImplementedError


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
        # 2. The blocks with weights of their own, and the final norm.
        # 3. Start every matrix at N(0, 0.02²), those that write into the shortcut smaller: their 2 N
        #    outputs add up. Biases start at 0.
        raise NotImplementedError

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
        # 1. Look up the tokens and their positions, add, and drop some features of the sum.
        # 2. Through the blocks in turn, then through the final norm.
        # 3. Score each token of the vocabulary by the product with its embedding.
        raise NotImplementedError
