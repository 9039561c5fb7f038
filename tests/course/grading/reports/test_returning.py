"""The zips of pages to hand back: everybody's page under the name that its system wants."""

import zipfile

import pytest

from course.grading.reports import write_reports
from tests.course.grading.reports.conftest import downloaded


@pytest.fixture
def returned(tmp_path, made_up):
    """Writes a class's reports; the zips to hand back, with what they hold."""

    def write(*learners, **downloads):
        sources = [downloaded(learner, *how) for learner, how in downloads.items()]
        class_ = made_up.graded(*learners, sources=sources)
        result = {}
        for path, without in write_reports(tmp_path, class_):
            with zipfile.ZipFile(path) as archive:
                pages = {name: archive.read(name) for name in archive.namelist()}
            result[path.name] = (pages, without)
        return result

    return write


def test_each_system_has_its_own(returned, made_up, tmp_path):
    """A page lies in the zip of the system from which its submission came, as it lies in `feedback`."""
    zips = returned(
        *map(made_up.learner, ("a", "b", "c")),
        a=("Canvas", "a_1_2_feedback.html"),
        b=("Moodle", "b_1_assignsubmission_file/feedback.html"),
        c=("",),
    )
    pages = {name: (tmp_path / "feedback" / f"{name}.html").read_bytes() for name in "ab"}
    assert zips == {
        "feedback_canvas.zip": ({"a_1_2_feedback.html": pages["a"]}, []),
        "feedback_moodle.zip": ({"b_1_assignsubmission_file/feedback.html": pages["b"]}, []),
    }


def test_who_gets_nothing_back(returned, made_up):
    """Who cannot be handed anything is named; where the grader failed there is nothing to hand back."""
    zips = returned(
        *(made_up.learner("a"), made_up.learner("b"), made_up.refused("c"), made_up.fault("d")),
        a=("Moodle", ""),
        b=("Moodle", "caf\udce9_1_assignsubmission_file/feedback.html"),
        c=("Moodle", "c_3_assignsubmission_file/feedback.html"),
        d=("Moodle", "d_4_assignsubmission_file/feedback.html"),
    )
    pages, without = zips["feedback_moodle.zip"]
    assert list(pages) == ["c_3_assignsubmission_file/feedback.html"]
    assert without == ["a", "b"]


def test_what_may_be_anothers_is_in_no_gradebook(returned, made_up, tmp_path):
    """A submission of which it is not clear whose it is is named, and read in by no other system."""
    zips = returned(
        made_up.learner("a_12"),
        made_up.learner("unclear: a_12_3_b_4_5_x.zip"),
        **{
            "a_12": ("Canvas", "a_12_2_feedback.html"),
            "unclear: a_12_3_b_4_5_x.zip": ("Canvas", "", ("a_12", "a_12_3_b_4")),
        },
    )
    assert zips["feedback_canvas.zip"][1] == []
    for table in ("canvas", "moodle", "nbgrader"):
        text = (tmp_path / f"{table}.csv").read_text(encoding="utf-8")
        assert ("unclear" in text, "a" in text) == (False, True)
    assert "unclear: a_12_3_b_4_5_x.zip" in (tmp_path / "grades.csv").read_text(encoding="utf-8")
    assert "Whose is it?" in (tmp_path / "report.html").read_text(encoding="utf-8")
