"""Day 23 · GPT

Lesson  course lesson 23
Hints   course hint 23     (one more each time; the first gives the steps of one way)
Check   course watch 23    (checks at every save; `course check 23` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    Block(size, self_attn, feed_forward, dropout)
        Apply one layer of GPT-2: pre-norm causal self-attention, then the feed-forward network.
        called with (x, **attention_args)
            Map `(B, T, d_model)` to the same shape and dtype.
    FeedForward(d_model, d_ff)
        Apply the feed-forward network of day 10 with GELU, a smooth ReLU, and without dropout inside.
        called with (x)
            Map `(…, d_model)` to the same shape and dtype.
    GPTConfig(vocab=50257, context=1024, n_layers=12, n_heads=12, d_model=768, d_ff=3072, dropout=0.1)
        The sizes of a GPT; by default those of the smallest GPT-2, which has 124 million parameters.
    LayerNorm
        Apply the LayerNorm of day 11, in one kernel of PyTorch.
        called with (x)
            Normalize the last axis, then scale and shift it.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.gpt import Block, FeedForward, GPTConfig, LayerNorm


class CausalSelfAttention(nn.Module):
    """Attend from each token to itself and to earlier tokens, in h heads.

        headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k + M) Vᵢ,  M = 0 where the key is no later than the query, else −∞

    - `dropout` is the probability of dropping an attention weight in training. The output is not dropped
      here: the block does that.
    - `w_qkv` is an `nn.Linear(d_model, 3 · d_model)` with a bias. Its outputs are the query, the key and the
      value, d_model features each, side by side in that order. Within each of the three, head i, counted
      from 0, has features i·d_k to (i+1)·d_k − 1.
    - Attend by PyTorch's `F.scaled_dot_product_attention`, by day 8's `attention` (from `implementation`),
      or by your own code.
    - `w_o` is an `nn.Linear(d_model, d_model)` with a bias. The state dict holds the parameters of
      `w_qkv` and `w_o`, and nothing else.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2 and §3.2.3; one projection for the three, and biases: OpenAI's
    published code of GPT-2.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Return the output; row t depends on `x[:, :t + 1]` alone.

        The result has the shape and dtype of `x`, `(B, T, d_model)`. T = 0 gives `(B, 0, d_model)`.
        """
        raise NotImplementedError


class GPT(nn.Module):
    """Predict the next token at every position, from that token and those before it.

        h₀ = Dropout(W_e[tokens] + W_p[0 … T − 1])
        hₙ = Block(hₙ₋₁), n = 1 … N
        logits = LN(h_N) W_eᵀ

    - `config` is stored as given; `generate` reads `config.context`.
    - `embed` is W_e, an `nn.Embedding(vocab, d_model)`. It is the output projection, too: the head is
      tied, has no bias, and is not a separate parameter.
    - `positions` is W_p, an `nn.Embedding(context, d_model)`, learned.
    - `blocks` is an `nn.ModuleList` of N `Block`s, each with a `CausalSelfAttention` and a `FeedForward`.
    - `norm` is the final `LayerNorm(d_model)`.
    - The state dict holds the parameters of these four modules, and nothing else.
    - Every matrix, including both embeddings, is initialized from N(0, 0.02²). Only the 2 N matrices
      that write to the residual stream, each block's `self_attn.w_o` and `feed_forward.w_2`, have a
      standard deviation of 0.02 / √(2 N). Biases are initialized to 0, and gains to 1. Every block is
      drawn independently.
    - `config.dropout` applies to the sum of the embeddings, to attention weights, and to each
      sublayer's output. `d_ff` does not depend on d_model: it is a separate field.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Radford et al. 2018, §3.1, eq. 2, and §4.1 (0.02, learned positions, dropout); Radford et al.
    2019, §2.3 (where the norms are, the smaller initialization of the residual layers).
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        raise NotImplementedError

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Return the logits of the token after each position, without a softmax.

        - `tokens` are ids `(B, T)`, T ≤ context. There is no padding: the first token of a row is at position
          0. If a shorter row is padded at its end, the logits before the padding do not change.
        - The logits `(B, T, V)` have the weights' dtype. Row t scores the token after `tokens[:, t]`, from
          `tokens[:, :t + 1]` alone. T = 0 gives `(B, 0, V)`.

        Raises:
            ValueError: more tokens than `config.context`.
        """
        raise NotImplementedError
