"""A Counter for the votes, a product for pass@k, an index for the best sample."""

import math
from collections import Counter


def majority_vote(answers):
    counted = Counter(answer for answer in answers if answer is not None)
    return counted.most_common(1)[0][0] if counted else None


def pass_at_k(n, correct, k):
    if n - correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - correct + 1, n + 1))


def best_of_n(answers, scores, weighted=False):
    if not weighted:
        known = [i for i, answer in enumerate(answers) if answer is not None]
        return answers[max(known, key=scores.__getitem__)] if known else None
    totals = Counter()
    for answer, score in zip(answers, scores, strict=True):
        if answer is not None:
            totals[answer] += score
    return totals.most_common(1)[0][0] if totals else None
