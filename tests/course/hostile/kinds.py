"""What a kind of hostile submission is: right answers to three days, and an attack in one of them.

Right answers alone would pass all three days. So where an attack is on the walls, it raises if it
gets through, and the day is an error. Where an attack is on the verdict, the answer is wrong, and
the day passes if it gets through.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent

from course.checks.answer_files import read_answer
from course.curriculum import BY_NUMBER

GRADED = (1, 2, 8)  # a day of NumPy, another, and one of torch


@dataclass(frozen=True)
class Kind:
    """One way to be hostile.

    Attributes:
        name: what it is called, and its learner, unless that is given.
        says: what it tries.
        days: the files of days that are not simply right; None is not handed in. `@ROOT@`,
            `@SUBMISSIONS@`, `@OUT@` and `@PORT@` in them stand for what an attacker may have guessed.
        statuses: what becomes of the days that do not pass.
        beside: other files of the submission, by their names.
        build: makes the submission, given its path; without it the days make a folder.
        refused: words of the reason, if it is to be refused.
        learner: the name of its folder.
        review: what is to be named for review.
    """

    name: str
    says: str
    days: Mapping[int, str | bytes | None] = field(default_factory=dict)
    statuses: Mapping[int, str] = field(default_factory=dict)
    beside: Mapping[str, str | bytes] = field(default_factory=dict)
    build: Callable[[Path], None] | None = None
    refused: str = ""
    learner: str | bytes = ""
    review: str = ""

    @property
    def shown(self) -> str:
        """Whom the reports call so: names that are no text are written with escapes."""
        name = os.fsdecode(self.learner or self.name)
        return name.encode("utf-8", "backslashreplace").decode()

    @property
    def verdict(self) -> str:
        return "refused" if self.refused else "graded"

    @property
    def expected(self) -> dict[int, str]:
        """The status of every day."""
        if self.refused:
            return {}
        return {number: self.statuses.get(number, "passed") for number in GRADED}

    @property
    def points(self) -> int:
        """Every attack is on all of a day."""
        return list(self.expected.values()).count("passed")


@functools.cache
def right(number: int) -> str:
    """A right answer to a day."""
    return read_answer(BY_NUMBER[number].solution)


def before(number: int, code: str) -> dict[int, str]:
    """A day whose right answer follows some code that runs when the file is loaded."""
    return {number: f"{dedent(code)}\n{right(number)}"}


def during(number: int, code: str) -> dict[int, str]:
    """Day 2 or 8, with code that runs in every call; it knows the arguments as `inputs`."""
    body = indent(dedent(code), "    ")
    return {
        number: f"{right(number)}\n\nright = attention\n\n\n"
        f"def attention(**inputs):\n{body}\n    return right(**inputs)\n"
    }


# Of the checks of each day's core one alone has such inputs.
ONE_CHECK = {
    2: 'inputs["query"].ndim == 4 and "mask" not in inputs',
    8: 'inputs.get("mask") is not None and inputs["mask"].ndim == 2',
}


def in_one_check(number: int, code: str) -> dict[int, str]:
    """The same in one check alone: a worker that has to be ended is waited for once, not twice."""
    return during(number, f"if {ONE_CHECK[number]}:\n{indent(dedent(code), '    ')}")


def instead(number: int, code: str) -> dict[int, str]:
    """Day 2 or 8 answered by zeros, which code may exchange for what is `right`, or seems so."""
    return {
        number: f"{right(number)}\n\nright = attention\n\n\n"
        "def attention(query, key, value, mask=None, dropout=None):\n"
        "    weights = 0 * (query @ key.swapaxes(-2, -1))\n"
        "    output = weights @ value\n"
        f"{indent(dedent(code), '    ')}\n"
        "    return output, weights\n"
    }


def ends(name: str, says: str, code: str, day: int = 2, status: str = "error") -> Kind:
    """A kind that breaks off in one check of a day, or does not come to its end."""
    return Kind(name, says, in_one_check(day, code), {day: status})


def poses(name: str, says: str, code: str, day: int = 2, status: str = "failed") -> Kind:
    """A kind whose wrong answer to a day wants to be taken for a right one."""
    return Kind(name, says, instead(day, code), {day: status})


def reaches(name: str, says: str, code: str, day: int = 2) -> Kind:
    """A kind that is right in every day, and raises where it reaches what it must not."""
    return Kind(name, says, before(day, code))
