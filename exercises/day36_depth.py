"""Day 36 · Depth

Lesson  course lesson 36
Hints   course hint 36     (one more each time; the first gives the steps of one way)
Check   course watch 36    (checks at every save; `course check 36` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    LayerNorm(features, eps=1e-5)
        Normalize every vector to mean 0 and variance 1, then scale and shift it.
        called with (x)
            Normalize the last axis, with the biased variance σ² (divisor n).
    CausalSelfAttention(d_model, n_heads, dropout=0.0)
        Attend from each token to itself and to earlier tokens, in h heads.
        called with (x, cache=None, layer=None)
            Return the output; row t depends on `x[:, :t + 1]` alone.
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
    """Apply causal attention and a feed-forward network to the same normalized input, and add both.

        serial, day 23   h = x + Attention(LN₁(x)),   y = h + FFN(LN₂(h))
        parallel         y = x + Attention(LN(x)) + FFN(LN(x))

    - `d_model` is the width of the tokens' vectors, `d_ff` that of the feed-forward network's hidden
      layer.
    - `dropout` is the probability with which an attention weight, a feature of attention's output, or a
      feature of the feed-forward network's output is dropped in training. The two outputs are dropped
      before they are added, independently of each other.
    - `norm` is the one `LayerNorm(d_model)` for both parts, `self_attn` a `CausalSelfAttention(d_model,
      n_heads, dropout)`, and `feed_forward` a `FeedForward(d_model, d_ff)`. These modules hold all
      parameters, and nothing else is in the state dict. Do not initialize them again.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Wang & Komatsuzaki 2021, *GPT-J-6B*, the published code (mesh-transformer-jax); the formula:
    Chowdhery et al. 2022, *PaLM*, §2, "Parallel Layers". Dropout as in the GPT-J of `transformers`.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Return the block's output; row t depends on `x[:, :t + 1]` alone.

        - `(B, T, d_model)` keeps its shape and dtype; T = 0 returns `(B, 0, d_model)`.
        - `x` is not changed.
        """
        raise NotImplementedError


class MixtureOfDepths(nn.Module):
    """Apply a block to the tokens that a router chooses, and the residual connection alone to the others.

        yᵢ = xᵢ + rᵢ f(X̃)ᵢ    if rᵢ is among the k largest of r₁ … r_T
        yᵢ = xᵢ               otherwise

        rᵢ = wᵀ xᵢ,    f(X̃) = block(X̃) − X̃,    k = ⌊capacity · T⌋, and at least 1

    The choice depends on later tokens, so the layer is not causal. The block is not given the positions of
    the chosen tokens.

    - `block` is called once, as `block(x)`, on `(B, k, d_model)`, and keeps the shape. It is, for
      example, a `Block` of day 23, or a `ParallelBlock`. Its residual connections are inside it, so
      what it adds to a token is its output minus its input.
    - `capacity` is the share of a sequence's tokens that the block processes. capacity · T is rounded
      down, and never below 1. If only floating-point rounding keeps the product below a whole number,
      use that whole number: 0.29 of 100 tokens are 29, although 0.29 * 100 is 28.999999999999996.
    - `block` and `capacity` are stored as given. `router` is `nn.Linear(d_model, 1, bias=False)`, with
      PyTorch's default initialization. The state dict holds only the parameters of the block and the
      router.

    Raises:
        ValueError: a capacity that is not above 0, or is above 1.

    Source: Raposo et al. 2024, *Mixture-of-Depths: Dynamically allocating compute in transformer-based
    language models*, §3.4, eq. 1; expert-choice routing by top-k: §3.3.
    """

    def __init__(self, block: nn.Module, d_model: int, capacity: float):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Return the layer's output; the block sees the chosen tokens in the order of their positions.

        The choice has no gradient. Through r, which multiplies, gradients reach the router.

        - `(B, T, d_model)` keeps its shape and dtype; T = 0 returns `(B, 0, d_model)`. `x` is not changed.
        - The block gets only the chosen tokens of each row, in the order of their positions, so a causal
          block stays causal among them. All other tokens are returned unchanged.
        - With a capacity of 1, all tokens go through the block, and r still multiplies what it adds.
        - `x` gets gradients through the block, through the residual connection, and through r.
        """
        raise NotImplementedError

    def choose(
        self, x: Float[Tensor, "B T d_model"]
    ) -> tuple[Float[Tensor, "B k"], Int[Tensor, "B k"]]:
        """Return the scores r of each row's chosen tokens, and their positions in ascending order.

        - Return r of the chosen tokens, `(B, k)` in the dtype of `x`, as the projection returns it, without
          softmax or sigmoid; and their positions in the row, int64 `(B, k)`, in ascending order.
        - Exactly k tokens are chosen, even where scores are equal; of several tokens with equal scores, you
          may choose any. T may be 0, and then k is 0.
        """
        raise NotImplementedError
