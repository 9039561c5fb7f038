"""Grouped-query attention: several heads ask, and share one head's keys and values.

It is the causal self-attention of a decoder with fewer keys and values to compute, and to keep in a
cache. As many key-value heads as heads is multi-head attention; a single one is multi-query attention.

From symbols to names
    B, T            batch, time
    T_q, T_k        time, where attention is meant: of the queries, of the keys and values
    h               n_heads, heads that ask
    G               n_kv_heads, groups: heads that answer
    d_k             width of a query or key inside one head: d_model / n_heads
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implementation import attention

# --- Day 31 · Grouped queries ---------------------------------------------------------------------


class GroupedQueryAttention(nn.Module):
    """Causal self-attention in which n_heads / n_kv_heads neighbouring heads share keys and values.

        headᵢ = Attention(Q Wᵢ^Q, K Wⱼ^K, V Wⱼ^V),    j = i ÷ (n_heads / n_kv_heads), rounded down

    Args:
        d_model: width of the tokens' vectors.
        n_heads: the number of heads that ask; it divides d_model, and d_k = d_model / n_heads.
        n_kv_heads: the number of heads that answer; it divides n_heads.

    Attributes:
        w_q: `nn.Linear(d_model, d_model, bias=False)`; head i, counted from 0, owns outputs i·d_k to
            (i+1)·d_k − 1.
        w_k, w_v: `nn.Linear(d_model, n_kv_heads · d_k, bias=False)`; key-value head j owns outputs
            j·d_k to (j+1)·d_k − 1.
        w_o: `nn.Linear(d_model, d_model, bias=False)`; head i owns inputs i·d_k to (i+1)·d_k − 1.
            There are no other parameters, no dropout, and nothing else in the state dict; the initial
            weights are those of `nn.Linear`.

    Raises:
        ValueError: n_heads does not divide d_model, or n_kv_heads does not divide n_heads.

    Source: Ainslie et al. 2023, *GQA: Training Generalized Multi-Query Transformer Models from
    Multi-Head Checkpoints*, §2.2; one key-value head: Shazeer 2019, *Fast Transformer Decoding: One
    Write-Head is All You Need*.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int):
        super().__init__()
        if n_heads < 1 or d_model < 1 or d_model % n_heads != 0:
            raise ValueError(
                f"n_heads must divide d_model, and {n_heads} does not divide {d_model}"
            )
        if n_kv_heads < 1 or n_heads % n_kv_heads != 0:
            raise ValueError(
                f"n_kv_heads must divide n_heads, and {n_kv_heads} does not divide {n_heads}"
            )
        # 1. Keep both numbers of heads. Narrower projections for keys and values; no biases.
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        d_kv = d_model // n_heads * n_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_kv, bias=False)
        self.w_v = nn.Linear(d_model, d_kv, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype: each token attends to itself and the past.

        T may be 0. No tensor holds keys or values once for each head that asks.
        """
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
        """The tokens' queries `(B, n_heads, T, d_k)`, keys and values `(B, n_kv_heads, T, d_k)`."""
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
        """Attend causally, and join the heads.

        Args:
            query: the queries, which are the last T_q of the T_k positions: what a cache has kept
                comes before them. T_q may be 0.
            key: the keys of all positions.
            value: their values.

        Returns:
            `(B, T_q, d_model)`, head 0 first, before `w_o`.

        Raises:
            ValueError: more queries than keys.
        """
        t_q, t_k = query.size(2), key.size(2)
        if t_q > t_k:
            raise ValueError(
                f"queries are the last of the keys' {t_k} positions, and there are {t_q}"
            )
        # 1. The heads of a group ask the same keys: to those keys they are simply more queries, one
        #    head's after the other's. So the queries change their shape, and the keys stay as they are.
        share = self.n_heads // self.n_kv_heads
        query = query.unflatten(1, (self.n_kv_heads, share))  # (B, G, share, T_q, d_k)
        query = query.flatten(2, 3)  # (B, G, share·T_q, d_k)
        # 2. Keys no later than the query, for each of a group's heads.
        past = torch.ones(t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)
        mask = past.repeat(share, 1)  # (share·T_q, T_k)
        # 3. Attend: the groups are one more batch dimension.
        heads, _ = attention(query, key, value, mask)  # (B, G, share·T_q, d_k)
        # 4. Take the heads apart again, and join them token by token.
        heads = heads.unflatten(2, (share, t_q)).flatten(1, 2)  # (B, n_heads, T_q, d_k)
        return heads.transpose(1, 2).flatten(-2)  # (B, T_q, d_model)
