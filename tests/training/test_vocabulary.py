"""Vocabularies: lossless, kept in JSON, and honest about what they do not know."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.conftest import POETRY
from training.data.vocabulary import END, SPECIAL, START, BytePairs, Symbols, characters, from_json
from training.errors import Refused

WORDS = BytePairs.learned_from(POETRY.splitlines(), 400)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_byte_pairs_lose_nothing(text):
    assert WORDS.decode(WORDS.encode(text)) == text


@settings(max_examples=20, deadline=None)
@given(st.text(alphabet=sorted(set(POETRY))))
def test_characters_lose_nothing(text):
    vocabulary = characters(POETRY)
    assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize(
    "vocabulary", [WORDS, characters(POETRY), Symbols(["<pad>", "1", "2"], " ")]
)
def test_a_vocabulary_comes_back_from_json(vocabulary):
    again = from_json(json.loads(json.dumps(vocabulary.as_json())))
    text = "2 1 2" if len(vocabulary) == 3 else "the wall, said Zoë\n"
    assert again.encode(text) == vocabulary.encode(text)
    assert again.decode(again.encode(text)) == text
    assert len(again) == len(vocabulary)
    assert again.names(again.encode(text)) == vocabulary.names(vocabulary.encode(text))


def test_padding_start_and_end_say_nothing():
    assert WORDS.decode([START, *WORDS.encode("wall"), END, 0, 0]) == "wall"
    digits = Symbols([*SPECIAL, *"0123456789"])
    assert digits.decode([START, *digits.encode("42"), END, 0]) == "42"


def test_special_tokens_that_are_written_are_letters():
    ids = WORDS.encode("<end>")
    assert END not in ids and WORDS.decode(ids) == "<end>"


def test_many_texts_are_encoded_as_each():
    lines = POETRY.splitlines()[:20]
    assert WORDS.encode_all(lines) == [WORDS.encode(line) for line in lines]


def test_the_size_is_what_was_asked_for():
    assert len(WORDS) == 400
    with pytest.raises(Refused, match="vocabulary must be at least 259"):
        BytePairs.learned_from(["a"], 258)


def test_learning_twice_gives_the_same():
    assert BytePairs.learned_from(POETRY.splitlines(), 400).as_json() == WORDS.as_json()


def test_an_unknown_symbol_is_named():
    with pytest.raises(Refused, match=r"'X' is not in the model's vocabulary, which has"):
        characters(POETRY).encode("Xylophone")
    with pytest.raises(Refused, match="'11' is not in the model's vocabulary"):
        Symbols(["<pad>", "1", "2"], " ").encode("1 11")


def test_names_show_what_cannot_be_seen():
    assert characters("a \n").names([0, 1, 2]) == ["↵", "␣", "a"]
    assert WORDS.names([END]) == ["<end>"]
    assert "".join(WORDS.names(WORDS.encode("green bottles"))) == "green␣bottles"
