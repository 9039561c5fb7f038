"""What is held grows by concatenation; the room is a view of it, filled up behind. A module of its own."""

import torch
from torch import nn

from implementation import attention, subsequent_mask


class KVCache:
    def __init__(self, n_layers, batch, n_heads, max_len, d_k):
        self.size = (batch, n_heads, max_len, d_k)
        self.pages = [None] * n_layers

    @property
    def keys(self):
        return self._room(0)

    @property
    def values(self):
        return self._room(1)

    def _room(self, which):
        batch, n_heads, max_len, d_k = self.size
        room = torch.zeros(len(self.pages), batch, n_heads, max_len, d_k)
        for number, page in enumerate(self.pages):
            if page is not None:
                room[number, :, :, : page[which].size(2)] = page[which]
        return room

    @property
    def length(self):
        return min(0 if page is None else page[0].size(2) for page in self.pages)

    def update(self, layer, key, value):
        new = key.detach(), value.detach()
        old = self.pages[layer] or tuple(one[:, :, :0] for one in new)
        self.pages[layer] = tuple(torch.cat(pair, dim=2) for pair in zip(old, new, strict=True))
        return self.pages[layer]

    def reorder(self, rows):
        self.pages = [page and tuple(one[rows] for one in page) for page in self.pages]


class CachedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, cache=None, layer=0):
        qkv = self.w_qkv(x).unflatten(-1, (3, self.n_heads, -1)).movedim(2, 0).transpose(2, 3)
        query, key, value = qkv.unbind(0)
        if cache is not None:
            key, value = cache.update(layer, key, value)
        mask = subsequent_mask(key.size(2)).to(x.device)[:, key.size(2) - x.size(1) :]
        heads = attention(query, key, value, mask, self.drop)[0]
        return self.w_o(heads.movedim(1, 2).flatten(2))
