"""Run `course train`, here or in many processes, and print how it ended and what to do next."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text

from training.cores import under_torchrun
from training.devices import ProcessContext
from training.errors import AlreadyReported, Refused
from training.inference.evaluation import as_table
from training.launch import pipeline
from training.launch.options import RunRequest
from training.launch.pipeline import EvaluationInterrupted
from training.launch.torchrun import launch
from training.loop.checkpointer import Unsaved
from training.loop.run_folder import Run
from training.loop.training_loop import Diverged, Interrupted
from training.program import INTERRUPTED, REFUSED, Program, follows

OUTCOME = "COURSE_OUTCOME"
"""The variable with the file to which the processes of a run write how it ended; beside it, `began` says that
they train."""


def run(program: Program, request: RunRequest, devices: int | None) -> int:
    """Train.

    Args:
        program: started again in each of several processes.
        devices: the number of processes; None means one per GPU.

    Returns:
        The exit status.

    Raises:
        Refused: the request cannot be carried out.
        KeyboardInterrupt: Ctrl-C before training.
    """
    console = program.console(quiet=follows())
    processes = devices or _gpus(request.device)
    if processes > 1 and not under_torchrun():
        return _launch(program.module, request, processes, devices, console)
    if OUTCOME in os.environ:
        return _launched(program, request, devices, console)
    return _train(request, devices, console)


def _gpus(device: str) -> int:
    """Return the number of GPUs, unless a different device was requested."""
    return max(1, torch.cuda.device_count()) if device in ("auto", "cuda") else 1


def _launch(
    module: str, request: RunRequest, processes: int, devices: int | None, console: Console
) -> int:
    """Train in many processes. All refusals happen before they start."""
    context = ProcessContext(torch.device("cpu"))
    with tempfile.TemporaryDirectory() as folder, pipeline.beginning(request, context) as run:
        pipeline.prepare(run, request, context, console)
        outcome = Path(folder) / "outcome"
        arguments = _again(request, devices)[1:]
        environment = {OUTCOME: str(outcome)}
        try:
            status = launch(module, arguments, processes, environment, _began(outcome))
        except KeyboardInterrupt:
            return _stopped_at_once(request, devices, console)
        status = int(outcome.read_text()) if outcome.exists() else status
        if status == REFUSED:
            raise AlreadyReported
        return status


def _launched(program: Program, request: RunRequest, devices: int | None, console: Console) -> int:
    """Train as one of the processes that `_launch` started.

    Returns:
        The exit status; 0 also for errors that a restart would not fix.
    """
    outcome = Path(os.environ[OUTCOME])
    if outcome.exists():
        return 0  # another process has ended the run, and `torchrun` has restarted all of them
    try:
        status = _train(replace(request, began=_began(outcome)), devices, console)
    except Refused as error:
        # Written by the first process that gets here: not every process sees the error.
        with suppress(FileExistsError), outcome.open("x") as file:
            file.write(str(REFUSED))
            program.refuse(error)
    else:
        outcome.write_text(str(status))
    return 0


def _began(outcome: Path) -> Path:
    return outcome.with_name("began")


def _train(request: RunRequest, devices: int | None, console: Console) -> int:
    """Train in this process.

    Returns:
        The exit status.
    """
    again = shlex.join(_again(request, devices))
    began = time.perf_counter()
    console.print(Text.assemble(("run  ", "quiet"), str(request.folder)), soft_wrap=True)
    try:
        evaluation = pipeline.train(request, console)
    except Interrupted as stop:
        console.print(Text(f"{stop} To resume: {again}"), soft_wrap=True)
        return INTERRUPTED
    except EvaluationInterrupted:
        measure = shlex.join(["course", "evaluate", str(request.folder), *_where(request)])
        words = f"Training is complete; the evaluation was interrupted. To evaluate: {measure}"
        console.print(Text(words), soft_wrap=True)
        return INTERRUPTED
    except KeyboardInterrupt:
        return _stopped_at_once(request, devices, console)
    except Diverged as error:
        console.print(Text(_diverged(error, request), "failed"), soft_wrap=True)
        return 1
    except Unsaved as error:
        how = "resume" if Run(request.folder).trained else "start again"
        console.print(Text(f"{error}. Make room, and {how}: {again}", "failed"), soft_wrap=True)
        return 1
    if evaluation is not None:
        console.print(as_table(evaluation))
        took = timedelta(seconds=round(time.perf_counter() - began))
        console.print(Text(f"{took} in total. Everything is in {request.folder}", "quiet"))
    return 0


def _stopped_at_once(request: RunRequest, devices: int | None, console: Console) -> int:
    again = shlex.join(_again(request, devices))
    words = f"Stopped at once: the steps after the last checkpoint are lost. To resume: {again}"
    if not Run(request.folder).trained:
        words = "Stopped before the first checkpoint: there is nothing to resume."
    console.print(Text(words), soft_wrap=True)
    return INTERRUPTED


def _diverged(error: Diverged, request: RunRequest) -> str:
    """Say what happened, what was saved, and what may help."""
    state = (
        "The last good checkpoint is kept"
        if Run(request.folder).trained
        else "Nothing was saved yet"
    )
    lower = f"--set factor={request.settings.factor / 2:g}"
    clip = "" if request.settings.clip else ", or with --set clip=1"
    return (
        f"{error}. {state}. A run keeps its settings, so start a new one with a lower learning rate, "
        f"such as {lower}{clip}"
    )


def _again(request: RunRequest, devices: int | None) -> list[str]:
    """Return the command that resumes a run on the same devices."""
    words = ["course", "train", request.settings.task, "--resume", str(request.folder)]
    return [*words, *(["--devices", str(devices)] if devices else []), *_where(request)]


def _where(request: RunRequest) -> list[str]:
    return [] if request.device == "auto" else ["--device", request.device]
