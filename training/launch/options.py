"""From the options of `course train` to everything that a run depends on."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from training.checkpoints import read_weights
from training.cores import under_torchrun
from training.data.corpora import LANGUAGES
from training.errors import Refused
from training.loop.run_folder import Run
from training.models.architectures import is_quantized
from training.models.parts import PartsProvider
from training.settings import (
    OF_THE_PRETRAINED,
    Settings,
    config_of,
    load,
    named,
    parse_changes,
    refuse_useless,
)


@dataclass(frozen=True)
class RunRequest:
    """A requested run: its settings, its folder, and whether it is resumed."""

    settings: Settings
    folder: Path
    resumed: bool = False
    epochs: int | None = None
    device: str = "auto"
    provider: PartsProvider | None = None
    """Turns a learner's files into parts."""
    began: Path | None = None
    """The file to which the main process writes its id once it can be interrupted."""


def request_from(
    task: str,
    changes: list[str],
    shortcuts: dict[str, Any],
    *,
    config: Path | None,
    resume: Path | None,
    out: Path | None,
    epochs: int | None,
    device: str,
    data_dir: Path | None,
    provider: PartsProvider,
) -> RunRequest:
    """Return everything that a run depends on, new or resumed.

    Args:
        task: what the model learns, or a file of settings that says it.
        changes: settings in the form of `--set`.
        shortcuts: settings with their own options; None if omitted.
        config, resume, out, epochs, device, data_dir: options.
        provider: turns a learner's files into parts.

    Raises:
        Refused: a task, file or setting is unknown, not allowed, or incompatible with another.
    """
    if Path(task).suffix in (".yaml", ".yml"):
        if config or resume:
            raise Refused(f"{task} is a file of settings: --config and --resume need a TASK")
        config = Path(task)
        task = load(config).task
    chosen = parse_changes(changes)
    chosen |= {key: value for key, value in shortcuts.items() if value is not None}
    if shortcuts["steps"] is not None and epochs is not None:
        raise Refused("--steps and --epochs cannot be combined: use one")
    if resume is None:
        settings = _chosen(task, config, chosen)
    elif config or out or epochs or set(chosen) - {"steps"}:
        raise Refused("A resumed run keeps its settings: only --steps may change")
    else:
        settings = _kept(task, resume).replace(chosen)
        done = Run(resume).facts().get("progress", {"step": 0})["step"]
        if settings.steps < done:
            raise Refused(
                f"{resume} has done {done} steps: --steps must be at least {done}, got {settings.steps}"
            )
    return RunRequest(
        settings.replace({"data_dir": str(data_dir.resolve())}) if data_dir else settings,
        resume or out or _default_folder(task),
        resumed=resume is not None,
        epochs=epochs,
        device=device,
        provider=provider,
    )


def _chosen(task: str, config: Path | None, changes: dict[str, Any]) -> Settings:
    """Return the task's config with changes, and with absolute paths."""
    refuse_useless(task, changes)
    shipped = config_of(task, changes.get("data"), bool(changes.get("pretrained")))
    settings = load(config or shipped)
    if config is not None and settings.task != task:
        raise Refused(f"{config} must be for task {task!r}, got task {settings.task!r}")
    settings = settings.replace({"task": task, **changes})
    if settings.pretrained and (theirs := sorted(OF_THE_PRETRAINED & set(changes))):
        raise Refused(f"{theirs[0]} is determined by the model in --from, and cannot be set")
    if (
        task == "translation"
        and settings.data not in LANGUAGES
        and {"source", "target"} & set(changes)
    ):
        raise Refused(
            "source and target are for corpora only: a file's pairs are read from left to right"
        )
    if settings.data and Path(settings.data).is_file() and settings.data not in LANGUAGES:
        settings = settings.replace({"data": str(Path(settings.data).resolve())})
    if settings.pretrained and Path(settings.pretrained).exists():
        settings = settings.replace({"pretrained": str(Path(settings.pretrained).resolve())})
    if settings.answers:
        settings = settings.replace({"answers": str(Path(settings.answers).resolve())})
    return _without_the_kernel(settings, changes.get("fused", "fused" in named(config or shipped)))


def _without_the_kernel(settings: Settings, asked_for: bool) -> Settings:
    """Turn `fused` off where a learner's own parts compute: PyTorch's kernels would replace them.

    Raises:
        Refused: `fused=true` was requested with a learner's own parts.
    """
    if not settings.answers:
        return settings
    if asked_for and settings.fused:
        raise Refused("fused=true would not call your own attention: --set fused=false")
    return settings.replace({"fused": False})


def _kept(task: str, folder: Path) -> Settings:
    """Return the settings of an existing run."""
    run = Run.found(folder)
    settings = run.settings()
    if run.best.exists() and is_quantized(read_weights(run.best)):
        raise Refused(
            f"{folder} contains quantized weights, which cannot be trained: resume the run that they "
            "come from"
        )
    if settings.task != task:
        right = shlex.join(["course", "train", settings.task, "--resume", str(folder)])
        raise Refused(f"{folder} is a run of {settings.task!r}: {right}")
    return settings


def _default_folder(task: str) -> Path:
    """Return `runs/<task>-<time>`, the same in all processes of one launcher."""
    began = time.time()
    if under_torchrun():
        began = psutil.Process(os.getppid()).create_time()
    return Path("runs") / f"{task}-{datetime.fromtimestamp(began):%Y%m%d-%H%M%S}"
