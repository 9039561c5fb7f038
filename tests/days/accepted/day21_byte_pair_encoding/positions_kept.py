"""Encoding that deletes from the list in place; training that recomputes the pairs from the left."""

import collections
import itertools


class BPE:
    def __init__(self, merges):
        self.table = {index: bytes((index,)) for index in range(256)}
        self.ranks = {}
        for rank, (one, two) in enumerate(merges):
            self.ranks[one, two] = rank
            self.table[256 + rank] = self.table[one] + self.table[two]

    def encode(self, text):
        tokens = list(bytearray(text, "utf-8"))
        while True:
            ranked = [
                (self.ranks[pair], place)
                for place, pair in enumerate(itertools.pairwise(tokens))
                if pair in self.ranks
            ]
            if not ranked:
                return tokens
            rank, place = min(ranked)
            tokens[place : place + 2] = [256 + rank]

    def decode(self, ids):
        spelled = bytearray()
        for token in ids:
            spelled += self.table[token]
        return str(bytes(spelled), "utf-8", "replace")


def train_bpe(text, vocab_size):
    merges = []
    tokens = BPE(merges).encode(text)
    while 256 + len(merges) < vocab_size and len(tokens) >= 2:
        pairs = list(itertools.pairwise(tokens))
        often = collections.Counter(pairs)
        most = max(often.values())
        merges.append(next(pair for pair in pairs if often[pair] == most))
        tokens = BPE(merges).encode(text)
    return BPE(merges)
