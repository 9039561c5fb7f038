"""A training loop for `torchrun`, in float64, where processes differ by nothing but rounding.

python -m tests.training.in_processes CASES, where CASES is JSON of folders and the settings changed in each:
{"FOLDER": ["key=value", …], …}. Trains one case after another, for the processes cost more than the training.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from tests.training.conftest import small
from training import devices
from training.checkpoints import write_weights
from training.data import tasks
from training.devices import ProcessContext
from training.loop.run_folder import Run
from training.loop.training_loop import Trainer, Window
from training.settings import Settings, parse_changes


def main(cases: dict[str, list[str]]) -> None:
    torch.set_default_dtype(torch.float64)
    with devices.process_context("cpu") as context:
        for folder, changes in cases.items():
            trained(Path(folder), changes, context)


def trained(folder: Path, changes: Sequence[str], context: ProcessContext) -> None:
    """Train a case; write the losses of its steps to FOLDER/losses.json, its weights to FOLDER/weights."""
    changed = parse_changes(changes)
    task = "text" if "model" in changed else "copy"
    settings = small(task, dropout=0.0, steps=50, batch=7).replace(changed)
    run = Run(folder)
    if context.is_main and not run.config.exists():
        Run.begin(folder, settings)
    context.barrier()
    train(settings, run, context)


def train(settings: Settings, run: Run, context: ProcessContext) -> None:
    trainer = Trainer(settings, tasks.load(settings, Console(quiet=True)), run, context)
    losses = []
    for group in trainer.groups():
        window = Window()
        trainer.step(group, window)
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
    main(json.loads(sys.argv[1]))
