"""Grouped-query attention: several query heads share one key/value head.

It is a decoder's causal self-attention with fewer keys and values to compute and to cache. With as many
key/value heads as query heads it is multi-head attention; with a single one it is multi-query attention.

From symbols to names
    B, T            batch, time
    T_q, T_k        time in attention: of the queries, of the keys and values
    h               n_heads, the query heads
    G               n_kv_heads, the key/value heads, one per group of query heads
    d_k             width of a query or key inside one head: d_model / n_heads
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implementation import attention

# --- Day 31 · Grouped queries ---------------------------------------------------------------------


class GroupedQueryAttention(nn.Module):
    """Apply causal self-attention in which groups of neighboring query heads share a key/value head.

        headᵢ = Attention(Q Wᵢ^Q, K Wⱼ^K, V Wⱼ^V),    j = i ÷ (n_heads / n_kv_heads), rounded down

    Raises:
        ValueError: n_heads does not divide d_model, or n_kv_heads does not divide n_heads.

    Source: Ainslie et al. 2023, *GQA: Training Generalized Multi-Query Transformer Models from
    Multi-Head Checkpoints*, §2.2; one key/value head: Shazeer 2019, *Fast Transformer Decoding: One
    Write-Head is All You Need*.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int):
        super().__init__()
        if n_heads < 1 or d_model < 1 or d_model % n_heads != 0:
            raise ValueError(f"n_heads must divide d_model, got {n_heads=}, {d_model=}")
        if n_kv_heads < 1 or n_heads % n_kv_heads != 0:
            raise ValueError(f"n_kv_heads must divide n_heads, got {n_kv_heads=}, {n_heads=}")
        # 1. Store both numbers of heads. The projections of keys and values are narrower; none has a bias.
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        d_kv = d_model // n_heads * n_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_kv, bias=False)
        self.w_v = nn.Linear(d_model, d_kv, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Attend from each token to itself and all earlier ones."""
        # 1. Project into heads, attend, and mix the heads by the output projection.
        query, key, value = self.project(x)
        return self.w_o(self.attend(query, key, value))  # (B, T, d_model)

    def project(
        self, x: Float[Tensor, "B T d_model"]
    ) -> tuple[
        Float[Tensor, "B n_heads T d_k"],
        Float[Tensor, "B n_kv_heads T d_k"],
        Float[Tensor, "B n_kv_heads T d_k"],
    ]:
        """Project the tokens to queries, keys and values, and split these into heads."""
        # 1. Project, and split the last axis into heads: fewer for keys and values.
        d_k = x.size(-1) // self.n_heads
        query = self.w_q(x).unflatten(-1, (self.n_heads, d_k))  # (B, T, n_heads, d_k)
        key = self.w_k(x).unflatten(-1, (self.n_kv_heads, d_k))  # (B, T, n_kv_heads, d_k)
        value = self.w_v(x).unflatten(-1, (self.n_kv_heads, d_k))  # (B, T, n_kv_heads, d_k)
        # 2. Heads before time.
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)

    def attend(
        self,
        query: Float[Tensor, "B n_heads T_q d_k"],
        key: Float[Tensor, "B n_kv_heads T_k d_k"],
        value: Float[Tensor, "B n_kv_heads T_k d_k"],
    ) -> Float[Tensor, "B T_q d_model"]:
        """Attend causally, and join the heads. The queries are the last T_q of the T_k positions.

        Raises:
            ValueError: more queries than keys.
        """
        t_q, t_k = query.size(2), key.size(2)
        if t_q > t_k:
            raise ValueError(f"there must be at most {t_k} queries, one per key, got {t_q}")
        # 1. All query heads of a group attend to the same keys, so to those keys they are simply more
        #    queries. Reshape the queries, and leave the keys as they are.
        share = self.n_heads // self.n_kv_heads
        query = query.unflatten(1, (self.n_kv_heads, share))  # (B, G, share, T_q, d_k)
        query = query.flatten(2, 3)  # (B, G, share·T_q, d_k)
        # 2. Mask later keys, the same for every query head of a group.
        past = torch.ones(t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)
        mask = past.repeat(share, 1)  # (share·T_q, T_k)
        # 3. Attend, with the groups as one more batch dimension.
        heads, _ = attention(query, key, value, mask)  # (B, G, share·T_q, d_k)
        # 4. Separate the heads again, and join them token by token.
        heads = heads.unflatten(2, (share, t_q)).flatten(1, 2)  # (B, n_heads, T_q, d_k)
        return heads.transpose(1, 2).flatten(-2)  # (B, T_q, d_model)
