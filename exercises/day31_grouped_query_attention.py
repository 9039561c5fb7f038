"""Day 31 · Grouped-query attention

Lesson  course lesson 31
Hints   course hint 31     (one more each time; the first gives the steps of one way)
Check   course watch 31    (checks at every save; `course check 31` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    attention(query, key, value, mask=None, dropout=None)
        Compute scaled dot-product attention: each query's output is a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`; both are 0 where every key is
        masked.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implementation import attention


class GroupedQueryAttention(nn.Module):
    """Apply causal self-attention in which groups of neighboring query heads share a key/value head.

        headᵢ = Attention(Q Wᵢ^Q, K Wⱼ^K, V Wⱼ^V),    j = i ÷ (n_heads / n_kv_heads), rounded down

    - `n_heads` is the number of query heads; it divides d_model, and d_k = d_model / n_heads.
      `n_kv_heads` is the number of key/value heads; it divides n_heads.
    - `w_q` is an `nn.Linear(d_model, d_model, bias=False)`; query head i, counted from 0, owns
      outputs i·d_k to (i+1)·d_k − 1.
    - `w_k` and `w_v` are each an `nn.Linear(d_model, n_kv_heads · d_k, bias=False)`; key/value head j
      owns outputs j·d_k to (j+1)·d_k − 1.
    - `w_o` is an `nn.Linear(d_model, d_model, bias=False)`; query head i owns inputs i·d_k to
      (i+1)·d_k − 1.
    - There are no other parameters, there is no dropout, and nothing else is in the state dict. The
      initial weights are those of `nn.Linear`.

    Raises:
        ValueError: n_heads does not divide d_model, or n_kv_heads does not divide n_heads.

    Source: Ainslie et al. 2023, *GQA: Training Generalized Multi-Query Transformer Models from
    Multi-Head Checkpoints*, §2.2; one key/value head: Shazeer 2019, *Fast Transformer Decoding: One
    Write-Head is All You Need*.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_model"]:
        """Attend from each token to itself and all earlier ones.

        - The result has the shape and dtype of `x`, `(B, T, d_model)`. T may be 0.
        - No tensor may contain a copy of the keys or values for each query head.
        """
        raise NotImplementedError

    def project(
        self, x: Float[Tensor, "B T d_model"]
    ) -> tuple[
        Float[Tensor, "B n_heads T d_k"],
        Float[Tensor, "B n_kv_heads T d_k"],
        Float[Tensor, "B n_kv_heads T d_k"],
    ]:
        """Project the tokens to queries, keys and values, and split these into heads.

        Return queries `(B, n_heads, T, d_k)`, keys and values `(B, n_kv_heads, T, d_k)`.
        """
        raise NotImplementedError

    def attend(
        self,
        query: Float[Tensor, "B n_heads T_q d_k"],
        key: Float[Tensor, "B n_kv_heads T_k d_k"],
        value: Float[Tensor, "B n_kv_heads T_k d_k"],
    ) -> Float[Tensor, "B T_q d_model"]:
        """Attend causally, and join the heads. The queries are the last T_q of the T_k positions.

        - `query` holds the last T_q of the T_k positions: keys from a cache come before them. T_q may be
          0.
        - `key` and `value` hold the keys and values of all positions.
        - Return `(B, T_q, d_model)`, head 0 first, before `w_o`.

        Raises:
            ValueError: more queries than keys.
        """
        raise NotImplementedError
