"""Day 25 · KV cache

Lesson  course lesson 25
Hints   course hint 25     (one more each time; the first gives the steps of one way)
Check   course watch 25    (checks at every save; `course check 25` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    attention(query, key, value, mask=None, dropout=None)
        Compute scaled dot-product attention: each query's output is a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`; both are 0 where every key is
        masked.
    CausalSelfAttention(d_model, n_heads, dropout=0.0)
        Attend from each token to itself and to earlier tokens, in h heads.
        called with (x)
            Return the output; row t depends on `x[:, :t + 1]` alone.
        Attributes: `self.n_heads`, `self.w_qkv`, `self.w_o`, `self.dropout`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implementation import attention
from variants.gpt import CausalSelfAttention


class KVCache:
    """Store the keys and values of all layers, in memory that is allocated once and filled chunk by chunk.

    `keys` and `values` are `(N, B, h, max_len, d_k)` each: 2 · N · B · h · max_len · d_k numbers. `length` is
    the number of tokens that all layers store. During a forward pass the earlier layers already store the
    new chunk, so `length` still is the position of the chunk's first token.

    - `n_layers` is N, the number of layers that store something, `batch` is B, the number of rows, and
      `n_heads` is h, the number of heads of keys and values. If several query heads share them, as on
      day 31, this is the number of key/value heads. `max_len` is the maximum number of tokens in a row.
    - `keys` and `values` are the only tensors. Both exist from the beginning, on torch's default device and
      in its default dtype. The first chunk decides: while the cache is empty it takes the chunk's device
      and dtype. Positions that are not yet written may hold any numbers.
    - `length` is an int, 0 at first. It grows when the last layer has stored its chunk.

    Source: Shazeer 2019, *Fast Transformer Decoding: One Write-Head is All You Need*, §2.4 (incremental
    multi-head attention).
    """

    def __init__(self, n_layers: int, batch: int, n_heads: int, max_len: int, d_k: int):
        raise NotImplementedError

    def update(
        self,
        layer: int,
        key: Float[Tensor, "B n_heads T d_k"],
        value: Float[Tensor, "B n_heads T d_k"],
    ) -> tuple[Float[Tensor, "B n_heads T_k d_k"], Float[Tensor, "B n_heads T_k d_k"]]:
        """Append a chunk to one layer, counted from 0, and return all keys and values of that layer.

        - `layer` is the index of the layer. `key` holds the chunk's keys, `(B, h, T, d_k)`, and `value` its
          values; T may be 0.
        - Return all keys and all values of that layer so far, in order, with the chunk's at the end. Both
          are `(B, h, T_k, d_k)`. They may be views into the cache: the caller reads them before the next
          `reorder`, and does not write into them.
        - The cache stores numbers without a graph: the returned tensors do not require a gradient, and the
          chunk's graph is not kept.

        Raises:
            ValueError: a layer index out of range, a shape other than `(B, h, T, d_k)`, or more than
                `max_len` tokens. The cache is unchanged.
        """
        raise NotImplementedError

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        """Reorder the batch for beam search: row i becomes what row `rows[i]` was.

        `rows` is int64 `(B,)`, each from 0 to B − 1. Rows may repeat, or be left out. `reorder` may be
        called in the middle of a step, when some layers hold more tokens than others.
        """
        raise NotImplementedError


class CachedSelfAttention(CausalSelfAttention):
    """The causal self-attention of day 23, which can also continue a text that a cache holds.

        headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k + M) Vᵢ,  M = 0 where the key is no later than the query, else −∞

    Q comes from the chunk's T_q tokens. K and V come from all T_k tokens so far, of which the chunk's are
    the last T_q: query t is at position T_k − T_q + t.

    `w_qkv` and `w_o` are those of `CausalSelfAttention`, in the same layout, and the state dict holds nothing
    else: weights load from one into the other. `dropout` is the probability of dropping an attention weight
    in training.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2 and §3.2.3; Shazeer 2019, §2.4.
    """

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        cache: KVCache | None = None,
        layer: int | None = None,
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token of a chunk to itself and to all earlier tokens.

        - `x` is the chunk, `(B, T, d_model)`; T may be 0. The result has its shape and dtype. If a text is
          passed in chunks, one after the other, the results are those of the full text, up to rounding.
        - `cache` holds the earlier tokens. The chunk's keys and values are appended to it. No gradient
          passes through keys and values from a cache: a cache is for decoding, not for training. If `cache`
          is None, the chunk is the full text, and the result is that of day 23, including gradients.
        - `layer` is the index of this layer in the cache. It is always given if a cache is given.

        Raises:
            ValueError: a cache without the index of its layer, and as `KVCache.update` does.
        """
        raise NotImplementedError
