"""Coins: who is chosen, who is hidden, what becomes of the rest; attention fused, layers by hand."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import Encoder, LayerNorm, MultiHeadedAttention
from variants.bert import FeedForward, Layer, Transform


def mask_tokens(tokens, mask_id, vocab, special, p=0.15, generator=None):
    def coin(share):
        each = torch.full(tokens.shape, share, device=tokens.device)
        return torch.bernoulli(each, generator=generator).bool()

    inputs, labels = tokens.clone(), tokens.clone()
    chosen = coin(p)
    for number in special:
        chosen &= tokens != number
    labels[~chosen] = -100
    hidden = coin(0.8) & chosen
    inputs[hidden] = mask_id
    replaced = coin(0.5) & chosen & ~hidden
    drawn = torch.randint(0, vocab, tokens.shape, generator=generator, device=tokens.device)
    inputs[replaced] = drawn[replaced]
    return inputs, labels


class BERT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.bias = nn.Parameter(torch.empty(config.vocab))
        self.transform = Transform(config.d_model, config.eps)
        attention = MultiHeadedAttention(config.n_heads, config.d_model, config.dropout)
        network = FeedForward(config.d_model, config.d_ff)
        layer = Layer(config.d_model, attention, network, config.dropout, config.eps)
        self.encoder = Encoder(layer, config.n_layers)
        self.norm = LayerNorm(config.d_model, config.eps)
        self.segments = nn.Embedding(config.segments, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.config = config
        self.apply(self.start)
        nn.init.zeros_(self.bias)

    @staticmethod
    def start(module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(module.weight, 0.0, 0.02, -0.04, 0.04)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def attend(self, attention, x, mask):
        """The fused kernel, with the parts of the attention."""
        q, k, v = (
            linear(x).view(*x.shape[:2], attention.h, x.size(2) // attention.h).transpose(1, 2)
            for linear in (attention.w_q, attention.w_k, attention.w_v)
        )
        dropped = self.config.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropped)
        return attention.w_o(heads.transpose(1, 2).reshape(x.shape))

    def forward(self, tokens, segments=None, mask=None):
        length = tokens.shape[1]
        sentence = self.segments.weight[0] if segments is None else self.segments(segments)
        x = self.embed(tokens) + (self.positions.weight[:length] + sentence)
        x = F.dropout(self.norm(x), self.config.dropout, self.training)
        if mask is not None:
            mask = mask[:, None]
        for layer in self.encoder.layers:
            for connection, part in (
                (layer.sublayer[0], lambda x, a=layer.self_attn: self.attend(a, x, mask)),
                (layer.sublayer[1], layer.feed_forward),
            ):
                added = F.dropout(part(x), self.config.dropout, self.training)
                x = connection.norm(x + added)
        return self.transform(x) @ self.embed.weight.t() + self.bias
