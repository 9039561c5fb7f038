"""Day 25 · KV cache

Lesson  course lesson 25
Hints   course hint 25
Check   course watch 25    (checks at every save; `course check 25` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    attention(query, key, value, mask=None, dropout=None)
        Compute scaled dot-product attention: each query's output is a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`, after dropout.
    CausalSelfAttention(d_model, n_heads, dropout=0.0)
        Attend from each token to itself and to earlier tokens, in h heads.
        called with (x)
            Return the mixed heads; row t depends on `x[:, :t + 1]` alone.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implementation import attention
from variants.gpt import CausalSelfAttention


class KVCache:
    """Room for the keys and values of all layers, made once and filled chunk by chunk.

    Args:
        n_layers: N, the number of layers that keep something.
        batch: B, the number of rows.
        n_heads: h, the number of heads that keys and values have; where several heads share them, as on
            day 31, that is the number of key-value heads.
        max_len: the most tokens that a row can hold.
        d_k: width of a key or value inside one head.

    Attributes:
        keys, values: `(N, B, h, max_len, d_k)` each, 2 · N · B · h · max_len · d_k numbers together, and
            no other tensor. Both exist from the start, on torch's default device and in its default
            dtype; the first chunk decides: the cache takes its device and dtype while it is empty. What
            stands at positions not yet written means nothing.
        length: how many tokens every layer holds, an int; 0 at first. The layers are updated in turn, so
            in the middle of a step some hold more: until the last layer has its chunk, `length` is still
            the position of the chunk's first token.

    Raises:
        ValueError: a size below 1.

    Source: Shazeer 2019, *Fast Transformer Decoding: One Write-Head is All You Need*, §2.4 (incremental
    multi-head attention).
    """

    def __init__(self, n_layers: int, batch: int, n_heads: int, max_len: int, d_k: int):
        # 1. The room for keys, and as much for values.
        # 2. How many tokens each layer holds, and how many they all hold.
        raise NotImplementedError

    def update(
        self,
        layer: int,
        key: Float[Tensor, "B n_heads T d_k"],
        value: Float[Tensor, "B n_heads T d_k"],
    ) -> tuple[Float[Tensor, "B n_heads T_k d_k"], Float[Tensor, "B n_heads T_k d_k"]]:
        """Append a chunk to one layer.

        Args:
            layer: the number of the layer, counted from 0.
            key: the chunk's keys, `(B, h, T, d_k)`; T may be 0.
            value: its values, of the same shape.

        Returns:
            All keys and all values of that layer up to now, the chunk's at the end: `(B, h, T_k, d_k)`
            each, in their order of arrival. They may be views into the cache: read them before the next
            `reorder`, and do not write into them. The cache holds numbers, and no history: what is
            returned needs no gradient, and the chunk's graph is not kept.

        Raises:
            ValueError: a layer that there is not; a chunk of another shape than `(B, h, T, d_k)`; more
                tokens than `max_len`; or another dtype or device than that of the tokens held. The cache
                is then as it was.
        """
        # 1. While nothing is held, the room takes the chunk's dtype and device.
        # 2. Write the numbers, without their history, behind what this layer holds.
        # 3. Count: this layer holds more, and all of them together hold what each of them holds.
        # 4. Give back what this layer holds now.
        raise NotImplementedError

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        """Let every row continue another one's text, as beams do: row i becomes what row `rows[i]` was.

        Args:
            rows: int64 `(B,)`, each from 0 to B − 1. Rows may repeat, or be left out.

        Raises:
            ValueError: another shape or dtype, or rows that there are not (only the CPU is asked: a GPU
                would have to wait). The cache is then as it was.
        """
        # 1. In every layer, but only what is held. The right side is a copy, made before it is written.
        raise NotImplementedError


class CachedSelfAttention(CausalSelfAttention):
    """The causal self-attention of day 23, which also continues a text whose beginning it has read.

        headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k + M) Vᵢ,  M = 0 where the key is no later than the query, else −∞

    Q comes from the chunk's T_q tokens. K and V come from all T_k tokens so far, of which the chunk's are
    the last T_q: query t stands at position T_k − T_q + t.

    Args:
        d_model: width of the tokens' vectors.
        n_heads: h; it divides d_model.
        dropout: the probability with which an attention weight is dropped in training.

    Attributes:
        w_qkv, w_o: those of `CausalSelfAttention`, in the same layout, and nothing else: weights load
            from one into the other.

    Raises:
        ValueError: n_heads does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2 and §3.2.3; Shazeer 2019, §2.4.
    """

    def forward(
        self, x: Float[Tensor, "B T d_model"], cache: KVCache | None = None, layer: int = 0
    ) -> Float[Tensor, "B T d_model"]:
        """Attend from each token of a chunk to itself and to all that came before it.

        Args:
            x: the chunk, `(B, T, d_model)`; T may be 0. Any chunks that make up a text give, one after
                the other, what the whole text gives at once, to rounding.
            cache: what it attends to beside the chunk. The chunk's keys and values are appended to it.
                No gradient passes through keys and values from a cache: it is for decoding, not for
                training. None: the chunk is the whole text, and the result that of day 23, gradients too.
            layer: which of the cache's layers is this one's.

        Returns:
            The shape and dtype of `x`.

        Raises:
            ValueError: as `KVCache.update` does.
        """
        # 1. Project the chunk alone into query, key and value, and split each into heads.
        # 2. Append keys and values to those of earlier tokens, and take them all.
        # 3. Who may see whom: the first query sees all that came before the chunk, and itself.
        # 4. Attend, join the heads, and mix them by the output projection.
        raise NotImplementedError
