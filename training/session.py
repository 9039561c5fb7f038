"""A whole run: prepare it, train, draw, measure; here, or in many processes that `torchrun` starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType

import psutil
import torch
from rich.console import Console
from rich.text import Text

import implementation
from training import devices, tasks
from training.devices import Place
from training.errors import Refused
from training.inference import Evaluation, Model
from training.model import LanguageModel
from training.monitor import Monitor
from training.pictures import draw_attention, draw_curves
from training.run import Run
from training.settings import Settings
from training.tasks import Task
from training.trainer import Trainer

RESTARTS = 3  # of all processes, after one has died
SHOWN = 24  # tokens of a language's attention


@dataclass(frozen=True)
class Asked:
    """What somebody wants trained, and where."""

    settings: Settings
    folder: Path
    resumed: bool = False
    epochs: int | None = None
    device: str = "auto"
    data_dir: Path | None = None
    parts: ModuleType = implementation


def default_folder(task: str) -> Path:
    """`runs/<task>-<time>`: the same in all processes that one launcher has started, and restarted."""
    began = time.time()
    if devices.under_torchrun():
        began = psutil.Process(os.getppid()).create_time()
    return Path("runs") / f"{task}-{datetime.fromtimestamp(began):%Y%m%d-%H%M%S}"


def train(asked: Asked, console: Console) -> Evaluation | None:
    """Train to the end, draw the pictures, and measure the best model on what was held out.

    Returns:
        What the model can do; None in processes that do not lead.

    Raises:
        Refused: what was asked for cannot be done.
        Diverged, Interrupted: see `Trainer.train`.
    """
    with devices.taken(asked.device) as place:
        trained = _trained(asked, place, console)
    return _measured(*trained, asked, console) if place.leads else None


def _trained(asked: Asked, place: Place, console: Console) -> tuple[Run, Task]:
    """A process's part in the training, of which nothing is left afterwards but the folder."""
    run, settings = _prepared(asked, place), asked.settings
    task = _loaded(run, settings, asked, place, console)
    if asked.epochs is not None:
        settings = _in_epochs(settings, task, asked.epochs)
        if place.leads:
            run.keep(settings)
    trainer = Trainer(settings, task, run, place, asked.parts)
    if not place.leads:
        trainer.train(None)
        return run, task
    _introduce(trainer, console)
    monitor = Monitor(run, settings.steps, trainer.progress.step, console)
    with monitor.showing():
        trainer.train(monitor)
    return run, task


def _prepared(asked: Asked, place: Place) -> Run:
    """The run's folder, begun by the process that leads."""
    run = Run(asked.folder)
    if not asked.resumed and not (devices.restarts() and run.config.exists()):
        if place.leads:
            Run.begin(asked.folder, asked.settings)
    elif place.leads and run.settings() != asked.settings:
        run.keep(asked.settings)  # more steps than it was begun with
    place.wait()
    return run


def _loaded(run: Run, settings: Settings, asked: Asked, place: Place, console: Console) -> Task:
    """The task. Where vocabularies have to be learnt, or files fetched, the process that leads does it
    for all."""
    if not place.leads:
        place.wait()
    task = tasks.load(settings, asked.data_dir, console, run.languages())
    if place.leads:
        if run.languages() is None:
            run.keep_languages(task.languages)
        place.wait()
    return task


def _in_epochs(settings: Settings, task: Task, epochs: int) -> Settings:
    if task.per_epoch is None:
        raise Refused(f"The task {settings.task} has no end, and so no epochs: use --steps")
    return settings.but({"steps": max(1, epochs * task.per_epoch // settings.accumulate)})


def _introduce(trainer: Trainer, console: Console) -> None:
    settings, place = trainer.settings, trainer.place
    where = str(place.device) if place.device.type != "cuda" else torch.cuda.get_device_name()
    many = f" × {place.world} ({'FSDP2' if settings.shard else 'DDP'})" if place.world > 1 else ""
    half = "" if trainer.half is None else f", {str(trainer.half).removeprefix('torch.')}"
    console.print(
        Text.assemble(
            (f"{settings.task}", "bold"),
            f"  {trainer.size:,} parameters, {settings.steps:,} steps, on {where}{many}{half}",
        )
    )
    for words in trainer.told:
        console.print(Text(words, "yellow"), soft_wrap=True)
    if trainer.progress.step:
        console.print(f"Goes on from step {trainer.progress.step}")


def _measured(run: Run, task: Task, asked: Asked, console: Console) -> Evaluation:
    draw_curves(run)
    model = Model.load(run.folder, asked.device)
    draw_attention(model.attention(_example(model, task)), run.attention)
    return model.evaluate(task, task.splits[-1])


def _example(model: Model, task: Task) -> str:
    """Something to look at the attention of: a held-out source, or the beginning of a held-out text."""
    if isinstance(model.model, LanguageModel):
        first = task.held_out("validation")[0].target[0]
        return model.languages.target.decode(first[:SHOWN].tolist())
    texts = [source for source, _ in task.texts("validation")]
    return sorted(texts, key=len)[len(texts) // 2]


def prepare(asked: Asked, console: Console) -> None:
    """Begin a run that many processes will go on with: all that can be refused is refused here.

    Raises:
        Refused: what was asked for cannot be done.
    """
    devices.pick(asked.device)
    place = Place(torch.device("cpu"))
    run, settings = _prepared(asked, place), asked.settings
    task = _loaded(run, settings, asked, place, console)
    if asked.epochs is not None:
        run.keep(_in_epochs(settings, task, asked.epochs))


def launch(arguments: Sequence[str], processes: int, environment: dict[str, str]) -> int:
    """Start the `course` command in many processes by `torchrun`, all of them anew when one dies.

    Returns:
        The exit status.
    """
    threads = max(1, (os.cpu_count() or 1) // processes)
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        f"--nproc-per-node={processes}",
        f"--max-restarts={RESTARTS}",
        *("-m", "course.cli", *arguments),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **environment}
    with subprocess.Popen(command, env=environment) as running:
        while True:
            try:
                return running.wait()
            except KeyboardInterrupt:
                continue  # they have heard it too, and save
