"""The course's tool: checks answers, says what was misunderstood, keeps the board.

In a notebook: `from course import check; check(attention, day=2)`.
"""

from typing import Any

__all__ = ["check"]


def check(*definitions: Any, day: int | None = None) -> None:
    """Check your own definitions here in the notebook, and print the verdict.

    Args:
        definitions: functions or classes that you wrote, under the names that the day asks for.
        day: the day they answer; may be left out where the name belongs to one day only.

    Raises:
        ValueError: no day asks for such a name, or several do; the message says which.
    """
    from course.workers.in_place import check_here  # imported late: a worker needs none of it

    check_here(definitions, day)
