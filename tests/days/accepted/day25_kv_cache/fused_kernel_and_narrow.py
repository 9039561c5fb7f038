"""Room that is written through views; attention in torch's one kernel."""

import torch
import torch.nn.functional as F

from variants.gpt import CausalSelfAttention


class KVCache:
    def __init__(self, n_layers, batch, n_heads, max_len, d_k):
        self.room = torch.zeros(2, n_layers, batch, n_heads, max_len, d_k)
        self.counts = torch.zeros(n_layers, dtype=torch.int64)

    @property
    def keys(self):
        return self.room[0]

    @property
    def values(self):
        return self.room[1]

    @property
    def length(self):
        return int(self.counts.min())

    @torch.no_grad()
    def update(self, layer, key, value):
        if not self.counts.any():
            self.room = self.room.to(key)
        held, coming = int(self.counts[layer]), key.size(2)
        for kept, chunk in zip(self.room, (key, value), strict=True):
            kept[layer].narrow(2, held, coming).copy_(chunk)
        self.counts[layer] += coming
        return tuple(kept[layer].narrow(2, 0, held + coming) for kept in self.room)

    def reorder(self, rows):
        self.room = self.room.index_select(2, rows)


class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x, cache=None, layer=0):
        b, t, d_model = x.shape
        q, k, v = (
            self.w_qkv(x)
            .view(b, t, 3, self.n_heads, d_model // self.n_heads)
            .permute(2, 0, 3, 1, 4)
        )
        if cache is not None:
            k, v = cache.update(layer, k, v)
        past = k.size(2) - t
        place = torch.arange(k.size(2), device=x.device)
        mask = place <= place[past:, None]
        p = self.dropout.p if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
        return self.w_o(heads.permute(0, 2, 1, 3).reshape(b, t, d_model))
