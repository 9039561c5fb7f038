"""The README says what is there."""

import re

from course.curriculum import DAYS, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_days():
    """Every day has its row: with a link where it is there, else marked as not there yet."""
    table = README.partition("## The forty days")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (\d+) \| (.*)\|$", table, flags=re.MULTILINE))
    assert [int(number) for number in rows] == [day.number for day in DAYS]
    for day in DAYS:
        row = rows[str(day.number)]
        assert day.title in row
        assert (f"(lessons/{day.stem}.ipynb)" in row) == day.ready
        assert ("not there yet" in row) != day.ready
        assert all(f"`{name}`" in row for name in day.exercises)


def test_links_and_files():
    """What the README points to exists."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_what_a_learner_needs_comes_first():
    """The days stand before what instructors and trainings need, and where one's own work lies is said."""
    parts = re.findall(r"^## (.*)$", README, flags=re.MULTILINE)
    assert parts.index("Learn") < parts.index("The forty days") < parts.index("Grade")
    learn = README.partition("## Learn")[2].partition("\n## ")[0]
    for words in ("my/lessons/", "git commit", "git pull"):
        assert words in learn
