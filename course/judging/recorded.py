"""Recordings, which replace the reference and the known wrong answers in a student edition.

A recording is a cache of runs (`observation_cache.py`) that is complete for one seed, and contains the
message for each known wrong answer.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from course.checks.arrays import PRACTICE
from course.checks.loading import Check, load_checks
from course.checks.seeing import takes_device
from course.curriculum import Day
from course.judging.misconceptions import Misconception, load_misconceptions
from course.judging.observation_cache import ObservationCache, cache_of, recording_of
from course.judging.practice_truth import PracticeTruth
from course.judging.truth import Truth
from course.references import editions

SEED = 0
TOLD = "misconceptions"  # the member with the messages for known wrong answers


class NotRecorded(ValueError):
    """The recording does not cover this seed or device, or is damaged."""


def truth_of(day: Day, seed: int, device: str, after_cpu: bool = False) -> Truth:
    """Return the runs that a day's answers are compared with: its recording if there is one.

    Args:
        after_cpu: whether the answers passed on the CPU, so that only mistakes about devices are searched.

    Raises:
        NotRecorded: the recording does not cover this seed or device, or is damaged.
    """
    if not editions.is_recorded(day):
        misconceptions = load_misconceptions(day, device)
        if device == PRACTICE:
            cpu_mistakes = [] if after_cpu else load_misconceptions(day)
            return PracticeTruth(
                day, seed, [*misconceptions, *cpu_mistakes], cache_of(day, seed, "cpu")
            )
        return Truth(day, seed, device, misconceptions, cache_of(day, seed, device))
    if seed != SEED or device not in ("cpu", PRACTICE):
        raise NotRecorded(
            f"Day {day.number} is not released yet: it is checked with seed {SEED} on the CPU alone."
        )
    recording = ObservationCache(_file(day, editions.FOLDER))
    frames = recording.read(TOLD)
    if frames is None:
        raise NotRecorded(f"The recording of day {day.number} is damaged: get the edition again.")
    misconceptions = [Misconception(**mistake) for mistake in frames[0][0]["told"]]
    shown = [mistake for mistake in misconceptions if mistake.shows_on(device)]
    if device == PRACTICE:
        return PracticeTruth(day, seed, shown if after_cpu else misconceptions, recording)
    return Truth(day, seed, device, shown, recording)


def record(day: Day, folder: Path) -> None:
    """Write a day's recording, made from its reference, into a folder.

    A complete recording is cached under a digest of everything that it depends on. Its runs are cached as
    they are made, so that a recording that was stopped resumes.
    """
    path = recording_of(day, SEED)
    if ObservationCache(path).read(TOLD) is None:
        _make(day, path)
        for older in set(path.parent.glob(f"{day.stem}-*")) - {path}:
            older.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, _file(day, folder))


def _make(day: Day, path: Path) -> None:
    cache = cache_of(day, SEED, "cpu")
    truth = Truth(day, SEED, "cpu", load_misconceptions(day), cache)
    truth.outlines()
    checks = load_checks(day)
    for check in checks:
        for _ in truth.complete([check]):
            pass
        truth.keep()
    truth.add_all(checks)
    on_practice = _record_practice(day, cache, checks)
    entries = [
        {
            "id": mistake.id,
            "definition": mistake.definition,
            "tell": mistake.tell,
            "device": mistake.device,
            "recorded": mistake.parts(day),
            "alternative": mistake.alternative,
        }
        for mistake in (*truth.misconceptions, *on_practice)
    ]
    cache.add(TOLD, [({"told": entries}, {})])
    cache.write_to(path, zipfile.ZIP_LZMA)  # half as large: an edition goes to every learner


def _record_practice(
    day: Day, cache: ObservationCache, checks: Sequence[Check]
) -> list[Misconception]:
    """Add the runs on the practice GPU. Returns the known wrong answers that fail only there."""
    truth = PracticeTruth(day, SEED, load_misconceptions(day, PRACTICE), cache)
    on_practice = [check for check in truth.outlines() if check.on_practice]
    if on_practice:
        for check in filter(takes_device, checks):
            truth.observe_reference(check)
        truth.add_all(on_practice)
    return truth.misconceptions


def _file(day: Day, folder: Path) -> Path:
    # No archive of a learner's, where a whole edition is handed in.
    return folder / f"{day.stem}.seen"
