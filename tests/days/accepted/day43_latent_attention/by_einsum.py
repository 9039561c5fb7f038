"""Scores and sums by einsum, the two parts of a score added, in both forms."""

import math

import torch
from torch import nn

from variants.norms import RMSNorm
from variants.rope import apply_rope, rope_angles


class QKNorm(nn.Module):
    def __init__(self, d_k, eps=1e-6):
        super().__init__()
        self.query, self.key = (RMSNorm(d_k, eps) for _ in range(2))

    def forward(self, query, key):
        return self.query(query), self.key(key)


class MultiHeadLatentAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.scale = 1 / math.sqrt(config.d_k + config.d_r)
        sizes = {
            "w_q": (config.d_model, config.n_heads * config.d_k),
            "w_qr": (config.d_model, config.n_heads * config.d_r),
            "w_dkv": (config.d_model, config.d_c),
            "w_kr": (config.d_model, config.d_r),
            "w_uk": (config.d_c, config.n_heads * config.d_k),
            "w_uv": (config.d_c, config.n_heads * config.d_k),
            "w_o": (config.n_heads * config.d_k, config.d_model),
        }
        for name, (inputs, outputs) in sizes.items():
            setattr(self, name, nn.Linear(inputs, outputs, bias=False))
        self.norm = RMSNorm(config.d_c, config.eps)
        self.angles = rope_angles(config.d_r, config.context, config.base)

    def compress(self, x, past=0):
        return torch.cat(
            (self.norm(self.w_dkv(x)), apply_rope(self.w_kr(x), self.angles, past)), -1
        )

    def queries(self, x, past=0):
        rows, t, _ = x.shape
        query = self.w_q(x).view(rows, t, self.config.n_heads, -1).permute(0, 2, 1, 3)
        rotary = self.w_qr(x).view(rows, t, self.config.n_heads, -1).permute(0, 2, 1, 3)
        return query, apply_rope(rotary, self.angles, past)

    def appended(self, x, cache):
        past = cache.size(1) if cache is not None else 0
        chunk = self.compress(x, past)
        return past, chunk if cache is None else torch.cat((cache, chunk), 1)

    def weights(self, content, rotary, cache, past):
        scores = content + torch.einsum("bhtr,bsr->bhts", rotary, cache[..., self.config.d_c :])
        at = torch.arange(cache.size(1), device=cache.device)
        hidden = at[None, :] > at[past:, None]
        scores = self.scale * scores.to(torch.promote_types(scores.dtype, torch.float32))
        return scores.masked_fill(hidden, -math.inf).softmax(-1).to(content.dtype)

    def forward(self, x, cache=None):
        past, cache = self.appended(x, cache)
        query, rotary = self.queries(x, past)
        latent = cache[..., : self.config.d_c]
        key = self.w_uk(latent).unflatten(-1, (self.config.n_heads, -1))
        value = self.w_uv(latent).unflatten(-1, (self.config.n_heads, -1))
        content = torch.einsum("bhtk,bshk->bhts", query, key)
        weights = self.weights(content, rotary, cache, past)
        return self.w_o(torch.einsum("bhts,bshk->bthk", weights, value).flatten(2)), cache

    def absorbed(self, x, cache=None):
        past, cache = self.appended(x, cache)
        query, rotary = self.queries(x, past)
        latent = cache[..., : self.config.d_c]
        h = self.config.n_heads
        w_uk, w_uv = (part.weight.view(h, -1, latent.size(-1)) for part in (self.w_uk, self.w_uv))
        moved = torch.einsum("bhtk,hkc->bhtc", query, w_uk)
        content = torch.einsum("bhtc,bsc->bhts", moved, latent)
        weights = self.weights(content, rotary, cache, past)
        summed = torch.einsum("bhts,bsc->bhtc", weights, latent)
        return self.w_o(torch.einsum("bhtc,hkc->bthk", summed, w_uv).flatten(2)), cache
