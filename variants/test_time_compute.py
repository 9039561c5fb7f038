"""Test-time compute: several answers to one question, and which of them to give.

Papers: Wei et al. 2022, *Chain-of-Thought Prompting Elicits Reasoning in Large Language Models*; Wang et
al. 2022, *Self-Consistency Improves Chain of Thought Reasoning in Language Models*; Cobbe et al. 2021,
*Training Verifiers to Solve Math Word Problems*; Chen et al. 2021, *Evaluating Large Language Models
Trained on Code*. The model stays as it is. A scratchpad spends tokens before the answer, and a vote or a
verifier spends them on several samples.

From symbols to names
    n               samples of one question
    c               correct, samples with the right answer
    k               samples that are tried
    aᵢ, sᵢ          answer of sample i, and its score by a verifier
"""

import math
from collections.abc import Hashable, Sequence

# --- Day 49 · Thinking longer ---------------------------------------------------------------------


def majority_vote(answers: Sequence[Hashable | None]) -> Hashable | None:
    """Return the most frequent answer; in a tie, the one that was seen first.

        argmaxₐ Σᵢ [aᵢ = a]

    None stands for a sample that has no answer, such as a text that was cut off. It has no vote.

    Raises:
        ValueError: no samples.

    Source: Wang et al. 2022, §2 (self-consistency).
    """
    if len(answers) == 0:
        raise ValueError("answers must have at least one sample, got none")
    # 1. Count the samples of each answer, in the order in which the answers were first seen.
    votes: dict[Hashable, int] = {}
    for answer in answers:
        if answer is not None:
            votes[answer] = votes.get(answer, 0) + 1
    # 2. The most votes win. `max` returns the first of several maxima.
    return max(votes, key=votes.__getitem__, default=None)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Estimate, from n samples, the probability that at least one of k samples is right.

        pass@k = 1 − C(n − c, k) / C(n, k)

    This is the share of right choices among all choices of k of the n samples: those with a right sample.

    Raises:
        ValueError: `correct` outside 0 to n, or k outside 1 to n.

    Source: Chen et al. 2021, §2.1, eq. 1.
    """
    if not 0 <= correct <= n:
        raise ValueError(f"correct must be 0 to n, got correct={correct}, n={n}")
    if not 1 <= k <= n:
        raise ValueError(f"k must be 1 to n, got k={k}, n={n}")
    # 1. Count the choices of k samples that are all wrong. There are none if fewer than k are wrong.
    wrong = math.comb(n - correct, k)
    # 2. All other choices have a right one. The counts are integers of any size, so nothing overflows.
    return 1.0 - wrong / math.comb(n, k)


def best_of_n(
    answers: Sequence[Hashable | None], scores: Sequence[float], weighted: bool = False
) -> Hashable | None:
    """Return the answer that a verifier prefers: of the best sample, or with the largest total score.

        best of n:  a_j,  j = argmaxᵢ sᵢ
        weighted:   argmaxₐ Σᵢ sᵢ [aᵢ = a]

    None stands for a sample that has no answer. It is never chosen, whatever its score. In a tie, the
    sample that was seen first wins; if `weighted`, the answer that was seen first.

    Raises:
        ValueError: no samples, different numbers of answers and scores, a score that is NaN, or a
            negative one if `weighted`.

    Source: Cobbe et al. 2021, §4.2 (verifiers); weighted: Li et al. 2022, *Making Language Models Better
    Reasoners with Step-Aware Verifier*.
    """
    if len(answers) == 0 or len(answers) != len(scores):
        raise ValueError(
            "answers and scores must be equally many, at least one, "
            f"got {len(answers)} and {len(scores)}"
        )
    if any(math.isnan(score) for score in scores):
        raise ValueError("scores must be numbers, got NaN")
    if weighted and min(scores) < 0:
        raise ValueError(f"scores must be at least 0 if weighted, got {min(scores)}")
    # 1. Leave out the samples without an answer.
    pairs = [pair for pair in zip(answers, scores, strict=True) if pair[0] is not None]
    # 2. Best of n: the sample with the highest score.
    if not weighted:
        return max(pairs, key=lambda pair: pair[1], default=(None, 0.0))[0]
    # 3. Weighted: a vote in which each sample counts as much as its score.
    totals: dict[Hashable, float] = {}
    for answer, score in pairs:
        totals[answer] = totals.get(answer, 0.0) + score
    return max(totals, key=totals.__getitem__, default=None)
