"""Buckets in Python's whole numbers, looked up; biases by a product with ones and zeros; functions of torch
for dropout and scores."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import Decoder, DecoderLayer, Encoder, EncoderLayer, subsequent_mask
from variants.t5 import BiasedAttention, FeedForward, T5Config, rms_normed


def bucket_of(distance, n, m, most):
    """⌊(n − m) · log(d / m) / log(D / m)⌋ is the largest k with (d / m)^(n − m) ≥ (D / m)^k."""
    if distance < m:
        return distance
    k = 0
    while k < n - m - 1 and distance ** (n - m) * m ** (k + 1) >= most ** (k + 1) * m ** (n - m):
        k += 1
    return m + k


def relative_position_bucket(relative_position, bidirectional, num_buckets, max_distance):
    n = num_buckets // 2 if bidirectional else num_buckets
    known = torch.tensor(
        [bucket_of(d, n, n // 2, max_distance) for d in range(max_distance + 1)],
        device=relative_position.device,
    )
    before = known[relative_position.neg().clamp(0, max_distance).long()]
    if not bidirectional:
        return before
    after = known[relative_position.clamp(0, max_distance).long()] + n
    return torch.where(relative_position > 0, after, before)


class T5(nn.Module):
    def __init__(self, config: T5Config):
        super().__init__()
        self.config = c = config
        self.decoder = Decoder(
            DecoderLayer(
                size=c.d_model,
                self_attn=BiasedAttention(c),
                src_attn=BiasedAttention(c),
                feed_forward=FeedForward(c),
                dropout=c.dropout,
                norm="pre",
            ),
            c.n_layers,
        )
        self.encoder = Encoder(
            EncoderLayer(
                size=c.d_model,
                self_attn=BiasedAttention(c),
                feed_forward=FeedForward(c),
                dropout=c.dropout,
                norm="pre",
            ),
            c.n_layers,
        )
        rms_normed(self.decoder, c.eps)
        rms_normed(self.encoder, c.eps)
        self.embed = nn.Embedding(c.vocab, c.d_model)
        self.decoder_bias = nn.Embedding(c.num_buckets, c.n_heads)
        self.encoder_bias = nn.Embedding(c.num_buckets, c.n_heads)
        self.apply(self._start)

    @torch.no_grad()
    def _start(self, module):
        c = self.config
        if isinstance(module, BiasedAttention):
            for linear in (module.w_k, module.w_v, module.w_o):
                linear.weight.copy_(torch.randn_like(linear.weight) / linear.in_features**0.5)
            query = module.w_q.weight
            query.copy_(torch.randn_like(query) / (c.d_model * c.d_k) ** 0.5)
        elif isinstance(module, FeedForward):
            for linear in module.children():
                if isinstance(linear, nn.Linear):
                    linear.weight.copy_(torch.randn_like(linear.weight) / linear.in_features**0.5)
        elif isinstance(module, T5):
            for table in (module.encoder_bias, module.decoder_bias):
                table.weight.copy_(torch.randn_like(table.weight) / c.d_model**0.5)

    def _dropped(self, x):
        return F.dropout(x, self.config.dropout, self.training)

    def _bias(self, table, size, bidirectional, mask):
        position = torch.arange(size, device=table.weight.device)
        relative = position.view(1, -1) - position.view(-1, 1)
        buckets = relative_position_bucket(
            relative, bidirectional, self.config.num_buckets, self.config.max_distance
        )
        chosen = F.one_hot(buckets, self.config.num_buckets).to(table.weight.dtype)
        bias = torch.einsum("qkn,nh->hqk", chosen, table.weight).unsqueeze(0)
        return bias if mask is None else bias.masked_fill(~mask[:, None], -torch.inf)

    def encode(self, src, src_mask):
        bias = self._bias(self.encoder_bias, src.shape[1], True, src_mask)
        memory = self.encoder(x=self._dropped(self.embed(src)), mask=bias)
        return self._dropped(memory)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        past = subsequent_mask(tgt.shape[1]).to(tgt.device)
        if tgt_mask is not None:
            past = past.logical_and(tgt_mask)
        bias = self._bias(self.decoder_bias, tgt.shape[1], False, past)
        nothing = bias.new_zeros((1, 1, 1, memory.shape[1]))
        if src_mask is not None:
            nothing = nothing.masked_fill(src_mask[:, None].logical_not(), -torch.inf)
        states = self.decoder(
            x=self._dropped(self.embed(tgt)), memory=memory, src_mask=nothing, tgt_mask=bias
        )
        return self._dropped(states)

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.encode(src=src, src_mask=src_mask)
        states = self.decode(memory=memory, src_mask=src_mask, tgt=tgt, tgt_mask=tgt_mask)
        scores = torch.einsum("btd,vd->btv", states, self.embed.weight)
        return scores * self.config.d_model**-0.5
