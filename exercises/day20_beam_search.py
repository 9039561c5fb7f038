"""Day 20 · Beam search

Lesson  course lesson 20
Hints   course hint 20     (one more each time; the first gives the steps of one way)
Check   course watch 20    (checks at every save; `course check 20` checks once)

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

import math

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from implementation import EncoderDecoder, subsequent_mask


@torch.no_grad()
def beam_search(
    model: EncoderDecoder,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B 1 S"],
    max_len: int,
    start: int,
    end: int,
    beam: int = 4,
    alpha: float = 0.6,
) -> Int[Tensor, "B t"]:
    """Extend the `beam` most likely hypotheses in parallel, and return the best that ended or was cut off.

    A hypothesis of n tokens after the start symbol, its `end` included, has the score

        log P(tokens | source) / ((5 + n) / 6)^alpha

    The model's mode stays as it is: call `model.eval()` before.

    - `model` is an `EncoderDecoder` that its caller has put in evaluation mode.
    - `src_mask` is True at real tokens. `start` is the symbol that every target began with in training,
      and `end` the symbol that ends a hypothesis.
    - `max_len` is the maximum length of a row, including the start symbol. A hypothesis that is cut off
      there competes on equal terms with hypotheses that ended.
    - `beam` is the number of hypotheses in each row. It may be greater than the number of tokens. A
      beam of 1 is greedy decoding; a beam so wide that no hypothesis is ever dropped is exhaustive
      search.
    - `alpha` is the exponent of the length penalty; 0 means no penalty.
    - Return the best hypothesis of each row in the format of `greedy_decode`: int64 `(B, t)`, where t ≤
      max_len is the length of the longest row; a row keeps its `end`, followed by 0.
    - No gradient is recorded. Log-probabilities in half precision are added up in float32.

    Raises:
        ValueError: `max_len` or `beam` below 1, or a negative `alpha`.

    Source: Vaswani et al. 2017, §6.1 (beam 4, α = 0.6); Wu et al. 2016, *Google's Neural Machine
    Translation System*, §7, eq. 14.
    """
    raise NotImplementedError
