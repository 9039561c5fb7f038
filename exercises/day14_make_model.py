"""Day 14 · The whole model

Lesson  course lesson 14
Hints   course hint 14     (one more each time; the first gives the steps of one way)
Check   course watch 14    (checks at every save; `course check 14` checks once)

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
    Embeddings(d_model, vocab)
        Look up a vector for each token, and multiply it by √d_model.
        called with (tokens)
            Return the tokens' vectors.
    Encoder(layer, n)
        Apply N encoder layers in turn; in pre-norm, a final LayerNorm normalizes the result.
        called with (x, mask=None)
            Return the encoded source; every layer gets the same `mask`.
    EncoderLayer(size, self_attn, feed_forward, dropout, norm="post")
        Apply self-attention, then the feed-forward network, each in a `SublayerConnection`.
        called with (x, mask=None)
            Return the layer's output.
    MultiHeadedAttention(h, d_model, dropout=0.1)
        Attend in h subspaces at once, each with its own projections; d_k = d_v = d_model / h.
        called with (query, key, value, mask=None)
            Attend from `query` to `key` and `value`; the mask applies to every head.
    PositionalEncoding(d_model, dropout, max_len=5000)
        Add sines and cosines of the position, with one wavelength for each pair of features.
        called with (x)
            Add the first T positions, then apply dropout.
    PositionwiseFeedForward(d_model, d_ff, dropout=0.1)
        Apply the same two-layer feed-forward network at every position.
        called with (x)
            Transform each position separately; positions do not see each other here.
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
    """Project the decoder's hidden states to log-probabilities of the next token.

    `vocab` is V, the number of target tokens. `proj` is an `nn.Linear(d_model, vocab)`.

    Source: Vaswani et al. 2017, §3.4 and figure 1 (Linear, Softmax).
    """

    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Return log-probabilities over the vocabulary.

        `(…, d_model)` becomes `(…, vocab)`, in the dtype of `x`. The log-probabilities are finite for scores
        of several hundred, too.
        """
        raise NotImplementedError


class EncoderDecoder(nn.Module):
    """Encode the source once, then predict each target token from the target tokens before it.

    The caller applies the generator: decoding needs it for the last position only.

    - `encoder` is an `Encoder`, and `decoder` a `Decoder`.
    - `src_embed` maps source tokens `(B, S)` to vectors `(B, S, d_model)`, positions added; `tgt_embed`
      does the same for target tokens `(B, T)`. `generator` maps states to log-probabilities.
    - The attributes `encoder`, `decoder`, `src_embed`, `tgt_embed` and `generator` are the parts, as given.

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
        raise NotImplementedError

    def encode(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "#B #S S"] | None
    ) -> Float[Tensor, "B S d_model"]:
        """Return the memory, the encoder's output for the source tokens."""
        raise NotImplementedError

    def decode(
        self,
        memory: Float[Tensor, "B S d_model"],
        src_mask: Bool[Tensor, "#B #T S"] | None,
        tgt: Int[Tensor, "B T"],
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """Return the decoder's output for the target tokens."""
        raise NotImplementedError

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        src_mask: Bool[Tensor, "#B #S S"] | None,
        tgt_mask: Bool[Tensor, "#B #T T"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """Return the decoder's output for a source and a target."""
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
    """Build and initialize a Transformer. The default sizes are the paper's base model's, which also ties.

    - `n` is the number of layers in each stack, and `h`, which divides `d_model`, the number of heads.
      `d_ff` is the width of the feed-forward networks' hidden layer.
    - `dropout` is P_drop, the same in every part. `norm` is `"post"` as in the paper, or `"pre"`.
    - `tie` shares one matrix between source embedding, target embedding and output projection, for a
      joint vocabulary. It is one `nn.Parameter`, initialized as an embedding; the generator keeps its
      bias.
    - Return an `EncoderDecoder` whose `src_embed` and `tgt_embed` are each an
      `nn.Sequential(Embeddings, PositionalEncoding)`.
    - `Encoder` and `Decoder` get one layer and make n deep copies of it, so the copies have equal weights at
      first. The matrix of an `Embeddings` is its `lut.weight`, and that of a `Generator` its `proj.weight`.
    - Every weight matrix except the embedding matrices is drawn independently, by Xavier uniform
      initialization. The embedding matrices stay as `Embeddings` initializes them.
    - No two of the attentions, feed-forward networks or layers share a parameter.

    Raises:
        ValueError: h does not divide d_model, an unknown `norm`, or `tie` with two vocabularies.

    Source: Vaswani et al. 2017, §3, table 3 (base), §3.4 (tying); its initialization is not stated. This
    one: Glorot & Bengio 2010, eq. 16.
    """
    raise NotImplementedError
