"""A bucket is the number of edges that a distance has reached, found by comparing; biases read along their
diagonals; each part started where it is made."""

import math

import torch
from torch import nn

from implementation import Decoder, DecoderLayer, Encoder, EncoderLayer
from variants.t5 import BiasedAttention, FeedForward, rms_normed


def relative_position_bucket(relative_position, bidirectional, num_buckets, max_distance):
    per_side = num_buckets // (1 + bidirectional)
    exact = per_side // 2
    log_steps = per_side - exact
    whole = list(range(1, exact + 1))
    for k in range(1, log_steps):
        edge = math.exp(math.log(exact) + k / log_steps * math.log(max_distance / exact))
        whole.append(math.ceil(edge - 1e-7))
    edges = torch.tensor(whole, device=relative_position.device)
    distance = relative_position.abs()
    if not bidirectional:
        distance = distance * relative_position.lt(0)
    buckets = distance.unsqueeze(-1).ge(edges).sum(dim=-1)
    return buckets + per_side * relative_position.gt(0) if bidirectional else buckets


class T5(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.encoder_bias = self._table()
        self.decoder_bias = self._table()
        layer = EncoderLayer(
            config.d_model,
            BiasedAttention(config),
            FeedForward(config),
            config.dropout,
            norm="pre",
        )
        self.encoder = rms_normed(Encoder(layer, config.n_layers), config.eps)
        layer = DecoderLayer(
            config.d_model,
            BiasedAttention(config),
            BiasedAttention(config),
            FeedForward(config),
            config.dropout,
            norm="pre",
        )
        self.decoder = rms_normed(Decoder(layer, config.n_layers), config.eps)
        for name, module in self.named_modules():
            if type(module) is nn.Linear:
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
                if name.split(".")[-1] == "w_q":
                    with torch.no_grad():
                        module.weight /= config.d_k**0.5
        self.between = nn.Dropout(config.dropout)

    def _table(self):
        table = nn.Embedding(self.config.num_buckets, self.config.n_heads)
        nn.init.normal_(table.weight, 0.0, 1 / math.sqrt(self.config.d_model))
        return table

    def _biases(self, table, size, bidirectional):
        """The same along each diagonal: one row of 2·size − 1 distances, from which all rows are read."""
        if size == 0:
            return table.weight.new_zeros(1, self.config.n_heads, 0, 0)
        c, device = self.config, table.weight.device
        distances = torch.arange(1 - size, size, device=device)
        row = table(
            relative_position_bucket(distances, bidirectional, c.num_buckets, c.max_distance)
        )
        rows = [row[size - 1 - query : 2 * size - 1 - query] for query in range(size)]
        return torch.stack(rows).movedim(-1, 0).unsqueeze(0)

    def encode(self, src, src_mask):
        bias = self._biases(self.encoder_bias, src.size(1), True)
        if src_mask is not None:
            bias = bias.masked_fill(~src_mask.unsqueeze(1), -math.inf)
        vectors = self.between(self.embed.weight[src])
        return self.between(self.encoder(vectors, bias))

    def decode(self, memory, src_mask, tgt, tgt_mask):
        t = tgt.size(1)
        bias = self._biases(self.decoder_bias, t, False)
        later = torch.ones(t, t, dtype=torch.bool, device=tgt.device).triu(1)
        bias = bias.masked_fill(later, -math.inf)
        if tgt_mask is not None:
            bias = bias.masked_fill(~tgt_mask.unsqueeze(1), -math.inf)
        towards = memory.new_zeros(
            src_mask.shape if src_mask is not None else (1, 1, memory.size(1))
        )
        if src_mask is not None:
            towards[~src_mask] = -math.inf
        vectors = self.between(self.embed.weight[tgt])
        return self.between(self.decoder(vectors, memory, towards.unsqueeze(1), bias))

    def forward(self, src, tgt, src_mask, tgt_mask):
        states = self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)
        return nn.functional.linear(states / self.config.d_model**0.5, self.embed.weight)
