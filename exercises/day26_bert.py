"""Day 26 · BERT

Lesson  course lesson 26
Hints   course hint 26     (one more each time; the first gives the steps of one way)
Check   course watch 26    (checks at every save; `course check 26` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    Encoder(layer, n)
        Apply N encoder layers in turn; in pre-norm, a final LayerNorm normalizes the result.
        called with (x, mask=None)
            Return the encoded source; every layer gets the same `mask`.
    LayerNorm(features, eps=1e-5)
        Normalize every vector to mean 0 and variance 1, then scale and shift it.
        called with (x)
            Normalize the last axis, with the biased variance σ² (divisor n).
    MultiHeadedAttention(h, d_model, dropout=0.1)
        Attend in h subspaces at once, each with its own projections; d_k = d_v = d_model / h.
        called with (query, key, value, mask=None)
            Attend from `query` to `key` and `value`; the mask applies to every head.
    BERTConfig(vocab=30522, context=512, n_layers=12, n_heads=12, d_model=768, d_ff=3072, dropout=0.1,
            eps=1e-12, segments=2)
        The sizes of a BERT; the defaults are BERT-base, uncased, with 110 million parameters.
    FeedForward(d_model, d_ff)
        The feed-forward network of day 10 with exact GELU, and without dropout inside.
        called with (x)
            Transform each position separately.
    Layer(size, self_attn, feed_forward, dropout, eps)
        One layer of BERT: a post-norm encoder layer whose norms have BERT's ε.
    Transform(d_model, eps)
        The head's transform of each state before the product with the embeddings.
        called with (x)
            Transform each state separately.
"""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from implementation import Encoder, LayerNorm, MultiHeadedAttention
from variants.bert import BERTConfig, FeedForward, Layer, Transform


def mask_tokens(
    tokens: Int[Tensor, "*batch T"],
    mask_id: int,
    vocab: int,
    special: Collection[int],
    p: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "*batch T"], Int[Tensor, "*batch T"]]:
    """Select tokens for prediction, and mask most of them; return the inputs and the labels.

    Each token that is not special is selected with probability p. A selected token becomes

        with probability 0.8    the token `mask_id`
        with probability 0.1    a random token, uniform over all V
        with probability 0.1    itself

    The inputs of a fine-tuned model have no masks: because any token may be wrong, the model also learns
    representations of unmasked tokens. Labels are −100 where nothing is predicted, which
    `F.cross_entropy` ignores.

    - `tokens` are int64 ids of any shape, such as `(B, T)`; the tensor may be empty.
    - `special` is a list, tuple or set of ids that are never selected, such as those of padding, [CLS]
      and [SEP]; it may be empty. `mask_id` need not be among them: text does not contain it.
    - With p = 0 no token is selected; with p = 1, all tokens except the special ones are.
    - `generator` is the source of randomness, on the device of `tokens`; None means PyTorch's own.
      Equal states give equal results, and a call changes the state.
    - Return inputs and labels, in that order: new tensors with the shape, dtype and device of `tokens`,
      which is not changed. The label of a selected token is the original token, even if the input still
      contains it. All other labels are −100, and all other inputs are unchanged.
    - A random token may be any of the V tokens, including special tokens and the original.
    - Every token is drawn independently: a row may have more or fewer selected tokens than p · T, or
      none.

    Raises:
        ValueError: `mask_id` or an id in `special` outside 0 to V − 1, or p outside 0 to 1.

    Source: Devlin et al. 2018, §3.1, task #1, and appendix A.1. The published code selects exactly 15% of
    each row's tokens; `transformers` draws for each token separately, as here.
    """
    raise NotImplementedError


class BERT(nn.Module):
    """The complete BERT: from a masked text to the logits of every position.

        x₀ = Dropout(LN(W_e[tokens] + W_p[0 … T − 1] + W_s[segments]))
        xₙ = Layer(xₙ₋₁), n = 1 … N
        logits = Transform(x_N) W_eᵀ + b

    The output layer is tied to `embed`; its bias is a separate parameter. Every matrix is initialized from
    N(0, 0.02²), truncated at ±0.04, biases to 0 and gains to 1.

    - `config` is a `BERTConfig`, stored as given.
    - `embed` is W_e, `nn.Embedding(vocab, d_model)`, without a padding index. The output layer uses
      this matrix, too, and has no other.
    - `positions` is W_p, `nn.Embedding(context, d_model)`, and `segments` is W_s,
      `nn.Embedding(config.segments, d_model)`.
    - `norm` is a `LayerNorm(d_model, eps)`, applied to the sum of the three, before the dropout.
    - `encoder` is an `Encoder` of N `Layer`s, each with a `MultiHeadedAttention` and a `FeedForward`,
      and the config's dropout on attention weights and on both residual branches.
    - `transform` is a `Transform(d_model, eps)`, and `bias` is b, a parameter `(V,)` that is not
      tied.
    - These seven attributes hold all parameters, and nothing else is in the state dict.

    Raises:
        ValueError: n_heads does not divide d_model; more tokens than `context`, segments that are not shaped
            like `tokens`, or a mask that is not boolean or has a wrong shape.

    Source: Devlin et al. 2018, §3 (the layers; Input/Output Representations and figure 2: the sum of the
    three), §3.1 and appendix A.2; the norm of the sum, the head, initialization: the published code.
    """

    def __init__(self, config: BERTConfig):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None = None,
        mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of each position, which depend on the tokens on both sides.

        `segments` is from 0 to `config.segments` − 1, and all 0 if None. `mask` is True where a token may be
        attended to; `(B, 1, T)` hides padding.

        - `tokens` are ids `(B, T)`, T ≤ context, such as the inputs of `mask_tokens`. The first token of
          a row has position 0. `segments` is `(B, T)`.
        - `mask` is `(1|B, 1|T, T)`, as for the `Encoder`; None means that all tokens may be attended to.
          A token that is hidden as a key still gets logits.
        - The logits are `(B, T, V)`, in the weights' dtype; no softmax is applied. T = 0 gives `(B, 0,
          V)`.
        """
        raise NotImplementedError
