"""The checks on a real GPU: `pytest tests/course/test_cuda.py`, by itself. Elsewhere they are skipped.

What the practice GPU says of these answers, CUDA must say as well.
"""

import functools

import pytest
import torch

from course.checks.answer_files import build_answer, read_answer
from course.checks.arrays import PRACTICE
from course.curriculum import DAYS
from course.judging.judge import Judge, Outcome
from course.judging.misconceptions import load_misconceptions
from course.references.imports import redacted_imports
from course.references.patched import reference_module
from course.references.redacted import redacted_references

DEVICE = "cuda"
WITH_TORCH = [day for day in DAYS if day.uses_torch]
ACCEPTED = [(day, path) for day in WITH_TORCH for path in sorted(day.accepted.glob("*.py"))]
WRONG = [(day, wrong) for day in WITH_TORCH for wrong in load_misconceptions(day, PRACTICE)]


def missing():
    """Return why nothing here can run, or an empty text."""
    if not torch.cuda.is_available():
        return "no CUDA GPU here"
    if hasattr(torch, PRACTICE):
        return (
            "torch knows the practice GPU in this process, and cannot go backward on CUDA any more"
        )
    return ""


@pytest.fixture(autouse=True)
def _gpu():
    if why := missing():
        pytest.skip(why)


def name(value):
    """Return what stands for a parameter in a test's name."""
    return getattr(value, "stem", None) or value.id


def _no_own_part(name, day):
    raise AssertionError(f"{name} of day {day} is a reference here")


@functools.cache
def judge_of(day):
    """Return the judge of a day there."""
    return Judge(day, device=DEVICE)


def failures(results):
    """Return the verdicts that are bad ones."""
    return [result for result in results if result.status not in ("passed", "skipped")]


@pytest.mark.parametrize("day", WITH_TORCH, ids=name)
def test_the_reference_passes(day):
    """It agrees with itself, to rounding."""
    judge = judge_of(day)
    assert not failures(judge.results(judge.outcomes(reference_module(day))))


@pytest.mark.parametrize(("day", "path"), ACCEPTED, ids=name)
def test_accepted_answer_passes(day, path):
    """A right answer written differently passes."""
    with redacted_imports(redacted_references(day), day.number, _no_own_part):
        answer = build_answer(str(path), read_answer(path))
    judge = judge_of(day)
    assert not failures(judge.results(judge.outcomes(answer, str(path))))


@pytest.mark.parametrize(("day", "wrong"), WRONG, ids=name)
def test_mistake_about_devices_is_caught_and_named(day, wrong):
    """The practice GPU is held to the same in `test_days.py`."""
    judge = judge_of(day)
    outcomes = {check.name: Outcome(judge.truth.wrong(check, wrong).run) for check in judge.checks}
    failed = failures(judge.results(outcomes))
    of_its_own = [result for result in failed if result.exercise == wrong.definition]
    assert {result.misconception for result in of_its_own} == {wrong.id}
    assert {result.misconception for result in failed} <= {wrong.id, None}
