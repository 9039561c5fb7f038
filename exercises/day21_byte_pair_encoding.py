"""Day 21 · Byte-pair encoding

Lesson  course lesson 21
Hints   course hint 21     (one more each time; the first gives the steps of one way)
Check   course watch 21    (checks at every save; `course check 21` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence


def train_bpe(text: str, vocab_size: int) -> "BPE":
    """Learn a vocabulary by repeatedly merging the most frequent pair of adjacent ids.

    - `text` is one sequence: nothing splits it into words first.
    - `vocab_size` is the total number of ids, including the 256 bytes.
    - Return a `BPE` of vocab_size − 256 merges, or fewer if no pair is left.
    - Every adjacent pair counts (`aaa` has two). A pair that occurs only once is merged, too. Of equally
      frequent pairs, the one that occurs first in the sequence is merged.

    Raises:
        ValueError: a `vocab_size` below 256.

    Source: Sennrich, Haddow & Birch 2016, *Neural Machine Translation of Rare Words with Subword
    Units*, §3.2; on bytes: Radford et al. 2019 (GPT-2), §2.2.
    """
    raise NotImplementedError


class BPE:
    """Encode text as ids and decode ids to text, without loss, for any text.

    Ids 0 to 255 are the bytes; id 256 + r is the pair `merges[r]`, of rank r.

    `merges` are pairs of ids in the order of their rank. The attribute `merges` holds them as a list of
    pairs.

    Raises:
        ValueError: a merge of ids that do not exist yet, or an id out of range.

    Source: Sennrich, Haddow & Birch 2016, §3.2.
    """

    def __init__(self, merges: Sequence[tuple[int, int]]):
        raise NotImplementedError

    @staticmethod
    def merge(ids: Sequence[int], pair: tuple[int, int], new: int) -> list[int]:
        """Replace each occurrence of a pair by a new id, from left to right, without overlaps."""
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """Return the text's ids: apply the merges in the order in which they were learned."""
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids. Invalid UTF-8, which a model may generate, becomes U+FFFD."""
        raise NotImplementedError
