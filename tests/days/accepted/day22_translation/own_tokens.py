"""A tokenizer of one's own; fractions until the end; a shelf for each length, and batches from each."""

import math
import re
from collections import Counter
from fractions import Fraction


def tokens_of(line):
    line = re.sub(r"-\n", "", line.rstrip().replace("<skipped>", "")).replace("\n", " ")
    for entity, character in {"quot": '"', "amp": "&", "lt": "<", "gt": ">"}.items():
        line = line.replace(f"&{entity};", character)
    apart = r"([\x21-\x26\x28-\x2b\x2f\x3a-\x40\x5b-\x60\x7b-\x7e])"
    line = re.sub(apart, r" \1 ", " " + line + " ")
    for pattern, spaced in [
        (r"(\D)([.,])", r"\1 \2 "),
        (r"([.,])(\D)", r" \1 \2"),
        (r"(\d)(-)", r"\1 \2 "),
    ]:
        line = re.sub(pattern, spaced, line, flags=re.ASCII)
    return line.split()


def bleu(hypotheses, references):
    hits, tries, c, r = [0] * 5, [0] * 5, 0, 0
    for number, line in enumerate(hypotheses):
        said = tokens_of(line)
        wanted = [tokens_of(stream[number]) for stream in references]
        c += len(said)
        lengths = sorted({len(one) for one in wanted})
        r += min(lengths, key=lambda length: abs(length - len(said)))
        for n in range(1, 5):
            mine = Counter(" ".join(said[i : i + n]) for i in range(len(said) + 1 - n))
            best = Counter()
            for one in wanted:
                best = best | Counter(" ".join(one[i : i + n]) for i in range(len(one) + 1 - n))
            hits[n] += sum((mine & best).values())
            tries[n] += sum(mine.values())
    if hits[1] == 0 or tries[4] == 0:
        return 0.0
    shares, half = [], Fraction(1)
    for n in range(1, 5):
        half = half / 2 if hits[n] == 0 else half
        shares.append(Fraction(hits[n] or half) / tries[n])
    geometric = math.prod(map(float, shares)) ** (1 / 4)
    return 100 * geometric * math.exp(min(0, 1 - r / c))


def token_batches(pairs, max_tokens):
    shelves = {}
    for pair in pairs:
        shelves.setdefault(max(map(len, pair)) // 4, []).append(pair)
    for shelf in shelves.values():
        batch = []
        for pair in shelf:
            wider = [max(map(len, side)) for side in zip(*batch, pair, strict=True)]
            if batch and (len(batch) + 1) * sum(wider) > max_tokens:
                yield batch
                batch = []
            batch.append(pair)
        yield batch
