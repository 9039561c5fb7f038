"""Loops over answers in the order in which they were seen; pass@k one try after the other."""


def majority_vote(answers):
    winner, most = None, 0
    for answer in answers:
        count = sum(1 for other in answers if other is not None and other == answer)
        if answer is not None and count > most:
            winner, most = answer, count
    return winner


def pass_at_k(n, correct, k):
    all_wrong = 1.0
    for tried in range(k):
        all_wrong *= max(n - correct - tried, 0) / (n - tried)
    return 1.0 - all_wrong


def best_of_n(answers, scores, weighted=False):
    chosen, highest = None, float("-inf")
    for answer, score in zip(answers, scores, strict=True):
        if answer is None:
            continue
        value = score
        if weighted:
            value = sum(s for one, s in zip(answers, scores, strict=True) if one == answer)
        if chosen is None or value > highest:
            chosen, highest = answer, value
    return chosen
