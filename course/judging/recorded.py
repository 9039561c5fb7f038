"""An edition's recordings: what the reference and the known wrong answers see, where they are not.

A recording is a file of what is kept (`kept.py`) that is complete for one seed, and has in it what is to
be told of each known wrong answer.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from course.checks.arrays import PRACTICE
from course.checks.loading import Check, load_checks
from course.checks.seeing import takes_device
from course.curriculum import Day
from course.judging.kept import Kept, kept_of, recording_of
from course.judging.misconceptions import Misconception, load_misconceptions
from course.judging.placed import Placed
from course.judging.truth import Truth
from course.references import editions

SEED = 0
TOLD = "misconceptions"  # the member that says what is to be told


class NotRecorded(ValueError):
    """Something was asked for that a recording cannot tell: another seed, another device."""


def truth_of(day: Day, seed: int, device: str, after_cpu: bool = False) -> Truth:
    """What a day's observations are held against: its recording if there is one, else the reference.

    Args:
        day: the day.
        seed: where the inputs come from.
        device: where they lie.
        after_cpu: whether all this is about passes on the CPU: then only mistakes about devices are
            looked for on the practice GPU.

    Raises:
        NotRecorded: there is a recording, for another seed or device, or it is damaged.
    """
    if not editions.is_recorded(day):
        misconceptions = load_misconceptions(day, device)
        if device == PRACTICE:
            others = [] if after_cpu else load_misconceptions(day)
            return Placed(day, seed, [*misconceptions, *others], kept_of(day, seed, "cpu"))
        return Truth(day, seed, device, misconceptions, kept_of(day, seed, device))
    if seed != SEED or device not in ("cpu", PRACTICE):
        raise NotRecorded(
            f"Day {day.number} is not released yet: it is checked with seed {SEED} on the CPU alone."
        )
    recording = Kept(_file(day, editions.FOLDER))
    told = recording.read(TOLD)
    if told is None:
        raise NotRecorded(f"The recording of day {day.number} is damaged: get the edition anew.")
    misconceptions = [Misconception(**one) for one in told[0][0]["told"]]
    shown = [one for one in misconceptions if one.shows_on(device)]
    if device == PRACTICE:
        return Placed(day, seed, shown if after_cpu else misconceptions, recording)
    return Truth(day, seed, device, shown, recording)


def record(day: Day, folder: Path) -> None:
    """Write a day's recording, whose reference is here, into a folder.

    A recording is kept whole, under a digest of all that it depends on, and not made again. What is
    observed is kept on the way, so that a recording that was stopped goes on from there.
    """
    made = recording_of(day, SEED)
    if Kept(made).read(TOLD) is None:
        _make(day, made)
        for older in set(made.parent.glob(f"{day.stem}-*")) - {made}:
            older.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made, _file(day, folder))


def _make(day: Day, path: Path) -> None:
    kept = kept_of(day, SEED, "cpu")
    truth = Truth(day, SEED, "cpu", load_misconceptions(day), kept)
    truth.outlines()
    checks = load_checks(day)
    for check in checks:
        for _ in truth.complete([check]):
            pass
        truth.keep()
    truth.add_all(checks)
    there = _record_there(day, kept, checks)
    told = [
        {"id": one.id, "definition": one.definition, "tell": one.tell, "device": one.device}
        for one in (*truth.misconceptions, *there)
    ]
    kept.add(TOLD, [({"told": told}, {})])
    kept.write_to(path)


def _record_there(day: Day, kept: Kept, checks: Sequence[Check]) -> list[Misconception]:
    """Add what is seen on the practice GPU. Returns the known wrong answers that show there alone."""
    truth = Placed(day, SEED, load_misconceptions(day, PRACTICE), kept)
    there = [check for check in truth.outlines() if check.there]
    if there:
        for check in filter(takes_device, checks):
            truth.observe_reference(check)
        truth.add_all(there)
    return truth.misconceptions


def _file(day: Day, folder: Path) -> Path:
    return (
        folder / f"{day.stem}.seen"
    )  # no archive of a learner's, where a whole edition is handed in
