"""A sample of the mutation run (`make mutants` is all of it), and a test of its own teeth."""

import random
from collections import Counter

import pytest

from course.curriculum import DAYS, find_day
from tests.mutants import Mutant, listed, listed_of, mutants, survives

SAMPLE_DAYS, SAMPLE = (1, 9), 10  # days that are tried at once, and mutants of each


def test_a_sample_of_mutants_is_rejected():
    """The checks notice small changes of the reference, but for those that change nothing."""
    for number in SAMPLE_DAYS:
        of_day = list(mutants(find_day(str(number))))
        sample = random.Random(number).sample(of_day, min(SAMPLE, len(of_day)))
        alive = [mutant for mutant in sample if survives(mutant)]
        assert [mutant.statement for mutant in alive if mutant.reason is None] == []


@pytest.mark.slow
@pytest.mark.parametrize("day", [day for day in DAYS if day.ready], ids=lambda day: day.stem)
def test_no_reason_is_stale(day):
    """Every survivor that is listed as equivalent is a mutant that exists."""
    assert Counter(mutant.definition for mutant in mutants(day) if mutant.reason) == listed_of(day)


def test_what_is_listed_is_of_an_exercise():
    assert set(listed()) <= {f"{day.number} {name}" for day in DAYS for name in day.exercises}


def test_what_changes_nothing_survives(monkeypatch):
    """A run that rejected everything would prove nothing."""
    day = find_day("1")
    same = "def softmax(x, axis=-1):\n    y = x - x.max(axis, keepdims=True)\n"
    same += "    return __import__('numpy').exp(y) / __import__('numpy').exp(y).sum(axis, keepdims=True)\n"
    assert survives(Mutant(day, "softmax", "", same))
    assert not survives(Mutant(day, "softmax", "", same.replace("max", "min")))
    monkeypatch.setattr("tests.mutants.CPU_SECONDS", 1.0)
    assert not survives(
        Mutant(day, "softmax", "", "def softmax(x, axis=-1):\n    while True: pass\n")
    )
    monkeypatch.setattr("tests.mutants.STUCK", 0.5)
    asleep = "def softmax(x, axis=-1):\n    __import__('time').sleep(60)\n"
    assert not survives(Mutant(day, "softmax", "", asleep))
