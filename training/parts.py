"""A learner's own parts in a model: kept with the run, put together, and their errors told as theirs."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import implementation
from course.answers import find_answer
from course.assembly import MODULE, NOTHING_WRONG, part_days, put_together
from course.checks import raised
from course.curriculum import DAYS, ROOT, Day
from course.messages import describe_raised, not_started
from training.errors import Refused
from training.settings import LANGUAGE_MODELS, Settings

LAST_DAY = 14  # what comes after it works on a model, and is no part of one
NO_PART = {"subsequent_mask"}  # masks are made by whoever calls the model
WITH_A_SOURCE = {"DecoderLayer", "Decoder", "EncoderDecoder", "make_model"}


@dataclass(frozen=True)
class Parts:
    """What a model is made of, and whose that is."""

    module: ModuleType = implementation
    own: list[str] = field(default_factory=list)
    filled: dict[str, list[str]] = field(default_factory=dict)
    """What the reference stands in for, by the reason."""

    def lines(self) -> Iterator[str]:
        """Whose parts they are, in a line for each kind; none where all are the reference's."""
        if self.own:
            yield f"Yours ({len(self.own)}): {', '.join(self.own)}"
        for reason, names in self.filled.items():
            yield f"From the reference ({len(names)}), {reason}: {', '.join(names)}"


def days() -> list[Day]:
    """The days whose exercises are parts of a model."""
    return [day for day in part_days() if day.number <= LAST_DAY]


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
    if not settings.answers:
        return Parts()
    if not folder.is_dir():
        raise Refused(f"This run has parts of a learner's, and the folder {folder} is gone")
    try:
        module, own, filled = put_together(_files(folder))
    finally:
        sys.modules[MODULE] = implementation  # for all that is no learner's
    used = _used(settings)
    filled = {reason: some for reason, names in filled.items() if (some := _among(names, used))}
    broken = [
        reason.replace("(<unknown>, ", "(") for reason in filled if reason not in NOTHING_WRONG
    ]
    if broken:
        raise Refused("\n".join([*broken, _more(settings.answers)]))
    parts = Parts(module, _among(own, used), filled)
    if not parts.own:
        told = "\n".join(["No part of this model is yours:", *parts.lines()])
        raise Refused(f"{told}\nParts are the exercises of days {days()[0].number} to {LAST_DAY}")
    return parts


def fingerprint(folder: Path) -> str:
    """Of a learner's files, as a digest: a run must not go on with others. Empty without any."""
    files = _files(folder)
    if not files:
        return ""
    digest = hashlib.sha256()
    for stem, path in files.items():
        body = path.read_bytes()
        digest.update(f"{stem} {len(body)}\n".encode() + body)
    return digest.hexdigest()


def _files(folder: Path) -> dict[str, Path]:
    found = {day.stem: find_answer(day, folder) for day in days()}
    return {stem: path for stem, path in found.items() if path is not None}


def _used(settings: Settings) -> set[str]:
    """The exercises that a run's model consists of."""
    names = {name for day in days() for name in day.exercises} - NO_PART
    return names - WITH_A_SOURCE if settings.task in LANGUAGE_MODELS else names


def _among(names: list[str], used: set[str]) -> list[str]:
    return [name for name in names if name in used]


# --- Errors ---------------------------------------------------------------------------------------


@contextmanager
def blamed(answers: str) -> Iterator[None]:
    """Around what calls a model: where it has parts of a learner's, an error is told as one of theirs.

    Raises:
        Refused: in place of the error.
    """
    try:
        yield
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        if not answers:
            raise
        raise Refused(
            f"The parts in {answers} raise an error. {described(error, answers)}"
        ) from error


def described(error: BaseException, answers: str) -> str:
    """An exception, with the lines of that file of the learner's in which it came up last."""
    numbers = {day.stem: day.number for day in DAYS}
    names = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    file = next((name for name in reversed(names) if Path(name).stem in numbers), None)
    found = raised(error, file)
    if file is None:
        return f"{describe_raised(found, {})}\n{_more(answers)}"
    if found.not_started:
        exercise = found.frames[-1][1].partition(".")[0]
        words = not_started(exercise, found, [exercise])
    else:
        words = describe_raised(found, {})
    return f"{words}\n{Path(file).name}: {_more(answers, numbers[Path(file).stem])}"


def _more(answers: str, day: int | None = None) -> str:
    command = ["course", "check", *([str(day)] if day else [])]
    if answers and Path(answers) != ROOT / "exercises":
        command += ["--answers", answers]
    return f"`{shlex.join(command)}` tells more"
