"""A training loop for `torchrun`, in float64, where processes differ by nothing but rounding.

python in_processes.py FOLDER [key=value …]: writes the losses of 50 steps to FOLDER/losses.json, and the
weights to FOLDER/weights.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from rich.console import Console

from tests.training.conftest import small
from training import devices, tasks
from training.checkpoints import write_weights
from training.devices import Place
from training.run import Run
from training.settings import Settings, parse_changes
from training.trainer import Trainer, Window

torch.set_default_dtype(torch.float64)


def main(folder: Path, *changes: str) -> None:
    changed = parse_changes(changes)
    task = "text" if "model" in changed else "copy"
    settings = small(task, dropout=0.0, steps=50, batch=7).but(changed)
    with devices.taken("cpu") as place:
        run = Run(folder)
        if place.leads and not run.config.exists():
            Run.begin(folder, settings)
        place.wait()
        train(settings, run, place)


def train(settings: Settings, run: Run, place: Place) -> None:
    trainer = Trainer(settings, tasks.load(settings, Console(quiet=True)), run, place)
    losses = []
    for group in trainer._groups():
        window = Window()
        trainer._step(group, window)
        trainer.progress.step += 1
        losses.append(trainer._watch(window))
        if trainer.progress.step % 10 == 0:
            trainer.keeper.save(trainer.progress, None)
        if "DIE" in os.environ and trainer.progress.step == 23:
            die_once(run.folder / "died", place)
    weights, validated = trainer.optimiser.weights(), trainer.validate()
    if place.leads:
        write_weights(run.folder / "weights", weights)
        (run.folder / "losses.json").write_text(json.dumps([*losses, validated]))


def die_once(mark: Path, place: Place) -> None:
    """The second process ends as if somebody had pulled the plug."""
    died = mark.exists()
    place.wait()
    if place.rank == 1 and not died:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
