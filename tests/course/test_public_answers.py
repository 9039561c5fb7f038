"""Answers as reports and published code have them: refused in core and named, or accepted."""

import tomllib
from pathlib import Path

import pytest

from course.checks.answer_files import build_answer, read_answer
from course.checks.loading import CORE
from course.curriculum import DAYS
from course.judging.judge import Judge
from course.references.imports import redacted_imports
from course.references.redacted import redacted_references
from tests.course.test_days import no_own_part

ANSWERS = tomllib.loads(Path(__file__).with_name("public_answers.toml").read_text(encoding="utf-8"))
QUICK = ("clip_higher", "pass_at_k_by_numpy")


def judged(case, path):
    """The results of the checks of one exercise; the rest is the worked solution."""
    day = next(candidate for candidate in DAYS if candidate.number == case["day"])
    path.write_text(f"{read_answer(day.solution)}\n\n{case['code']}", encoding="utf-8")
    judge = Judge(day, 0)
    with redacted_imports(redacted_references(day), day.number, no_own_part):
        answer = build_answer(str(path), read_answer(path))
    results = judge.results(judge.outcomes(answer, str(path)))
    return [result for result in results if result.exercise == case["exercise"]]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ANSWERS],
)
def test_verdict(name, tmp_path):
    """A wrong answer fails, and its mistake is the only one that is named; a right one passes the core.

    What fails beyond the core beside it need not be named, and `refused` is a mistake without a name.
    """
    case = ANSWERS[name]
    results = judged(case, tmp_path / "answer.py")
    failed = [result for result in results if result.status != "passed"]
    if case["verdict"] == "core":
        assert [(result.name, result.message) for result in failed if result.tier == CORE] == []
    else:
        named = {result.misconception for result in failed} - {None}
        unnamed = [
            result.name for result in failed if result.tier == CORE and result.misconception is None
        ]
        assert (named, bool(unnamed)) == (
            (set(), True) if case["verdict"] == "refused" else ({case["verdict"]}, False)
        )
