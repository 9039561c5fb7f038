"""A learner's own parts in real runs: stored with the run, assembled, with their errors attributed to
them."""

from __future__ import annotations

import hashlib
import importlib
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from course.assembly.answer_parts import NOTHING_WRONG, PAPER, put_together
from course.checks.answer_files import find_answer
from course.checks.raising import raised
from course.curriculum import DAYS, ROOT, Day, module_of
from course.judging.messages import describe_raised, not_started
from course.references.text import home_of, made_of
from training.errors import Refused
from training.reasoning.parts import PARTS, parts_from

if TYPE_CHECKING:
    from training.generation.text_generator import TextGenerator
    from training.models.parts import Parts
    from training.settings import Settings

PAPERS_OWN = (PAPER, "make_model")
OF_DAY_28 = {"RMSNorm": "variants/norms.py", "SwiGLU": "variants/activations.py"}
"""What `variants/llama.py` has in one kernel, in place of these files."""
LLAMA = [("variants/llama.py", "LLaMA"), *((file, name) for name, file in OF_DAY_28.items())]
LANGUAGE_MODELS = {
    "paper": [
        (PAPER, name)
        for name in (
            "MultiHeadedAttention",
            "PositionwiseFeedForward",
            "Embeddings",
            "PositionalEncoding",
            "EncoderLayer",
            "Encoder",
            "Generator",
        )
    ],
    "gpt": [("variants/gpt.py", "GPT")],
    "llama": LLAMA,
}
"""What a run's model is made of, by the setting `model`: the definitions that it asks for."""
DECODING = [("variants/sampling.py", "sample"), ("variants/kv_cache.py", "CachedModel")]
PUBLISHED = {
    "gpt2": [("variants/kv_cache.py", "CachedGPT"), *DECODING],
    "llama": [*LLAMA, *DECODING],
}
"""What a published model is computed with, by its architecture."""
REASONER = LLAMA + [
    (f"{module.replace('.', '/')}.py", name) for module, names in PARTS.items() for name in names
]
"""What a reasoner is made of and trained with."""


def days_of(definitions: list[tuple[str, str]]) -> list[Day]:
    """Return the days whose exercises are parts of some definitions."""
    return list(_exercises(definitions))


def keep(answers: Path, folder: Path) -> None:
    """Copy the files of parts, so that a run does not depend on the originals.

    Raises:
        OSError: the copies could not be written.
        Refused: one of them cannot be read.
    """
    folder.mkdir()
    models = [
        PAPERS_OWN,
        *(root for roots in LANGUAGE_MODELS.values() for root in roots),
        *REASONER,
    ]
    for path in _files(answers, _exercises(models)).values():
        try:
            body = path.read_bytes()
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from error
        (folder / path.name).write_bytes(body)


def load(settings: Settings, folder: Path) -> Parts:
    """Return the parts of a run.

    Args:
        folder: the folder with the run's copy of a learner's files.

    Raises:
        Refused: the files are gone, one cannot be loaded, or none of them is used.
    """
    return _loaded(_asked_for(settings), folder, settings.answers)


def reasoner(answers: str, folder: Path) -> Parts:
    """Return the parts of a reasoner.

    Args:
        answers: the folder of the original files, as the user named it.
        folder: the folder with the run's copy of them.

    Raises:
        Refused: as for `load`.
    """
    return _loaded(REASONER, folder, answers, lambda: parts_from(sys.modules.__getitem__))


def _loaded(
    definitions: list[tuple[str, str]],
    folder: Path,
    answers: str,
    chosen: Callable[[], ModuleType] | None = None,
) -> Parts:
    """Parts, among them a learner's; the modules are afterwards as they were.

    Args:
        definitions: the definitions that will be used.
        folder: where the learner's files are.
        answers: the folder of the original files, as the user named it.
        chosen: returns the module with the parts; that of the last definition's file if left out.
    """
    from training.models.parts import Parts  # torch takes a second to import

    if not folder.is_dir():
        raise Refused(f"This run has parts of a learner's, and the folder {folder} is gone")
    for name in map(module_of, _references(definitions)):
        importlib.import_module(name)
    before = {name: sys.modules[name] for name in map(module_of, _references(definitions))}
    try:
        assembled = put_in(definitions, folder, answers)
        module = chosen() if chosen else assembled.module
    finally:
        sys.modules.update(before)  # for everything but the learner's answers
    describe = partial(described, answers=answers)
    return Parts(
        module, answers, assembled.own, assembled.filled, _fingerprint(assembled.files), describe
    )


@dataclass(frozen=True)
class PutIn:
    """A learner's parts, in place of the reference's."""

    module: ModuleType
    own: list[str]
    filled: dict[str, list[str]]
    files: dict[str, Path]


def put_in(definitions: list[tuple[str, str]], folder: Path, answers: str) -> PutIn:
    """Replace the parts that some definitions use by a learner's, in `sys.modules`.

    Args:
        definitions: the definitions that will be used.
        folder: the folder with the files.
        answers: the folder as the user named it.

    Raises:
        Refused: a file cannot be loaded, or none of them is used.
    """
    used = _exercises(definitions)
    files = _files(folder, used)
    module, own, filled = put_together(files, _references(definitions))
    if "variants/llama.py" in _references(definitions):
        for name in OF_DAY_28.keys() & set(own):
            part = getattr(sys.modules[module_of(OF_DAY_28[name])], name)
            setattr(sys.modules["variants.llama"], name, part)
    among = {name for names in used.values() for name in names}
    own = [name for name in own if name in among]
    filled = {
        reason: some
        for reason, names in filled.items()
        if (some := [name for name in names if name in among])
    }
    broken = [
        reason.replace("(<unknown>, ", "(") for reason in filled if reason not in NOTHING_WRONG
    ]
    if broken:
        raise Refused("\n".join([*broken, _more(answers)]))
    if not own:
        from training.models.parts import whose  # torch takes a second to import

        message = "\n".join(["No part of this model is yours:", *whose(own, filled)])
        days = ", ".join(str(day.number) for day in used)
        raise Refused(f"{message}\nIts parts are exercises of days {days}")
    return PutIn(module, own, filled, files)


def _references(definitions: list[tuple[str, str]]) -> list[str]:
    """The files of references that they are made from, each after those that it imports."""
    return list(dict.fromkeys(file for day in _exercises(definitions) for file in day.references))


@contextmanager
def speaker(answers: Path, model: Path, report: Callable[[str], None]) -> Iterator[TextGenerator]:
    """Load a published model that generates text with a learner's parts, in a worker.

    Raises:
        Refused: a part or the model cannot be loaded, or none of the parts is used.
    """
    from course.assembly.speaking import Remote

    remote = Remote()
    try:
        remote.load(answers, model, report)
        yield remote
    finally:
        remote.end()


def _asked_for(settings: Settings) -> list[tuple[str, str]]:
    return LANGUAGE_MODELS[settings.model] if settings.of_language else [PAPERS_OWN]


def _exercises(definitions: list[tuple[str, str]]) -> dict[Day, list[str]]:
    """The exercises that some definitions are made of, by their days."""
    needed = {part for file, name in definitions for part in made_of(file, name)}
    days = {
        day: [name for name in day.exercises if (home_of(day, name).file, name) in needed]
        for day in DAYS
        if {file for file, _ in needed} & set(day.references)
    }
    return {day: names for day, names in days.items() if names}


def _files(folder: Path, days: Iterable[Day]) -> dict[str, Path]:
    paths = {day.stem: find_answer(day, folder) for day in days}
    return {stem: path for stem, path in paths.items() if path is not None}


def _fingerprint(files: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for stem, path in files.items():
        body = path.read_bytes()
        digest.update(f"{stem} {len(body)}\n".encode() + body)
    return digest.hexdigest()


# --- Errors ---------------------------------------------------------------------------------------


def described(error: BaseException, answers: str) -> str:
    """Describe an exception, with the lines of the learner's file that raised it last."""
    numbers = {day.stem: day.number for day in DAYS}
    names = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    file = next((name for name in reversed(names) if Path(name).stem in numbers), None)
    exception = raised(error, file)
    if file is None:
        return f"{describe_raised(exception)}\n{_more(answers)}"
    if exception.not_started:
        exercise = exception.frames[-1][1].partition(".")[0]
        words = not_started(exercise, exception, [exercise])
    else:
        words = describe_raised(exception)
    return f"{words}\n{Path(file).name}: {_more(answers, numbers[Path(file).stem])}"


def _more(answers: str, day: int | None = None) -> str:
    command = ["course", "check", *([str(day)] if day else [])]
    if answers and Path(answers) != ROOT / "exercises":
        command += ["--answers", answers]
    return f"`{shlex.join(command)}` tells more"
