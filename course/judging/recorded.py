"""What the reference sees, written down: the student edition checks days whose reference it does not hold.

A recording is a day's file in `recorded/`: the known wrong answers by what is told of them, and for one
seed what the reference and each of them sees. It is a sequence of frames as workers send them,
compressed.
"""

from __future__ import annotations

import functools
import io
import lzma
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from course.checks.arrays import eps_of
from course.checks.frames import from_bytes, read_frame, to_bytes, write_frame
from course.checks.loading import Check, load_checks
from course.checks.observation import Observation, Raised
from course.checks.seeing import Seen, check_inputs
from course.curriculum import Day
from course.judging.expected import ROUNDINGS, Expected, is_float, magnitude
from course.judging.misconceptions import Misconception
from course.judging.truth import RIGHT, Diagnosis, Reference, Truth
from course.references import editions

SEED = 0


class NotRecorded(ValueError):
    """Something was asked for that a recording cannot tell: another seed, another device."""


def truth_of(day: Day, seed: int, device: str) -> Truth:
    """What a day's observations are held against: its recording if there is one, else the reference.

    Raises:
        NotRecorded: there is a recording, for another seed or device.
    """
    if not editions.is_recorded(day):
        return Reference(day, seed, device)
    if seed != SEED or device != "cpu":
        raise NotRecorded(
            f"Day {day.number} is not released yet: it is checked with seed {SEED} on the CPU alone."
        )
    return Recording(day)


class Recording:
    """What the reference saw, read from a file."""

    def __init__(self, day: Day) -> None:
        (head, _), *frames = _frames(_file(day))
        self.misconceptions = [Misconception(**one) for one in head["misconceptions"]]
        self._frames = {
            (message["wrong"], message["check"], message["what"]): (message, observation)
            for message, observation in frames
        }
        self._expected: dict[tuple[Diagnosis, str], Expected] = {}

    def is_possible(self, wrong: Diagnosis) -> bool:
        return len(wrong) < 2

    def exactly(self, wrong: Diagnosis, check: Check) -> Expected:
        key = wrong, check.name
        if key not in self._expected:
            self._expected[key] = self._read(wrong, check)
        return self._expected[key]

    def roughly(self, wrong: Diagnosis, check: Check) -> Expected:
        return self.exactly(wrong, check)

    def forget(self) -> None:
        """There is nothing of which there is too much."""

    def _read(self, wrong: Diagnosis, check: Check) -> Expected:
        name = wrong[0].id if wrong else None
        if (name, check.name, "seen") not in self._frames:  # as the right answer sees it
            return self.exactly(RIGHT, check)
        message, observation = self._frames[name, check.name, "seen"]
        problem = message["raised"]
        raised = Raised(**problem | {"frames": []}) if problem else None
        seen = Seen(observation, raised, tuple(message["damaged"]))
        truth = self._frames.get((name, check.name, "truth"), (message, observation))[1]
        inputs = check_inputs(check, SEED) if wrong == RIGHT else {}
        tolerance = defaultdict(float, message["tolerance"])
        return Expected(seen, truth, tolerance, inputs)


# --- Writing --------------------------------------------------------------------------------------


def record(day: Day, folder: Path) -> None:
    """Write a day's recording, whose reference is here, into a folder."""
    truth = Reference(day, SEED, "cpu")
    folder.mkdir(parents=True, exist_ok=True)
    with lzma.open(folder / _file(day).name, "wb") as file:
        for message, observation in _recording(day, truth):
            write_frame(file, to_bytes(message, observation))


def _recording(day: Day, truth: Reference) -> Iterator[tuple[dict[str, Any], Observation]]:
    told = [
        {"id": one.id, "definition": one.definition, "tell": one.tell}
        for one in truth.misconceptions
    ]
    yield {"misconceptions": told}, {}
    for check in load_checks(day):
        right = truth.exactly(RIGHT, check)
        yield _message(None, check, "seen", right), right.seen.observation
        yield {"wrong": None, "check": check.name, "what": "truth"}, right.truth
        for wrong in truth.misconceptions:
            seen = truth.roughly((wrong,), check).seen
            if not _same(seen, right.seen):
                yield _message(wrong.id, check, "seen", _beside(right, seen)), seen.observation


def _message(wrong: str | None, check: Check, what: str, expected: Expected) -> dict[str, Any]:
    seen = expected.seen
    return {
        "wrong": wrong,
        "check": check.name,
        "what": what,
        "raised": asdict(seen.raised) | {"frames": []} if seen.raised else None,
        "damaged": list(seen.damaged),
        "tolerance": dict(expected.tolerance),
    }


def _same(one: Seen, other: Seen) -> bool:
    same = one.observation.keys() == other.observation.keys() and all(
        to_bytes({}, {"": leaf}) == to_bytes({}, {"": other.observation[path]})
        for path, leaf in one.observation.items()
    )
    return same and one.raised == other.raised and one.damaged == other.damaged


def _beside(right: Expected, seen: Seen) -> Expected:
    """What a wrong answer sees, with a tolerance in proportion to that of the right one.

    To derive its own as well takes five more runs of each check for each wrong answer.
    """
    tolerance = {}
    for path, leaf in seen.observation.items():
        if is_float(leaf):
            other = right.seen.observation.get(path)
            size = magnitude(other) if other and is_float(other) else 0.0
            growth = max(1.0, magnitude(leaf) / size) if size else 1.0
            rounding = ROUNDINGS * eps_of(leaf.dtype or "float64") * magnitude(leaf)
            tolerance[path] = max(rounding, growth * right.tolerance.get(path, 0.0))
    return Expected(seen, seen.observation, tolerance, {})


def _file(day: Day) -> Path:
    return editions.FOLDER / f"{day.stem}.xz"


@functools.lru_cache(maxsize=2)
def _frames(path: Path) -> list[tuple[dict[str, Any], Observation]]:
    with lzma.open(path, "rb") as file:
        data = io.BytesIO(file.read())
    frames = []
    while (frame := read_frame(data)) is not None:
        frames.append(from_bytes(frame))
    return frames
