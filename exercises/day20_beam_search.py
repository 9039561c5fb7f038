"""Day 20 · Beam search

Lesson  course lesson 20
Hints   course hint 20
Check   course watch 20    (checks at every save; `course check 20` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    EncoderDecoder(encoder, decoder, src_embed, tgt_embed, generator)
        The whole: read the source once, then predict each target token from those before it.
        .encode(src, src_mask)
            From source tokens `(B, S)` to the memory `(B, S, d_model)`.
        .decode(memory, src_mask, tgt, tgt_mask)
            From the memory and target tokens `(B, T)` to states `(B, T, d_model)`.
        called with (src, tgt, src_mask, tgt_mask)
            The decoder's states `(B, T, d_model)` for both sequences.
    subsequent_mask(size)
        Which keys come no later than the query: no position may read what it is to predict.
        Returns: `(1, size, size)`, True on the diagonal and below it: row i is query i.
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
    """Follow the `beam` likeliest beginnings side by side, and return the best that comes of them.

    A hypothesis of n tokens after the start symbol, its `end` included, is worth

        log P(tokens | source) / ((5 + n) / 6)^alpha

    Args:
        model: an `EncoderDecoder`, which its caller has put in evaluation mode.
        src: source tokens `(B, S)`.
        src_mask: `(B, 1, S)`, True at real tokens.
        max_len: the most tokens of a row, the start symbol included. A hypothesis that is cut off
            there competes on equal terms with those that ended.
        start: the symbol that every target began with in training.
        end: the symbol that ends a hypothesis.
        beam: how many beginnings to follow in each row, also more than there are tokens. 1 is greedy
            decoding; so many that nothing is ever cut is exhaustive search.
        alpha: the length penalty: 0 for none.

    Returns:
        The best hypothesis of each row, as `greedy_decode` would give it: int64 `(B, t)`, t ≤ max_len
        the length of the longest, `end` kept, 0 after it. Nothing on the way is computed for a
        gradient, and log-probabilities of half precision are added up in float32.

    Raises:
        ValueError: `max_len` or `beam` below 1, or a negative `alpha`.

    Source: Vaswani et al. 2017, §6.1 (beam 4, α = 0.6); Wu et al. 2016, *Google's Neural Machine
    Translation System*, §7, eq. 14.
    """
    # 1. Read the source once, and give each row of the batch `beam` places. All hypotheses of a row
    #    are still one and the same, so all but one start at −∞.
    # 2. Score every continuation of every hypothesis, and keep the `beam` best of each row.
    # 3. Hypotheses that end leave the beam, and the next round fills their places. Of all that
    #    ever ended, a row keeps the best.
    # 4. Stop where no hypothesis can still win (which only saves time): a score only falls, and no
    #    penalty divides it by more than that of max_len − 1 tokens.
    raise NotImplementedError
