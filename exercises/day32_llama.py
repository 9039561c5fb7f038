"""Day 32 · LLaMA

Lesson  course lesson 32
Hints   course hint 32     (one more each time; the first gives the steps of one way)
Check   course watch 32    (checks at every save; `course check 32` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    KVCache(n_layers, batch, n_heads, max_len, d_k)
        Store the keys and values of all layers, in memory that is allocated once and filled chunk by chunk.
        .update(layer, key, value)
            Append a chunk to one layer, counted from 0, and return all keys and values of that layer.
        .reorder(rows)
            Reorder the batch for beam search: row i becomes what row `rows[i]` was.
    past_length(tokens, cache, config)
        Return the position of a chunk's first token: the number of tokens that the cache holds.
    LLaMABlock(config, angles)
        Apply one layer of LLaMA, called as `block(x, cache, layer)`.
        called with (x, cache=None, layer=None, rotation=None)
            Map `(B, T, d_model)` to the same shape and dtype.
    LLaMAConfig(vocab=32000, context=2048, n_layers=32, n_heads=32, n_kv_heads=32, d_model=4096, d_ff=11008,
            eps=1e-06, base=10000.0)
        The sizes of a LLaMA.
    RMSNorm
        Apply the RMSNorm of day 28, in one kernel of PyTorch.
        called with (x)
            Normalize the last axis, then scale it.
    rope_angles(head_dim, max_len, base=10000.0)
        Return the angle by which each pair of features is rotated at each position, in radians.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from variants.kv_cache import KVCache, past_length
from variants.llama import LLaMABlock, LLaMAConfig, RMSNorm
from variants.rope import rope_angles


class LLaMA(nn.Module):
    """A decoder-only language model: predict the next token at every position.

        h₀ = W_e[tokens]
        hₙ = Block(hₙ₋₁), n = 1 … N
        logits = RMSNorm(h_N) W_oᵀ

    - `config` is a `LLaMAConfig`, stored as given. Its `n_heads` is the number of query heads,
      `n_kv_heads` the number of key/value heads, `d_ff` the width of the feed-forward networks' hidden
      layer, and `eps` the ε of every norm. `generate` and `new_cache` read the config.
    - `embed` is W_e, an `nn.Embedding(vocab, d_model)`.
    - `blocks` holds N `LLaMABlock(config, angles)` in an `nn.ModuleList`, called as `block(x, cache,
      layer)`, layers counted from 0. All blocks share one tensor, `rope_angles(d_k, context, base)`.
      This tensor has values even if the weights have none, on PyTorch's device "meta".
    - `norm` is the final `RMSNorm(d_model, eps)`.
    - `head` is W_o, an `nn.Linear(d_model, vocab, bias=False)`, with its own matrix. (If a published
      model ties its weights, as LLaMA 3.2 1B does, the head is a copy of the embedding matrix.)
    - These four modules hold all parameters, and nothing else is in the state dict. Every matrix is
      initialized from N(0, 0.02²), and gains to 1.

    Raises:
        ValueError: n_heads does not divide d_model, n_kv_heads does not divide n_heads, or d_k is odd.

    Source: Touvron et al. 2023, §2.2; the initialization, which the paper does not give: `initializer_range`
    of the published configurations.
    """

    def __init__(self, config: LLaMAConfig):
        super().__init__()
        raise NotImplementedError

    def forward(
        self, tokens: Int[Tensor, "B T"], cache: KVCache | None = None
    ) -> Float[Tensor, "B T V"]:
        """Return logits for the token that follows each token of a chunk.

        The chunk follows what the cache holds; without a cache it is the full text.

        - `block(x, cache, layer)` is enough: each block then computes the cosines and sines of the chunk's
          positions. To compute them once for all blocks, call `rotation_of(block.self_attn, past, x)` of
          `variants.llama`, and pass the result as the fourth argument.
        - `tokens` holds ids `(B, T)`; T may be 0. There is no padding mask: padding at the end of a
          shorter row does not change what precedes it.
        - `cache` was made by `new_cache(config, B, max_len)` and has read the tokens before these;
          afterwards it has read these as well. No gradient passes through it. If `cache` is None, the chunk
          is the full text.
        - Return logits `(B, T, V)` in the weights' dtype: row t predicts the token after `tokens[:, t]`,
          from that token and all tokens before it. No softmax is applied. A text that is read in chunks has
          the same logits as the full text, up to the dtype's rounding. In half precision, the angles are
          still in float32 or float64.

        Raises:
            ValueError: cache and chunk together exceed `config.context`, or the cache has other layers,
                heads or rows, or no room.
        """
        raise NotImplementedError
