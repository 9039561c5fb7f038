"""Latent attention, whose cache holds one small vector per token, and the norm of queries and keys.

Papers: DeepSeek-AI 2024, *DeepSeek-V2*, § and equations below are its own; Henry et al. 2020, *Query-Key
Normalization for Transformers*, and Dehghani et al. 2023, *Scaling Vision Transformers to 22 Billion
Parameters*, §2 (QK-norm). Queries are projected directly, as in DeepSeek-V2-Lite: to compress them, too
(eqs. 12 and 13), saves memory in training alone.

From symbols to names
    B, T            batch, time; T_k with the tokens of a cache
    h               n_heads (n_h)
    d_k             width of a query, key or value inside one head (d_h)
    d_c             width of the latent
    d_r             width of the rotary part of a query or key (d_h^R)
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implementation import attention
from variants.norms import RMSNorm
from variants.rope import apply_rope, rope_angles

# --- Day 43 · QK-norm -----------------------------------------------------------------------------


class QKNorm(nn.Module):
    """Normalize the queries and keys of each head, so that only the gains set how large a logit can be.

        q̂ = RMSNorm_q(q),  k̂ = RMSNorm_k(k),  logit = q̂ᵀ k̂ / √d_k

    It comes before rotary positions. All heads share the gains.

    Source: Dehghani et al. 2023, §2, with LayerNorm; Yang et al. 2025, *Qwen3 Technical Report*, §2, with
    RMSNorm. (OLMo 2 normalizes all heads of a token together.)
    """

    def __init__(self, d_k: int, eps: float = 1e-6):
        super().__init__()
        self.query = RMSNorm(d_k, eps)
        self.key = RMSNorm(d_k, eps)

    def forward(
        self, query: Float[Tensor, "*batch T_q d_k"], key: Float[Tensor, "*batch T_k d_k"]
    ) -> tuple[Float[Tensor, "*batch T_q d_k"], Float[Tensor, "*batch T_k d_k"]]:
        """Return the normalized queries and keys."""
        return self.query(query), self.key(key)


# --- Day 43 · Latent attention --------------------------------------------------------------------


@dataclass(frozen=True)
class LatentConfig:
    """The sizes of a latent attention; the defaults are DeepSeek-V2's, with 128 heads.

    `context` is the maximum number of tokens, including those in a cache; `base` is that of the angles.

    Source: DeepSeek-AI 2024, §3.1.2.
    """

    d_model: int = 5120
    n_heads: int = 128
    d_k: int = 128
    d_c: int = 512
    d_r: int = 64
    context: int = 4096
    base: float = 10000.0
    eps: float = 1e-6


class MultiHeadLatentAttention(nn.Module):
    """Attend causally in h heads to keys and values that are projections of one latent per token.

        c = RMSNorm(W_DKV x),  k_r = RoPE(W_KR x)                 cached: d_c + d_r numbers per token
        kᵢ = [W_UK,ᵢ c ; k_r],  vᵢ = W_UV,ᵢ c,  qᵢ = [W_Q,ᵢ x ; RoPE(W_QR,ᵢ x)]
        headᵢ = softmax(qᵢᵀ kᵢ / √(d_k + d_r)) vᵢ,  output = W_O [head₁; …; head_h]

    The rotary part of a key is the same for all heads. No projection has a bias.

    Source: DeepSeek-AI 2024, §2.1.2 and §2.1.3, eqs. 9 to 19; the norm: §3.1.2 (its published code).
    """

    def __init__(self, config: LatentConfig):
        super().__init__()
        self.config = config
        d, h = config.d_model, config.n_heads
        # 1. Queries: a part that can be absorbed, and a rotary part.
        self.w_q = nn.Linear(d, h * config.d_k, bias=False)
        self.w_qr = nn.Linear(d, h * config.d_r, bias=False)
        # 2. What is cached: the latent with its norm, and a rotary key.
        self.w_dkv = nn.Linear(d, config.d_c, bias=False)
        self.norm = RMSNorm(config.d_c, config.eps)
        self.w_kr = nn.Linear(d, config.d_r, bias=False)
        # 3. From the latent to keys and values, and the output projection.
        self.w_uk = nn.Linear(config.d_c, h * config.d_k, bias=False)
        self.w_uv = nn.Linear(config.d_c, h * config.d_k, bias=False)
        self.w_o = nn.Linear(h * config.d_k, d, bias=False)
        # 4. The angles of all positions, neither a parameter nor a buffer: half precision would round them.
        self.angles = rope_angles(config.d_r, config.context, config.base)  # (context, d_r / 2)

    def compress(
        self, x: Float[Tensor, "B T d_model"], past: int = 0
    ) -> Float[Tensor, "B T d_c+d_r"]:
        """Return what is cached of a chunk that follows `past` tokens: latents, then rotary keys.

        Raises:
            ValueError: positions beyond `config.context`.
        """
        # 1. The latent is normalized, and has no position. The rotary key has one, and no head.
        latent = self.norm(self.w_dkv(x))  # (B, T, d_c)
        rotary = apply_rope(self.w_kr(x), self.angles, past)  # (B, T, d_r)
        return torch.cat([latent, rotary], dim=-1)  # (B, T, d_c + d_r)

    def queries(
        self, x: Float[Tensor, "B T d_model"], past: int = 0
    ) -> tuple[Float[Tensor, "B h T d_k"], Float[Tensor, "B h T d_r"]]:
        """Return the queries of a chunk that follows `past` tokens, and their rotary part."""
        # 1. Project, split into heads, and rotate one of the two.
        h = self.config.n_heads
        query = self.w_q(x).unflatten(-1, (h, -1)).transpose(1, 2)  # (B, h, T, d_k)
        rotary = self.w_qr(x).unflatten(-1, (h, -1)).transpose(1, 2)  # (B, h, T, d_r)
        return query, apply_rope(rotary, self.angles, past)

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: Float[Tensor, "B T_past d_c+d_r"] | None = None,
    ) -> tuple[Float[Tensor, "B T d_model"], Float[Tensor, "B T_k d_c+d_r"]]:
        """Return the output for a chunk, and the cache with the chunk in it.

        Each token attends to itself and to all earlier ones.

        Raises:
            ValueError: cache and chunk together are longer than `config.context`.
        """
        # 1. Compress the chunk, and append it to the cache.
        past = 0 if cache is None else cache.size(1)
        chunk = self.compress(x, past)  # (B, T, d_c + d_r)
        cache = chunk if cache is None else torch.cat([cache, chunk], dim=1)  # (B, T_k, d_c + d_r)
        latent, shared = cache.split([self.config.d_c, self.config.d_r], dim=-1)
        # 2. Expand every latent into the keys and values of all heads.
        h = self.config.n_heads
        key = self.w_uk(latent).unflatten(-1, (h, -1)).transpose(1, 2)  # (B, h, T_k, d_k)
        value = self.w_uv(latent).unflatten(-1, (h, -1)).transpose(1, 2)  # (B, h, T_k, d_k)
        # 3. Append the rotary parts; all heads get the same one for a key.
        query = torch.cat(self.queries(x, past), dim=-1)  # (B, h, T, d_k + d_r)
        shared = shared.unsqueeze(1).expand(-1, h, -1, -1)  # (B, h, T_k, d_r)
        key = torch.cat([key, shared], dim=-1)  # (B, h, T_k, d_k + d_r)
        # 4. Attend with the scale 1 / √(d_k + d_r), join the heads, and apply the output projection.
        heads, _ = attention(query, key, value, causal_mask(x, cache))  # (B, h, T, d_k)
        return self.w_o(heads.transpose(1, 2).flatten(-2)), cache  # (B, T, d_model)

    def absorbed(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: Float[Tensor, "B T_past d_c+d_r"] | None = None,
    ) -> tuple[Float[Tensor, "B T d_model"], Float[Tensor, "B T_k d_c+d_r"]]:
        """Return what `forward` returns, up to rounding: the heads attend to the cache itself.

            qᵀ (W_UK c) = (W_UKᵀ q)ᵀ c,    Σ aⱼ (W_UV cⱼ) = W_UV (Σ aⱼ cⱼ)

        Raises:
            ValueError: as `forward` does.

        Source: DeepSeek-AI 2024, §2.1.2 (W_UK can be absorbed into W_Q, and W_UV into W_O).
        """
        # 1. Compress the chunk, and append it to the cache.
        past = 0 if cache is None else cache.size(1)
        chunk = self.compress(x, past)  # (B, T, d_c + d_r)
        cache = chunk if cache is None else torch.cat([cache, chunk], dim=1)  # (B, T_k, d_c + d_r)
        # 2. Move W_UK to the side of the queries.
        query, rotary = self.queries(x, past)  # (B, h, T, d_k), (B, h, T, d_r)
        w_uk = self.w_uk.weight.unflatten(0, (self.config.n_heads, -1))  # (h, d_k, d_c)
        query = torch.cat([query @ w_uk, rotary], dim=-1)  # (B, h, T, d_c + d_r)
        # 3. `attention` divides by the root of these vectors' width. The scale is still that of d_k + d_r.
        query = query * math.sqrt(query.size(-1) / (self.config.d_k + self.config.d_r))
        # 4. Attend: the cache has the keys, and its latents are the values, the same for all heads.
        keys = cache.unsqueeze(1)  # (B, 1, T_k, d_c + d_r)
        values = keys[..., : self.config.d_c]  # (B, 1, T_k, d_c)
        heads, _ = attention(query, keys, values, causal_mask(x, cache))  # (B, h, T, d_c)
        # 5. Project what was attended to, not what is cached: W_UV on the side of the output.
        w_uv = self.w_uv.weight.unflatten(0, (self.config.n_heads, -1))  # (h, d_k, d_c)
        heads = heads @ w_uv.transpose(1, 2)  # (B, h, T, d_k)
        return self.w_o(heads.transpose(1, 2).flatten(-2)), cache  # (B, T, d_model)


def causal_mask(x: Float[Tensor, "B T d_model"], cache: Float[Tensor, "B T_k width"]) -> Tensor:
    """Return the mask `(T, T_k)`, bool: the chunk's tokens are the last T of T_k."""
    t, t_k = x.size(1), cache.size(1)
    return torch.ones(t, t_k, dtype=torch.bool, device=x.device).tril(t_k - t)
