"""Day 31 · Grouped-query attention

Lesson  course lesson 31
Hints   course hint 31
Check   course watch 31    (checks at every save; `course check 31` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    attention(query, key, value, mask=None, dropout=None)
        Compute scaled dot-product attention: each query's output is a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`, after dropout.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implementation import attention


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
        # 1. Keep both numbers of heads. Narrower projections for keys and values; no biases.
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """From `(B, T, d_model)` to the same shape and dtype: each token attends to itself and the past.

        T may be 0. No tensor holds keys or values once for each head that asks.
        """
        # 1. Project into heads, attend, and mix the heads by the output projection.
        raise NotImplementedError

    def project(
        self, x: Float[Tensor, "B T d_model"]
    ) -> tuple[
        Float[Tensor, "B n_heads T d_k"],
        Float[Tensor, "B n_kv_heads T d_k"],
        Float[Tensor, "B n_kv_heads T d_k"],
    ]:
        """The tokens' queries `(B, n_heads, T, d_k)`, keys and values `(B, n_kv_heads, T, d_k)`."""
        # 1. Project, and split the last axis into heads: fewer for keys and values.
        # 2. Heads before time.
        raise NotImplementedError

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
        # 1. The heads of a group ask the same keys: to those keys they are simply more queries, one
        #    head's after the other's. So the queries change their shape, and the keys stay as they are.
        # 2. Keys no later than the query, for each of a group's heads.
        # 3. Attend: the groups are one more batch dimension.
        # 4. Take the heads apart again, and join them token by token.
        raise NotImplementedError
