"""Day 32 · LLaMA

Lesson  course lesson 32
Hints   course hint 32
Check   course watch 32    (checks at every save; `course check 32` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    KVCache(n_layers, batch, n_heads, max_len, d_k)
        Room for the keys and values of all layers, made once and filled chunk by chunk.
        .update(layer, key, value)
            Append a chunk to one layer.
            Returns: All keys and all values of that layer up to now, the chunk's at the end: `(B, h, T_k,
            d_k)` each, in their order of arrival.
        .reorder(rows)
            Let every row continue another one's text, as beams do: row i becomes what row `rows[i]` was.
    past_length(tokens, cache, config)
        The position of a chunk's first token: how many tokens a model has read before it.
    LLaMABlock(config, angles)
        One layer of LLaMA: the pre-norm block of day 23 with other parts.
    LLaMAConfig(vocab=32000, context=2048, n_layers=32, n_heads=32, n_kv_heads=32, d_model=4096, d_ff=11008,
            eps=1e-06, base=10000.0)
        The sizes of a LLaMA.
    RMSNorm(features, eps)
        Give every vector a mean square of 1, then a learnt scale.
        called with (x)
            Norm the last axis; the mean square is each vector's own.
            Returns: The shape and dtype of `x`, whatever the dtype of `gain`.
    rope_angles(head_dim, max_len, base=10000.0)
        How far each pair of features is turned at each position.
        Returns: `(max_len, head_dim / 2)`, radians, on the CPU.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.kv_cache import KVCache, past_length
from variants.llama import LLaMABlock, LLaMAConfig
from variants.norms import RMSNorm
from variants.rope import rope_angles


class LLaMA(nn.Module):
    """The whole: from the tokens so far to scores of the next one, at every position at once.

        h₀ = W_e[tokens]
        hₙ = Block(hₙ₋₁), n = 1 … N
        logits = RMSNorm(h_N) W_oᵀ

    Args:
        config: a `LLaMAConfig`.

    Attributes:
        config: as given; `generate` and `new_cache` read it.
        embed: W_e, `nn.Embedding(vocab, d_model)`.
        blocks: N `LLaMABlock(config, angles)`, an `nn.ModuleList`, called as `block(x, cache, layer)`, layers
            counted from 0. All have the same table, `rope_angles(d_k, context, base)`: numbers also where
            the weights are made without any, on torch's device "meta".
        norm: the final `RMSNorm(d_model, eps)`.
        head: W_o, `nn.Linear(d_model, vocab, bias=False)`, a matrix of its own. (Where a published model
            is tied, as LLaMA 3.2 of 1B is, it holds a copy of the embedding.)

        These four hold all parameters, and nothing else stands in the state dict. Every matrix starts at
        N(0, 0.02²), gains at 1.

    Raises:
        ValueError: n_heads does not divide d_model, n_kv_heads does not divide n_heads, or d_k is odd.

    Source: Touvron et al. 2023, §2.2; the start, which the paper does not give: `initializer_range` of the
    published configurations.
    """

    def __init__(self, config: LLaMAConfig):
        super().__init__()
        # 1. Keep the config, and make the table for tokens. There is none for positions.
        # 2. The angles of all positions, once for all layers: never on torch's device "meta".
        # 3. The blocks with weights of their own, the final norm, and the head.
        # 4. Start every matrix at N(0, 0.02²).
        raise NotImplementedError

    def forward(
        self, tokens: Int[Tensor, "B T"], cache: KVCache | None = None
    ) -> Float[Tensor, "B T V"]:
        """Score what comes next after each token of a chunk.

        Args:
            tokens: ids `(B, T)`: the chunk that follows what the cache holds; T may be 0. There is no
                padding: where a shorter row is filled up at its end, what comes before is unchanged.
            cache: a cache of `new_cache(config, B, max_len)` that has read the tokens before these; it
                then has read these too. No gradient passes through it. None: the chunk is the whole text.

        Returns:
            Logits `(B, T, V)` in the weights' dtype: row t scores the token after `tokens[:, t]`, from
            that and all before it. They are not normed: no softmax is applied. A text read in any chunks
            has the logits of the whole, to the dtype's rounding. In half precision the angles are still
            those of float32 or better.

        Raises:
            ValueError: cache and chunk together are more than `config.context`, or a cache that does not
                fit: of other layers, heads or rows, another dtype or device, or without room.
        """
        # 1. Does the chunk fit behind what is held? Its positions enter only in the attention.
        # 2. Through the blocks in turn, each with its own layer of the cache.
        # 3. Norm, and score each token of the vocabulary.
        raise NotImplementedError
