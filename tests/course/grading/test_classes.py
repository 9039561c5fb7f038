"""A download of Canvas and one of Moodle, graded by the command: from the file to the tables and pages.

What becomes of each kind of submission is tested where it is decided; this is the way from end to end.
"""

import csv
import html
import re
import subprocess
import sys
import zipfile

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, ROOT
from course.grading.reports.escaping import file_name
from tests.course.grading.test_taking import EARLY, LATER, notebook, zip_of

ONE, TWO = (read_answer(DAYS[index].solution).encode() for index in (0, 1))
WRONG = TWO.replace(b"math.sqrt(", b"(")
EXAMPLES = ["import numpy as np", "print(np.ones(3))"]
# For each learner the files in the order in which they were handed in, the points of both days (nothing
# where no file was found), the verdict, and words of the learner's page.
LEARNERS = {
    "both": ({"day01_softmax.py": ONE, "day02_attention.py": TWO}, ("1", "1"), "graded", "Files: 2 used"),
    "second": (
        {"day02_attention.py": WRONG, "day02_attention (1).py": TWO}, ("", "1"), "graded",
        "day02_attention.py 'day02_attention (1).py' was taken, which",
    ),
    "untagged": (
        {"hw.ipynb": notebook([ONE.decode(), *EXAMPLES, WRONG.decode()]).encode()}, ("1", "0"), "graded",
        "hw.ipynb its code for day 1",
    ),
    "hostile": (
        {"x.zip": zip_of({"<script>alert(1)</script>/day1.py": ONE, "=1+1\x1b[2J\u202e.py": b""})},
        ("1", ""), "graded", "<script>alert(1)</script>/day1.py taken as day01_softmax.py",
    ),
    "examples": (
        {"day02_attention.ipynb": notebook(EXAMPLES).encode()}, ("", ""), "nothing_found",
        "Nothing was found to grade. None of the days' files was found. There is 'day02_attention.ipynb'",
    ),
    "unsafe": ({"x.zip": zip_of({"../x": b""})}, ("", ""), "refused", "leads out"),
    "typed": ({}, ("", ""), "nothing_found", "The course expects"),
}  # fmt: skip
LATE = "both"  # by Canvas alone, which says so


def canvas(folder):
    """The folder that Canvas's zip unpacks to; only the numbers of the files tell which is later."""
    folder.mkdir()
    attachment = 5000
    for user, (name, (files, *_)) in enumerate(LEARNERS.items(), 101):
        head = f"{name}x{'_LATE' if name == LATE else ''}_{user}"
        if not files:
            (folder / f"{head}_text.html").write_bytes(b"<p>typed</p>")
        for file, content in files.items():
            attachment += 1
            (folder / f"{head}_{attachment}_{file}").write_bytes(content)
    return folder


def moodle(path):
    """Moodle's zip, with a folder for each learner; the times of the files tell which is later."""
    with zipfile.ZipFile(path, "w") as archive:
        for user, (name, (files, *_)) in enumerate(LEARNERS.items(), 101):
            kind = "file" if files else "onlinetext"
            for file, content in (files or {"onlinetext.html": b"<p>typed</p>"}).items():
                time = LATER if "(1)" in file else EARLY
                entry = f"{name} x_{user}_assignsubmission_{kind}/{file}"
                archive.writestr(zipfile.ZipInfo(entry, time), content)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "make", "called"), [("canvas", canvas, "{}x_{}"), ("moodle", moodle, "{} x_{}")]
)
def test_a_download_is_graded(real_sandbox, system, make, called, tmp_path):
    """Every row, every page, and what is handed back, by names from which the system knows whose it is."""
    out = tmp_path / "out"
    command = (sys.executable, "-m", "course.cli", "grade", make(tmp_path / "class"), "--out", out)
    done = subprocess.run(
        [*command, "--days", "1-2", "--seed", "3", "--jobs", "2"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with (out / "grades.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["learner"]: row for row in csv.DictReader(file)}
    assert len(rows) == len(LEARNERS)
    with zipfile.ZipFile(out / f"feedback_{system}.zip") as archive:
        back = {whose(system, name): archive.read(name) for name in archive.namelist()}
    for user, (name, (files, days, verdict, words)) in enumerate(LEARNERS.items(), 101):
        learner = called.format(name, user)
        row, page = rows[learner], out / "feedback" / f"{file_name(learner)}.html"
        earned = [row[day] or "0" for day in ("day01", "day02", "points")]
        assert earned == [*(day or "0" for day in days), str(sum(int(day or 0) for day in days))]
        lacking = [str(number) for number, day in enumerate(days, 1) if not day]
        assert row["not_handed_in"] == (" ".join(lacking) if verdict == "graded" else "")
        assert row["late"] == ("late" if (name, system) == (LATE, "canvas") else "")
        assert (row["verdict"], words in words_of(page)) == (verdict, True), words_of(page)
        # Canvas attaches nothing where no file was handed in.
        returned = None if system == "canvas" and not files else page.read_bytes()
        assert back.get(str(user)) == returned


def words_of(path):
    """The words of a page, as a browser shows them."""
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", path.read_text(encoding="utf-8"), flags=re.S)
    return " ".join(html.unescape(text).split())


def whose(system, name):
    """The number of a learner as the systems' own code reads it from a file's name.

    Canvas: `infer_comment_context_from_filename` of app/models/abstract_assignment.rb; Moodle:
    `is_valid_filename_for_import` of mod/assign/feedback/file/importziplib.php.
    """
    if system == "canvas":
        parts = [part for part in name.split("_") if part != "LATE"]
        assert "/" not in name and not parts[-1].startswith("link")
        user, attachment = [part for part in parts if part.isdigit()][:2]
        assert int(attachment) > 5000
        return user
    _, participant, kind, plugin = name.split("/")[0].split("_")
    assert (kind, plugin in ("file", "onlinetext")) == ("assignsubmission", True)
    assert name.split("/")[1:] == ["feedback.html"]
    return participant
