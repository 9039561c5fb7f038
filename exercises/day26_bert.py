"""Day 26 · BERT

Lesson  course lesson 26
Hints   course hint 26
Check   course watch 26    (checks at every save; `course check 26` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

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
        The sizes of a BERT.
    FeedForward(d_model, d_ff)
        The feed-forward network of day 10 with GELU, as it is defined, and without dropout inside.
        called with (x)
            From `(…, d_model)` to the same shape and dtype.
    Layer(size, self_attn, feed_forward, dropout, eps)
        One layer of BERT: an encoder layer in post-norm, whose norms have an ε of their own.
    Transform(d_model, eps)
        What the head does to each state before it is compared with the embeddings.
        called with (x)
            From `(…, d_model)` to the same shape and dtype.
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
    """Make an exercise of a text: choose some tokens, hide most of them, and ask for all of them.

    Each token that is not special is chosen with probability p. A chosen one becomes

        with probability 0.8    the token `mask_id`
        with probability 0.1    a random token, each of the V as likely, special ones and itself too
        with probability 0.1    what it was

    so that no token can be trusted, and the model learns something about those, too, that are not
    hidden: once it is put to use, no text holds a mask.

    Args:
        tokens: int64 ids of any shape, such as `(B, T)`; also empty.
        mask_id: the token that hides another.
        vocab: V, the number of tokens.
        special: ids that are never chosen, such as those of padding, [CLS] and [SEP], as a list, tuple or
            set; may be empty. `mask_id` need not be among them: text holds none.
        p: the probability with which a token is chosen. 0 chooses none, 1 all but the special.
        generator: where the randomness comes from, on the device of `tokens`; None for torch's own. Equal
            states give equal results, and a draw changes the state.

    Returns:
        Inputs and labels, in that order: new tensors of the shape, dtype and device of `tokens`, which
        stays as it is. A label is what the token was where it was chosen, also where it stays what it
        was, and −100 elsewhere, which `F.cross_entropy` leaves out. Tokens that were not chosen stand in
        the inputs unchanged. Every token's fate is independent of all the others': a row may have more
        or fewer than its share chosen, or none.

    Raises:
        ValueError: `mask_id`, or one of `special`, outside 0 to V − 1, or p outside 0 to 1.

    Source: Devlin et al. 2018, §3.1, task #1, and appendix A.1. The published code chooses a fixed
    number of each row's tokens, 15% of its length; to draw for each alone is the way of `transformers`.
    """
    # 1. Choose each token with probability p, but no special one.
    # 2. The labels: what the chosen tokens were.
    # 3. Draw once more for every token: one number from 0 to 1, cut at 0.8 and at 0.9, says what becomes
    #    of it if it was chosen.
    # 4. Put the mask and the random tokens in their places, in a copy. The others stay.
    raise NotImplementedError


class BERT(nn.Module):
    """The whole: from a text with gaps to scores of what belongs at every position.

        x₀ = Dropout(LN(W_e[tokens] + W_p[0 … T − 1] + W_s[segments]))
        xₙ = Layer(xₙ₋₁), n = 1 … N
        logits = Transform(x_N) W_eᵀ + b

    Args:
        config: a `BERTConfig`.

    Attributes:
        config: as given.
        embed: W_e, `nn.Embedding(vocab, d_model)`, without a padding index. It is the output projection
            as well: the head is tied, and has no matrix of that shape of its own.
        positions: W_p, `nn.Embedding(context, d_model)`, learnt.
        segments: W_s, `nn.Embedding(config.segments, d_model)`.
        norm: a `LayerNorm(d_model, eps)`, on the sum of the three, before the dropout.
        encoder: an `Encoder` of N `Layer`s, each of a `MultiHeadedAttention` and a `FeedForward`, with
            the config's dropout on attention weights and on both shortcuts.
        transform: a `Transform(d_model, eps)`.
        bias: b, `(V,)`, a parameter, free: nothing else is tied to it.

        These seven hold all parameters, and nothing else stands in the state dict. Every matrix, the
        three tables among them, starts at N(0, 0.02²), cut off at two deviations, ±0.04. Biases start at
        0, gains at 1.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Devlin et al. 2018, §3 (the layers; Input/Output Representations and figure 2: the sum of the
    three), §3.1 and appendix A.2; the norm of the sum, the head and the start: the published code.
    """

    def __init__(self, config: BERTConfig):
        super().__init__()
        # 1. Keep the config. Tables for tokens, positions and segments, the norm of their sum, and its
        #    dropout.
        # 2. The stack of layers.
        # 3. The head: a transform, and a bias for each token of the vocabulary.
        # 4. Start every matrix at N(0, 0.02²), cut off at two deviations; biases at 0.
        raise NotImplementedError

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None = None,
        mask: Bool[Tensor, "#B #T T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Score what belongs at each position.

        Args:
            tokens: ids `(B, T)`, T ≤ context, such as the inputs of `mask_tokens`. The first token of a
                row stands at position 0.
            segments: the segment of each token, from 0 to `config.segments` − 1, `(B, T)`. None: all are 0.
            mask: True where a token may be attended to, `(1|B, 1|T, T)`, as for the `Encoder`: `(B, 1, T)`
                hides padding. None: all may be. A hidden token is scored all the same.

        Returns:
            Logits `(B, T, V)` in the weights' dtype. They are not normed: no softmax is applied. Without
            a mask every row of them depends on all T tokens, before and after it. T = 0 gives
            `(B, 0, V)`.

        Raises:
            ValueError: more tokens than `config.context`, segments of another shape than `tokens`, or a
                mask that is not boolean, or of another shape.
        """
        # 1. Look up tokens, positions and segments, and add. Norm the sum, then drop some features.
        # 2. Through the layers.
        # 3. Transform, and score each token of the vocabulary by the product with its embedding, and by
        #    its bias.
        raise NotImplementedError
