"""The reports on a class: a gradebook in every format that is asked for, and pages to read."""

from __future__ import annotations

from pathlib import Path

from course.grading.reports.class_page import write_pages
from course.grading.reports.graded import GradedClass
from course.grading.reports.gradescope import write_gradescope
from course.grading.reports.junit import write_junit
from course.grading.reports.lms_tables import write_tables
from course.grading.reports.returning import Returned, write_returned


def write_reports(folder: Path, graded: GradedClass) -> list[Returned]:
    """Write every report on a class into a folder, each file whole or not at all.

    Returns:
        the zips of pages to hand back.
    """
    write_tables(folder, graded)
    write_junit(folder / "junit.xml", graded)
    write_gradescope(folder / "gradescope", graded)
    write_pages(folder, graded)
    return list(write_returned(folder, graded))
