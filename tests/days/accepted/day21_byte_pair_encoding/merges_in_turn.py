"""Each merge in turn over the whole sequence; pairs counted by hand, the first of the best kept."""


def join(ids, pair, new):
    joined = []
    for number in ids:
        joined.append(number)
        if tuple(joined[-2:]) == tuple(pair):
            # What was joined just now is the new id already, so no id is used twice.
            joined[-2:] = [new]
    return joined


def train_bpe(text, vocab_size):
    ids, merges = [*text.encode()], []
    for new in range(256, vocab_size):
        counts, best = {}, None
        for index in range(len(ids) - 1):
            pair = ids[index], ids[index + 1]
            counts[pair] = counts.get(pair, 0) + 1
        for pair, count in counts.items():
            if best is None or count > counts[best]:
                best = pair
        if best is None:
            break
        merges.append(best)
        ids = join(ids, best, new)
    return BPE(merges)


class BPE:
    def __init__(self, merges):
        self.pairs = [tuple(pair) for pair in merges]

    def encode(self, text):
        ids = [*text.encode()]
        for rank, pair in enumerate(self.pairs):
            ids = join(ids, pair, 256 + rank)
        return ids

    def spell(self, number):
        if number < 256:
            return bytes([number])
        left, right = self.pairs[number - 256]
        return self.spell(left) + self.spell(right)

    def decode(self, ids):
        return b"".join(map(self.spell, ids)).decode(errors="replace")
