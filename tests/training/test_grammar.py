"""The English–French corpus that ships: these pairs, and what is promised of them."""

import hashlib
import json
import re

import pytest

from training.data.grammar import corpus

SHA256 = "38962d7aeaee3d8e049ccfa6d4691954b227515d442619ac03575d7b180f2c00"


@pytest.fixture(scope="module")
def splits():
    """The corpus, read once."""
    return corpus()


def test_it_is_always_the_same(splits):
    """On every machine: results that were published are of these pairs, in this order."""
    text = json.dumps(splits, ensure_ascii=True)
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256


def test_sizes(splits):
    """As many pairs as are promised."""
    sizes = {split: len(pairs) for split, pairs in splits.items()}
    assert sizes == {"train": 20_000, "validation": 500, "test": 1_000}


@pytest.mark.parametrize("side", [0, 1])
def test_nothing_is_said_twice(splits, side):
    """So no sentence has two translations, and none comes in two splits."""
    sentences = [pair[side] for pairs in splits.values() for pair in pairs]
    assert len(set(sentences)) == len(sentences)


def test_no_word_is_unknown_in_training(splits):
    words = {
        split: {
            word for pair in pairs for side in pair for word in re.findall(r"[\w'-]+", side.lower())
        }
        for split, pairs in splits.items()
    }
    assert words["validation"] | words["test"] <= words["train"]
