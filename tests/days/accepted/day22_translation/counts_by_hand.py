"""Dictionaries for counters, products for sums of logarithms; batches cut from an index, longest first."""

from implementation import tokenize_13a


def runs(tokens, n):
    counts = {}
    for place in range(len(tokens) - n + 1):
        run = tuple(tokens[place : place + n])
        counts[run] = counts.get(run, 0) + 1
    return counts


def bleu(hypotheses, references):
    right, said = dict.fromkeys((1, 2, 3, 4), 0), dict.fromkeys((1, 2, 3, 4), 0)
    c = r = 0
    for index, hypothesis in enumerate(hypotheses):
        mine = tokenize_13a(hypothesis)
        theirs = [tokenize_13a(stream[index]) for stream in references]
        c += len(mine)
        r += sorted((abs(len(other) - len(mine)), len(other)) for other in theirs)[0][1]
        for n in right:
            for run, count in runs(mine, n).items():
                said[n] += count
                right[n] += min(count, max(runs(other, n).get(run, 0) for other in theirs))
    if not any(right.values()) or not all(said.values()):
        return 0.0
    product, missing = 1.0, 0
    for n in right:
        if right[n]:
            product *= right[n] / said[n]
        else:
            missing += 1
            product *= 1 / (2**missing * said[n])
    e = 2.718281828459045
    return 100.0 * product**0.25 * (1.0 if c >= r else e ** (1 - r / c))


def token_batches(pairs, max_tokens):
    order = sorted(range(len(pairs)), key=lambda i: -len(pairs[i][0]) - len(pairs[i][1]))
    batches = []
    while order:
        size = 1
        while size < len(order):
            chosen = [pairs[i] for i in order[: size + 1]]
            widths = [max(len(pair[side]) for pair in chosen) for side in (0, 1)]
            if len(chosen) * sum(widths) > max_tokens:
                break
            size += 1
        batches.append([pairs[i] for i in order[:size]])
        del order[:size]
    return batches
