"""Day 49 beside enumeration: every choice of k samples, and every order of a few votes."""

from fractions import Fraction
from itertools import combinations, product

import pytest

from variants.test_time_compute import best_of_n, majority_vote, pass_at_k


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_all_choices_with_a_right_sample(n):
    """Chen et al. 2021, eq. 1, by enumeration; and without bias: its mean over all outcomes of n samples
    that are right with probability 1/3 is 1 − (2/3)ᵏ."""
    for correct, k in product(range(n + 1), range(1, n + 1)):
        choices = list(combinations([True] * correct + [False] * (n - correct), k))
        share = sum(map(any, choices)) / len(choices)
        assert pass_at_k(n, correct, k) == pytest.approx(share, abs=1e-12)
    for k in range(1, n + 1):
        mean = sum(
            Fraction(2 ** (n - sum(outcome)), 3**n) * Fraction(pass_at_k(n, sum(outcome), k))
            for outcome in product([0, 1], repeat=n)
        )
        assert float(mean) == pytest.approx(1 - (2 / 3) ** k, abs=1e-12)


def test_many_samples_do_not_overflow():
    """C(2000, 1000) has 601 digits; with a single right sample, pass@k is k / n."""
    assert pass_at_k(2000, 1, 1000) == pytest.approx(0.5, abs=1e-12)


def test_votes_and_verifiers_by_enumeration():
    """Of all lists of four answers and scores: the winner's count, score or total is the largest, and the
    winner is the first with it."""
    for answers in product([0, "b", None], repeat=4):
        some = [answer for answer in answers if answer is not None]
        distinct = list(dict.fromkeys(some)) or [None]
        assert majority_vote(answers) == sorted(distinct, key=lambda a: -some.count(a))[0]
        for scores in product([0.0, 0.5, 1.0], repeat=4):
            pairs = [pair for pair in zip(answers, scores, strict=True) if pair[0] is not None]
            best = sorted(pairs or [(None, 0)], key=lambda pair: -pair[1])[0][0]
            total = {a: sum(s for pair, s in pairs if pair == a) for a in distinct}
            assert best_of_n(answers, scores) == best
            assert (
                best_of_n(answers, scores, weighted=True)
                == sorted(distinct, key=lambda a: -total[a])[0]
            )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: majority_vote([]), "at least one sample, got none"),
        (lambda: pass_at_k(3, 4, 1), "correct must be 0 to n, got correct=4, n=3"),
        (lambda: pass_at_k(3, 1, 0), "k must be 1 to n, got k=0, n=3"),
        (lambda: pass_at_k(3, 1, 4), "k must be 1 to n, got k=4, n=3"),
        (lambda: best_of_n([], []), "at least one, got 0 and 0"),
        (lambda: best_of_n("ab", [0.5]), "equally many, at least one, got 2 and 1"),
        (lambda: best_of_n("ab", [0.5, float("nan")]), "got NaN"),
        (lambda: best_of_n("ab", [0.5, -1.0], weighted=True), "at least 0 if weighted, got -1.0"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
