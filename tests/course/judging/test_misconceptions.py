"""Files of known wrong answers: what they can express, and what `course sync --check` finds wrong."""

import pytest

from course.curriculum import Day, find_day
from course.judging.misconceptions import faults, load_misconceptions

BASE_TWO = '''
[[mistakes]]
exercise = "softmax"
id = "base_two"
sentence = """
Your weights are powers of 2. Softmax raises e to each score, and the base changes how far
apart the weights are."""
edits."np.exp(_)" = "np.exp2(_)"
'''
BASE_TEN = """
[[mistakes.alternatives]]
edits."np.exp(_)" = "10.0 ** _"
"""
DAY = find_day("1")


@pytest.fixture
def write_entries(monkeypatch, tmp_path):
    """Return a function that replaces the file of day 1."""
    file = tmp_path / "day01_softmax.toml"
    monkeypatch.setattr(Day, "misconceptions", file)
    return lambda text: file.write_text(text, encoding="utf-8")


def test_an_entry_has_a_sentence_and_alternatives(write_entries):
    write_entries(BASE_TWO + BASE_TEN)
    assert list(faults(DAY)) == []
    first, second = load_misconceptions(DAY)
    assert (first.key, second.key) == ("base_two", "base_two.1")
    assert first.id == second.id == "base_two"
    assert first.tell == second.tell
    assert "how far apart the weights" in first.tell
    assert "np.exp2" in first.text(DAY)
    assert "10.0 **" in second.text(DAY)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[mistakes", "Expected"),
        (BASE_TWO.replace("id =", "name ="), "mistake 1: `id` is missing"),
        (BASE_TWO.replace("edits.", "edit."), "base_two: unknown key `edit`"),
        (BASE_TWO.partition("edits")[0], "base_two: one of `edits`"),
        (BASE_TWO + 'code = "def softmax(): pass"', "base_two: one of `edits`"),
        (BASE_TWO + "[[mistakes.alternatives]]", "base_two: one of `edits`"),
        (BASE_TWO.replace('"softmax"', '"softmin"'), "`softmin` is not an exercise of day 1"),
        (BASE_TWO.replace("Your weights", "your weights"), "must begin with a capital"),
        (BASE_TWO.replace("weights are.", "weights are"), "end with a full stop"),
        (BASE_TWO.replace("how far", "how far " * 50), "must have 25 to 350 characters, got"),
        (BASE_TWO.replace("np.exp(_)", "np.log(_)"), "base_two no longer fits softmax"),
        (
            BASE_TWO.replace("np.exp2(_)", "np.exp(_)"),
            "base_two: the code is that of the reference",
        ),
        (BASE_TWO + BASE_TWO, "base_two: the id is used twice"),
        (BASE_TWO + BASE_TWO.replace("base_two", "twin"), "twin: the code is that of base_two"),
        (BASE_TWO + BASE_TEN + BASE_TEN, "base_two.2: the code is that of base_two.1"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(write_entries, text, words):
    write_entries(text)
    assert any(words in fault for fault in faults(DAY))
