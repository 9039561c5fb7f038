"""Day 27 · T5

Lesson  course lesson 27
Hints   course hint 27
Check   course watch 27    (checks at every save; `course check 27` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    Decoder(layer, n)
        Apply N decoder layers in turn; each attends to the same memory.
        called with (x, memory, src_mask=None, tgt_mask=None)
            Return the decoder's states.
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
        Multi-head attention whose scores are not scaled; instead, something is added to them.
        called with (query, key, value, bias)
            Attend from `query` to `key` and `value`; weights are dropped in training.
    FeedForward(config)
        The feed-forward network of day 10 without biases, and gated if the config says so.
        called with (x)
            From `(…, d_model)` to the same shape and dtype; hidden values are dropped in training.
    T5Config(vocab=32128, n_layers=6, n_heads=8, d_model=512, d_k=64, d_ff=2048, dropout=0.1, eps=1e-06,
            num_buckets=32, max_distance=128, gated=False)
        The sizes of a T5.
    rms_normed(module, eps)
        The module itself, every `LayerNorm` in it replaced by an `nn.RMSNorm`, which does not centre.
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
    """Sort distances into buckets: each short one has its own, long ones share, ever more of them.

        bucket(d) = d                                                       if d < m
                    min(n − 1, m + ⌊(n − m) · log(d / m) / log(D / m)⌋)     otherwise

    d is the distance, n the number of buckets for one direction, and m = ⌊n / 2⌋.

    Args:
        relative_position: position of the key − position of the query, integers of any shape.
        bidirectional: whether queries see keys on both sides. If so, d = |relative_position| and
            n = ⌊num_buckets / 2⌋, and keys after the query have buckets from n on: n + bucket(d). If
            not, n = num_buckets, and every key after the query counts as d = 0.
        num_buckets: at least 2, or 4 where bidirectional.
        max_distance: D, above m. All distances from D on share the last bucket.

    Returns:
        int64, in the shape and on the device of `relative_position`, from 0 to num_buckets − 1. ⌊ ⌋ is
        of the true value, not of a rounded one: of 32 buckets, bidirectional, D = 128, bucket 10 begins
        at distance 16 exactly.

    Raises:
        ValueError: too few buckets, or a `max_distance` that is not above m.

    Source: Raffel et al. 2020, §2.1; the formula is in their code (Mesh TensorFlow).
    """
    # 1. The distance, and the first bucket of its direction.
    # 2. The distances at which buckets 1, 2 … n − 1 begin: one apart as far as m, then at equal ratios on
    #    the way to D. Rounded before ⌈ ⌉: what comes out as 16.000…1 is 16.
    # 3. The bucket is how many of them the distance has reached.
    raise NotImplementedError


class T5(nn.Module):
    """The whole: read the source once, then score each target token from those before it.

        bias[head, i, j] = table[bucket(j − i), head]; −∞ where query i must not see key j
        memory = Dropout(Encoder(Dropout(E[src]), bias))
        states = Dropout(Decoder(Dropout(E[tgt]), memory, bias))
        logits = states Eᵀ / √d_model

    Args:
        config: a `T5Config`.

    Attributes:
        config: as given.
        embed: E, `nn.Embedding(vocab, d_model)`, of source and target. It is the output projection as
            well: the head is tied, has no bias, and is no parameter of its own.
        encoder_bias, decoder_bias: `nn.Embedding(num_buckets, n_heads)`, a table for each stack, which its
            layers share. (Published weights keep it in the first layer.)
        encoder: the pre-norm `Encoder` of day 12, whose layers have a `BiasedAttention` and a
            `FeedForward`, and whose norms, in the layers and at its end, are `rms_normed`. What it is
            given as its mask is the bias, `(1|B, 1|h, 1|T_q, T_k)`: its layers only pass it on.
        decoder: the same of day 13's `Decoder`. Attention to the source has no table.

        These five hold all parameters, and nothing else stands in the state dict. E starts at N(0, 1),
        the two tables at N(0, 1/d_model), the matrix of a linear layer with n inputs at N(0, 1/n), but
        that of each `w_q` at N(0, 1/(n · d_k)). Each is drawn for itself. Gains start at 1.

    Source: Raffel et al. 2020, §2.1 (norms, bias, dropout); the scale of the logits and the initial
    weights: their code, as Hugging Face's `T5ForConditionalGeneration` has it. T5 1.1, the gated one, has a
    head of its own and does not scale; here the head is tied and scaled, gated or not.
    """

    def __init__(self, config: T5Config):
        super().__init__()
        # 1. Keep the config. One table of tokens, a table of biases for each stack, and the dropout of
        #    what enters a stack and of what leaves it.
        # 2. The two stacks of days 12 and 13 out of today's parts, pre-norm. Then change their norms.
        # 3. Initial weights, each matrix drawn for itself: the copies of a layer are equal so far. Queries
        #    start smaller by √d_k, by which their scores are not divided.
        raise NotImplementedError

    def encode(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "#B 1 S"] | None
    ) -> Float[Tensor, "B S d_model"]:
        """From source tokens `(B, S)` to the memory `(B, S, d_model)`; the mask is that of `forward`."""
        # 1. The bias, once for all layers: the bucket of each key − query, both directions told apart,
        #    looked up in the table; heads in front. Where the mask forbids a key, −∞ instead.
        # 2. Look up the tokens, without a factor, and drop; through the stack, and drop again.
        raise NotImplementedError

    def decode(
        self,
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B 1 S"] | None,
        tgt: Int[Tensor, "B T"],
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """From the memory and target tokens `(B, T)` to states `(B, T, d_model)`, which are not scaled."""
        # 1. The bias of the own past, from the other table and in one direction: −∞ where the mask forbids
        #    a key, and at every key after the query, whatever the mask says.
        # 2. Towards the source no distance counts: 0, or −∞ where its mask forbids a key.
        # 3. Look up, drop, through the stack, and drop, as in the encoder.
        raise NotImplementedError

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        src_mask: Bool[Tensor, "#B 1 S"] | None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T V"]:
        """Score what comes next after each target token.

        Args:
            src: source ids `(B, S)`.
            tgt: target ids `(B, T)`, from the start symbol on.
            src_mask: True at real source tokens, `(1|B, 1, S)`; None where all are.
            tgt_mask: True at real target tokens, `(1|B, 1, T)`, or `(1|B, T, T)` as `Batch` of day 15 makes
                it; None where all are. No position sees a later one in any case.

        Returns:
            Logits `(B, T, V)` in the weights' dtype: row t scores the token after `tgt[:, t]`. No softmax
            is applied. S and T may be any length, 0 too. Where a query may attend to nothing, as to a
            source of padding alone, that attention gives 0.

        Raises:
            ValueError: a mask that is not boolean, or of another shape; `num_buckets` or `max_distance`
                that `relative_position_bucket` refuses.
        """
        # 1. Encode, and decode.
        # 2. Score each token by the product with its embedding, over √d_model: E starts large.
        raise NotImplementedError
