"""What somebody wants trained, and where: from the options of `train` to all that a run depends on."""

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
from training.data.corpora import LANGUAGES
from training.devices import under_torchrun
from training.errors import Refused
from training.models.architectures import in_bytes
from training.models.parts import PartsProvider
from training.loop.run_folder import Run
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
    """What somebody wants trained, and where."""

    settings: Settings
    folder: Path
    resumed: bool = False
    epochs: int | None = None
    device: str = "auto"
    workshop: PartsProvider | None = None
    """Who makes parts of a learner's files."""
    began: Path | None = None
    """Where the process that leads says by its id that it trains, and can be interrupted."""


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
    workshop: PartsProvider,
) -> RunRequest:
    """All that a run depends on, new or resumed.

    Args:
        task: what is to be learnt.
        changes: of the settings, as `--set` takes them.
        shortcuts: settings that have options of their own; None where they were left out.
        config, resume, out, epochs, device, data_dir: options.
        workshop: who makes parts of a learner's files.

    Raises:
        Refused: what there is not, is not allowed, or does not go together.
    """
    wanted = parse_changes(changes)
    wanted |= {key: value for key, value in shortcuts.items() if value is not None}
    if shortcuts["steps"] is not None and epochs is not None:
        raise Refused("--steps and --epochs are two ways to say the same: use one")
    if resume is None:
        settings = _chosen(task, config, wanted)
    elif config or out or epochs or set(wanted) - {"steps"}:
        raise Refused("A run that is resumed keeps its settings: only --steps may be new")
    else:
        settings = _kept(task, resume).but(wanted)
    return RunRequest(
        settings.but({"data_dir": str(data_dir.resolve())}) if data_dir else settings,
        resume or out or _default_folder(task),
        resumed=resume is not None,
        epochs=epochs,
        device=device,
        workshop=workshop,
    )


def _chosen(task: str, config: Path | None, changes: dict[str, Any]) -> Settings:
    """The settings of a config that is for this task, changed; files and folders by their full names."""
    refuse_useless(task, changes)
    shipped = config_of(task, changes.get("data"), bool(changes.get("pretrained")))
    found = load(config or shipped)
    if config is not None and found.task != task:
        raise Refused(f"{config} is for the task {found.task!r}, not {task!r}")
    found = found.but({"task": task, **changes})
    if found.pretrained and (theirs := sorted(OF_THE_PRETRAINED & set(changes))):
        raise Refused(f"{theirs[0]} is that of the model in --from, and cannot be set")
    if (
        task == "translation"
        and found.data not in LANGUAGES
        and {"source", "target"} & set(changes)
    ):
        raise Refused(
            "source and target are for corpora: a file's pairs are read from left to right"
        )
    if found.data and Path(found.data).is_file() and found.data not in LANGUAGES:
        found = found.but({"data": str(Path(found.data).resolve())})
    if found.pretrained and Path(found.pretrained).exists():
        found = found.but({"pretrained": str(Path(found.pretrained).resolve())})
    if found.answers:
        found = found.but({"answers": str(Path(found.answers).resolve())})
    return _without_the_kernel(found, changes.get("fused", "fused" in named(config or shipped)))


def _without_the_kernel(found: Settings, asked_for: bool) -> Settings:
    """The settings with `fused` false where a learner's own parts compute: torch's kernels would stand in.

    Raises:
        Refused: it was request_from for there.
    """
    if not found.answers:
        return found
    if asked_for and found.fused:
        raise Refused("fused never calls the attention of your parts: --set fused=false")
    return found.but({"fused": False})


def _kept(task: str, folder: Path) -> Settings:
    """The settings of a run that was begun."""
    run = Run.found(folder)
    found = run.settings()
    if run.best.exists() and in_bytes(read_weights(run.best)):
        raise Refused(
            f"The weights in {folder} are a byte each, to be used: the run that they come from goes on"
        )
    if found.task != task:
        right = shlex.join(["course", "train", found.task, "--resume", str(folder)])
        raise Refused(f"{folder} is a run of {found.task!r}: {right}")
    return found


def _default_folder(task: str) -> Path:
    """`runs/<task>-<time>`: the same in all processes that one launcher has started, and restarted."""
    began = time.time()
    if under_torchrun():
        began = psutil.Process(os.getppid()).create_time()
    return Path("runs") / f"{task}-{datetime.fromtimestamp(began):%Y%m%d-%H%M%S}"
