"""A sample of the mutation run (`make mutants` is all of it), and a test of its own teeth."""

import random

from course.curriculum import DAYS, find_day
from tests.mutants import ENOUGH, EQUIVALENT, Mutant, mutants, survives

SAMPLE = 120


def test_a_sample_of_mutants_is_rejected():
    """The checks notice small changes of the reference, but for those that change nothing."""
    everything = [mutant for day in DAYS if day.ready for mutant in mutants(day)]
    sample = random.Random(20).sample(everything, SAMPLE)
    alive = [mutant for mutant in sample if survives(mutant)]
    unexplained = [m for m in alive if (m.definition, m.statement) not in EQUIVALENT]
    assert not unexplained
    assert len(alive) <= (1 - ENOUGH) * SAMPLE


def test_no_reason_is_stale():
    """Every survivor that is listed as equivalent is a mutant that exists."""
    known = {(m.definition, m.statement) for day in DAYS if day.ready for m in mutants(day)}
    assert set(EQUIVALENT) <= known


def test_what_changes_nothing_survives():
    """A run that rejected everything would prove nothing."""
    day = find_day("1")
    same = "def softmax(x, axis=-1):\n    y = x - x.max(axis, keepdims=True)\n"
    same += "    return __import__('numpy').exp(y) / __import__('numpy').exp(y).sum(axis, keepdims=True)\n"
    assert survives(Mutant(day, "softmax", "", same))
    assert not survives(Mutant(day, "softmax", "", same.replace("max", "min")))
    assert not survives(
        Mutant(day, "softmax", "", "def softmax(x, axis=-1):\n    while True: pass\n")
    )
