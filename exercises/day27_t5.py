"""Day 27 · T5

Lesson  course lesson 27
Hints   course hint 27     (one more each time; the first gives the steps of one way)
Check   course watch 27    (checks at every save; `course check 27` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    Decoder(layer, n)
        Apply N decoder layers in turn, all to the same memory; in pre-norm, a final LayerNorm follows.
        called with (x, memory, src_mask=None, tgt_mask=None)
            Return the decoder's output.
    DecoderLayer(size, self_attn, src_attn, feed_forward, dropout, norm="post")
        Apply masked self-attention, cross-attention to the encoder's output, and the feed-forward network.
        called with (x, memory, src_mask=None, tgt_mask=None)
            Return the layer's output; `memory` is the encoder's output.
    Encoder(layer, n)
        Apply N encoder layers in turn; in pre-norm, a final LayerNorm normalizes the result.
        called with (x, mask=None)
            Return the encoded source; every layer gets the same `mask`.
    EncoderLayer(size, self_attn, feed_forward, dropout, norm="post")
        Apply self-attention, then the feed-forward network, each in a `SublayerConnection`.
        called with (x, mask=None)
            Return the layer's output.
    subsequent_mask(size)
        Return the causal mask `(1, size, size)`: True where the key comes no later than the query.
    BiasedAttention(config)
        Multi-head attention with a bias added to its scores, which are not scaled.
        called with (query, key, value, bias)
            Attend from `query` to `key` and `value`, with dropout of the weights.
    FeedForward(config)
        The feed-forward network of day 10 without biases, optionally gated.
        called with (x)
            Transform each position separately, with dropout of the hidden activations.
    T5Config(vocab=32128, n_layers=6, n_heads=8, d_model=512, d_k=64, d_ff=2048, dropout=0.1, eps=1e-06,
            num_buckets=32, max_distance=128, gated=False)
        The sizes of a T5; the defaults are those of T5-Small, with 60 million parameters.
    rms_normed(module, eps)
        Replace every `LayerNorm` in a module by an `nn.RMSNorm` (an exercise on day 28), and return it.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from implementation import Decoder, DecoderLayer, Encoder, EncoderLayer, subsequent_mask
from variants.t5 import BiasedAttention, FeedForward, T5Config, rms_normed


def relative_position_bucket(
    relative_position: Int[Tensor, "*shape"],
    bidirectional: bool,
    num_buckets: int,
    max_distance: int,
) -> Int[Tensor, "*shape"]:
    """Return the buckets of relative positions: one per short distance, shared by long distances.

        bucket(d) = d                                                       if d < m
                    min(n − 1, m + ⌊(n − m) · log(d / m) / log(D / m)⌋)     otherwise

    `relative_position` is key position − query position. If `bidirectional`, d = |relative_position|,
    n = ⌊num_buckets / 2⌋, and keys after the query have buckets n + bucket(d). Otherwise n = num_buckets,
    and keys after the query count as d = 0. m = ⌊n / 2⌋, D = `max_distance`.

    - `relative_position` holds integers of any shape, key position − query position.
    - `num_buckets` is at least 2, or 4 if `bidirectional`; `max_distance` is above m.
    - All distances of D or more share the last bucket of their direction.
    - Return int64 values from 0 to num_buckets − 1, with the shape and device of `relative_position`. ⌊ ⌋
      applies to the exact quotient, not to one with a rounding error: with 32 buckets, bidirectional,
      and D = 128, bucket 10 begins at distance 16 exactly.

    Raises:
        ValueError: `num_buckets` too small, or `max_distance` at most m.

    Source: Raffel et al. 2020, §2.1; the formula is in their code (Mesh TensorFlow).
    """
    raise NotImplementedError


class T5(nn.Module):
    """The complete T5: encode the source once, then compute logits for each target position.

        bias[head, i, j] = table[bucket(j − i), head]; −∞ where query i must not see key j
        memory = Dropout(Encoder(Dropout(E[src]), bias))
        states = Dropout(Decoder(Dropout(E[tgt]), memory, bias))
        logits = states Eᵀ / √d_model

    All layers of a stack share its table, `encoder_bias` or `decoder_bias`; cross-attention has none. The
    output layer is tied to `embed`. Each matrix is initialized separately: E from N(0, 1), the tables from
    N(0, 1/d_model), a linear layer with n inputs from N(0, 1/n), but `w_q` from N(0, 1/(n · d_k)).

    - `config` is a `T5Config`, stored as given.
    - `embed` is E, `nn.Embedding(vocab, d_model)`, shared by source and target. The output layer uses
      E, too: it has no bias and is not a separate parameter.
    - `encoder_bias` and `decoder_bias` are `nn.Embedding(num_buckets, n_heads)`, one table per stack.
      (Published weights store the table in the first layer.)
    - `encoder` is the pre-norm `Encoder` of day 12, whose layers have a `BiasedAttention` and a
      `FeedForward`, and whose norms, in the layers and at its end, are `rms_normed`. Its mask
      argument takes the bias, `(1|B, 1|h, 1|T_q, T_k)`: the layers only pass it on.
    - `decoder` is built likewise from the `Decoder` of day 13. Cross-attention has no table.
    - These five attributes hold all parameters, and nothing else is in the state dict. Gains are
      initialized to 1.

    Raises:
        ValueError: a mask that is not boolean or has a wrong shape; `num_buckets` or `max_distance` that
            `relative_position_bucket` refuses.

    Source: Raffel et al. 2020, §2.1 (norms, bias, dropout); the scale of the logits and the initial
    weights: their code, as in Hugging Face's `T5ForConditionalGeneration`. T5 1.1, the gated one, has an
    untied output layer without the scale; here it is always tied and scaled.
    """

    def __init__(self, config: T5Config):
        super().__init__()
        raise NotImplementedError

    def encode(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "#B 1 S"] | None
    ) -> Float[Tensor, "B S d_model"]:
        """Encode the source into the memory.

        `src` is `(B, S)`, and the memory `(B, S, d_model)`; the mask is that of `forward`.
        """
        raise NotImplementedError

    def decode(
        self,
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B 1 S"] | None,
        tgt: Int[Tensor, "B T"],
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """Decode target tokens into states, which are not scaled yet.

        `tgt` is `(B, T)`, and the states are `(B, T, d_model)`; the masks are those of `forward`.
        """
        raise NotImplementedError

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        src_mask: Bool[Tensor, "#B 1 S"] | None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the token after each target token.

        A mask is True at real tokens, `(1|B, 1, S)` for the source, `(1|B, 1, T)` or `(1|B, T, T)` for the
        target; None means that all are real. No position sees a later one with any mask.

        - `src` and `tgt` are ids, `tgt` from the start symbol on. The argument `tgt_mask` may be the one
          that `Batch` of day 15 makes.
        - The logits are `(B, T, V)`, in the weights' dtype: row t is for the token after `tgt[:, t]`. No
          softmax is applied.
        - S and T may have any length, including 0. If no key is visible to a query, as in a source that is
          all padding, its attention output is 0.
        """
        raise NotImplementedError
