"""A learner's own parts in real runs: kept with the run, put together, and their errors told as theirs."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from course.assembly.parts import MODULE, NOTHING_WRONG, part_days, put_together
from course.checks.answers import find_answer
from course.checks.raising import raised
from course.curriculum import DAYS, ROOT, Day
from course.judging.messages import describe_raised, not_started
from training.errors import Refused

if TYPE_CHECKING:
    from training.parts import Parts
    from training.settings import Settings

LAST_DAY = 14  # what comes after it works on a model, and is no part of one
NO_PART = {"subsequent_mask"}  # masks are made by whoever calls the model
WITH_A_SOURCE = {"DecoderLayer", "Decoder", "EncoderDecoder", "make_model"}


def keep(answers: Path, folder: Path) -> None:
    """Copy the files of those days, so that a run has them whatever becomes of the originals.

    Raises:
        OSError: they could not be copied.
    """
    folder.mkdir()
    for path in _files(answers).values():
        shutil.copyfile(path, folder / path.name)


def load(settings: Settings, folder: Path) -> Parts:
    """The parts of a run.

    Args:
        settings: of the run.
        folder: where it keeps a learner's files.

    Raises:
        Refused: the files are gone, one cannot be loaded, or none of them is used.
    """
    from training.parts import REFERENCE, Parts  # torch takes a second to import

    if not folder.is_dir():
        raise Refused(f"This run has parts of a learner's, and the folder {folder} is gone")
    files = _files(folder)
    try:
        module, own, filled = put_together(files)
    finally:
        sys.modules[MODULE] = REFERENCE.module  # for all that is no learner's
    used = _used(settings)
    filled = {reason: some for reason, names in filled.items() if (some := _among(names, used))}
    broken = [
        reason.replace("(<unknown>, ", "(") for reason in filled if reason not in NOTHING_WRONG
    ]
    if broken:
        raise Refused("\n".join([*broken, _more(settings.answers)]))
    describe = partial(described, answers=settings.answers)
    own = _among(own, used)
    parts = Parts(module, settings.answers, own, filled, _fingerprint(files), describe)
    if not own:
        told = "\n".join(["No part of this model is yours:", *parts.lines()])
        raise Refused(f"{told}\nParts are the exercises of days {_days()[0].number} to {LAST_DAY}")
    return parts


def _days() -> list[Day]:
    """The days whose exercises are parts of a model."""
    return [day for day in part_days() if day.number <= LAST_DAY]


def _files(folder: Path) -> dict[str, Path]:
    found = {day.stem: find_answer(day, folder) for day in _days()}
    return {stem: path for stem, path in found.items() if path is not None}


def _fingerprint(files: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for stem, path in files.items():
        body = path.read_bytes()
        digest.update(f"{stem} {len(body)}\n".encode() + body)
    return digest.hexdigest()


def _used(settings: Settings) -> set[str]:
    """The exercises that a run's model consists of."""
    names = {name for day in _days() for name in day.exercises} - NO_PART
    return names - WITH_A_SOURCE if settings.of_language else names


def _among(names: list[str], used: set[str]) -> list[str]:
    return [name for name in names if name in used]


# --- Errors ---------------------------------------------------------------------------------------


def described(error: BaseException, answers: str) -> str:
    """An exception, with the lines of that file of the learner's in which it came up last."""
    numbers = {day.stem: day.number for day in DAYS}
    names = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    file = next((name for name in reversed(names) if Path(name).stem in numbers), None)
    found = raised(error, file)
    if file is None:
        return f"{describe_raised(found)}\n{_more(answers)}"
    if found.not_started:
        exercise = found.frames[-1][1].partition(".")[0]
        words = not_started(exercise, found, [exercise])
    else:
        words = describe_raised(found)
    return f"{words}\n{Path(file).name}: {_more(answers, numbers[Path(file).stem])}"


def _more(answers: str, day: int | None = None) -> str:
    command = ["course", "check", *([str(day)] if day else [])]
    if answers and Path(answers) != ROOT / "exercises":
        command += ["--answers", answers]
    return f"`{shlex.join(command)}` tells more"
