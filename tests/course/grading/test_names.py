"""Which day's file a name means, and which it is nearest to."""

import pytest

from course.curriculum import DAYS
from course.grading.submission.names import ANSWERS, meaning, nearest

READY = [day for day in DAYS if day.ready]


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_exact_names(name):
    """Every day's own names mean themselves."""
    assert meaning(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("day02_attention (1).py", "day02_attention(12).py", "day02_attention (1) (2).py"),
        *("day02_attention copy.py", "day02_attention copy 2.py", "day02_attention - Copy.py"),
        *("day02_attention - Copy (3).py", "Copy of day02_attention.py"),
        *("Day02_attention.py", "DAY02_ATTENTION.PY", "day02_Attention.Py", " day02_attention.py"),
        *("day2_attention.py", "day002_attention.py", "day_2_attention.py", "Day 2 attention.py"),
        *("day02-attention.py", "day02.py", "day2.py", "Day 2.py", "day02_attention.py.txt"),
    ],
)
def test_nearly_right_names(name):
    """What browsers, systems and hands make of a name means the same."""
    assert meaning(name) == "day02_attention.py"


def test_notebooks():
    """They stay notebooks, whatever was put behind the ending."""
    names = ("day8_attention-Copy1.ipynb", "Day08.ipynb", "day08_attention.ipynb.json")
    assert {meaning(name) for name in names} == {"day08_attention.ipynb"}


@pytest.mark.parametrize(
    "name",
    [
        *("attention.py", "day02_softmax.py", "day99_attention.py", "day0_attention.py"),
        *("day02_atention.py", "day02_attention.pdf", "day02_attention", "day02_attention.md"),
        *("test_day02_attention.py", "day02_attention_old.py", "2.py", "day.py", "", ".py"),
        *("day٢_attention.py", "a" * 100_000 + "day02.py", "day02" + " (1)" * 100_000 + ".py"),
    ],
    ids=lambda name: name[:20],
)
def test_names_that_may_mean_something_else(name):
    """What says no day, or two, or nearly one, is not guessed at."""
    assert meaning(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("day02_atention.py", "day02_attention.py"),
        ("day01_softmax.pdf", "day01_softmax.py"),
        ("soft_max.ipynb", "day01_softmax.ipynb"),
        ("attention.py", "day02_attention.py"),
        ("essay.pdf", None),
        ("", None),
        ("x" * 100_000, None),
    ],
    ids=lambda name: str(name)[:20],
)
def test_nearest(name, expected):
    """A name that is like a day's is told from one that is like none."""
    assert nearest(name, READY) == expected
