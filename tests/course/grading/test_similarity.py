"""Pairs that are more alike than independent work would be."""

import math
import random
import tracemalloc

import numpy as np
import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS
from course.grading.analysis import fingerprints
from course.grading.gradebook import GRADED, LearnerResult
from course.grading.similarity import _shared_weights, alike, like_what_is_given
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


@pytest.mark.by_turn
def test_memory_does_not_grow_with_learners_times_fingerprints():
    """Hostile files have many fingerprints that are nobody else's: no table has a column for each."""
    learners, own = 200, 500
    rows = [set(range(own * number, own * (number + 1))) for number in range(learners)]
    tracemalloc.start()
    weights = _shared_weights(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < learners * learners * own * 4
    assert weights == pytest.approx(own * math.log(learners) * np.eye(learners))


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


def handed_in(*days, **texts):
    """A class by what each has handed in, the same for all of these days: a function of the day."""
    return [
        LearnerResult(
            name,
            GRADED,
            fingerprints={f"{day.stem}.py": fingerprints(text(day)) for day in days},
        )
        for name, text in texts.items()
    ]


def solution(day):
    return read_answer(day.solution)


def renamed(day):
    """The worked solution with other names, as somebody passes it on."""
    return solution(day).replace("scores", "s").replace("query", "q").replace("weights", "w")


def accepted(day):
    return read_answer(sorted(day.accepted.glob("*.py"))[0])


def test_the_worked_solution_is_recognized():
    """Four of a class that handed it in are listed, with other names too; who wrote an own one is not."""
    days = DAYS[1:3]
    copies = {"ada": solution, "bo": renamed, "cem": solution, "dee": solution}
    others = dict.fromkeys(("eve", "fay", "gil", "hal"), accepted) | {"ivo": stub_text}
    results = handed_in(*days, **copies, **others)
    found = like_what_is_given(lambda: iter(results), list(days))
    assert [(one.learner, one.what, one.days) for one in found] == [
        *((name, "the worked solution", [2, 3]) for name in ("ada", "bo", "cem", "dee")),
        ("ivo", "the stub", [2, 3]),
    ]
    assert found[0].share == 1


def test_one_line_can_be_written_in_one_way():
    """The solution of a day that is a line long says nothing about who handed in the same line."""
    [day] = DAYS[16:17]
    results = handed_in(day, ada=solution)
    assert like_what_is_given(lambda: iter(results), [day]) == []


@pytest.mark.parametrize("day", [day for day in DAYS if day.ready], ids=lambda day: day.stem)
def test_right_answers_are_not_the_solution(day):
    """No accepted answer to any day is taken for the worked solution."""
    for path in day.accepted.glob("*.py"):
        results = handed_in(day, ada=lambda _, path=path: read_answer(path))
        assert like_what_is_given(lambda results=results: iter(results), [day]) == []
