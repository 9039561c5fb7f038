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
from training import devices
from training.checkpoints import write_weights
from training.data import tasks
from training.devices import ProcessContext
from training.loop.run_folder import Run
from training.loop.trainer import Trainer, Window
from training.settings import Settings, parse_changes

torch.set_default_dtype(torch.float64)


def main(folder: Path, *changes: str) -> None:
    changed = parse_changes(changes)
    task = "text" if "model" in changed else "copy"
    settings = small(task, dropout=0.0, steps=50, batch=7).but(changed)
    with devices.process_context("cpu") as context:
        run = Run(folder)
        if context.is_main and not run.config.exists():
            Run.begin(folder, settings)
        context.barrier()
        train(settings, run, context)


def train(settings: Settings, run: Run, context: ProcessContext) -> None:
    trainer = Trainer(settings, tasks.load(settings, Console(quiet=True)), run, context)
    losses = []
    for group in trainer._groups():
        window = Window()
        trainer._step(group, window)
        trainer.progress.step += 1
        losses.append(trainer._watch(window))
        if trainer.progress.step % 10 == 0:
            trainer.checkpointer.save(trainer.progress, None)
        if "DIE" in os.environ and trainer.progress.step == 23:
            die_once(run.folder / "died", context)
    weights, validated = trainer.optimizer.weights(), trainer.validate()
    if context.is_main:
        write_weights(run.folder / "weights", weights)
        (run.folder / "losses.json").write_text(json.dumps([*losses, validated]))


def die_once(mark: Path, context: ProcessContext) -> None:
    """The second process ends as if somebody had pulled the plug."""
    died = mark.exists()
    context.barrier()
    if context.rank == 1 and not died:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
