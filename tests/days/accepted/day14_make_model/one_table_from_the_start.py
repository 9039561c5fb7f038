"""Tied before anything is initialized, by one embedding under both names; each part started where it is
made; everything in forward, nothing in between."""

import math

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
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x):
        scores = torch.einsum("...d,vd->...v", x, self.proj.weight) + self.proj.bias
        below = scores - scores.amax(dim=-1, keepdim=True).detach()
        return below - below.exp().sum(dim=-1, keepdim=True).log()


class EncoderDecoder(nn.Module):
    def __init__(self, encoder, decoder, src_embed, tgt_embed, generator):
        super().__init__()
        self.generator = generator
        self.src_embed, self.tgt_embed = src_embed, tgt_embed
        self.encoder, self.decoder = encoder, decoder

    def encode(self, src, src_mask):
        vectors = self.src_embed(src)
        for layer in self.encoder.layers:
            vectors = layer(vectors, src_mask)
        return vectors if self.encoder.norm is None else self.encoder.norm(vectors)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        states = self.tgt_embed(tgt)
        for layer in self.decoder.layers:
            states = layer(states, memory, src_mask, tgt_mask)
        return states if self.decoder.norm is None else self.decoder.norm(states)

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.encoder(self.src_embed(src), src_mask)
        return self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)


@torch.no_grad()
def start(module):
    """Every matrix of a module's linear layers, drawn within Xavier's bound."""
    for inner in module.modules():
        if isinstance(inner, nn.Linear):
            outputs, inputs = inner.weight.shape
            bound = math.sqrt(6 / (inputs + outputs))
            inner.weight.copy_((2 * torch.rand(outputs, inputs) - 1) * bound)
            inner.bias.zero_()
    return module


def make_model(
    src_vocab, tgt_vocab, n=6, d_model=512, d_ff=2048, h=8, dropout=0.1, norm="post", tie=False
):
    def layer(kind, attentions):
        parts = [MultiHeadedAttention(h, d_model, dropout) for _ in range(attentions)]
        parts.append(PositionwiseFeedForward(d_model, d_ff, dropout))
        return kind(d_model, *parts, dropout, norm)

    def stack(kind, layer_kind, attentions):
        made = kind(layer(layer_kind, attentions), 1)
        made.layers = nn.ModuleList(start(layer(layer_kind, attentions)) for _ in range(n))
        return made

    def embedding(vocab):
        return nn.Sequential(Embeddings(d_model, vocab), PositionalEncoding(d_model, dropout))

    source = embedding(src_vocab)
    target = source if tie else embedding(tgt_vocab)
    generator = start(Generator(d_model, tgt_vocab))
    if tie:
        generator.proj.weight = source[0].lut.weight
    return EncoderDecoder(
        stack(Encoder, EncoderLayer, 1), stack(Decoder, DecoderLayer, 2), source, target, generator
    )
