"""Day 21 · Byte-pair encoding

Lesson  course lesson 21
Hints   course hint 21
Check   course watch 21    (checks at every save; `course check 21` checks once)

Replace each `raise NotImplementedError` with your own code. The numbered comments are a way there; you may
take another. Earlier days' parts come from the reference, so a day can be skipped.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence


def train_bpe(text: str, vocab_size: int) -> "BPE":
    """Learn a vocabulary by merging the most frequent pair of adjacent ids, again and again.

    - `text` is one sequence: nothing splits it into words first.
    - `vocab_size` is the number of ids wanted, the 256 bytes included.
    - Return a `BPE` of vocab_size − 256 merges, or fewer where no pair is left.
    - Every adjacent pair counts (`aaa` has two), also one that occurs once. Of equally frequent pairs,
      the one that occurs first in the sequence is merged.

    Raises:
        ValueError: a `vocab_size` below 256.

    Source: Sennrich, Haddow & Birch 2016, *Neural Machine Translation of Rare Words with Subword
    Units*, §3.2; on bytes: Radford et al. 2019 (GPT-2), §2.2.
    """
    # 1. Start from the UTF-8 bytes.
    # 2. Find the commonest adjacent pair. A Counter keeps the order in which its keys came, and
    #    max returns the first of equals.
    # 3. Merge it everywhere, under the next free id.
    raise NotImplementedError


class BPE:
    """Encode text as ids and decode ids to text, without loss, for any text.

    Ids 0 to 255 are the bytes; 256 + r stands for the pair `merges[r]`, of rank r.

    `merges` are pairs of ids in the order of their rank. The attribute `merges` holds them as a list of
    pairs.

    Raises:
        ValueError: a merge of ids that do not exist yet.

    Source: Sennrich, Haddow & Birch 2016, §3.2.
    """

    def __init__(self, merges: Sequence[tuple[int, int]]):
        # 1. Spell out in bytes what each id stands for: a merge is the sum of its two parts.
        raise NotImplementedError

    @staticmethod
    def merge(ids: Sequence[int], pair: tuple[int, int], new: int) -> list[int]:
        """Replace a pair by a new id wherever it occurs, from left to right, each id used once."""
        # 1. Walk along. Where the pair begins, take both ids at once.
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """From text to ids: the merges as they were learnt, the earliest first."""
        # 1. Start from the bytes, and of the merges that fit apply the one of lowest rank.
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        """From ids to text. Bytes that are not UTF-8, as a model may say, become U+FFFD.

        Raises:
            ValueError: an id that there is not.
        """
        # 1. Spell out all the ids, then read the bytes as one.
        raise NotImplementedError
