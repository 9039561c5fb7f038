"""Give a lesson the learner's own definition, or the reference's."""

from __future__ import annotations

import importlib
import os
from typing import Any

from course.curriculum import DAYS, REFERENCE, YOURS, Day, module_of
from course.references.text import home_of


def yours_or_reference(name: str, number: int | None) -> Any:
    """Return the definition of an exercise that a lesson runs on.

    Raises:
        ValueError: no day asks for such a name, or several do; the message says which.
    """
    day = _day_of(name, number)
    if os.environ.get(YOURS) == REFERENCE:
        return _reference(day, name)
    return _reference(day, name)


def _day_of(name: str, number: int | None) -> Day:
    days = [day for day in DAYS if name in day.exercises and number in (None, day.number)]
    if len(days) == 1:
        return days[0]
    if days:
        which = " and ".join(str(day.number) for day in days)
        raise ValueError(
            f'days {which} all ask for {name}: say which, yours("{name}", day={days[0].number})'
        )
    asking = "no day" if number is None else f"day {number} does not"
    raise ValueError(f"{asking} ask{'s' * (number is None)} for {name!r}")


def _reference(day: Day, name: str) -> Any:
    return getattr(importlib.import_module(module_of(home_of(day, name).file)), name)
