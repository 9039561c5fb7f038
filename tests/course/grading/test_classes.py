"""A download of Canvas and one of Moodle, of fifteen learners each, graded by the command: every row right.

The learners hand in as learners do: names that are nearly right, two archives, a PDF, a notebook without
tags, text that was typed into a page.
"""

import csv
import html
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, ROOT
from course.grading.reports import file_name
from tests.course.grading.test_taking import EARLY, LATER, notebook, zip_of

ONE, TWO = (read_answer(DAYS[index].solution).encode() for index in (0, 1))
STUB_ONE = DAYS[0].stub.read_bytes()
WRONG_ONE, WRONG_TWO = ONE.replace(b"np.exp(", b"np.exp2("), TWO.replace(b"math.sqrt(", b"(")
assert (WRONG_ONE, WRONG_TWO) != (ONE, TWO)

UNTAGGED = [
    "%matplotlib inline\nimport math\n\nimport numpy as np",
    "def weights_of(scores):\n    e = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
    "    return e / e.sum(axis=-1, keepdims=True)",
    "def attention(query, key, value, mask=None, dropout=None):\n    return value, query",
    "scores = attention(1, 2, 3)\nraise SystemExit('an example')",
    "def attention(query, key, value, mask=None, dropout=None):\n"
    "    scores = query @ np.swapaxes(key, -2, -1) / math.sqrt(query.shape[-1])\n"
    "    if mask is not None:\n        scores = np.where(mask, scores, -1e9)\n"
    "    weights = weights_of(scores)\n    if dropout is not None:\n        weights = dropout(weights)\n"
    "    return weights @ value, weights",
]
EXAMPLES = ["import numpy as np", "print(np.ones(3))"]


@dataclass
class Learner:
    """What somebody hands in, and what must become of it.

    Attributes:
        files: by the names that the learner gave them, in the order in which they were handed in.
        verdict: graded, if nothing else.
        days: the points of the two days; nothing for a day that was not handed in.
        told: words of the learner's page.
        later: names of files that were changed on a later day.
    """

    files: dict[str, bytes]
    days: tuple[str, str] = ("", "")
    described: tuple[str, ...] = ()
    verdict: str = "graded"
    later: tuple[str, ...] = ()
    late: bool = False
    typed: bool = False


BOTH = {"day01_softmax.py": ONE, "day02_attention.py": TWO}
LEARNERS = {
    "exact": Learner(BOTH, ("1", "1"), ("Files: 2 used, 0 not used",)),
    "numbers": Learner(
        {"day1.py": ONE, "day2_attention.py": TWO},
        ("1", "1"),
        ("day2_attention.py taken as day02_attention.py",),
    ),
    "second": Learner(
        {"day02_attention.py": WRONG_TWO, "day02_attention (1).py": TWO},
        ("", "1"),
        ("day02_attention.py 'day02_attention (1).py' was taken, which",),
        later=("day02_attention (1).py",),
    ),
    "pdf": Learner(
        {"Homework.pdf": b"%PDF", "day01_softmax.pdf": b"%PDF"},
        described=(
            "'day01_softmax.pdf' (nearest to day01_softmax.py)",
            "'Homework.pdf'",
            "such as day01_softmax.py",
        ),
        verdict="nothing_found",
    ),
    "empty": Learner(
        {"work.zip": zip_of({})}, described=("The submission is empty",), verdict="nothing_found"
    ),
    "untagged": Learner(
        {"day02_attention.ipynb": notebook(UNTAGGED).encode()},
        ("", "1"),
        ("the cells that define the exercises",),
    ),
    "examples": Learner(
        {"day02_attention.ipynb": notebook(EXAMPLES).encode()},
        described=(
            "no cell has the tag `answer`, and none defines `attention`",
            "whose cells define the exercises",
        ),
        verdict="nothing_found",
    ),
    "weekly": Learner(
        {
            "day1.zip": zip_of({"exercises/day01_softmax.py": ONE}),
            "day2.zip": zip_of({"day02_attention.py": TWO}),
        },
        ("1", "1"),
        ("day1.zip/exercises/day01_softmax.py", "day2.zip/day02_attention.py"),
    ),
    "corrected": Learner(
        {
            "day1.zip": zip_of({"day01_softmax.py": WRONG_ONE}),
            "day2.zip": zip_of({"e/day01_softmax.py": ONE, "day02_attention.py": TWO}),
        },
        ("1", "1"),
        ("day1.zip/day01_softmax.py 'day2.zip/e/day01_softmax.py' was taken, which",),
    ),
    "typed": Learner({}, described=("was found",), verdict="nothing_found", typed=True),
    "late": Learner(BOTH, ("1", "1"), late=True),
    "unsafe": Learner(
        {"x.zip": zip_of({"../x": b""})}, described=("leads out",), verdict="refused"
    ),
    "misspelled": Learner(
        {"day01_softmax.py": WRONG_ONE, "day02_atention.py": TWO, "sofmax.py": ONE},
        ("0", "1"),
        (
            "day02_atention.py taken as day02_attention.py, the day that fits",
            "sofmax.py is nearest to day01_softmax.py",
        ),
    ),
    "hostile": Learner(
        {"x.zip": zip_of({"<script>alert(1)</script>/day1.py": ONE, "=1+1\x1b[2J\u202e.py": b""})},
        ("1", ""),
        ("<script>alert(1)</script>/day1.py taken as day01_softmax.py", "\\x1b[2J\\u202e.py"),
    ),
    "untouched": Learner({"day01_softmax.py": STUB_ONE}, ("0", "")),
}
TYPED = str(101 + list(LEARNERS).index("typed"))


def canvas(folder):
    """The folder that Canvas's zip unpacks to; only the numbers of the files tell which is later."""
    folder.mkdir()
    attachment = 5000
    for user, (name, learner) in enumerate(LEARNERS.items(), 101):
        head = f"{name}x{'_LATE' if learner.late else ''}_{user}"
        if learner.typed:
            (folder / f"{head}_text.html").write_bytes(b"<p>typed</p>")
        for file, content in learner.files.items():
            attachment += 1
            (folder / f"{head}_{attachment}_{file}").write_bytes(content)
    return folder


def moodle(path):
    """Moodle's zip, with a folder for each learner; the times of the files tell which is later, if any do."""
    with zipfile.ZipFile(path, "w") as archive:
        for user, (name, learner) in enumerate(LEARNERS.items(), 101):
            head = f"{name} x_{user}_assignsubmission_"
            if learner.typed:
                archive.writestr(
                    zipfile.ZipInfo(f"{head}onlinetext/onlinetext.html", EARLY), b"<p>typed</p>"
                )
            for file, content in learner.files.items():
                time = LATER if file in learner.later else EARLY
                archive.writestr(zipfile.ZipInfo(f"{head}file/{file}", time), content)
    return path


SYSTEMS = {"canvas": (canvas, "{}x_{}"), "moodle": (moodle, "{} x_{}")}


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_download_is_graded(real_sandbox, system, tmp_path):
    """Graded by one command: every row, every page, and what is handed back."""
    make, called = SYSTEMS[system]
    out = tmp_path / "out"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "course.cli", "grade", make(tmp_path / "class"), "--out", out),
            *("--days", "1-2", "--seed", "3", "--jobs", "2"),
        ],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    learners = {
        called.format(name, user): learner
        for user, (name, learner) in enumerate(LEARNERS.items(), 101)
    }
    every_row_is_right(system, learners, out)
    every_page_says_what_was_taken(learners, out)
    no_name_does_harm(out)
    pages_to_hand_back_are_known(system, learners, out)


def words_of(path):
    """The words of a page, as a browser shows them."""
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", path.read_text(encoding="utf-8"), flags=re.S)
    return " ".join(html.unescape(text).split())


def every_row_is_right(system, learners, out):
    """Verdict, points of each day, who is late, and which days were not handed in."""
    with (out / "grades.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["learner"]: row for row in csv.DictReader(file)}
    assert rows.keys() == learners.keys()
    for name, learner in learners.items():
        row, days = rows[name], learner.days if learner.verdict == "graded" else ("", "")
        assert row["verdict"] == learner.verdict, name
        assert [row["day01"] or "0", row["day02"] or "0"] == [day or "0" for day in days], name
        assert row["points"] == str(sum(int(day or 0) for day in days)), name
        if learner.verdict == "graded":
            lacking = [str(number) for number, day in enumerate(days, 1) if not day]
            assert row["not_handed_in"] == " ".join(lacking), name
        assert row["late"] == ("late" if learner.late and system == "canvas" else ""), name


def every_page_says_what_was_taken(learners, out):
    """A page tells what was taken for what and what was not, and is never blank."""
    for name, learner in learners.items():
        words = words_of(out / "feedback" / f"{file_name(name)}.html")
        for text in learner.described:
            assert " ".join(text.split()) in words, (name, words)
        if learner.verdict == "nothing_found":
            assert "Nothing was found to grade." in words
            assert "The course expects" in words
        elif learner.verdict == "graded":
            assert re.search(r"Files: [1-9]\d* used", words), (name, words)


def no_name_does_harm(out):
    """Markup, formulas and what steers a terminal stay text in every report."""
    for path in out.rglob("*"):
        if path.suffix in (".html", ".csv", ".xml"):
            text = path.read_text(encoding="utf-8")
            assert "<script>alert" not in text
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
            if path.suffix == ".csv":
                assert not re.search(r'(^|[,;])"?[=+@]', text, re.MULTILINE)


def pages_to_hand_back_are_known(system, learners, out):
    """The zip holds everybody's page under a name by which the system knows whose it is."""
    with zipfile.ZipFile(out / f"feedback_{system}.zip") as archive:
        back = {name: archive.read(name) for name in archive.namelist()}
    assert not [path for path in out.glob("feedback_*.zip") if system not in path.name]
    for number, (name, learner) in enumerate(learners.items(), 101):
        page = (out / "feedback" / f"{file_name(name)}.html").read_bytes()
        named = [path for path in back if whose(system, path) == str(number)]
        # Canvas attaches nothing where no file was handed in.
        expected = [] if learner.typed and system == "canvas" else [page]
        assert [back[path] for path in named] == expected, name
    assert all("/" not in name.strip("/") or system == "moodle" for name in back)


def whose(system, name):
    """The number of a learner as the systems' own code reads it from a file's name.

    Canvas: `infer_comment_context_from_filename` of app/models/abstract_assignment.rb; Moodle:
    `is_valid_filename_for_import` of mod/assign/feedback/file/importziplib.php.
    """
    if system == "canvas":
        parts = [part for part in name.split("_") if part != "LATE"]
        assert not parts[-1].startswith("link")
        user, attachment = [part for part in parts if part.isdigit()][:2]
        assert int(attachment) > 5000
        return user
    _, participant, kind, plugin, *rest = name.split("/")[0].split("_", 4)
    assert (kind, plugin, rest, name.split("/")[1:]) == (
        *("assignsubmission", "onlinetext" if participant == TYPED else "file"),
        *([], ["feedback.html"]),
    )
    return participant
