"""Loops: a row at a time into the room, a head at a time through attention, written out by einsum."""

import torch

from variants.gpt import CausalSelfAttention


class KVCache:
    def __init__(self, n_layers, batch, n_heads, max_len, d_k):
        shape = (n_layers, batch, n_heads, max_len, d_k)
        self.keys, self.values = torch.full(shape, torch.nan), torch.full(shape, torch.nan)
        self.held = dict.fromkeys(range(n_layers), 0)
        self.length = 0

    def update(self, layer, key, value):
        if sum(self.held.values()) == 0:
            self.keys = self.keys.to(key.device, key.dtype)
            self.values = self.values.to(key.device, key.dtype)
        for token in range(key.size(2)):
            place = self.held[layer]
            self.keys[layer, :, :, place] = key[:, :, token].detach()
            self.values[layer, :, :, place] = value[:, :, token].detach()
            self.held[layer] += 1
        self.length = sorted(self.held.values())[0]
        end = self.held[layer]
        return self.keys[layer, :, :, :end].clone(), self.values[layer, :, :, :end].clone()

    def reorder(self, rows):
        keys, values = self.keys.clone(), self.values.clone()
        for row, old in enumerate(rows.tolist()):
            self.keys[:, row], self.values[:, row] = keys[:, old], values[:, old]


class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x, cache=None, layer=0):
        d_model = x.size(-1)
        d_k = d_model // self.n_heads
        projected = self.w_qkv(x).split(d_model, dim=-1)
        query, key, value = (torch.stack(one.split(d_k, dim=-1), dim=1) for one in projected)
        if cache is not None:
            key, value = cache.update(layer, key, value)
        past = key.size(2) - query.size(2)
        later = torch.ones(query.size(2), key.size(2), device=x.device).triu(past + 1) == 1
        heads = []
        for head in range(self.n_heads):
            wide = torch.promote_types(x.dtype, torch.float32)
            q, k = query[:, head].to(wide), key[:, head].to(wide)
            scores = torch.einsum("btd,bsd->bts", q, k) / d_k**0.5
            weights = scores.masked_fill(later, -torch.inf).softmax(-1).to(x.dtype)
            heads.append(self.dropout(weights) @ value[:, head])
        return self.w_o(torch.cat(heads, dim=-1))
