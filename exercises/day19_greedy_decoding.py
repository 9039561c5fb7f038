"""Day 19 · Greedy decoding

Lesson  course lesson 19
Hints   course hint 19     (one more each time; the first gives the steps of one way)
Check   course watch 19    (checks at every save; `course check 19` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    EncoderDecoder(encoder, decoder, src_embed, tgt_embed, generator)
        Encode the source once, then predict each target token from the target tokens before it.
        .encode(src, src_mask)
            Return the memory, the encoder's output for the source tokens.
        .decode(memory, src_mask, tgt, tgt_mask)
            Return the decoder's output for the target tokens.
        called with (src, tgt, src_mask, tgt_mask)
            Return the decoder's output for a source and a target.
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
    """Generate the most likely token at each step, until every row has `end` or the length is `max_len`.

    The model's mode stays as it is: call `model.eval()` before.

    - `model` is an `EncoderDecoder` that its caller has put in evaluation mode. Its decoder is called
      with a causal mask, as in training.
    - `src_mask` is True at real tokens. `start` is the symbol that every target began with in training.
    - `max_len` is the maximum length of a row, including the start symbol.
    - `end` is the symbol that ends a row; None means that every row continues to
      `max_len`.
    - Return int64 tokens `(B, t)`, t ≤ max_len. A row keeps its `end`, followed by 0; t is the length
      of the longest row. With `end=None` the shape is exactly `(B, max_len)`.
    - No gradient is recorded.

    Raises:
        ValueError: `max_len` below 1.

    Source: Vaswani et al. 2017, §3 (auto-regressive).
    """
    raise NotImplementedError
