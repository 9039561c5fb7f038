"""An entire run: prepare, train, plot, evaluate; in one process, or in each that `torchrun` starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text

from training import devices
from training.data import tasks
from training.data.conversations import Chat
from training.data.tasks import Task, Translation
from training.devices import ProcessContext
from training.errors import Refused
from training.inference.evaluation import Evaluation, evaluate
from training.inference.plots import draw_attention, draw_curves
from training.inference.trained_model import TrainedModel
from training.launch.options import RunRequest
from training.loop.checkpointer import Unsaved
from training.loop.monitor import Monitor
from training.loop.run_folder import Run
from training.loop.training_loop import Diverged, Interrupted, Trainer
from training.models import finetuning
from training.models.architectures import is_quantized, state_of, weights_of
from training.models.base_model import PublishedConfig, rope_of
from training.models.finetuning import Origin
from training.models.parts import Parts, PartsProvider, parts_of
from training.progress import waiting
from training.settings import Settings

SHOWN = 24  # tokens in the attention plot of a language model


class EvaluationInterrupted(Exception):
    """Training is complete; the evaluation was interrupted."""


def train(request: RunRequest, console: Console) -> Evaluation | None:
    """Train to the end, draw the plots, and evaluate the best model on held-out data.

    Returns:
        The evaluation; None in processes other than the main one.

    Raises:
        Refused: the request cannot be carried out.
        Diverged, Interrupted, Unsaved: see `Trainer.train`.
        EvaluationInterrupted: Ctrl-C after training.
    """
    ended = None
    with devices.process_context(request.device) as context:
        try:
            with beginning(request, context) as run:
                task = _trained(run, request, context, console)
        except (Diverged, Interrupted, Unsaved) as end:
            # All processes end here after the same step, and leave together: gloo may abort a process that
            # is still running when another has left.
            ended = type(end)(*end.args)
    if ended is not None:
        raise ended
    if not context.is_main:
        return None
    try:
        return _measured(run, task, request, console)
    except KeyboardInterrupt as error:
        raise EvaluationInterrupted from error


@contextmanager
def beginning(request: RunRequest, context: ProcessContext) -> Iterator[Run]:
    """Begin the run's folder in the main process. A new folder is removed again if the run fails before
    its first checkpoint, so that it does not block the next attempt.

    Raises:
        Refused: the folder cannot be begun or written.
    """
    run, created = Run(request.folder), not request.folder.exists()
    new = not request.resumed and not (devices.restarts() and run.config.exists())
    if context.is_main and new:
        Run.begin(request.folder, request.settings, request.provider)
    context.barrier()
    try:
        yield run
    except (Refused, Diverged, OSError, KeyboardInterrupt) as error:
        if context.is_main and new and not run.trained:
            run.forget(created)
        if isinstance(error, OSError):
            raise Refused(f"{run.folder} cannot be written: {error.strerror or error}") from error
        raise


def _trained(run: Run, request: RunRequest, context: ProcessContext, console: Console) -> Task:
    """Train in this process; only the folder remains afterwards."""
    settings, task, parts, origin = prepare(run, request, context, console)
    trainer = Trainer(settings, task, run, context, parts, origin)
    del origin  # a copy of the weights
    if not context.is_main:
        trainer.train(None)
        return task
    _introduce(trainer, console)
    monitor = Monitor(run, settings.steps, trainer.progress.step, console)
    if request.began is not None:
        request.began.write_text(str(os.getpid()))
    with monitor.showing():
        trainer.train(monitor)
    return task


def prepare(
    run: Run, request: RunRequest, context: ProcessContext, console: Console
) -> tuple[Settings, Task, Parts, Origin | None]:
    """Return everything that a run starts from. All refusals happen here.

    Raises:
        Refused: the request cannot be carried out.
    """
    devices.pick(request.device)
    settings, origin = request.settings, None
    if settings.pretrained:
        origin = _origin(run, request, context, console)
        settings = origin.fitted(settings)
    parts = parts_of(settings, run.answers, request.provider)
    task = _loaded(run, settings, origin, context, console)
    if request.epochs is not None:
        settings = _in_epochs(settings, task, request.epochs)
    if context.is_main and run.settings() != settings:
        run.keep(settings)  # --steps or --epochs, or the sizes of a published model
    return settings, task, parts, origin


@contextmanager
def _leading(context: ProcessContext) -> Iterator[None]:
    """Let the main process go first, so that downloads and vocabularies are there for the others."""
    if not context.is_main:
        context.barrier()
    yield
    if context.is_main:
        context.barrier()


def _origin(run: Run, request: RunRequest, context: ProcessContext, console: Console) -> Origin:
    """Return the model to fine-tune, published or of a run.

    Raises:
        Refused: the model cannot be loaded, or has changed since the run was begun.
    """
    settings = request.settings
    source = Path(settings.pretrained)
    with _leading(context):
        with waiting(console, f"Reading {settings.pretrained}"):
            if Run(source).config.exists():
                origin_model = _trained_before(source, request.provider)
            else:
                origin_model = finetuning.origin(settings, console)
        if settings.task == "chat":
            origin_model = origin_model.for_chat()
        if run.base() not in (None, origin_model.base):
            raise Refused(f"{settings.pretrained} has changed since the run was begun with it")
        if context.is_main:
            run.keep_base(origin_model.base)
    return origin_model


def _trained_before(folder: Path, provider: PartsProvider | None) -> Origin:
    """Return the model of a run.

    Raises:
        Refused: the run has no weights yet, another kind of model, or quantized weights.
    """
    model = TrainedModel.load(folder, "cpu", provider)
    if model.settings.model == "paper" or is_quantized(state_of(model.model)):
        raise Refused(
            f"--from takes runs of a GPT-2 or a LLaMA (--set model=gpt, model=llama) in float32: {folder} is "
            f"a run of {model.settings.task} with model={model.settings.model}"
        )
    base = model.base or PublishedConfig(
        model.model.config, model.settings.model == "gpt", rope=rope_of(None)
    )
    return Origin(base, weights_of(model.model), model.languages)


def _loaded(
    run: Run, settings: Settings, origin: Origin | None, context: ProcessContext, console: Console
) -> Task:
    """Load the task, with new vocabularies, the run's, or those of a published model."""
    with _leading(context):
        languages = run.languages() or (origin.languages if origin else None)
        task = tasks.load(settings, console, languages)
        if context.is_main and run.languages() is None:
            run.keep_languages(task.languages)
    return task


def _in_epochs(settings: Settings, task: Task, epochs: int) -> Settings:
    if task.per_epoch is None:
        raise Refused(
            f"The task {settings.task} has no epochs, because its data is generated: use --steps"
        )
    return settings.replace({"steps": max(1, epochs * task.per_epoch // settings.accumulate)})


def _introduce(trainer: Trainer, console: Console) -> None:
    settings, context = trainer.settings, trainer.context
    where = str(context.device) if context.device.type != "cuda" else torch.cuda.get_device_name()
    wrapper = "FSDP2" if settings.shard else "DDP"
    many = f" × {context.world_size} ({wrapper})" if context.world_size > 1 else ""
    half = (
        ""
        if trainer.autocast_dtype is None
        else f", {str(trainer.autocast_dtype).removeprefix('torch.')}"
    )
    trained = sum(parameter.numel() for parameter in trainer.objective.parameters.values())
    some = f" ({trained:,} of them trained)" if settings.lora else ""
    console.print(
        Text.assemble(
            (f"{settings.task}", "bold"),
            f"  {trainer.size:,} parameters{some}, {settings.steps:,} steps, on {where}{many}{half}",
        )
    )
    if isinstance(trainer.task, (Chat, Translation)):
        console.print(trainer.task.sizes(), soft_wrap=True)
    for words in trainer.parts.lines():
        console.print(Text(words), soft_wrap=True)
    for words in trainer.checkpointer.notes:
        console.print(Text(words, "yellow"), soft_wrap=True)
    if trainer.progress.step:
        console.print(f"Resuming from step {trainer.progress.step}")


def _measured(run: Run, task: Task, request: RunRequest, console: Console) -> Evaluation:
    """Evaluate the best model. A failing plot does not prevent the evaluation."""
    model = TrainedModel.load(run.folder, request.device, request.provider)
    with _drawing(run.curves, console):
        draw_curves(run)
    with _drawing(run.attention, console):
        draw_attention(model.attention(_example(model, task)), run.attention)
    split = task.splits[-1]
    with waiting(console, f"Evaluating on the {split} split") as tell:
        return evaluate(model, task, split, tell=tell)


@contextmanager
def _drawing(path: Path, console: Console) -> Iterator[None]:
    """Print a message if a plot cannot be drawn, and continue."""
    try:
        yield
    except (OSError, Refused) as error:
        why = error.strerror if isinstance(error, OSError) else error
        console.print(Text(f"{path} could not be drawn: {why}", "yellow"), soft_wrap=True)


def _example(model: TrainedModel, task: Task) -> str:
    """Return an input for the attention plot: a held-out source, or the beginning of a held-out text."""
    if model.settings.of_language:
        first = task.held_out("validation")[0].target[0]
        return model.languages.target.decode(first[:SHOWN].tolist())
    texts = [source for source, _ in task.texts("validation")]
    return sorted(texts, key=len)[len(texts) // 2]
