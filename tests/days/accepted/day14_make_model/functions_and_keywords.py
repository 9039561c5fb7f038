"""Functions of torch in place of modules' methods, keywords everywhere, matrices started by their names."""

import torch
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
        self.proj = nn.Linear(in_features=d_model, out_features=vocab)

    def forward(self, x):
        scores = nn.functional.linear(x, self.proj.weight, self.proj.bias)
        return scores - torch.logsumexp(scores, dim=-1, keepdim=True)


class EncoderDecoder(nn.Module):
    def __init__(self, encoder, decoder, src_embed, tgt_embed, generator):
        super().__init__()
        parts = {
            "generator": generator,
            "tgt_embed": tgt_embed,
            "src_embed": src_embed,
            "decoder": decoder,
            "encoder": encoder,
        }
        for name, part in parts.items():
            self.add_module(name, part)

    def encode(self, src, src_mask):
        return self.encoder(x=self.src_embed(src), mask=src_mask)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        vectors = self.tgt_embed(tgt)
        return self.decoder(x=vectors, memory=memory, tgt_mask=tgt_mask, src_mask=src_mask)

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.encode(src=src, src_mask=src_mask)
        return self.decode(tgt=tgt, tgt_mask=tgt_mask, memory=memory, src_mask=src_mask)


def make_model(
    src_vocab, tgt_vocab, n=6, d_model=512, d_ff=2048, h=8, dropout=0.1, norm="post", tie=False
):
    generator = Generator(d_model, tgt_vocab)
    embeddings = [
        nn.Sequential(
            Embeddings(d_model=d_model, vocab=vocab), PositionalEncoding(d_model, dropout)
        )
        for vocab in (src_vocab, tgt_vocab)
    ]
    own, source, looking = (MultiHeadedAttention(h, d_model, dropout=dropout) for _ in range(3))
    networks = [PositionwiseFeedForward(d_model, d_ff=d_ff, dropout=dropout) for _ in range(2)]
    decoder = Decoder(
        DecoderLayer(
            size=d_model,
            self_attn=own,
            src_attn=source,
            feed_forward=networks[0],
            dropout=dropout,
            norm=norm,
        ),
        n=n,
    )
    encoder = Encoder(
        EncoderLayer(
            size=d_model, self_attn=looking, feed_forward=networks[1], dropout=dropout, norm=norm
        ),
        n=n,
    )
    model = EncoderDecoder(encoder, decoder, *embeddings, generator=generator)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and not name.endswith("lut.weight"):
            nn.init.xavier_uniform_(parameter)
    if tie:
        for embedding in embeddings[1:]:
            embedding[0].lut.register_parameter("weight", embeddings[0][0].lut.weight)
        generator.proj.register_parameter("weight", embeddings[0][0].lut.weight)
    return model
