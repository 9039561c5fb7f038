"""The README says what is there."""

import re

import pytest

from course.curriculum import DAYS, ROOT
from course.references.lessons import times
from course.workers.limits import (
    MAX_DAY_SECONDS,
    MAX_MEMORY,
    MAX_SLEEP_SECONDS,
    NAP,
    PATIENCE,
    WAITING,
)

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_days():
    """Every day has its row: with a link where it is there, else marked as not there yet."""
    table = README.partition("## The days")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (\d+) \| (.*)\|$", table, flags=re.MULTILINE))
    assert [int(number) for number in rows] == [day.number for day in DAYS]
    for day in DAYS:
        row = rows[str(day.number)]
        assert day.title in row
        assert (f"(lessons/{day.stem}.ipynb)" in row) == day.ready
        assert ("not there yet" in row) != day.ready
        assert all(f"`{name}`" in row for name in day.exercises)


def test_ten_evenings_are_as_short_as_it_says():
    chosen = README.partition("of less than two hours: days ")[2].partition(".")[0]
    spent = [times(DAYS[int(number) - 1]) for number in re.findall(r"\d+", chosen)]
    assert len(spent) == 10
    assert max(evening.reading + evening.write for evening in spent) < 120


PAGES = sorted(ROOT.glob("docs/*.md"))
TEXTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/*.md")]


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_files(text):
    """What the README and other texts point to exists."""
    links = r"(?:\]\(|src=\"|srcset=\")([^)#:\"]+)[)\"]"
    for target in re.findall(links, text.read_text(encoding="utf-8")):
        assert (text.parent / target).exists(), target


def test_it_is_short():
    """Somebody who found the page reads it to the end; all else is on pages that it has links to."""
    prose = [line for line in README.splitlines() if not line.startswith("| ")]
    assert len(" ".join(prose).split()) <= 510
    for page in PAGES:
        assert f"(docs/{page.name})" in README


def test_the_version_is_the_same_everywhere():
    """In the project's file, in what is cited, and in the newest entry of the changelog."""
    patterns = {"pyproject.toml": 'version = "(.+)"', "CITATION.cff": "version: (.+)"}
    patterns["CHANGELOG.md"] = r"## (\d\S+) - \d{4}-\d\d-\d\d"
    versions = {
        re.search(f"^{pattern}$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)[1]
        for file, pattern in patterns.items()
    }
    assert len(versions) == 1


def test_what_a_learner_needs_comes_first():
    """Start and a day stand before the rest, and where one's own work is stored is said."""
    parts = re.findall(r"^## (.*)$", README, flags=re.MULTILINE)
    assert parts[:2] == ["Start", "A day"]
    learn = (ROOT / "docs" / "learn.md").read_text(encoding="utf-8")
    for words in ("my/lessons/", "git commit", "git pull"):
        assert words in learn


def test_the_limits_are_those_of_the_workers():
    text = " ".join((ROOT / "docs" / "grade.md").read_text(encoding="utf-8").split())
    for limit in (
        f"{PATIENCE:g} seconds of CPU time",
        f"{WAITING:g} seconds of wall time",
        f"{MAX_MEMORY // 2**30} GB of memory",
        f"sleep for {NAP:g} seconds",
        f"a day can use {MAX_DAY_SECONDS:g} seconds, and sleep for {MAX_SLEEP_SECONDS:g} of them",
    ):
        assert limit in text
