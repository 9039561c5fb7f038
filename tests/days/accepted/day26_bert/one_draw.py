"""One draw decides all: below 0.8 p hidden, below 0.9 p random, below p kept; tables by matrix products."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import Encoder, LayerNorm, MultiHeadedAttention, clones
from variants.bert import FeedForward, Layer, Transform


def mask_tokens(tokens, mask_id, vocab, special, p=0.15, generator=None):
    u = torch.rand(tokens.shape, generator=generator, device=tokens.device, dtype=torch.float64)
    allowed = torch.ones(vocab, dtype=torch.bool, device=tokens.device)
    allowed[list(special)] = False
    u = torch.where(allowed[tokens], u, 2.0)
    anything = (torch.rand(tokens.shape, generator=generator, device=tokens.device) * vocab).long()
    anything = anything.clamp(max=vocab - 1)
    mask = torch.full_like(tokens, mask_id)
    inputs = torch.where(u < 0.8 * p, mask, torch.where(u < 0.9 * p, anything, tokens))
    return inputs, torch.where(u < p, tokens, torch.full_like(tokens, -100))


def looked_up(table, ids):
    """Rows of a table, as a matrix product."""
    return F.one_hot(ids, table.num_embeddings).to(table.weight.dtype) @ table.weight


class BERT(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, eps, p = config.d_model, config.eps, config.dropout
        self.config = config
        for name, rows in (
            ("embed", config.vocab),
            ("positions", config.context),
            ("segments", config.segments),
        ):
            self.add_module(name, nn.Embedding(rows, width))
        self.norm, self.transform = LayerNorm(width, eps), Transform(width, eps)
        layers = [
            Layer(
                size=width,
                self_attn=MultiHeadedAttention(config.n_heads, width, p),
                feed_forward=FeedForward(width, config.d_ff),
                dropout=p,
                eps=eps,
            )
            for _ in range(config.n_layers)
        ]
        one = layers[0] if layers else Layer(width, nn.Identity(), nn.Identity(), p, eps)
        self.encoder = Encoder(one, 0)
        self.encoder.layers = nn.ModuleList(layers) if layers else clones(one, 0)
        self.register_parameter("bias", nn.Parameter(torch.zeros(config.vocab)))
        self.drop = nn.Dropout(p)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    module.bias.zero_()
                if isinstance(module, nn.Linear | nn.Embedding):
                    weight = module.weight.normal_(0, 0.02)
                    while (far := weight.abs() > 0.04).any():
                        weight[far] = 0.02 * torch.randn_like(weight[far])

    def forward(self, tokens, segments=None, mask=None):
        places = torch.arange(tokens.size(1), device=tokens.device).expand_as(tokens)
        segments = tokens * 0 if segments is None else segments
        x = looked_up(self.segments, segments) + looked_up(self.positions, places)
        x = self.drop(self.norm(x + looked_up(self.embed, tokens)))
        for layer in self.encoder.layers:
            x = layer(x, mask)
        scores = torch.einsum("btm,vm->btv", self.transform(x), self.embed.weight)
        return scores + self.bias
