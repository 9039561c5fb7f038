"""The learner's own Transformer, trained in a worker and judged here.

This process shows the progress that the worker reports. It judges from the tokens that the worker
sends whether the model has learned to copy.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from course.assembly.answer_parts import files_of
from course.assembly.copy_task import HELD_OUT, CopyProgress, sequences
from course.checks.frames import raised_from
from course.checks.observation import Observation, Raised
from course.workers.limits import GIBBERISH
from course.workers.worker import Worker, WorkerStopped

PATIENCE = 60.0  # seconds between two signs of life


@dataclass
class Assembled:
    """The result of the training run."""

    own: list[str] = field(default_factory=list)
    """The learner's exercises that are in it."""
    filled: dict[str, list[str]] = field(default_factory=dict)
    """The exercises that the reference fills in, by the reason."""
    exact: float = 0.0
    """The share of held-out sequences that were copied without a mistake."""
    attention: list[Any] = field(default_factory=list)
    """For each layer of the decoder its attention to the source, `(h, T, S)`."""
    problem: Raised | None = None
    printed: str = ""


def assemble(answers: Path, report: Callable[[CopyProgress], None]) -> Assembled:
    """Assemble the answers in a folder, train the model, and judge it.

    Raises:
        WorkerStopped: the learner's code ended its process, or had to be stopped.
        NotStarted: the process did not start.
    """
    held_out = sequences(random.Random("held out"), HELD_OUT)
    worker = Worker("cpu", "course.assembly.copy_task")
    result = Assembled()
    try:
        worker.send({"assemble": files_of(answers), "held_out": held_out})
        while True:
            message, observation = worker.receive(PATIENCE)
            if "progress" in message:
                report(CopyProgress(**message["progress"]))
                continue
            result.own, result.filled = list(message["own"]), dict(message["filled"])
            if message.get("raised"):
                result.problem = raised_from(message["raised"])
            else:
                result.exact = _share_exact(observation, held_out)
                result.attention = [
                    leaf.value for path, leaf in observation.items() if "attention[" in path
                ]
            return result
    except (KeyError, TypeError, ValueError) as error:
        raise WorkerStopped(GIBBERISH) from error
    finally:
        worker.end()
        result.printed = worker.printed


def _share_exact(observation: Observation, expected: list[list[int]]) -> float:
    leaf = observation["copied"]
    copied, target = np.asarray(leaf.value), np.asarray(expected)
    return float((copied == target).all(axis=1).mean()) if copied.shape == target.shape else 0.0
