"""A made-up class, and text that is out to do harm."""

import functools
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from course.checks.loading import CORE, WATERTIGHT, load_checks
from course.curriculum import BY_NUMBER, DAYS
from course.grading.gradebook import LearnerResult, Weights
from course.grading.reports.graded import GradedClass
from course.grading.submission.sources import Source

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "end of style": "</style></pre></title><h1 onclick=x>owned",
    "end of cdata": "]]><a href='https://evil.example'>&amp;",
    "formula": '=HYPERLINK("https://evil.example";"click")',
    "full-width formula": "\uff1d1+1",
    "formula after a semicolon": "a;=1+1;@x",
    "escape": "\x1b[2J\x1b]0;owned\x07",
    "newlines": "one\ntwo\r\n=three\tfour",
    "right to left": "\u202etxt.exe\u2066",
    "nul": "nul\x00byte",
    "lone surrogates": "\udcff and \ud800",
    "template": "{{ 7 * 191 }}{% raw %}",
    "traversal": "../../etc/passwd",
    "noncharacter": "\ufffe\uffff\x85\u2028",
    "very long": "A" * 10_000,
}


def downloaded(learner, system, back="", unclear=()):
    """A learner's submission from a download of Canvas or Moodle."""
    return Source(learner, (), (), system=system, back=back, unclear=unclear)


@functools.cache
def checks_of(number):
    return load_checks(BY_NUMBER[number])


class MadeUp:
    """Results of days 1 to 3, or of others, as the grader would have them."""

    days = DAYS[:3]

    def day(self, number, wrong=0, beyond=0, status="failed", message="Wrong.", misconception=None):
        """A day whose first checks of its core, or beyond it, went wrong in one way; the others pass."""
        core = [check.name for check in checks_of(number) if check.tier == CORE]
        extra = [check.name for check in checks_of(number) if check.tier == WATERTIGHT]
        bad = {*core[:wrong], *extra[:beyond]}
        checks = [
            {
                "name": check.name,
                "exercise": check.exercise,
                "tier": check.tier,
                "device": "cpu",
                "status": status if check.name in bad else "passed",
                "message": message if check.name in bad else "",
                "misconception": misconception if check.name in bad else None,
                "seconds": 0.01,
            }
            for check in checks_of(number)
        ]
        day = "passed" if not wrong else status if status in ("failed", "skipped") else "error"
        return {
            "day": number,
            "stem": BY_NUMBER[number].stem,
            "status": day,
            "watertight": not bad,
            "seconds": 0.5,
            "checks": checks,
            "handed_in": True,
            "file": "",
            "late": False,
        }

    def learner(self, name, **wrong):
        """A learner right in everything but in day 1, where `wrong` says what is not."""
        days = [self.day(1, **wrong), *(self.day(day.number) for day in self.days[1:])]
        return LearnerResult(name, "graded", days, computed=1.25)

    def refused(self, name, reason="The archive would unpack to 4.2 GB."):
        return LearnerResult(name, "refused", reason=reason)

    def nothing(self, name, reason="There is 'essay.pdf'."):
        return LearnerResult(name, "nothing_found", reason=reason)

    def fault(self, name, reason="No space left on /mnt/grader."):
        return LearnerResult(name, "grader_fault", reason=reason)

    def graded(self, *learners, sources=(), **changes):
        """The class of these learners."""
        when = datetime(2026, 11, 22, 3, 14, tzinfo=UTC)
        by_learner = {source.learner: source for source in sources}
        class_ = GradedClass(learners, Weights(self.days), 8235113, "cpu", when, sources=by_learner)
        return replace(class_, **changes)


@pytest.fixture
def made_up():
    return MadeUp()


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE.keys())
def hostile(request):
    """One text after the other that somebody may have for a name or a message."""
    return request.param
