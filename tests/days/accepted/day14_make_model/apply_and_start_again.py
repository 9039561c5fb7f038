"""Initialized by `apply`; tied first and the table started again after; a transposed product."""

from torch import nn

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
    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)
        self.log_softmax = nn.LogSoftmax(dim=-1)

    def forward(self, x):
        return self.log_softmax(x @ self.proj.weight.t() + self.proj.bias)


class EncoderDecoder(nn.Module):
    def __init__(self, encoder, decoder, src_embed, tgt_embed, generator):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.src_embed = src_embed
        self.tgt_embed = tgt_embed
        self.generator = generator

    def forward(self, src, tgt, src_mask, tgt_mask):
        return self.decode(
            memory=self.encode(src, src_mask), src_mask=src_mask, tgt=tgt, tgt_mask=tgt_mask
        )

    def encode(self, src, src_mask):
        return self.encoder(self.src_embed(src), src_mask)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        return self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)


def xavier(module):
    if type(module) is nn.Linear:
        nn.init.xavier_uniform_(module.weight)


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
):
    one, two, three = (MultiHeadedAttention(h, d_model, dropout) for _ in range(3))
    network = PositionwiseFeedForward(d_model, d_ff, dropout)
    model = EncoderDecoder(
        # One network for both prototypes is no harm: each stack copies its own.
        Encoder(EncoderLayer(d_model, one, network, dropout, norm), n),
        Decoder(DecoderLayer(d_model, two, three, network, dropout, norm), n),
        nn.Sequential(Embeddings(d_model, src_vocab), PositionalEncoding(d_model, dropout)),
        nn.Sequential(Embeddings(d_model, tgt_vocab), PositionalEncoding(d_model, dropout)),
        Generator(d_model, tgt_vocab),
    )
    if tie:
        model.src_embed[0].lut.weight = model.generator.proj.weight
        model.tgt_embed[0].lut.weight = model.generator.proj.weight
    model.apply(xavier)
    if tie:
        nn.init.normal_(model.generator.proj.weight, mean=0.0, std=1 / d_model**0.5)
    return model
