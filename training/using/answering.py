"""A trained model at work: it answers, goes on with a text, is measured, shows what it attends to."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from training.data import tasks
from training.data.corpora import read_text
from training.errors import Refused
from training.generation.generate import Sampling, until
from training.generation.speaker import Speaker
from training.loop.run_folder import Run
from training.models.hub import folder_of
from training.models.pretrained import Pretrained
from training.program import Program
from training.progress import waiting
from training.using import evaluation
from training.using.chat import HELP, PROMPT, Chat, converse
from training.using.inference import Model


def translate(program: Program, run: Path, text: str, beam: int | None, device: str) -> None:
    """Print what a model makes of a text, or of each line of a file.

    Raises:
        Refused: no model, or a text that it cannot read.
    """
    model = Model.load(run, device, program.workshop)
    beam = beam or model.usual_beam
    if not _is_file(Path(text)):
        _refuse_what_is_no_text(text)
        print(model.translate([text], beam)[0])
        return
    lines = read_text(Path(text)).splitlines()
    words = f"Answering {len(lines):,} line{'s' if len(lines) > 1 else ''}"
    with waiting(program.console(stderr=True), words) as tell:
        answers = model.translate(lines, beam, tell=tell)
    for answer in answers:
        print(answer)


def generate(
    program: Program,
    run: Path,
    prompt: str,
    tokens: int,
    drawing: Sampling,
    device: str,
    stops: Collection[str] = (),
) -> None:
    """Print a text, and how a trained model goes on with it, as it comes.

    Raises:
        Refused: no model, or a text that it cannot go on with.
    """
    model = Model.load(run, device, program.workshop)
    _print_as_it_comes(prompt, until(model.generate(prompt, tokens, drawing), stops))


def generate_pretrained(
    program: Program,
    asked: str,
    prompt: str,
    tokens: int,
    drawing: Sampling,
    device: str,
    data_dir: Path | None,
    answers: Path | None = None,
    stops: Collection[str] = (),
) -> None:
    """Print a text, and how a published model goes on with it, as it comes.

    Raises:
        Refused: a model that cannot be had or read, or an empty prompt.
    """
    with speaking(program, asked, answers, device, data_dir) as speaker:
        _print_as_it_comes(prompt, until(speaker.generate(prompt, tokens, drawing), stops))


def chat(
    program: Program,
    asked: str,
    tokens: int,
    drawing: Sampling,
    device: str,
    data_dir: Path | None,
    answers: Path | None,
    system: str | None,
) -> None:
    """Hold a conversation with a published model, at the terminal.

    Raises:
        Refused: a model that cannot be had or read.
    """
    console = program.console(stderr=True)
    with speaking(program, asked, answers, device, data_dir) as speaker:
        if sys.stdin.isatty():
            console.print(Text(HELP, "quiet"), soft_wrap=True)

        def ask() -> str:
            return input(PROMPT if sys.stdin.isatty() else "")

        def write(piece: str) -> None:
            print(piece, end="", flush=True)

        converse(Chat(speaker, drawing, tokens, console, write, system), ask)


@contextlib.contextmanager
def speaking(
    program: Program, asked: str, answers: Path | None, device: str, data_dir: Path | None
) -> Iterator[Speaker]:
    """A published model: computed here by our classes, or in a worker by a learner's.

    Raises:
        Refused: a model that cannot be had or read, or parts that cannot be used.
    """
    console = program.console(stderr=True)
    path = folder_of(asked, data_dir, console)
    if answers is None:
        yield Pretrained.load(path, device)
        return
    if device not in ("auto", "cpu"):
        raise Refused(f"--answers computes on the CPU, and --device is {device}")

    def told(line: str) -> None:
        console.print(program.safe(line), soft_wrap=True)

    with program.workshop.speaker(answers, path, told) as speaker:
        yield speaker


def _print_as_it_comes(prompt: str, pieces: Iterator[str]) -> None:
    first = next(pieces, "")  # a prompt that is refused is refused before it is printed
    print(prompt.lstrip("\n"), end="")
    for piece in itertools.chain([first], pieces):
        print(piece, end="", flush=True)
    print()


def evaluate(
    program: Program,
    run: Path,
    split: str | None,
    beam: int | None,
    as_json: bool,
    device: str,
    data_dir: Path | None,
) -> None:
    """Print what a model does on a held-out split, of the data that its training found unless others
    are named.

    Raises:
        Refused: no model, no such split, or data that cannot be had.
    """
    model = Model.load(run, device, program.workshop)
    console = program.console(stderr=as_json)
    settings = model.settings.but({"data_dir": str(data_dir)}) if data_dir else model.settings
    task = tasks.load(settings, console, model.languages)
    if Run(run).fingerprint() not in (None, task.fingerprint):
        words = "The data have changed since: the model may have learnt from what is held out now"
        console.print(Text(words, "yellow"), soft_wrap=True)
    split = split or task.splits[-1]
    with waiting(console, f"Measuring on the {split} split") as tell:
        found = evaluation.evaluate(model, task, split, beam, tell)
    if as_json:
        print(json.dumps(asdict(found)))
    else:
        console.print(evaluation.as_table(found))


def attention(program: Program, run: Path, text: str, out: Path | None, device: str) -> None:
    """Draw what a model attends to, and print where the picture is.

    Raises:
        Refused: no model, a text that it cannot read, or a picture that cannot be written.
    """
    picture = out or Run(run).attention
    refuse_what_is_no_picture(picture)
    from training.using.plots import draw_attention  # Matplotlib takes a third of a second

    try:
        draw_attention(Model.load(run, device, program.workshop).attention(text), picture)
    except OSError as error:
        raise Refused(f"{picture} cannot be written: {error.strerror}") from error
    program.console().print(Text(str(picture)), soft_wrap=True)


def refuse_what_is_no_picture(path: Path) -> None:
    """Before anything is computed for it.

    Raises:
        Refused: a name by which no picture can be written.
    """
    from training.using.plots import METADATA  # Matplotlib takes a third of a second

    endings = ", ".join(METADATA)
    if path.is_dir():
        raise Refused(f"{path} is a folder: --out names a file ending in {endings}")
    if path.suffix.lower() not in METADATA:
        raise Refused(f"{path} must end in one of {endings}")


def _refuse_what_is_no_text(text: str) -> None:
    """The name of a file that is not there is not meant as a text."""
    if not text.strip():
        raise Refused("The text is empty")
    if _is(Path(text).is_dir):
        raise Refused(f"{text} is a folder: give a file, or a text")
    if re.fullmatch(r"\S*(\w\.[A-Za-z]\w{0,9}|[/\\]\S*)", text):
        raise Refused(
            f"There is no file {text}. Where it is meant as a text, put a space before it"
        )


def _is_file(path: Path) -> bool:
    return _is(path.is_file)


def _is(kind: Callable[[], bool]) -> bool:
    try:
        return kind()
    except OSError:  # a long text is no name
        return False
