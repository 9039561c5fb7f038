"""One product into queries, keys, values and hidden layer; tokens taken and put back by one-hot matrices."""

import torch
import torch.nn.functional as F
from torch import nn

from implementation import LayerNorm, attention, subsequent_mask
from variants.gpt import CausalSelfAttention, FeedForward


class ParallelBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.0):
        super().__init__()
        self.n_heads, self.d_model, self.d_ff = n_heads, d_model, d_ff
        self.norm = LayerNorm(d_model)
        self.self_attn = CausalSelfAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        attn, ffn = self.self_attn, self.feed_forward
        weight = torch.cat((attn.w_qkv.weight, ffn.w_1.weight))
        bias = torch.cat((attn.w_qkv.bias, ffn.w_1.bias))
        both = F.linear(self.norm(x), weight, bias)
        q, k, v, hidden = both.split((self.d_model,) * 3 + (self.d_ff,), dim=-1)
        b, t, _ = x.shape
        d_k = self.d_model // self.n_heads
        q, k, v = (one.reshape(b, t, self.n_heads, d_k).transpose(1, 2) for one in (q, k, v))
        heads, _ = attention(q, k, v, subsequent_mask(t).to(x.device), attn.dropout)
        joined = heads.transpose(1, 2).reshape(b, t, self.d_model)
        thought = ffn.w_2(F.gelu(hidden, approximate="tanh"))
        return self.drop(thought) + self.drop(attn.w_o(joined)) + x


class MixtureOfDepths(nn.Module):
    def __init__(self, block, d_model, capacity):
        super().__init__()
        assert 0 < capacity <= 1
        self.capacity = capacity
        self.router = nn.Linear(d_model, 1, bias=False)
        self.block = block

    def choose(self, x):
        r = self.router(x)[..., 0]
        t = r.size(-1)
        k = 0 if t == 0 else max(int(self.capacity * t * (1 + 1e-12)), 1)
        places = torch.sort(torch.argsort(-r, dim=-1)[:, :k], dim=-1)[0]
        return torch.take_along_dim(r, places, dim=-1), places

    def forward(self, x):
        r, places = self.choose(x)
        select = F.one_hot(places, max(x.size(1), 1))[..., : x.size(1)].to(x.dtype)  # (B, k, T)
        chosen = select @ x
        gained = r[..., None] * (self.block(chosen) - chosen)
        return x + select.transpose(1, 2) @ gained
