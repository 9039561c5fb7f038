"""Pairs that are more alike than independent work would be."""

import random

import pytest

from course.curriculum import DAYS
from course.grading.analysis import fingerprints
from course.grading.gradebook import GRADED, LearnerResult
from course.grading.similarity import alike
from course.references.stubs import stub_text

NAMES = [f"learner{number:02d}" for number in range(20)]
COMMON, OWN = 60, 40  # fingerprints of the one right way, and of a learner's own


def class_of(copies=()):
    """Learners who have in common what the exercise demands; `copies` have another's own as well."""
    source = random.Random(5)
    demanded = [source.randrange(2**48) for _ in range(COMMON)]
    stub = fingerprints(stub_text(DAYS[7]))
    own = {name: [source.randrange(2**48) for _ in range(OWN)] for name in NAMES}
    for copy, original in copies:
        own[copy] = own[original][:-5] + own[copy][:5]
    return [
        LearnerResult(
            name,
            GRADED,
            fingerprints={
                "day08_attention.py": [*source.sample(demanded, 50), *own[name], *stub],
            },
        )
        for name in NAMES
    ]


def pairs(results, days=(7,)):
    found = alike(lambda: iter(results), [DAYS[index] for index in days])
    return {(one.one, one.other): one for one in found}


def test_independent_work():
    """What the exercise demands of everybody makes nobody suspect."""
    assert pairs(class_of()) == {}


def test_copies_stand_out():
    """Those who share what is nobody else's are listed, with the days on which they do."""
    found = pairs(class_of([("learner03", "learner11"), ("learner07", "learner19")]))
    assert set(found) == {("learner03", "learner11"), ("learner07", "learner19")}
    assert all(pair.days == [8] and pair.share > 0.7 for pair in found.values())


def test_the_stub_is_nobodys():
    """A class of stubs, and one of the worked solution to the letter, accuses nobody."""
    stub = fingerprints(stub_text(DAYS[7]))
    results = [
        LearnerResult(name, GRADED, fingerprints={"day08_attention.py": stub}) for name in NAMES
    ]
    assert pairs(results) == {}
    same = [*stub, *range(COMMON)]
    results = [
        LearnerResult(name, GRADED, fingerprints={"day08_attention.py": same}) for name in NAMES
    ]
    assert pairs(results) == {}


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_few_learners(count):
    """Of a handful nothing can be said, and nothing is."""
    results = class_of([("learner03", "learner01")])[:count]
    assert pairs(results) == {}


def test_refused_and_missing():
    """Who handed in nothing resembles nobody."""
    results = class_of([("learner03", "learner11")])
    results += [LearnerResult("empty", GRADED), LearnerResult("refused", "refused")]
    assert set(pairs(results, days=(7, 8))) == {("learner03", "learner11")}
