"""Buckets by logarithms, as published code has them; masks added to the bias; layers run one by one."""

import math

import torch
from torch import nn

from implementation import Decoder, DecoderLayer, Encoder, EncoderLayer
from variants.t5 import BiasedAttention, FeedForward, rms_normed


def relative_position_bucket(relative_position, bidirectional, num_buckets, max_distance):
    buckets = torch.zeros_like(relative_position, dtype=torch.int64)
    if bidirectional:
        num_buckets //= 2
        buckets += (relative_position > 0).to(torch.int64) * num_buckets
        distance = torch.abs(relative_position)
    else:
        distance = -torch.min(relative_position, torch.zeros_like(relative_position))
    max_exact = num_buckets // 2
    share = torch.log(distance.clamp(min=1).double() / max_exact) / math.log(
        max_distance / max_exact
    )
    large = max_exact + (share * (num_buckets - max_exact) + 1e-9).floor().long()
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    return buckets + torch.where(distance < max_exact, distance.long(), large)


class T5(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.encoder_bias = nn.Embedding(config.num_buckets, config.n_heads)
        self.decoder_bias = nn.Embedding(config.num_buckets, config.n_heads)

        def attention():
            return BiasedAttention(config)

        def network():
            return FeedForward(config)

        self.encoder = Encoder(
            EncoderLayer(config.d_model, attention(), network(), config.dropout, "pre"),
            config.n_layers,
        )
        self.decoder = Decoder(
            DecoderLayer(
                config.d_model, attention(), attention(), network(), config.dropout, "pre"
            ),
            config.n_layers,
        )
        rms_normed(self, config.eps)
        self.drop_in, self.drop_out = nn.Dropout(config.dropout), nn.Dropout(config.dropout)
        for name, parameter in self.named_parameters():
            if name == "embed.weight":
                parameter.data.normal_(0, 1)
            elif name.endswith("bias.weight"):
                parameter.data.normal_(0, config.d_model**-0.5)
            elif parameter.dim() == 2:
                std = parameter.size(1) ** -0.5
                if ".w_q." in name:
                    std *= config.d_k**-0.5
                parameter.data.normal_(0, std)

    def _relative(self, size, table, both):
        there = torch.arange(size, device=table.weight.device)[None, :]
        here = torch.arange(size, device=table.weight.device)[:, None]
        bucket = relative_position_bucket(
            there - here, both, self.config.num_buckets, self.config.max_distance
        )
        return table(bucket).permute([2, 0, 1])[None]

    @staticmethod
    def _added(mask, like):
        zeros = torch.zeros(mask.shape, dtype=like.dtype, device=like.device)
        return zeros.masked_fill(~mask, float("-inf")).unsqueeze(1)

    def encode(self, src, src_mask):
        bias = self._relative(src.size(1), self.encoder_bias, True)
        if src_mask is not None:
            bias = bias + self._added(src_mask, bias)
        x = self.drop_in(self.embed(src))
        for layer in self.encoder.layers:
            x = layer(x, bias)
        return self.drop_out(self.encoder.norm(x))

    def decode(self, memory, src_mask, tgt, tgt_mask):
        t, s = tgt.size(1), memory.size(1)
        bias = self._relative(t, self.decoder_bias, False)
        causal = torch.ones(1, t, t, dtype=torch.bool, device=tgt.device).tril()
        bias = bias + self._added(causal if tgt_mask is None else causal & tgt_mask, bias)
        if src_mask is None:
            src_mask = torch.ones(1, 1, s, dtype=torch.bool, device=tgt.device)
        src_bias = self._added(src_mask, bias)
        x = self.drop_in(self.embed(tgt))
        for layer in self.decoder.layers:
            x = layer(x, memory, src_bias, bias)
        return self.drop_out(self.decoder.norm(x))

    def forward(self, src, tgt, src_mask, tgt_mask):
        states = self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)
        return (states @ self.embed.weight.T) / math.sqrt(self.config.d_model)
