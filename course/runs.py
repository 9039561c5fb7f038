"""`course train`, and what a trained model is used for: `translate`, `generate`, `evaluate`, `attention`."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from course import display

if TYPE_CHECKING:
    from training.inference import Evaluation
    from training.session import Asked
    from training.settings import Settings

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Device = Annotated[
    str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps; auto is a GPU where there is one.")
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        metavar="DIR",
        help="Where the data's files lie, if not in the cache.",
    ),
]
Beam = Annotated[
    int | None, typer.Option(min=1, help="Hypotheses side by side; 1 is greedy. 4 for translation.")
]

OUTCOME = "COURSE_OUTCOME"
"""Names the file in which a training under `course train --devices` says how it ended."""


def train(
    task: Annotated[
        str, typer.Argument(help="copy, sorting, arithmetic, shakespeare, text or translation.")
    ],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings; configs/<task>.yaml if left out.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Changes a setting.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of the optimiser.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Times through the data.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Where all that is drawn comes from.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="For translation toy, multi30k or wmt14; for text a file."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="For translation: from en, de or fr.")] = None,
    target: Annotated[str | None, typer.Option(help="For translation: into en, de or fr.")] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, metavar="DIR", help="Train the parts in this folder."
        ),
    ] = None,
    device: Device = "auto",
    devices: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as there are GPUs if left out.")
    ] = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run's folder; runs/<task>-<time> if left out."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")
    ] = None,
) -> None:
    """Train a model. Ctrl-C stops it at the end of a step; --resume goes on."""
    from training import settings as settings_
    from training.devices import under_torchrun
    from training.errors import Refused
    from training.session import Asked

    console = display.console(quiet=int(os.environ.get("RANK", "0")) > 0)
    with _refusals(console):
        shortcuts = {
            "steps": steps,
            "seed": seed,
            "data": data,
            "source": source,
            "target": target,
            "answers": answers and str(answers.resolve()),
        }
        changes_ = settings_.parse_changes(changes or [])
        changes_ |= {key: value for key, value in shortcuts.items() if value is not None}
        if steps is not None and epochs is not None:
            raise Refused("--steps and --epochs are two ways to say the same: use one")
        if resume is not None:
            if config or out or epochs or set(changes_) - {"steps"}:
                raise Refused("A run that is resumed keeps its settings: only --steps may be new")
            settings = _kept(task, resume)
        else:
            settings = _chosen(task, config, data)
        asked = Asked(
            settings.but(changes_),
            resume or out or _default_folder(task),
            resumed=resume is not None,
            epochs=epochs,
            device=device,
            data_dir=data_dir,
            parts=_parts(settings.but(changes_).answers),
        )
        processes = devices or _gpus(device)
        if processes > 1 and not under_torchrun():
            raise typer.Exit(_launch(asked, processes, console))
        raise typer.Exit(_train(asked, console))


def _chosen(task: str, config: Path | None, data: str | None) -> Settings:
    """The settings of a config that is for this task."""
    from training import settings
    from training.errors import Refused

    shipped = settings.config_of(task, data)
    found = settings.load(config or shipped)
    if found.task != task:
        raise Refused(f"{config or shipped} is for the task {found.task!r}, not {task!r}")
    return found


def _kept(task: str, folder: Path) -> Settings:
    """The settings of a run that was begun."""
    from training.errors import Refused
    from training.run import Run

    found = Run.found(folder).settings()
    if found.task != task:
        raise Refused(
            f"{folder} is a run of {found.task!r}: course train {found.task} --resume {folder}"
        )
    return found


def _default_folder(task: str) -> Path:
    from training.session import default_folder

    return default_folder(task)


def _parts(answers: str) -> ModuleType:
    """The reference, or a learner's own parts in its place."""
    import implementation

    if not answers:
        return implementation
    from course.assembly import files_of, put_together

    parts, _, _ = put_together({stem: Path(path) for stem, path in files_of(Path(answers)).items()})
    return parts


def _gpus(device: str) -> int:
    """All that are there, unless another device was asked for."""
    import torch

    return max(1, torch.cuda.device_count()) if device in ("auto", "cuda") else 1


def _launch(asked: Asked, processes: int, console: Console) -> int:
    """Train in many processes. What can be refused is refused here, before there are many."""
    from training.session import launch, prepare

    prepare(asked, console)
    arguments = ["train", asked.settings.task, "--resume", str(asked.folder)]
    arguments += ["--steps", str(asked.settings.steps)] if asked.resumed else []
    arguments += ["--device", asked.device]
    arguments += ["--data-dir", str(asked.data_dir)] if asked.data_dir else []
    with tempfile.TemporaryDirectory() as folder:
        outcome = Path(folder) / "outcome"
        status = launch(arguments, processes, {OUTCOME: str(outcome)})
        return int(outcome.read_text()) if outcome.exists() else status


def _train(asked: Asked, console: Console) -> int:
    """Train in this process.

    Returns:
        The exit status. Under `_launch` what cannot be mended by starting again counts as done.
    """
    from training.session import train as run
    from training.trainer import Diverged, Interrupted, Unsaved

    again = f"course train {asked.settings.task} --resume {asked.folder}"
    began = time.monotonic()
    console.print(Text.assemble(("run  ", "quiet"), str(asked.folder)), soft_wrap=True)
    status = 0
    try:
        found = run(asked, console)
        if found is not None:
            console.print(_measured(found))
            took = timedelta(seconds=round(time.monotonic() - began))
            console.print(Text(f"{took} in all. Everything is in {asked.folder}", "quiet"))
    except Interrupted as stop:
        console.print(Text(f"{stop} To go on: {again}"), soft_wrap=True)
        status = 130
    except Diverged as error:
        words = f"{error}. The checkpoint before it is kept; a lower factor or clip=1 may help"
        console.print(Text(words, "failed"), soft_wrap=True)
        status = 1
    except Unsaved as error:
        console.print(Text(f"{error}. Make room, and go on: {again}", "failed"), soft_wrap=True)
        status = 1
    if OUTCOME not in os.environ:
        return status
    Path(os.environ[OUTCOME]).write_text(str(status))
    return 0


def _measured(found: Evaluation) -> RenderableType:
    """What a model can do, as a table."""
    table = Table.grid(padding=(0, 3, 0, 0))
    names = [f"{found.split} split", "loss", "perplexity"]
    values = [f"{found.sequences:,} sequences", f"{found.loss:.4f}", f"{found.perplexity:.3f}"]
    if found.exact_match is not None:
        names.append("exact match")
        # 999.9 of 1000 is not 100 %
        values.append(f"{int(1000 * found.exact_match) / 10:.1f}%")
    if found.bleu is not None:
        names += ["BLEU", "signature"]
        values += [f"{found.bleu:.2f}", str(found.signature)]
    for name, value in zip(names, values, strict=True):
        table.add_row(Text(name, "quiet"), Text(value, "bold"))
    return table


def translate(
    run: RunFolder,
    text: Annotated[
        str, typer.Argument(metavar="TEXT|FILE", help="A text, or a file: line by line.")
    ],
    beam: Beam = None,
    device: Device = "auto",
) -> None:
    """What a trained encoder-decoder makes of a text: a translation, a sum, a sorted list."""
    with _refusals():
        from training.corpora import read_text
        from training.inference import Model

        model = Model.load(run, device)
        file = Path(text)
        lines = read_text(file).splitlines() if _is_file(file) else [text]
        for answer in model.translate(lines, beam or model.usual_beam):
            print(answer)


def generate(
    run: RunFolder,
    prompt: Annotated[str, typer.Option(help="The text to go on with.")] = "\n",
    tokens: Annotated[int, typer.Option(min=1, help="How many to add.")] = 300,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the likeliest.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the k likeliest.")] = None,
    top_p: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Draw from the likeliest that have p together."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Where the draws come from.")] = 0,
    device: Device = "auto",
) -> None:
    """Go on with a text, by a trained language model."""
    with _refusals():
        from training.inference import Model

        pieces = Model.load(run, device).generate(prompt, tokens, temperature, top_k, top_p, seed)
        first = next(pieces, "")  # a prompt that is refused is refused before it is printed
        print(prompt.lstrip("\n"), end="")
        for piece in itertools.chain([first], pieces):
            print(piece, end="", flush=True)
        print()


def evaluate(
    run: RunFolder,
    split: Annotated[
        str | None, typer.Option(help="test or validation; test where there is one if left out.")
    ] = None,
    beam: Beam = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One object on standard output, and nothing else there.")
    ] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Measure a trained model on the whole of a held-out split."""
    with _refusals():
        from training import tasks
        from training.inference import Model

        model = Model.load(run, device)
        console = display.console(stderr=as_json)
        task = tasks.load(model.settings, data_dir, console, model.languages)
        found = model.evaluate(task, split or task.splits[-1], beam)
        if as_json:
            print(json.dumps(asdict(found)))
        else:
            console.print(_measured(found))


def attention(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model is to read.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The picture; RUN/attention.png if left out."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Draw what every layer and head of a trained model attends to."""
    with _refusals():
        from training.inference import Model
        from training.pictures import draw_attention
        from training.run import Run

        picture = out or Run(run).attention
        draw_attention(Model.load(run, device).attention(text), picture)
        display.console().print(Text(str(picture)), soft_wrap=True)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a long text is no name
        return False


@contextmanager
def _refusals(console: Console | None = None) -> Iterator[None]:
    """What cannot be done is told, and ends with 2."""
    from training.errors import Refused

    try:
        yield
    except Refused as error:
        if console is None or not console.quiet:
            display.console(stderr=True).print(Text(str(error), "failed"), soft_wrap=True)
        raise typer.Exit(2) from error
