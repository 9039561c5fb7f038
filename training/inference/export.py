"""Export a trained model: with int8 weights, as ONNX, or as a folder for `transformers`.

The commands also measure what the export changes: bytes, the loss on the entire held-out split, and
time.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from rich.table import Table
from rich.text import Text

from training.checkpoints import write_weights
from training.data import tasks
from training.data.tasks import Task
from training.errors import Refused
from training.generation.generate import Sampling
from training.inference import hugging_face_folder
from training.inference.evaluation import held_out_loss
from training.inference.trained_model import TrainedModel
from training.loop.run_folder import Run
from training.models import onnx_models
from training.models.architectures import is_quantized, state_of
from training.program import Program
from training.progress import waiting
from variants.shipping import quantize_model

ROUNDS = 5  # of both models in turn, of which the median counts
TOKENS, ANSWERS = 64, 16  # of a round: what a language model adds, or what another answers
LIKELIEST = Sampling(temperature=0)


def quantize(
    program: Program, run: Path, out: Path | None, device: str, data_dir: Path | None
) -> Path:
    """Write a run of the same model with int8 weights, and print what that changes.

    Args:
        out: the new folder, which must not exist; RUN-int8 if omitted.
        device: the device for the measurement.
        data_dir: the folder with the data, if they are no longer where training found them.

    Returns:
        The folder.

    Raises:
        Refused: there is no model, its weights are already int8, the folder is not empty, or the
            data are not available.
    """
    model = _loaded(program, run, device)
    if is_quantized(state_of(model.model)):
        raise Refused(f"The weights in {run} are a byte each already")
    task = _task(program, model, data_dir)
    small = TrainedModel(
        model.settings,
        model.languages,
        quantize_model(model.model),
        model.device,
        model.parts,
        model.base,
    )
    quantized = _keep(program, small, Run(run), out or run.with_name(f"{run.name}-int8"))
    _compare(program, task, {"float32": model, "int8": small}, (Run(run).weights, quantized.best))
    program.console().print(Text(f"Everything is in {quantized.folder}", "quiet"), soft_wrap=True)
    return quantized.folder


def export(program: Program, run: Path, file: Path, data_dir: Path | None) -> None:
    """Write a language model as ONNX, and print a comparison with the model in ONNX Runtime.

    Args:
        file: ends in .onnx; an existing file is replaced.
        data_dir: the folder with the data, if they are no longer where training found them.

    Raises:
        Refused: this is not a language model, a learner's part cannot be exported, the file cannot
            be written, the data are not available, or packages are missing.
    """
    if file.suffix.lower() != onnx_models.ENDING:
        raise Refused(f"{file} must end in {onnx_models.ENDING}")
    model = _loaded(program, run, "cpu")
    task = _task(program, model, data_dir)
    with waiting(program.console(), f"Writing {file}"):
        onnx_models.write(file, model.model, model.settings, model.languages, model.parts)
    models = {"PyTorch": model, "ONNX Runtime": TrainedModel.load(file)}
    _compare(program, task, models, (Run(run).weights, file))
    program.console().print(Text(f"Everything is in {file}", "quiet"), soft_wrap=True)


def export_folder(program: Program, run: Path, folder: Path) -> None:
    """Write a GPT or a LLaMA as a folder that `transformers` loads.

    Raises:
        Refused: the model is of a different kind, or the folder is not empty or cannot be written.
    """
    hugging_face_folder.write(folder, _loaded(program, run, "cpu"))
    program.console().print(Text(f"Everything is in {folder}", "quiet"), soft_wrap=True)


def _loaded(program: Program, run: Path, device: str) -> TrainedModel:
    Run.found(run)  # a file of ONNX is a model too, and no run
    return TrainedModel.load(run, device, program.provider)


def _task(program: Program, model: TrainedModel, data_dir: Path | None) -> Task:
    """Whose held-out split tells what was lost."""
    changes = {"data_dir": str(data_dir.resolve())} if data_dir else {}
    return tasks.load(model.settings.replace(changes), program.console(), model.languages)


def _keep(program: Program, model: TrainedModel, source: Run, folder: Path) -> Run:
    """A run of a model that was made from another's, with all that using it needs."""
    settings = model.settings
    if settings.answers:  # as they were trained, whatever has become of them since
        settings = settings.replace({"answers": str(source.answers)})
    new = not folder.exists()
    target = Run.begin(folder, settings, program.provider)
    try:
        target.keep(model.settings)
        target.keep_languages(model.languages)
        if model.base is not None:
            target.keep_base(model.base)
        write_weights(target.best, state_of(model.model))
    except OSError as error:
        target.forget(new)
        raise Refused(f"{folder} cannot be written: {error.strerror}") from error
    return target


# --- What it changes ------------------------------------------------------------------------------


def _compare(
    program: Program, task: Task, models: dict[str, TrainedModel], files: tuple[Path, Path]
) -> None:
    """Print two models beside each other, and what the second is to the first."""
    console, split = program.console(), task.splits[-1]
    with waiting(console, f"Measuring both on the {split} split") as tell:
        losses = [held_out_loss(model, task, split, tell)[0] for model in models.values()]
    with waiting(console, "Timing both in turn"):
        seconds = _times(task, list(models.values()))
    sizes = [file.stat().st_size for file in files]
    work = f"{TOKENS} tokens" if _of_language(task) else f"{ANSWERS} answers"
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_row("", *(Text(name, "quiet") for name in models))
    for what, figures, change in (
        ("bytes", [f"{size:,}" for size in sizes], f"× {sizes[1] / sizes[0]:.3f}"),
        (f"loss, {split}", [f"{loss:.4f}" for loss in losses], f"{losses[1] - losses[0]:+.4f}"),
        (work, [f"{value:.3f} s" for value in seconds], f"× {seconds[1] / seconds[0]:.2f}"),
    ):
        table.add_row(Text(what, "quiet"), *(Text(figure, "bold") for figure in figures), change)
    console.print(table)


def _of_language(task: Task) -> bool:
    """Whether it is a language model."""
    return task.languages.source is None


def _times(task: Task, models: list[TrainedModel]) -> list[float]:
    """For each the median of the seconds that some work takes it."""
    seconds: list[list[float]] = [[] for _ in models]
    for number in range(ROUNDS + 1):
        for model, its in zip(models, seconds, strict=True):
            began = time.perf_counter()
            _work(model, task)
            if number:  # the first is for what is done once
                its.append(time.perf_counter() - began)
    return [statistics.median(its) for its in seconds]


def _work(model: TrainedModel, task: Task) -> None:
    split = task.splits[-1]
    if _of_language(task):
        window = task.held_out(split)[0].target[0]
        prompt = model.languages.target.decode(window[: model.settings.context // 4 + 1].tolist())
        list(model.generate(prompt, TOKENS, LIKELIEST))
    else:
        model.translate([source for source, _ in task.texts(split)[:ANSWERS]], model.usual_beam)
