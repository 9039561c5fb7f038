"""A whole run: prepare it, train, draw, measure; here, or in many processes that `torchrun` starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text

from training import devices
from training.models import finetuning
from training.data import tasks
from training.runs.options import RunRequest
from training.devices import ProcessContext
from training.errors import Refused
from training.models.finetuning import Origin
from training.using.inference import Model
from training.loop.checkpointer import Unsaved
from training.using.evaluation import Evaluation, evaluate
from training.loop.monitor import Monitor
from training.models.parts import Parts, parts_of
from training.using.plots import draw_attention, draw_curves
from training.loop.run_folder import Run
from training.settings import Settings
from training.data.tasks import Task, Translation
from training.loop.trainer import Diverged, Interrupted, Trainer
from training.progress import waiting

SHOWN = 24  # tokens of a language's attention


class EvaluationInterrupted(Exception):
    """Training is complete, and somebody did not want to wait for what comes after it."""


def train(asked: RunRequest, console: Console) -> Evaluation | None:
    """Train to the end, draw the pictures, and measure the best model on what was held out.

    Returns:
        What the model can do; None in processes that do not lead.

    Raises:
        Refused: what was asked for cannot be done.
        Diverged, Interrupted, Unsaved: see `Trainer.train`.
        EvaluationInterrupted: Ctrl-C after the training.
    """
    ended = None
    with devices.process_context(asked.device) as context, beginning(asked, context) as run:
        try:
            task = _trained(run, asked, context, console)
        except (Diverged, Interrupted, Unsaved) as end:
            # All processes end so after the same step, and leave together, as after a good end: one that
            # is still there when another has gone may be aborted by gloo.
            ended = type(end)(*end.args)
    if ended is not None:
        raise ended
    if not context.is_main:
        return None
    try:
        return _measured(run, task, asked, console)
    except KeyboardInterrupt as error:
        raise EvaluationInterrupted from error


@contextmanager
def beginning(asked: RunRequest, context: ProcessContext) -> Iterator[Run]:
    """The run's folder, begun by the process that leads. Where nothing comes of a new one it goes
    again, so that it is not in the way of the next try.

    Raises:
        Refused: it cannot be begun, or written.
    """
    run, made = Run(asked.folder), not asked.folder.exists()
    new = not asked.resumed and not (devices.restarts() and run.config.exists())
    if context.is_main and new:
        Run.begin(asked.folder, asked.settings, asked.workshop)
    context.barrier()
    try:
        if context.is_main and run.settings() != asked.settings:
            run.keep(asked.settings)  # more steps than it was begun with
        yield run
    except (Refused, OSError, KeyboardInterrupt) as error:
        if context.is_main and new and not run.trained:
            run.forget(made)
        if isinstance(error, OSError):
            raise Refused(f"{run.folder} cannot be written: {error.strerror or error}") from error
        raise


def _trained(run: Run, asked: RunRequest, context: ProcessContext, console: Console) -> Task:
    """A process's part in the training, of which nothing is left afterwards but the folder."""
    settings, task, parts, origin = prepare(run, asked, context, console)
    trainer = Trainer(settings, task, run, context, parts, origin)
    del origin  # a copy of the weights
    if not context.is_main:
        trainer.train(None)
        return task
    _introduce(trainer, console)
    monitor = Monitor(run, settings.steps, trainer.progress.step, console)
    if asked.began is not None:
        asked.began.write_text(str(os.getpid()))
    with monitor.showing():
        trainer.train(monitor)
    return task


def prepare(
    run: Run, asked: RunRequest, context: ProcessContext, console: Console
) -> tuple[Settings, Task, Parts, Origin | None]:
    """All that a run starts from. What can be refused is refused here.

    Raises:
        Refused: what was asked for cannot be done.
    """
    devices.pick(asked.device)
    settings, origin = asked.settings, None
    if settings.pretrained:
        origin = _origin(run, settings, context, console)
        settings = origin.fitted(settings)
        if context.is_main:
            run.keep(settings)
    parts = parts_of(settings, run.answers, asked.workshop)
    task = _loaded(run, settings, origin, context, console)
    if asked.epochs is not None:
        settings = _in_epochs(settings, task, asked.epochs)
        if context.is_main:
            run.keep(settings)
    return settings, task, parts, origin


@contextmanager
def _leading(context: ProcessContext) -> Iterator[None]:
    """Within it the process that leads is the first: what has to be fetched or learnt is there for the
    others."""
    if not context.is_main:
        context.barrier()
    yield
    if context.is_main:
        context.barrier()


def _origin(run: Run, settings: Settings, context: ProcessContext, console: Console) -> Origin:
    """The published model that is fine-tuned.

    Raises:
        Refused: it cannot be had, or is another than the run was begun with.
    """
    with _leading(context):
        with waiting(console, f"Reading {settings.pretrained}"):
            found = finetuning.origin(settings, console)
        if run.base() not in (None, found.base):
            raise Refused(f"{settings.pretrained} has changed since the run was begun with it")
        if context.is_main:
            run.keep_base(found.base)
    return found


def _loaded(
    run: Run, settings: Settings, origin: Origin | None, context: ProcessContext, console: Console
) -> Task:
    """The task, with vocabularies that are new, the run's, or those of a published model."""
    with _leading(context):
        languages = run.languages() or (origin.languages if origin else None)
        task = tasks.load(settings, console, languages)
        if context.is_main and run.languages() is None:
            run.keep_languages(task.languages)
    return task


def _in_epochs(settings: Settings, task: Task, epochs: int) -> Settings:
    if task.per_epoch is None:
        raise Refused(f"The task {settings.task} has no end, and so no epochs: use --steps")
    return settings.but({"steps": max(1, epochs * task.per_epoch // settings.accumulate)})


def _introduce(trainer: Trainer, console: Console) -> None:
    settings, context = trainer.settings, trainer.context
    where = str(context.device) if context.device.type != "cuda" else torch.cuda.get_device_name()
    wrapper = "FSDP2" if settings.shard else "DDP"
    many = f" × {context.world_size} ({wrapper})" if context.world_size > 1 else ""
    half = "" if trainer.autocast_dtype is None else f", {str(trainer.autocast_dtype).removeprefix('torch.')}"
    trained = sum(one.numel() for one in trainer.objective.parameters.values())
    some = f" ({trained:,} of them trained)" if settings.lora else ""
    console.print(
        Text.assemble(
            (f"{settings.task}", "bold"),
            f"  {trainer.size:,} parameters{some}, {settings.steps:,} steps, on {where}{many}{half}",
        )
    )
    if isinstance(trainer.task, Translation):
        console.print(trainer.task.sizes(), soft_wrap=True)
    for words in trainer.parts.lines():
        console.print(Text(words), soft_wrap=True)
    for words in trainer.checkpointer.notes:
        console.print(Text(words, "yellow"), soft_wrap=True)
    if trainer.progress.step:
        console.print(f"Goes on from step {trainer.progress.step}")


def _measured(run: Run, task: Task, asked: RunRequest, console: Console) -> Evaluation:
    """What the best model can do. A picture that fails does not cost the measurement."""
    model = Model.load(run.folder, asked.device, asked.workshop)
    with _drawing(run.curves, console):
        draw_curves(run)
    with _drawing(run.attention, console):
        draw_attention(model.attention(_example(model, task)), run.attention)
    split = task.splits[-1]
    with waiting(console, f"Measuring on the {split} split") as tell:
        return evaluate(model, task, split, tell=tell)


@contextmanager
def _drawing(path: Path, console: Console) -> Iterator[None]:
    """Within it a picture may fail, which is told."""
    try:
        yield
    except (OSError, Refused) as error:
        why = error.strerror if isinstance(error, OSError) else error
        console.print(Text(f"{path} could not be drawn: {why}", "yellow"), soft_wrap=True)


def _example(model: Model, task: Task) -> str:
    """Something to look at the attention of: a held-out source, or the beginning of a held-out text."""
    if model.settings.of_language:
        first = task.held_out("validation")[0].target[0]
        return model.languages.target.decode(first[:SHOWN].tolist())
    texts = [source for source, _ in task.texts("validation")]
    return sorted(texts, key=len)[len(texts) // 2]
