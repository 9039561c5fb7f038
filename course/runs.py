"""`course train`, and what a trained model is used for: `translate`, `generate`, `evaluate`, `attention`."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    int | None,
    typer.Option(min=1, max=64, help="Hypotheses side by side; 1 is greedy. 4 for translation."),
]

OUTCOME = "COURSE_OUTCOME"
"""Names the file in which a training under `course train --devices` says how it ended; beside it, in
`began`, it says that it trains."""
REFUSED, INTERRUPTED = 2, 130  # exit statuses


def train(
    task: Annotated[
        str, typer.Argument(help="copy, sorting, arithmetic, shakespeare, text or translation.")
    ],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings; configs/<task>.yaml if left out.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Changes a setting. training/settings.py says what each means; configs/ has examples.",
        ),
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
            exists=True,
            file_okay=False,
            metavar="DIR",
            help="Train your own parts: what days 8 to 14 in this folder define. The reference stands "
            "in for the others.",
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
    from training.devices import under_torchrun
    from training.errors import Refused
    from training.session import Asked
    from training.settings import parse_changes

    console = display.console(quiet=int(os.environ.get("RANK", "0")) > 0)
    with _refusals(console):
        shortcuts = {
            "steps": steps,
            "seed": seed,
            "data": data,
            "source": source,
            "target": target,
            "answers": answers and str(answers),
        }
        asked_for = parse_changes(changes or [])
        asked_for |= {key: value for key, value in shortcuts.items() if value is not None}
        if steps is not None and epochs is not None:
            raise Refused("--steps and --epochs are two ways to say the same: use one")
        if resume is None:
            settings = _chosen(task, config, asked_for)
        elif config or out or epochs or set(asked_for) - {"steps"}:
            raise Refused("A run that is resumed keeps its settings: only --steps may be new")
        else:
            settings = _kept(task, resume).but(asked_for)
        asked = Asked(
            settings,
            resume or out or _default_folder(task),
            resumed=resume is not None,
            epochs=epochs,
            device=device,
            data_dir=data_dir,
            began=_began(os.environ[OUTCOME]) if OUTCOME in os.environ else None,
        )
        processes = devices or _gpus(device)
        if processes > 1 and not under_torchrun():
            raise typer.Exit(_launch(asked, processes, devices, console))
        raise typer.Exit(_train(asked, devices, console))


def _chosen(task: str, config: Path | None, changes: dict[str, Any]) -> Settings:
    """The settings of a config that is for this task, changed; files and folders by their full names."""
    from training import settings
    from training.errors import Refused

    settings.refuse_useless(task, changes)
    shipped = settings.config_of(task, changes.get("data"))
    found = settings.load(config or shipped)
    if found.task != task:
        raise Refused(f"{config or shipped} is for the task {found.task!r}, not {task!r}")
    found = found.but(changes)
    if task == "text" and found.data:
        found = found.but({"data": str(Path(found.data).resolve())})
    if not found.answers:
        return found
    if changes.get("fused"):
        raise Refused("fused never calls the attention of your parts: leave out --set fused=true")
    return found.but({"answers": str(Path(found.answers).resolve()), "fused": False})


def _kept(task: str, folder: Path) -> Settings:
    """The settings of a run that was begun."""
    from training.errors import Refused
    from training.run import Run

    found = Run.found(folder).settings()
    if found.task != task:
        right = shlex.join(["course", "train", found.task, "--resume", str(folder)])
        raise Refused(f"{folder} is a run of {found.task!r}: {right}")
    return found


def _default_folder(task: str) -> Path:
    from training.session import default_folder

    return default_folder(task)


def _gpus(device: str) -> int:
    """All that are there, unless another device was asked for."""
    import torch

    return max(1, torch.cuda.device_count()) if device in ("auto", "cuda") else 1


def _launch(asked: Asked, processes: int, devices: int | None, console: Console) -> int:
    """Train in many processes. What can be refused is refused here, before there are many."""
    import torch

    from training.devices import Place
    from training.errors import Told
    from training.launching import launch
    from training.session import beginning, prepare

    place = Place(torch.device("cpu"))
    with tempfile.TemporaryDirectory() as folder, beginning(asked, place) as run:
        prepare(run, asked, place, console)
        outcome = Path(folder) / "outcome"
        arguments = [*_again(asked, None)[1:], *(["--devices", str(devices)] if devices else [])]
        try:
            status = launch(arguments, processes, {OUTCOME: str(outcome)}, _began(outcome))
        except KeyboardInterrupt:
            if not run.trained:
                raise
            console.print(_stopped_at_once(asked, devices), soft_wrap=True)
            return INTERRUPTED
        status = int(outcome.read_text()) if outcome.exists() else status
        if status == REFUSED:
            raise Told
        return status


def _began(outcome: str | Path) -> Path:
    return Path(outcome).with_name("began")


def _again(asked: Asked, devices: int | None) -> list[str]:
    """The command that goes on with a run, on the same devices, with the same data."""
    words = ["course", "train", asked.settings.task, "--resume", str(asked.folder)]
    return [*words, *(["--devices", str(devices)] if devices else []), *_where(asked)]


def _where(asked: Asked) -> list[str]:
    words = [] if asked.device == "auto" else ["--device", asked.device]
    return [*words, *(["--data-dir", str(asked.data_dir)] if asked.data_dir else [])]


def _stopped_at_once(asked: Asked, devices: int | None) -> Text:
    again = shlex.join(_again(asked, devices))
    return Text(f"Stopped at once: what came after the last checkpoint is lost. To go on: {again}")


def _train(asked: Asked, devices: int | None, console: Console) -> int:
    """Train in this process.

    Returns:
        The exit status. Under `_launch` what cannot be mended by starting again counts as done.
    """
    from training.errors import Refused

    if OUTCOME not in os.environ:
        return _trained(asked, devices, console)
    outcome = Path(os.environ[OUTCOME])
    if outcome.exists():
        return 0  # another process has ended the run, and `torchrun` has started all of them again
    try:
        status = _trained(asked, devices, console)
    except Refused as error:
        # By whichever process comes first: not all of them need see it.
        with suppress(FileExistsError), outcome.open("x") as file:
            file.write(str(REFUSED))
            _refuse(error)
    else:
        outcome.write_text(str(status))
    return 0


def _trained(asked: Asked, devices: int | None, console: Console) -> int:
    from training.run import Run
    from training.session import Unmeasured
    from training.session import train as run
    from training.trainer import Diverged, Interrupted, Unsaved

    again = shlex.join(_again(asked, devices))
    began = time.monotonic()
    console.print(Text.assemble(("run  ", "quiet"), str(asked.folder)), soft_wrap=True)
    try:
        found = run(asked, console)
    except Interrupted as stop:
        console.print(Text(f"{stop} To go on: {again}"), soft_wrap=True)
        return INTERRUPTED
    except Unmeasured:
        measure = shlex.join(["course", "evaluate", str(asked.folder), *_where(asked)])
        words = f"Training is complete, and was not measured. To measure it: {measure}"
        console.print(Text(words), soft_wrap=True)
        return INTERRUPTED
    except KeyboardInterrupt:
        if not Run(asked.folder).trained:
            raise
        console.print(_stopped_at_once(asked, devices), soft_wrap=True)
        return INTERRUPTED
    except Diverged as error:
        console.print(Text(_diverged(error, asked), "failed"), soft_wrap=True)
        return 1
    except Unsaved as error:
        how = "go on" if Run(asked.folder).trained else "begin anew"
        console.print(Text(f"{error}. Make room, and {how}: {again}", "failed"), soft_wrap=True)
        return 1
    if found is not None:
        console.print(_measured(found))
        took = timedelta(seconds=round(time.monotonic() - began))
        console.print(Text(f"{took} in all. Everything is in {asked.folder}", "quiet"))
    return 0


def _diverged(error: Exception, asked: Asked) -> str:
    """What happened, what is left of it, and what may help."""
    from training.run import Run

    kept = (
        "The checkpoint before it is kept" if Run(asked.folder).trained else "Nothing was saved yet"
    )
    lower = f"--set factor={asked.settings.factor / 2:g}"
    clip = "" if asked.settings.clip else ", or with --set clip=1"
    return (
        f"{error}. {kept}. A run keeps its settings, so begin a new one with a lower learning rate, "
        f"such as {lower}{clip}"
    )


def _measured(found: Evaluation) -> RenderableType:
    """What a model can do, as a table."""
    from training.monitor import short

    table = Table.grid(padding=(0, 3, 0, 0))
    names = [f"{found.split} split", "loss", "perplexity"]
    values = [f"{found.sequences:,} sequences", f"{found.loss:.4f}", short(found.perplexity)]
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
        from training.waiting import waiting

        model = Model.load(run, device)
        beam = beam or model.usual_beam
        if not _is_file(Path(text)):
            _refuse_what_is_no_text(text)
            print(model.translate([text], beam)[0])
            return
        lines = read_text(Path(text)).splitlines()
        words = f"Answering {len(lines):,} line{'s' if len(lines) > 1 else ''}"
        with waiting(display.console(stderr=True), words) as tell:
            answers = model.translate(lines, beam, tell=tell)
        for answer in answers:
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
        from training.run import Run
        from training.waiting import waiting

        model = Model.load(run, device)
        console = display.console(stderr=as_json)
        task = tasks.load(model.settings, data_dir, console, model.languages)
        if Run(run).fingerprint() not in (None, task.fingerprint):
            words = (
                "The data have changed since: the model may have learnt from what is held out now"
            )
            console.print(Text(words, "yellow"), soft_wrap=True)
        split = split or task.splits[-1]
        with waiting(console, f"Measuring on the {split} split") as tell:
            found = model.evaluate(task, split, beam, tell)
        if as_json:
            print(json.dumps(asdict(found)))
        else:
            console.print(_measured(found))


def attention(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model is to read.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The picture, .png, .svg or .pdf; RUN/attention.png if left out.",
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Draw what every layer and head of a trained model attends to."""
    with _refusals():
        from training.errors import Refused
        from training.inference import Model
        from training.pictures import draw_attention
        from training.run import Run

        picture = out or Run(run).attention
        _refuse_what_is_no_picture(picture)
        try:
            draw_attention(Model.load(run, device).attention(text), picture)
        except OSError as error:
            raise Refused(f"{picture} cannot be written: {error.strerror}") from error
        display.console().print(Text(str(picture)), soft_wrap=True)


def _refuse_what_is_no_picture(path: Path) -> None:
    from training.errors import Refused
    from training.pictures import METADATA

    endings = ", ".join(METADATA)
    if path.is_dir():
        raise Refused(f"{path} is a folder: --out names a file ending in {endings}")
    if path.suffix.lower() not in METADATA:
        raise Refused(f"{path} must end in one of {endings}")


def _refuse_what_is_no_text(text: str) -> None:
    """The name of a file that is not there is not meant as a text."""
    from training.errors import Refused

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


@contextmanager
def _refusals(console: Console | None = None) -> Iterator[None]:
    """What cannot be done is told, and ends with 2; Ctrl-C with 130."""
    from training.errors import Refused, Told

    try:
        yield
    except Told as error:
        raise typer.Exit(REFUSED) from error
    except Refused as error:
        if console is None or not console.quiet:
            _refuse(error)
        raise typer.Exit(REFUSED) from error
    except KeyboardInterrupt as error:
        if console is None or not console.quiet:
            display.console(stderr=True).print("Stopped.")
        raise typer.Exit(INTERRUPTED) from error


def _refuse(error: Exception) -> None:
    told = display.safe(str(error))
    told.stylize("failed")
    display.console(stderr=True).print(told, soft_wrap=True)
