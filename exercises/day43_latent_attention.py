"""Day 43 · Latent attention

Lesson  course lesson 43
Hints   course hint 43     (one more each time; the first gives the steps of one way)
Check   course watch 43    (checks at every save; `course check 43` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    attention(query, key, value, mask=None, dropout=None)
        Compute scaled dot-product attention: each query's output is a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`; both are 0 where every key is
        masked.
    LatentConfig(d_model=5120, n_heads=128, d_k=128, d_c=512, d_r=64, context=4096, base=10000.0, eps=1e-06)
        The sizes of a latent attention; the defaults are DeepSeek-V2's, with 128 heads.
    causal_mask(x, cache)
        Return the mask `(T, T_k)`, bool: the chunk's tokens are the last T of T_k.
    RMSNorm(features, eps)
        Normalize every vector to a mean square of 1, then scale it.
        called with (x)
            Normalize the last axis, in float32 at least.
    apply_rope(x, angles, offset=0, layout="interleaved")
        Rotate each pair of features (a, b) by the angle of its position.
    rope_angles(head_dim, max_len, base=10000.0)
        Return the angle by which each pair of features is rotated at each position, in radians.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implementation import attention
from variants.latent import LatentConfig, causal_mask
from variants.norms import RMSNorm
from variants.rope import apply_rope, rope_angles


class QKNorm(nn.Module):
    """Normalize the queries and keys of each head, so that only the gains set how large a logit can be.

        q̂ = RMSNorm_q(q),  k̂ = RMSNorm_k(k),  logit = q̂ᵀ k̂ / √d_k

    It comes before rotary positions. All heads share the gains.

    - `query` and `key` are each an `RMSNorm(d_k, eps)`; they hold all parameters.
    - Queries and keys are `(…, T, d_k)`, with or without an axis of heads; T may differ between the
      two. Return both in this order, each in its own dtype. The inputs are not changed.

    Source: Dehghani et al. 2023, §2, with LayerNorm; Yang et al. 2025, *Qwen3 Technical Report*, §2, with
    RMSNorm. (OLMo 2 normalizes all heads of a token together.)
    """

    def __init__(self, d_k: int, eps: float = 1e-6):
        super().__init__()
        raise NotImplementedError

    def forward(
        self, query: Float[Tensor, "*batch T_q d_k"], key: Float[Tensor, "*batch T_k d_k"]
    ) -> tuple[Float[Tensor, "*batch T_q d_k"], Float[Tensor, "*batch T_k d_k"]]:
        """Return the normalized queries and keys."""
        raise NotImplementedError


class MultiHeadLatentAttention(nn.Module):
    """Attend causally in h heads to keys and values that are projections of one latent per token.

        c = RMSNorm(W_DKV x),  k_r = RoPE(W_KR x)                 cached: d_c + d_r numbers per token
        kᵢ = [W_UK,ᵢ c ; k_r],  vᵢ = W_UV,ᵢ c,  qᵢ = [W_Q,ᵢ x ; RoPE(W_QR,ᵢ x)]
        headᵢ = softmax(qᵢᵀ kᵢ / √(d_k + d_r)) vᵢ,  output = W_O [head₁; …; head_h]

    The rotary part of a key is the same for all heads. No projection has a bias.

    - `config` is a `LatentConfig`, stored as given.
    - `w_q`, `w_qr`, `w_dkv`, `w_kr`, `w_uk`, `w_uv` and `w_o` are `nn.Linear` without bias, `norm` is an
      `RMSNorm(d_c, eps)`. These hold all parameters, and nothing else is in the state dict.
    - The heads of a projection are stored consecutively: the first d_k outputs of `w_q` are head 1's.
    - Adjacent features form a rotary pair, `apply_rope`'s usual layout.

    Source: DeepSeek-AI 2024, §2.1.2 and §2.1.3, eqs. 9 to 19; the norm: §3.1.2 (its published code).
    """

    def __init__(self, config: LatentConfig):
        super().__init__()
        raise NotImplementedError

    def compress(
        self, x: Float[Tensor, "B T d_model"], past: int = 0
    ) -> Float[Tensor, "B T d_c+d_r"]:
        """Return what is cached of a chunk that follows `past` tokens: latents, then rotary keys.

        - `x` is `(B, T, d_model)`; `past` is the position of its first token. Return `(B, T, d_c + d_r)`: the
          normalized latent, then the rotated key.

        Raises:
            ValueError: positions beyond `config.context`.
        """
        raise NotImplementedError

    def queries(
        self, x: Float[Tensor, "B T d_model"], past: int = 0
    ) -> tuple[Float[Tensor, "B h T d_k"], Float[Tensor, "B h T d_r"]]:
        """Return the queries of a chunk that follows `past` tokens, and their rotary part.

        - Return the queries `(B, h, T, d_k)`, and their rotated part `(B, h, T, d_r)`.
        """
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: Float[Tensor, "B T_past d_c+d_r"] | None = None,
    ) -> tuple[Float[Tensor, "B T d_model"], Float[Tensor, "B T_k d_c+d_r"]]:
        """Return the output for a chunk, and the cache with the chunk in it.

        Each token attends to itself and to all earlier ones.

        - `cache` is what an earlier call returned, `(B, T_past, d_c + d_r)`, or None; it is not changed.
        - Return the output `(B, T, d_model)` and a cache `(B, T_past + T, d_c + d_r)`.

        Raises:
            ValueError: cache and chunk together are longer than `config.context`.
        """
        raise NotImplementedError

    def absorbed(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: Float[Tensor, "B T_past d_c+d_r"] | None = None,
    ) -> tuple[Float[Tensor, "B T d_model"], Float[Tensor, "B T_k d_c+d_r"]]:
        """Return what `forward` returns, up to rounding: the heads attend to the cache itself.

            qᵀ (W_UK c) = (W_UKᵀ q)ᵀ c,    Σ aⱼ (W_UV cⱼ) = W_UV (Σ aⱼ cⱼ)

        - Arguments and results are those of `forward`. Neither `w_uk` nor `w_uv` is applied to a latent.

        Raises:
            ValueError: as `forward` does.

        Source: DeepSeek-AI 2024, §2.1.2 (W_UK can be absorbed into W_Q, and W_UV into W_O).
        """
        raise NotImplementedError
