"""A sample of the mutation run (`make mutants` is all of it), and a test of its own teeth."""

import os
import random
from collections import Counter

import pytest

from course.curriculum import DAYS, find_day
from tests.conftest import FRESH_SEED
from tests.mutants import EQUIVALENT, Mutant, mutants, survives

SAMPLE_DAYS, SAMPLE = 6, 10  # days, and mutants of each
RANDOM = random.Random(int(os.environ[FRESH_SEED]))
DRAWN = RANDOM.sample([day for day in DAYS if day.ready], SAMPLE_DAYS)


@pytest.fixture(scope="module", params=DRAWN, ids=lambda day: day.stem)
def of_day(request):
    return list(mutants(request.param))


def test_a_sample_of_mutants_is_rejected(of_day):
    """The checks notice small changes of the reference, but for those that change nothing."""
    sample = RANDOM.sample(of_day, min(SAMPLE, len(of_day)))
    alive = [mutant for mutant in sample if survives(mutant)]
    assert [mutant.statement for mutant in alive if mutant.reason is None] == []


def test_no_reason_is_stale(of_day):
    """Every survivor that is listed as equivalent is a mutant that exists."""
    day = of_day[0].day
    homes = Counter(name for one in DAYS for name in one.exercises)
    names = {name for name in day.exercises if homes[name] == 1}  # two share their list
    listed = {
        name: sum(len(edits) for edits in reasons.values())
        for name, reasons in EQUIVALENT.items()
        if name in names
    }
    found = [mutant.definition for mutant in of_day if mutant.reason]
    assert Counter(name for name in found if name in names) == listed


def test_what_changes_nothing_survives(monkeypatch):
    """A run that rejected everything would prove nothing."""
    day = find_day("1")
    same = "def softmax(x, axis=-1):\n    y = x - x.max(axis, keepdims=True)\n"
    same += "    return __import__('numpy').exp(y) / __import__('numpy').exp(y).sum(axis, keepdims=True)\n"
    assert survives(Mutant(day, "softmax", "", same))
    assert not survives(Mutant(day, "softmax", "", same.replace("max", "min")))
    monkeypatch.setattr("tests.mutants.SECONDS", 1)
    assert not survives(
        Mutant(day, "softmax", "", "def softmax(x, axis=-1):\n    while True: pass\n")
    )
