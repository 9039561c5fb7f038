"""The course's tool: checks answers, says what was misunderstood, keeps the board.

In a notebook, write `from course import case, check`. `check(attention, day=2)` checks the function
that you wrote there, and `case(2, "test_scale")` draws the inputs of one check.
`attention = yours("attention", day=2)` is your function where its core checks pass, and the
reference's where they do not.
"""

from typing import Any

__all__ = ["case", "check", "yours"]


def check(*definitions: Any, day: int | None = None) -> None:
    """Check your own definitions here in the notebook, and print the verdict.

    Args:
        definitions: functions or classes that you wrote, under the names that the day asks for.
        day: the day that they answer; optional if the name belongs to only one day.

    Raises:
        ValueError: no day asks for such a name, or several do; the message says which.
    """
    from course.workers.in_process import check_here  # imported late: a worker needs none of it

    check_here(definitions, day)


def case(day: int, name: str, seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Draw the inputs of one check, as the check gets them.

    `course check 8 --case test_scale` prints the lines that do this, and what the check does with
    them.

    Args:
        name: the check's name, `test_scale` or `scale`.
        seed: the seed of the inputs, as in `course check --seed`.
        device: the device of tensors, as in `course check --device`.

    Returns:
        The inputs by name: arrays, tensors, numbers, or dicts of them. `build` makes a module with
        the weights that the check gives it.

    Raises:
        LookupError: the day has no such check; the message names the nearest.
    """
    from course.checks.cases import inputs_of  # imported late, as above
    from course.curriculum import find_day

    return inputs_of(find_day(str(day)), name, seed, device)


def yours(name: str, day: int | None = None) -> Any:
    """Return your own definition of an exercise, or the reference's, for a lesson to run on.

    If the environment sets `COURSE_YOURS=reference`, this is always the reference's, and nothing is
    printed: the repository's own notebooks are executed that way.

    Args:
        name: the name of the function or class, such as `"attention"`.
        day: the day that asks for it; optional if only one day does.

    Raises:
        ValueError: no day asks for such a name, or several do; the message says which.
    """
    from course.desk.yours import yours_or_reference  # imported late, as above

    return yours_or_reference(name, day)
