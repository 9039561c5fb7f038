"""Day 22 · Translation

Lesson  course lesson 22
Hints   course hint 22
Check   course watch 22    (checks at every save; `course check 22` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.

What is imported from them below:

    tokenize_13a(line)
        The tokens of a line as NIST's mteval-v13a.pl has them: punctuation stands alone, but not within
        numbers.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from implementation import tokenize_13a


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Compute corpus BLEU, from 0 to 100: how similar translations are to human references.

        BLEU = 100 · BP · exp(¼ Σ log pₙ),  n = 1 … 4;   BP = min(1, exp(1 − r / c))

    pₙ is the share of the hypotheses' n-grams that a reference has too, each counted at most as often
    as in the one reference that has it most often; c is the length of all hypotheses, r that of the
    references closest in length, the shorter of two that are equally close. `references[k][i]` is the
    k-th reference of sentence i.

    - `hypotheses` holds one translation per sentence, and `references` streams of references.
    - Return the score that `sacrebleu.corpus_bleu(hypotheses, references).score` gives. Tokens are as
      `tokenize_13a` makes them, upper and lower case distinguished.
    - Orders n without a match are smoothed: the first counts 1/2 of a match, the second 1/4, the third
      1/8, as "exp" smoothing does.
    - The score is 0 where nothing matches at all, or no hypothesis has 4 tokens.

    Raises:
        ValueError: no references, a stream of another length than `hypotheses`, or a string in place
            of a stream.

    Source: Papineni et al. 2002, *BLEU*, §2.3; Post 2018, *A Call for Clarity in Reporting BLEU
    Scores*; smoothing: Chen & Cherry 2014, technique 3.
    """
    # 1. Lengths: of the hypothesis, and of the reference closest to it.
    # 2. Matches: what hypothesis and references have in common, n-gram by n-gram. | is the larger
    #    count of each, & the smaller.
    # 3. The logarithms of the four precisions, smoothed where there is no match.
    # 4. Their geometric mean, less a penalty for saying too little.
    raise NotImplementedError


def token_batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], max_tokens: int
) -> Iterator[list[tuple[Sequence[int], Sequence[int]]]]:
    """Group sentence pairs by length, so that batches are about equally large and have little padding.

    - `pairs` are `(source ids, target ids)`.
    - `max_tokens` is the maximum size of a padded batch:
      len(batch) × (longest source + longest target).
    - Yield lists of pairs, none empty. Every pair is in exactly one, uncut. A pair that is too long for
      any batch has a batch of its own.

    Raises:
        ValueError: `max_tokens` below 1.

    Source: Vaswani et al. 2017, §5.1.
    """
    # 1. Neighbours in length make good company.
    # 2. How large would the batch be with this pair? Where that is too much, begin another.
    raise NotImplementedError
