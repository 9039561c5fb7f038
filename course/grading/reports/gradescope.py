"""Results as Gradescope's autograders hand them over: `results.json`, a test an exercise.

The format: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from course.curriculum import BY_NUMBER
from course.grading.gradebook import (
    GRADER_FAULT,
    NOTHING_FOUND,
    REFUSED,
    LearnerResult,
    Weights,
    rounded,
)
from course.grading.reports.escaping import file_name, shortened, visible
from course.grading.reports.feedback import Exercise, Failure, exercises
from course.grading.reports.files import whole_file
from course.grading.reports.graded import GradedClass, spans


def write_gradescope(folder: Path, graded: GradedClass) -> None:
    """Write a file for each learner of whom anything is known."""
    for result in graded.results:
        if result.verdict != GRADER_FAULT:
            with whole_file(folder / f"{file_name(result.learner)}.json") as file:
                json.dump(gradescope_results(result, graded.weights), file, indent=1)


def gradescope_results(result: LearnerResult, weights: Weights) -> dict[str, Any]:
    """The object that `results.json` holds.

    Raises:
        ValueError: the grader failed. Without the file Gradescope says so, and gives no grade.
    """
    if result.verdict == GRADER_FAULT:
        raise ValueError(f"nothing is known of {result.learner!r}: the grader failed")
    stars = spans(day["day"] for day in result.days if day["watertight"])
    outputs = {
        REFUSED: f"It could not be taken: {result.reason}",
        NOTHING_FOUND: result.reason,
    }
    output = outputs.get(result.verdict) or (f"★ Watertight days: {stars}" if stars else "")
    lines = filter(None, [output, weights.remark(result)])
    return {
        "score": rounded(weights.total(result)),
        "output": visible(shortened("\n".join(lines))),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            _test(day["day"], number, exercise)
            for day in result.days
            for number, exercise in enumerate(exercises(day, weights), 1)
        ],
    }


def _test(day: int, number: int, exercise: Exercise) -> dict[str, Any]:
    return {
        "name": f"Day {day} · {BY_NUMBER[day].title}: {exercise.name}",
        "name_format": "text",
        "number": f"{day}.{number}",
        "score": rounded(exercise.points),
        "max_score": rounded(exercise.max_points),
        "status": "passed" if exercise.status == "passed" else "failed",
        "output": visible(
            "\n\n".join(map(_failure_text, (*exercise.failures, *exercise.invitations)))
        ),
        "output_format": "text",
        "visibility": "visible",
    }


def _failure_text(failure: Failure) -> str:
    invitation = (
        f"☆ An invitation to make it watertight: {failure.beyond}." if failure.beyond else ""
    )
    head = f"{failure.checks[0]}: {failure.says}"
    also = f"The same in: {failure.others}" if failure.others else ""
    lines = (invitation, head, failure.diagnosis, failure.message, also)
    return "\n".join(line for line in lines if line)
