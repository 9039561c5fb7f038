"""Day 22 · Translation

Lesson  course lesson 22
Hints   course hint 22     (one more each time; the first gives the steps of one way)
Check   course watch 22    (checks at every save; `course check 22` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    tokenize_13a(line)
        Tokenize like NIST's mteval-v13a.pl (sacreBLEU's `13a`), as published BLEU scores presuppose.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from implementation import tokenize_13a


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Compute corpus BLEU, from 0 to 100: how similar translations are to human references.

        BLEU = 100 · BP · exp(¼ Σ log pₙ),  n = 1 … 4;   BP = min(1, exp(1 − r / c))

    pₙ is the modified (clipped) n-gram precision: the share of the hypotheses' n-grams that also occur in
    a reference, each counted at most as often as in the reference that has it most often. c is the total
    length of the hypotheses, r that of their closest references in length (the shorter at a tie).
    `references[k][i]` is the k-th reference of sentence i.

    - `hypotheses` holds one translation per sentence, and `references` streams of references.
    - Return the same score as `sacrebleu.corpus_bleu(hypotheses, references).score`. `tokenize_13a`
      splits the text into tokens; case matters.
    - Orders n without a match are smoothed, as in "exp" smoothing: the first such order counts as 1/2
      of a match, the second as 1/4, the third as 1/8.
    - The score is 0 if nothing matches at all, or if no hypothesis has 4 tokens.

    Raises:
        ValueError: no references, streams that differ in length, or a string instead of a stream.

    Source: Papineni et al. 2002, *BLEU*, §2.3; Post 2018, *A Call for Clarity in Reporting BLEU
    Scores*; smoothing: Chen & Cherry 2014, technique 3.
    """
    raise NotImplementedError


def token_batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], max_tokens: int
) -> Iterator[list[tuple[Sequence[int], Sequence[int]]]]:
    """Group sentence pairs by length, so that batches are about equal in size and have little padding.

    - `pairs` are `(source ids, target ids)`.
    - `max_tokens` is the maximum size of a padded batch:
      len(batch) × (longest source + longest target).
    - Yield lists of pairs; no list is empty. Every pair is in exactly one list, and is not shortened. A
      pair that is too long for any batch gets its own batch.

    Raises:
        ValueError: `max_tokens` below 1.

    Source: Vaswani et al. 2017, §5.1.
    """
    raise NotImplementedError
