"""Day 49 · Thinking longer

Lesson  course lesson 49
Hints   course hint 49     (one more each time; the first gives the steps of one way)
Check   course watch 49    (checks at every save; `course check 49` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import math
from collections.abc import Hashable, Sequence


def majority_vote(answers: Sequence[Hashable | None]) -> Hashable | None:
    """Return the most frequent answer; in a tie, the one that was seen first.

        argmaxₐ Σᵢ [aᵢ = a]

    None stands for a sample that has no answer, such as a text that was cut off. It has no vote.

    - `answers` is a list with the answer of each sample, in the order of sampling: numbers, texts or
      tuples. 0 and the empty text are answers like any other.
    - None stands for a sample without an answer, and has no vote. If all are None, return None.
    - Return the answer itself. The most frequent answer wins, even with less than half of the votes.

    Raises:
        ValueError: no samples.

    Source: Wang et al. 2022, §2 (self-consistency).
    """
    raise NotImplementedError


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Estimate, from n samples, the probability that at least one of k samples is right.

        pass@k = right choices / all choices

    This is the share of right choices among all choices of k of the n samples: those with a right sample.

    - `n`, `correct` and `k` are ints, 0 ≤ correct ≤ n and 1 ≤ k ≤ n. n may be several thousand.
    - Return a float between 0 and 1.

    Raises:
        ValueError: `correct` outside 0 to n, or k outside 1 to n.

    Source: Chen et al. 2021, §2.1, eq. 1.
    """
    raise NotImplementedError


def best_of_n(
    answers: Sequence[Hashable | None], scores: Sequence[float], weighted: bool = False
) -> Hashable | None:
    """Return the answer that a verifier prefers: of the best sample, or with the largest total score.

        best of n:  a_j,  j = argmaxᵢ sᵢ
        weighted:   argmaxₐ Σᵢ sᵢ [aᵢ = a]

    None stands for a sample that has no answer. It is never chosen, whatever its score. In a tie, the
    sample that was seen first wins; if `weighted`, the answer that was seen first.

    - `answers` is a list as for `majority_vote`, and `scores` a list of finite floats of the same
      length: higher is better. Scores may be negative, such as log-probabilities, unless `weighted` is
      True.
    - Return the answer itself, not its index or score. A sample whose answer is None is never chosen; if
      all are None, return None.
    - Of several samples with the highest score, choose the first. With `weighted=True`, choose the
      answer with the largest sum of scores; of several such answers, choose the one that was seen
      first.

    Raises:
        ValueError: no samples, different numbers of answers and scores, a score that is NaN, or a
            negative one if `weighted`.

    Source: Cobbe et al. 2021, §4.2 (verifiers); weighted: Li et al. 2022, *Making Language Models Better
    Reasoners with Step-Aware Verifier*.
    """
    raise NotImplementedError
