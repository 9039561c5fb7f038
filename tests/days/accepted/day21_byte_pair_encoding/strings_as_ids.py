"""Ids as characters of a string, so that str.replace does the merging."""

import itertools

FIRST = 0xF0000  # a private plane of Unicode: no text is written in it


def symbols(text):
    return "".join(chr(FIRST + byte) for byte in text.encode("utf-8"))


def train_bpe(text, vocab_size):
    line, merges = symbols(text), []
    while len(merges) + 256 < vocab_size and line[1:]:
        counts = {}
        for left, right in itertools.pairwise(line):
            counts.setdefault(left + right, []).append(None)
        pair = sorted(counts, key=lambda two: -len(counts[two]))[
            0
        ]  # sorted keeps the order of equals
        line = line.replace(pair, chr(FIRST + 256 + len(merges)))
        merges.append((ord(pair[0]) - FIRST, ord(pair[1]) - FIRST))
    return BPE(merges)


class BPE:
    def __init__(self, merges):
        self.merges = merges

    def encode(self, text):
        line = symbols(text)
        for rank, pair in enumerate(self.merges):
            line = line.replace(
                "".join(chr(FIRST + part) for part in pair), chr(FIRST + 256 + rank)
            )
        return [ord(symbol) - FIRST for symbol in line]

    def decode(self, ids):
        ids = list(ids)
        while any(number > 255 for number in ids):
            parts = [[number] if number < 256 else self.merges[number - 256] for number in ids]
            ids = [part for pair in parts for part in pair]
        return bytes(ids).decode("utf-8", "replace")
