"""What a learner handed in: whose it is, which files are meant, and their contents; imported from here.

find_sources → take → gathered: whose is what, the days' files, answers out of untagged notebooks.
"""

from course.grading.submission.archives import ARCHIVES
from course.grading.submission.choosing import FileNote
from course.grading.submission.limits import SubmissionRefused
from course.grading.submission.names import ANSWERS, composed, matches
from course.grading.submission.notebooks import as_answer, gathered
from course.grading.submission.sources import (
    CANVAS,
    MOODLE,
    UNCLEAR,
    NothingHandedIn,
    Source,
    attributed,
    find_sources,
)
from course.grading.submission.taking import Taken, late_days, nothing_found, take

__all__ = [
    "ANSWERS",
    "ARCHIVES",
    "CANVAS",
    "MOODLE",
    "UNCLEAR",
    "FileNote",
    "NothingHandedIn",
    "Source",
    "SubmissionRefused",
    "Taken",
    "as_answer",
    "attributed",
    "composed",
    "find_sources",
    "gathered",
    "late_days",
    "matches",
    "nothing_found",
    "take",
]
