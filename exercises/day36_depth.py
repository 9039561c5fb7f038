"""Day 36 · Depth

Lesson  course lesson 36
Hints   course hint 36
Check   course watch 36    (checks at every save; `course check 36` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    LayerNorm(features, eps=1e-5)
        Normalize every vector to mean 0 and variance 1, then scale and shift it.
        called with (x)
            Normalize the last axis, with the biased variance σ² (divisor n); shape and dtype stay.
    CausalSelfAttention(d_model, n_heads, dropout=0.0)
        Attend from each token to itself and to earlier tokens, in h heads.
        called with (x)
            Return the mixed heads; row t depends on `x[:, :t + 1]` alone.
    FeedForward(d_model, d_ff)
        Apply the feed-forward network of day 10 with GELU, a smooth ReLU, and without dropout inside.
        called with (x)
            Map `(…, d_model)` to the same shape and dtype.
"""

import math

from jaxtyping import Float, Int
from torch import Tensor, nn

from implementation import LayerNorm
from variants.gpt import CausalSelfAttention, FeedForward


class ParallelBlock(nn.Module):
    """One layer of a decoder in which attention and feed-forward network do not wait for each other.

        serial, day 23   h = x + Attention(LN₁(x)),   y = h + FFN(LN₂(h))
        parallel         y = x + Attention(LN(x)) + FFN(LN(x))

    Args:
        d_model: width of the tokens' vectors.
        n_heads: the number of heads; it divides d_model.
        d_ff: width of the network's hidden layer.
        dropout: the probability with which an attention weight, a feature of attention's output, or a
            feature of the network's output is dropped in training. The two outputs are dropped before
            they are added, independently of each other.

    Attributes:
        norm: the one `LayerNorm(d_model)` of day 11, for both.
        self_attn: a `CausalSelfAttention(d_model, n_heads, dropout)` of day 23.
        feed_forward: a `FeedForward(d_model, d_ff)` of day 23.

        These three hold all parameters, and nothing else stands in the state dict. They start as they
        start by themselves.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Wang & Komatsuzaki 2021, *GPT-J-6B*, the published code (mesh-transformer-jax); the formula:
    Chowdhery et al. 2022, *PaLM*, §2, "Parallel Layers". Dropout as in the GPT-J of `transformers`.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        # 1. One norm, the two parts, and the dropout of what they give.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype; T = 0 gives `(B, 0, d_model)`.

        Row t of the output depends on `x[:, :t + 1]` alone. `x` stays as it is.
        """
        # 1. Norm once: both parts read the same.
        # 2. Look around, and think, neither knowing of the other.
        # 3. Add both to the block's input, which no norm has touched.
        raise NotImplementedError


class MixtureOfDepths(nn.Module):
    """A block for the tokens that a router chooses, and a bare shortcut for all others.

        yᵢ = xᵢ + rᵢ f(X̃)ᵢ    where i is among the k largest of r₁ … r_T
        yᵢ = xᵢ               elsewhere

        rᵢ = wᵀ xᵢ,    f(X̃) = block(X̃) − X̃,    k = ⌊capacity · T⌋, and at least 1

    Args:
        block: called once as `block(x)` on `(B, k, d_model)`, which it maps to the same shape; such as a
            `Block` of day 23, or a `ParallelBlock`. Its own shortcuts are inside, so what a token gains in
            it is what comes out less what went in.
        d_model: width of the tokens' vectors.
        capacity: the share of a sequence's tokens that the block works on, 0 < capacity ≤ 1. capacity · T
            is rounded down, and is never less than 1. What only the rounding of floats keeps below a whole
            number counts as that number: of 100 tokens 0.29 are 29, though 0.29 * 100 is
            28.999999999999996.

    Attributes:
        block: as given.
        router: `nn.Linear(d_model, 1, bias=False)`, started as torch does. Besides the block's there are
            no other parameters, and nothing else in the state dict.
        capacity: as given.

    Raises:
        ValueError: a capacity that is not above 0, or is above 1.

    Source: Raposo et al. 2024, *Mixture-of-Depths: Dynamically allocating compute in transformer-based
    language models*, §3.4, eq. 1; expert-choice routing by top-k: §3.3.
    """

    def __init__(self, block: nn.Module, d_model: int, capacity: float):
        super().__init__()
        # 1. Keep the block and the share. One score for each token, without a bias.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype; T = 0 gives `(B, 0, d_model)`.

        The block sees the chosen tokens of each row alone, in the order of their positions: what is causal
        in it stays causal among them. All others come out exactly as they went in. With a capacity of 1
        all tokens go through the block, and r still multiplies what they gain. `x` stays as it is.

        The choice itself has no gradient. Through r, which multiplies, gradients reach the router and,
        beside those through the block and the shortcut, `x`.
        """
        # 1. Choose, and take the chosen tokens out of each row.
        # 2. What each of them gains in the block, times its weight.
        # 3. Add it where they came from; nothing is added elsewhere.
        raise NotImplementedError

    def choose(
        self, x: Float[Tensor, "B T d_model"]
    ) -> tuple[Float[Tensor, "B k"], Int[Tensor, "B k"]]:
        """The router's weights of the chosen tokens, and their places, for each row by itself.

        Args:
            x: `(B, T, d_model)`; T may be 0, and then k is 0.

        Returns:
            r of the chosen tokens, `(B, k)` in the dtype of `x`, as the projection gives it, with no
            softmax and no sigmoid; and their places in the row, int64 `(B, k)`, in ascending order. There
            are always k: of equal scores at the border as many are taken as there is room for, and which
            of them is left open.
        """
        # 1. Score every token by itself.
        # 2. How many may pass: the share, rounded down, and one at least where there is one. The product's
        #    own rounding error is far below 10⁻⁹.
        # 3. The k with the largest scores, back in the order of their positions.
        raise NotImplementedError
