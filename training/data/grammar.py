"""English sentences and their French translations, in pairs: the corpus `toy` of the task
`translation`.

It can be learned without a download. A grammar with about 200 words per language generated it. The
task needs a Transformer because few words can be translated alone: there are genders, agreement,
elisions, different word orders, and an "it" that becomes il or elle, depending on its noun. Yet
nothing is a matter of taste: each English sentence has exactly one French translation here, and
each French sentence exactly one English translation, so a model can be trained in either direction.
"""

from __future__ import annotations

import gzip
from pathlib import Path

Pair = tuple[str, str]

FILE = Path(__file__).with_name("toy.tsv.gz")  # split, English and French


def corpus() -> dict[str, list[Pair]]:
    """Return the entire corpus: `train`, `validation` and `test`, pairs of an English and a French
    sentence. No pair occurs twice."""
    splits: dict[str, list[Pair]] = {}
    with gzip.open(FILE, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            split, english, french = line.rstrip("\n").split("\t")
            splits.setdefault(split, []).append((english, french))
    return splits
