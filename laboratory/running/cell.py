"""One cell of a study: a model of its recipe, trained by the course's trainer, and then measured."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from laboratory.study import induction
from laboratory.study.description import REPEATS, Cell
from laboratory.study.measures import MEASURES, TIMED, in_blocks
from laboratory.study.model import build
from laboratory.study.results import CellResult
from laboratory.study.selection import Selection
from training import devices
from training.checkpoints import write_atomically
from training.data import tasks
from training.data.tasks import Task
from training.devices import ProcessContext
from training.loop.monitor import Monitor, read_metrics
from training.loop.run_folder import Run
from training.loop.training_loop import Diverged, Trainer
from training.models.architectures import Model, Objective

SILENT = Console(quiet=True)
LOOKS = "looks.json"


class ObjectiveWithAuxiliaryLoss(Objective):
    """The loss of a composed model, and for each token what its experts or its routers learn from besides."""

    def forward(self, *rows: Any) -> tuple[Tensor, Tensor]:
        """From target `(B, T)` to two 0-d tensors: what is differentiated, and what is reported."""
        summed, plain = super().forward(*rows)
        return summed + self.model.auxiliary() * rows[1][:, 1:].numel(), plain


class Experiment(Trainer):
    """A cell's training. What is looked at on the way is kept beside the checkpoints."""

    def __init__(self, cell: Cell, task: Task, run: Run, context: ProcessContext):
        self.cell = cell
        self._file = run.folder / LOOKS
        super().__init__(cell.settings, task, run, context)
        stored = json.loads(self._file.read_text()) if self._file.exists() else []
        self.looks: list[dict[str, Any]] = [
            look for look in stored if look["step"] <= self.progress.step
        ]

    def build(self) -> Model:
        """The model of the recipe."""
        self.model = build(self.cell.recipe, self.settings, self.task.languages)
        return self.model

    def build_loss(self, model: Model) -> Objective:
        """Build the objective: the loss, with the auxiliary losses of experts and routers."""
        return ObjectiveWithAuxiliaryLoss(model, self.settings.smoothing)

    def validate(self) -> float:
        """The loss as ever; where heads are studied, they are looked at as well."""
        loss = super().validate()
        if self.cell.task == REPEATS:
            look = induction.look(self.model, self.task, self.context.device)
            self.looks.append({"step": self.progress.step, **look})
            write_atomically(self._file, json.dumps(self.looks).encode())
        return loss


def load(cell: Cell) -> Task:
    """What a cell learns.

    Raises:
        Refused: data that cannot be had.
    """
    if cell.task == REPEATS:
        return induction.Repeats(cell.settings)
    task = tasks.load(cell.settings, SILENT)
    if cell.rate is None:
        return task
    assert isinstance(task, tasks.Text)  # learning_rates are for texts alone
    return Selection(cell.settings, task)


def perform(cell: Cell, folder: Path, device: str) -> CellResult:
    """Train and measure a cell, or resume it where it was interrupted.

    Raises:
        Refused: data that cannot be had, or a folder that cannot be written.
    """
    began = time.process_time()
    context = ProcessContext(devices.pick(device))
    run = Run(folder) if Run(folder).config.exists() else Run.begin(folder, cell.settings)
    experiment = Experiment(cell, load(cell), run, context)
    before = experiment.progress.seconds  # by the clock, where it was interrupted
    first, training = experiment.progress.step, time.process_time()
    monitor = Monitor(run, cell.settings.steps, first, SILENT)
    try:
        with monitor.showing():
            experiment.train(monitor)
        taken = experiment.progress.step - first
        a_step = (time.process_time() - training) / taken if taken else math.nan
        figures, timed, blocks = _measured(experiment)
        timed["step_core_seconds"] = a_step  # validation included
    except Diverged:
        figures, timed, blocks = {"loss": math.nan}, {}, {}
    timed["core_seconds"] = before + time.process_time() - began
    return replace(_seen(experiment, figures, timed), blocks=blocks)


def _measured(
    experiment: Experiment,
) -> tuple[dict[str, float], dict[str, float], dict[str, list[float]]]:
    """What the finished model does: figures, what was measured by the clock, and losses by block."""
    figures: dict[str, float] = {}
    timed: dict[str, float] = {}
    blocks: dict[str, list[float]] = {}
    model, task, settings = experiment.model, experiment.task, experiment.settings
    device = experiment.context.device
    model.eval()
    for name in dict.fromkeys(("loss", *experiment.cell.measures)):
        into = timed if name in TIMED else figures
        measure = (TIMED if name in TIMED else MEASURES)[name]
        with torch.random.fork_rng(devices=[]):
            for figure, value in measure(model, task, settings, device).items():
                if isinstance(value, Tensor):
                    blocks[figure] = in_blocks(value)
                into[figure] = float(value.mean()) if isinstance(value, Tensor) else value
    if experiment.cell.task == REPEATS:
        figures |= induction.figures(model, task, experiment.looks, device)
    return figures, timed, blocks


def _seen(experiment: Experiment, figures: dict[str, float], timed: dict[str, float]) -> CellResult:
    rows = read_metrics(experiment.run)
    paces = [row["tokens_per_second"] or 0.0 for row in rows]
    curve = [
        (int(row["step"] or 0), row["validation_loss"])
        for row in rows
        if row["validation_loss"] is not None
    ]
    lowest = min((loss for _, loss in curve), default=math.nan)
    clock = {"seconds": experiment.progress.seconds, "tokens_per_second": median(paces or [0.0])}
    return CellResult(
        variant=experiment.cell.variant,
        point=dict(experiment.cell.point),
        seed=experiment.cell.seed,
        figures={"parameters": float(experiment.size), "lowest_loss": lowest, **figures},
        timed={**clock, **timed},
        curve=curve,
        extra={"looks": experiment.looks} if experiment.looks else {},
    )
