"""A loop over the heads, each with its slices of the weights, by PyTorch's kernel."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from variants.norms import RMSNorm
from variants.rope import apply_rope, rope_angles


class QKNorm(nn.Module):
    def __init__(self, d_k, eps=1e-6):
        super().__init__()
        self.query = RMSNorm(d_k, eps)
        self.key = RMSNorm(d_k, eps)

    def forward(self, query, key):
        made = []
        for norm, one in ((self.query, query), (self.key, key)):
            wide = one if one.dtype == torch.float64 else one.float()
            root = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square() / one.size(-1)
            made.append((norm.gain * wide / (root + norm.eps).sqrt()).to(one.dtype))
        return tuple(made)


class MultiHeadLatentAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        width = config.n_heads * config.d_k
        self.w_q = nn.Linear(config.d_model, width, bias=False)
        self.w_qr = nn.Linear(config.d_model, config.n_heads * config.d_r, bias=False)
        self.w_dkv = nn.Linear(config.d_model, config.d_c, bias=False)
        self.w_kr = nn.Linear(config.d_model, config.d_r, bias=False)
        self.norm = RMSNorm(config.d_c, config.eps)
        self.w_uk = nn.Linear(config.d_c, width, bias=False)
        self.w_uv = nn.Linear(config.d_c, width, bias=False)
        self.w_o = nn.Linear(width, config.d_model, bias=False)
        self.angles = rope_angles(config.d_r, config.context, config.base)

    def compress(self, x, past=0):
        rotary = apply_rope(self.w_kr(x), self.angles, past)
        return torch.cat([self.norm(self.w_dkv(x)), rotary], dim=2)

    def queries(self, x, past=0):
        query = torch.stack(self.w_q(x).chunk(self.config.n_heads, dim=-1), dim=1)
        rotary = torch.stack(self.w_qr(x).chunk(self.config.n_heads, dim=-1), dim=1)
        return query, apply_rope(rotary, self.angles, past)

    def attend(self, x, cache, absorbed):
        past = 0 if cache is None else cache.size(1)
        cache = torch.cat([cache] * (past > 0) + [self.compress(x, past)], dim=1)
        latent, shared = cache[..., : self.config.d_c], cache[..., self.config.d_c :]
        query, rotary = self.queries(x, past)
        mask = torch.ones(x.size(1), cache.size(1), device=x.device).tril(past).bool()
        scale = 1 / math.sqrt(self.config.d_k + self.config.d_r)
        heads = []
        w_uks = self.w_uk.weight.chunk(self.config.n_heads)
        w_uvs = self.w_uv.weight.chunk(self.config.n_heads)
        for i, (w_uk, w_uv) in enumerate(zip(w_uks, w_uvs, strict=True)):
            one = query[:, i] @ w_uk if absorbed else query[:, i]
            key = latent if absorbed else latent @ w_uk.T
            value = latent if absorbed else latent @ w_uv.T
            out = F.scaled_dot_product_attention(
                torch.cat([one, rotary[:, i]], -1),
                torch.cat([key, shared], -1),
                value,
                mask,
                scale=scale,
            )
            heads.append(out @ w_uv.T if absorbed else out)
        return self.w_o(torch.cat(heads, dim=-1)), cache

    def forward(self, x, cache=None):
        return self.attend(x, cache, False)

    def absorbed(self, x, cache=None):
        return self.attend(x, cache, True)
