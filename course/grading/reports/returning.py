"""The pages to hand out as the zips that Canvas and Moodle take back, all of a class at once.

Both know whose a page is by the name that their own download gave to the submission, which a submission's
source keeps (`back`). Canvas: "Upload Submissions" beside the download; it attaches the page to the
submission's comments, under the name of a file that was handed in. Moodle: "Upload multiple feedback
files in a zip", where the assignment has feedback files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from course.grading.reports.escaping import file_name
from course.grading.reports.files import replaced
from course.grading.reports.graded import GradedClass


class Returned(NamedTuple):
    """The zip for one system, and the learners for whom it takes no file."""

    path: Path
    without: Sequence[str]


def write_returned(folder: Path, graded: GradedClass) -> Iterator[Returned]:
    """Write a zip for each system from which submissions came. The pages must be there."""
    for system in graded.systems:
        path = folder / f"feedback_{system.lower()}.zip"
        yield Returned(path, _write(path, folder / "feedback", graded, system))


def _write(path: Path, pages: Path, graded: GradedClass, system: str) -> list[str]:
    without = []
    with replaced(path) as draft, ZipFile(draft, "w", ZIP_DEFLATED) as archive:
        for learner in (result.learner for result in graded.known):
            if graded.system_of(learner) != system:
                continue
            back = graded.sources[learner].back
            if back and _is_text(back):
                archive.write(pages / f"{file_name(learner)}.html", back)
            else:
                without.append(learner)
    return without


def _is_text(name: str) -> bool:
    """Whether a zip can hold a name: one from a disk may have invalid bytes."""
    return name == name.encode("utf-8", "ignore").decode()
