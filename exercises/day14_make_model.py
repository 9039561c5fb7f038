"""Day 14 · The whole model

Lesson  course lesson 14
Hints   course hint 14
Check   course watch 14    (checks at every save; `course check 14` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    Decoder(layer, n)
        N layers, one after the other, each looking at the same memory.
        called with (x, memory, src_mask=None, tgt_mask=None)
            From `(B, T, d_model)` to the same shape and dtype; the rest as for a `DecoderLayer`.
    DecoderLayer(size, self_attn, src_attn, feed_forward, dropout, norm="post")
        One layer of the decoder: look at one's own past, look at the source, then think.
        called with (x, memory, src_mask=None, tgt_mask=None)
            From `(B, T, d_model)` to the same shape and dtype.
    Embeddings(d_model, vocab)
        A vector for each token of the vocabulary, times √d_model.
        called with (tokens)
            Look the tokens up: ids of any shape, `(…, T)`, to vectors `(…, T, d_model)` in `lut`'s dtype.
    Encoder(layer, n)
        N layers, one after the other.
        called with (x, mask=None)
            From `(B, S, d_model)` to the same shape and dtype.
    EncoderLayer(size, self_attn, feed_forward, dropout, norm="post")
        One layer of the encoder: look around, then think, with a shortcut and a norm for each.
        called with (x, mask=None)
            From `(B, S, d_model)` to the same shape and dtype; `mask` is `(B, 1, S)` or `(B, S, S)`.
    MultiHeadedAttention(h, d_model, dropout=0.1)
        Attention in h subspaces at once, each with projections of its own.
        called with (query, key, value, mask=None)
            Attend from `query` to `key` and `value`.
            Returns: `(B, T_q, d_model)`, in the dtype that weights and inputs have, half precision and
            float64 as well, to its rounding.
    PositionalEncoding(d_model, dropout, max_len=5000)
        Add to each token a fingerprint of its position: sines and cosines of ever longer waves.
        called with (x)
            Add the first T positions to `(B, T, d_model)`, then drop.
    PositionwiseFeedForward(d_model, d_ff, dropout=0.1)
        The same small two-layer network at every position: widen, cut off below 0, narrow again.
        called with (x)
            From `(…, d_model)` to the same shape and dtype.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from implementation import (
    Decoder,
    DecoderLayer,
    Embeddings,
    Encoder,
    EncoderLayer,
    MultiHeadedAttention,
    PositionalEncoding,
    PositionwiseFeedForward,
)


class Generator(nn.Module):
    """From the decoder's states to log-probabilities of the next token.

    Args:
        d_model: width of the states.
        vocab: V, the number of target tokens.

    Attributes:
        proj: `nn.Linear(d_model, vocab)`.

    Source: Vaswani et al. 2017, §3.4 and figure 1 (Linear, Softmax).
    """

    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        # 1. The output projection.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """From `(…, d_model)` to log-probabilities `(…, vocab)`, whose exponentials sum to 1.

        They have the dtype of `x`, and are finite for scores of several hundred, too.
        """
        # 1. Project, and take the logarithm of the softmax in one step.
        raise NotImplementedError


class EncoderDecoder(nn.Module):
    """The whole: read the source once, then predict each target token from those before it.

    Args:
        encoder: an `Encoder`.
        decoder: a `Decoder`.
        src_embed: from source tokens `(B, S)` to vectors `(B, S, d_model)`, positions added.
        tgt_embed: the same for target tokens `(B, T)`.
        generator: from states to log-probabilities. The caller applies it, so that decoding can ask
            for the last position alone.

    Attributes:
        encoder, decoder, src_embed, tgt_embed, generator: as given.

    Source: Vaswani et al. 2017, §3.1 and figure 1.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        src_embed: nn.Module,
        tgt_embed: nn.Module,
        generator: nn.Module,
    ):
        super().__init__()
        # 1. Keep the five parts.
        raise NotImplementedError

    def encode(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "#B #S S"] | None
    ) -> Float[Tensor, "B S d_model"]:
        """From source tokens `(B, S)` to the memory `(B, S, d_model)`."""
        # 1. Embed, then through the encoder.
        raise NotImplementedError

    def decode(
        self,
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None,
        tgt: Int[Tensor, "B T"],
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """From the memory and target tokens `(B, T)` to states `(B, T, d_model)`."""
        # 1. Embed, then through the decoder.
        raise NotImplementedError

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        src_mask: Bool[Tensor, "#B #S S"] | None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """The decoder's states `(B, T, d_model)` for both sequences."""
        # 1. Encode, then decode.
        raise NotImplementedError


def make_model(
    src_vocab: int,
    tgt_vocab: int,
    n: int = 6,
    d_model: int = 512,
    d_ff: int = 2048,
    h: int = 8,
    dropout: float = 0.1,
    norm: str = "post",
    tie: bool = False,
) -> EncoderDecoder:
    """A Transformer, put together and initialised. The defaults are the paper's base model.

    Args:
        src_vocab: tokens in the source vocabulary.
        tgt_vocab: tokens in the target vocabulary.
        n: layers in each stack.
        d_model: width of the tokens' vectors.
        d_ff: width of the feed-forward networks' hidden layer.
        h: heads; h divides d_model.
        dropout: P_drop, everywhere.
        norm: `"post"` as in the paper, or `"pre"`.
        tie: one matrix for source embedding, target embedding and output projection, for a joint
            vocabulary. It is one `nn.Parameter`, started as an embedding; the generator keeps its bias.

    Returns:
        An `EncoderDecoder` whose `src_embed` and `tgt_embed` are `nn.Sequential(Embeddings,
        PositionalEncoding)`. Every weight matrix but the embedding tables starts Xavier uniform,
        each drawn for itself; the tables stay as `Embeddings` starts them. No two of its
        attentions, networks or layers share a parameter.

    Raises:
        ValueError: h does not divide d_model, an unknown `norm`, or `tie` with two vocabularies.

    Source: Vaswani et al. 2017, §3, table 3 (base), §3.4 (tying); Glorot & Bengio 2010, eq. 16.
    """
    # 1. The parts of a layer, each made anew wherever it is needed.
    # 2. The layers, the stacks, the whole.
    # 3. Start every matrix Xavier uniform, each for itself: the copies of a layer are equal so far.
    # 4. Tie, by handing the same Parameter to all three.
    raise NotImplementedError
