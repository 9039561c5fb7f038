"""What tests of editions share: verdicts by days, and which days are asked about."""

import json
from contextlib import contextmanager

import pytest

from course.edition import bundle as bundling
from course.judging import recorded
from course.judging.recorded import record


def verdicts(done):
    """The verdicts that `course check --json` prints, by the days' numbers."""
    assert done.stdout, done.stderr
    return {day["day"]: day for day in json.loads(done.stdout)["days"]}


def chosen(request, name):
    """The values of a parameter in the tests of the module that are to run."""
    return [
        item.callspec.params[name]
        for item in request.session.items
        if item.path == request.path and name in getattr(item, "fixturenames", ())
    ]


@contextmanager
def recorded_in_haste(numbers, complete=()):
    """Within it some days are recorded whole, some with one wrong answer, and all others without checks."""
    load_checks, load_misconceptions = recorded.load_checks, recorded.load_misconceptions

    def make(day, folder):
        if day.number in complete:
            return record(day, folder)
        with pytest.MonkeyPatch.context() as patch:
            load = load_checks if day.number in numbers else lambda day: []
            patch.setattr(recorded, "load_checks", load)
            patch.setattr(
                recorded,
                "load_misconceptions",
                lambda *arguments: load_misconceptions(*arguments)[:1],
            )
            return recorded._make(day, recorded._file(day, folder))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundling, "record", make)
        yield
