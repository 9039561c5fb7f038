"""Save a run's state and weights, and resume from them.

A full disk loses only the new checkpoint, never an old one, and does not end the run.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from training.checkpoints import (
    Damaged,
    TrainingState,
    previous,
    read_state,
    read_weights,
    write_state,
    write_weights,
)
from training.devices import ProcessContext
from training.errors import Refused
from training.loop.distributed import copy_into
from training.loop.monitor import Monitor
from training.loop.optimizer import RunOptimizer
from training.loop.run_folder import Run
from training.settings import Settings


class Unsaved(Exception):
    """The last checkpoint could not be written."""


@dataclass
class Progress:
    """The progress of a run, as its state records it."""

    step: int = 0
    seconds: float = 0.0
    best: float = math.inf
    since_best: int = 0
    snapshots: tuple[int, ...] = ()

    @property
    def as_facts(self) -> dict[str, Any]:
        facts = dict(vars(self))
        return facts | {"best": None if math.isinf(self.best) else self.best}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Progress:
        best = math.inf if facts["best"] is None else facts["best"]
        return cls(
            facts["step"], facts["seconds"], best, facts["since_best"], tuple(facts["snapshots"])
        )


class Checkpointer:
    """Save and resume a run. Every process must call its methods; the main process writes.

    Args:
        optimizer: its state is saved.
        data, parts, frozen: fingerprints of the training data, of the learner's parts, and of the frozen
            weights.
        finished: maps the trained weights to the ones to use.
    """

    def __init__(
        self,
        run: Run,
        settings: Settings,
        context: ProcessContext,
        optimizer: RunOptimizer,
        *,
        data: str,
        parts: str,
        frozen: str = "",
        finished: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda weights: weights,
    ):
        self.run, self.settings, self.context = run, settings, context
        self.optimizer = optimizer
        self.fingerprints = {"data": data, "parts": parts, "frozen": frozen}
        self.finished = finished
        self.unsaved: OSError | None = None
        self.notes: list[str] = []
        """Messages about the checkpoint that the run resumes from."""

    # --- The state --------------------------------------------------------------------------------

    def resume(self) -> Progress:
        """Load the last checkpoint, or the previous one if the last is damaged.

        Raises:
            Refused: the checkpoint belongs to a different run, or none can be read.
        """
        for path in (self.run.state, previous(self.run.state)):
            try:
                state = read_state(path)
            except FileNotFoundError:
                continue
            except (OSError, Damaged) as error:
                self.notes.append(f"{error}; using the previous checkpoint")
                continue
            self._refuse_another(state)
            self.optimizer.load_state_dict(state.tensors)
            self.optimizer.scaler.load_state_dict(state.facts["scaler"])
            return self._with_its_snapshots(Progress.of(state.facts["progress"]))
        if self.notes:
            raise Refused(f"{self.run.folder} contains no readable checkpoint: {self.notes[0]}")
        return Progress()

    def _with_its_snapshots(self, progress: Progress) -> Progress:
        """Drop snapshots whose files are missing from the average."""
        existing = [step for step in progress.snapshots if self.run.snapshot(step).exists()]
        for step in sorted(set(progress.snapshots) - set(existing)):
            self.notes.append(
                f"{self.run.snapshot(step).name} is missing, and is left out of the average"
            )
        progress.snapshots = tuple(existing)
        return progress

    def _refuse_another(self, state: TrainingState) -> None:
        if state.facts["data"] != self.fingerprints["data"]:
            raise Refused(
                f"{self.run.folder} was begun with different data: the data has changed since"
            )
        if state.facts.get("parts", "") != self.fingerprints["parts"]:
            raise Refused(f"{self.run.answers} has changed since the run was begun with it")
        if state.facts.get("frozen", "") != self.fingerprints["frozen"]:
            raise Refused(f"{self.settings.pretrained} has changed since the run was begun with it")

    def save(self, progress: Progress, monitor: Monitor | None) -> None:
        """Write the state. If that fails, the last one is kept, and the run continues."""
        settings = self.settings
        regular = progress.step % settings.save_every == 0 or progress.step == settings.steps
        if settings.average_last and regular:  # not where the run was interrupted
            weights = self.optimizer.weights()
            lost = self._writing(lambda: write_weights(self.run.snapshot(progress.step), weights))
            if lost is None:
                progress.snapshots = (*progress.snapshots, progress.step)[-settings.average_last :]
            elif monitor is not None:
                monitor.say(
                    f"The weights of step {progress.step} are left out of the average: they could not "
                    f"be saved: {lost.strerror}"
                )
        state = self._state(progress)
        before = self.unsaved
        self.unsaved = self._writing(lambda: write_state(self.run.state, state))
        if self.unsaved is not None and monitor is not None:
            monitor.say(
                f"Step {progress.step} could not be saved: {self.unsaved.strerror}. "
                f"{'The last checkpoint is kept, and the' if self.run.state.exists() else 'The'} "
                "run continues"
            )
        if self.unsaved is None:
            if before is not None and monitor is not None:
                monitor.say(f"Step {progress.step} is saved")
            self._forget(progress.snapshots)

    def _state(self, progress: Progress) -> TrainingState:
        facts = {
            "progress": progress.as_facts,
            "scaler": self.optimizer.scaler.state_dict(),
            **self.fingerprints,
        }
        return TrainingState(self.optimizer.state_dict(), facts)

    def _forget(self, steps: tuple[int, ...]) -> None:
        """Delete snapshots that no average needs."""
        if self.context.is_main:
            needed = {self.run.snapshot(step) for step in steps}
            for path in self.run.folder.glob("step-*.safetensors"):
                if path not in needed:
                    path.unlink(missing_ok=True)

    def refuse_unsaved(self) -> None:
        """Check that the last state was written.

        Raises:
            Unsaved: the last state could not be written.
        """
        if self.unsaved is not None:
            loss_note = "The steps after the last checkpoint are lost"
            raise Unsaved(
                f"{self.run.folder} cannot be written: {self.unsaved.strerror}. "
                f"{loss_note if self.run.state.exists() else 'There is no checkpoint'}"
            )

    # --- Weights to use ---------------------------------------------------------------------------

    def keep_best(self, progress: Progress, validated: float) -> None:
        """Write the weights if this validation is the best so far."""
        if validated < progress.best:
            weights = self.finished(self.optimizer.weights())
            failed = self._writing(lambda: write_weights(self.run.best, weights))
            progress.since_best = 0
            if failed is None:  # otherwise the file is still the best one available
                progress.best = validated
        else:
            progress.since_best += 1

    def keep_last(self) -> None:
        """Write the final weights.

        Raises:
            Unsaved: they, or the last state, could not be written.
        """
        weights = self.finished(self.optimizer.weights())
        failed = self._writing(lambda: write_weights(self.run.last, weights))
        self.unsaved = failed or self.unsaved
        self.refuse_unsaved()

    def take_mean(self, snapshots: tuple[int, ...]) -> None:
        """Average the weights of several steps (Vaswani et al. 2017, §6.1)."""
        some = [read_weights(self.run.snapshot(step)) for step in snapshots]
        for name, parameter in self.optimizer.parameters.items():
            copy_into(parameter, torch.stack([weights[name] for weights in some]).mean(dim=0))

    def _writing(self, write: Callable[[], None]) -> OSError | None:
        """Write in the main process while the others wait, and return the error in all of them."""
        failed: OSError | None = None
        if self.context.is_main:
            try:
                write()
            except OSError as error:
                failed = error
        (wrong,) = self.context.total(failed is not None and (failed.errno or errno.EIO))
        return OSError(int(wrong), os.strerror(int(wrong))) if wrong else None
