"""A sample of the mutation run (`make mutants` is all of it), and a test of its own teeth."""

import os
import random
from collections import Counter

import pytest

from course.curriculum import DAYS, find_day
from tests.conftest import FRESH_SEED
from tests.mutants import Mutant, listed, listed_of, mutants, survives

SAMPLE = 60


@pytest.fixture(scope="module")
def everything():
    return [mutant for day in DAYS if day.ready for mutant in mutants(day)]


def test_a_sample_of_mutants_is_rejected(everything):
    """The checks notice small changes of the reference, but for those that change nothing."""
    sample = random.Random(int(os.environ[FRESH_SEED])).sample(everything, SAMPLE)
    alive = [mutant for mutant in sample if survives(mutant)]
    assert [mutant.statement for mutant in alive if mutant.reason is None] == []


def test_no_reason_is_stale(everything):
    """Every survivor that is listed as equivalent is a mutant that exists."""
    explained = Counter((mutant.day, mutant.definition) for mutant in everything if mutant.reason)
    expected = {(day, name): count for day in DAYS for name, count in listed_of(day).items()}
    assert explained == expected
    assert set(listed()) == {f"{day.number} {name}" for day, name in expected}


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
