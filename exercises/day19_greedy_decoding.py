"""Day 19 · Greedy decoding

Lesson  course lesson 19
Hints   course hint 19
Check   course watch 19    (checks at every save; `course check 19` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    EncoderDecoder(encoder, decoder, src_embed, tgt_embed, generator)
        Encode the source once, then predict each target token from the target tokens before it.
        .encode(src, src_mask)
            From source tokens `(B, S)` to the memory `(B, S, d_model)`.
        .decode(memory, src_mask, tgt, tgt_mask)
            From the memory and target tokens `(B, T)` to states `(B, T, d_model)`.
        called with (src, tgt, src_mask, tgt_mask)
            The decoder's states `(B, T, d_model)` for both sequences.
    subsequent_mask(size)
        Return the causal mask `(1, size, size)`: True where the key comes no later than the query.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from implementation import EncoderDecoder, subsequent_mask


@torch.no_grad()
def greedy_decode(
    model: EncoderDecoder,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B 1 S"],
    max_len: int,
    start: int,
    end: int | None = None,
) -> Int[Tensor, "B t"]:
    """Generate the most likely token, again and again, each row until its `end`.

    - `model` is an `EncoderDecoder` that its caller has put in evaluation mode. Its decoder is called
      with a causal mask, as in training.
    - `src_mask` is True at real tokens. `start` is the symbol that every target began with in training.
    - `max_len` is the maximum length of a row, the start symbol included.
    - `end` is the symbol that ends a row; None to continue to `max_len`.
    - Return int64 tokens `(B, t)`, t ≤ max_len. A row keeps its `end`, and has 0 after it; t is the
      length of the longest row. With `end=None` the shape is exactly `(B, max_len)`.
    - No intermediate value is recorded for a gradient.

    Raises:
        ValueError: `max_len` below 1.

    Source: Vaswani et al. 2017, §3 (auto-regressive).
    """
    # 1. Read the source once. Every row begins with the start symbol, and none is finished.
    # 2. What does the last position say comes next?
    # 3. Rows that have finished get 0. Those that say `end` now finish.
    raise NotImplementedError
