"""sacrebleu's own score; and its batches are those of sorted pairs, cut off where they are full."""

import sacrebleu


def bleu(hypotheses, references):
    return sacrebleu.corpus_bleu(hypotheses, references, force=True).score


def token_batches(pairs, max_tokens):
    batch = []
    for pair in sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1]))):
        sides = zip(*batch, pair, strict=True)
        if batch and (len(batch) + 1) * sum(max(map(len, side)) for side in sides) > max_tokens:
            yield batch
            batch = []
        batch.append(pair)
    if batch:
        yield batch
