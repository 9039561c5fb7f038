"""Which day's file a name means, and which it is nearest to."""

import pytest

from course.curriculum import DAYS
from course.grading.submission.names import ANSWERS, meaning, nearest, reading

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
        *("day02 - Kopie.py", "day02_attention - Copie (2).py", "day02_attention copia 3.py"),
        *("Kopie von day02.py", "day02_attention (copie).py", "day02.attention.py"),
    ],
)
def test_nearly_right_names(name):
    """What browsers, systems and hands make of a name means the same."""
    assert reading(name) == ("day02_attention.py", 0)


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        *((name, 1) for name in ("s1234567_day02_attention.py", "day02_attention_1234567.py")),
        *(
            (name, 1)
            for name in ("day02_attention_final_v2.py", "1234567day02.py", "day02 v3 (1).py")
        ),
        *((name, 2) for name in ("lee_ada_day2.py", "day02_attention_ada.py", "müller_day02.py")),
        *((name, 2) for name in ("attention_day02_by_me.py", "day02_atention.py")),
        ("day02_attention_old.py", 3),
    ],
)
def test_what_stands_beside_a_days_name(name, beside):
    """Numbers, names and words for a version are no part of it, and it is known that they are there."""
    assert reading(name) == ("day02_attention.py", beside)


def test_notebooks():
    """They stay notebooks, whatever was put behind the ending."""
    names = ("day8_attention-Copy1.ipynb", "Day08.ipynb", "day08_attention.ipynb.json")
    assert {meaning(name) for name in names} == {"day08_attention.ipynb"}


@pytest.mark.parametrize(
    "name",
    [
        *("attention.py", "day02_softmax.py", "day99_attention.py", "day0_attention.py"),
        *("day02_attention.pdf", "day02_attention", "day02_attention.md", "holiday2.py"),
        *(
            "test_day02_attention.py",
            "2.py",
            "day.py",
            "",
            ".py",
            "day1_2.py",
            "day04_attention.py",
        ),
        *("day01_softmax_day02_attention.py", "day02_softmax_of_ada.py"),
        *("day٢_attention.py", "a" * 100_000 + "day02.py", "day02" + " (1)" * 100_000 + ".py"),
    ],
    ids=lambda name: name[:20],
)
def test_names_that_may_mean_something_else(name):
    """What says no day, or two, or nearly one, is not guessed at."""
    assert meaning(name) is None


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("hw2.py", "hw2.py"),
        ("hw[2].py", "hw[2].py"),
        ("hw2_ada.py", "hw2*.py"),
        ("hw02.py", "hw*.py"),
    ],
)
def test_an_instructors_map(name, line):
    """A line of it is a name or a pattern; a day's own name means itself, whatever a pattern says."""
    renames = {line: "day02_attention.py", "*": "day03_masks.py"}
    assert reading(name, renames) == ("day02_attention.py", 0)
    assert meaning("day01_softmax.py", renames) == "day01_softmax.py"


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
