"""NumPy for the counts; batches from the longest pair to the shortest."""

import collections

import numpy as np

from implementation import tokenize_13a


def grams(tokens):
    return collections.Counter(
        tuple(tokens[i : i + n]) for n in range(1, 5) for i in range(len(tokens) - n + 1)
    )


def bleu(hypotheses, references):
    matched, total = np.zeros(4), np.zeros(4)
    lengths = np.zeros(2)
    for hypothesis, *others in zip(hypotheses, *references, strict=False):
        tokens = tokenize_13a(hypothesis)
        others = [tokenize_13a(other) for other in others]
        nearest = min(sorted(map(len, others)), key=lambda size: abs(size - len(tokens)))
        lengths += [len(tokens), nearest]
        allowed = collections.Counter()
        for other in others:
            for gram, count in grams(other).items():
                allowed[gram] = max(allowed[gram], count)
        for gram, count in grams(tokens).items():
            total[len(gram) - 1] += count
            matched[len(gram) - 1] += min(count, allowed[gram])
    if matched.sum() == 0 or total.min() == 0:
        return 0.0
    empty = matched == 0
    matched[empty] = 0.5 ** np.arange(1, empty.sum() + 1)
    penalty = np.exp(min(0, 1 - lengths[1] / lengths[0]))
    return float(100 * penalty * np.exp(np.log(matched / total).mean()))


def token_batches(pairs, max_tokens):
    batch, widths = [], (0, 0)
    for pair in sorted(pairs, key=lambda pair: -max(map(len, pair))):
        wider = tuple(max(width, len(side)) for width, side in zip(widths, pair, strict=False))
        if batch and (len(batch) + 1) * sum(wider) > max_tokens:
            yield batch
            batch, wider = [], tuple(map(len, pair))
        batch, widths = [*batch, pair], wider
    if batch:
        yield batch
