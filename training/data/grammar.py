"""English sentences and their French translations, in pairs: the corpus `toy` of the task `translation`.

It can be learned where nothing can be downloaded. A grammar of some 200 words for each language generated
it. What makes it worth a Transformer is that few words can be translated alone: genders, agreements,
elisions, another order of words, an "it" that is il or elle by the noun it stands for. Yet nothing is a
matter of taste: each English sentence has exactly one French translation here, and each French one exactly
one English, so that a model can be taught in either direction.
"""

from __future__ import annotations

import gzip
from pathlib import Path

Pair = tuple[str, str]

FILE = Path(__file__).with_name("toy.tsv.gz")  # split, English and French


def corpus() -> dict[str, list[Pair]]:
    """The whole corpus: `train`, `validation` and `test`, pairs of an English and a French sentence. None
    comes twice."""
    splits: dict[str, list[Pair]] = {}
    with gzip.open(FILE, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            split, english, french = line.rstrip("\n").split("\t")
            splits.setdefault(split, []).append((english, french))
    return splits
