"""Train a reasoner, or improve a reasoner by reinforcement learning; show the progress, and what it can
do."""

from __future__ import annotations

import importlib
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from training.devices import ProcessContext
from training.errors import Refused
from training.generation.chat_templates import Message
from training.generation.generate import Sampling
from training.loop.signals import StopSignal
from training.models.parts import Parts, needed
from training.program import INTERRUPTED, Program
from training.reasoning import reasoner
from training.reasoning.parts import parts_from
from training.reasoning.reasoner import Reasoner, Recipe, Stage
from training.settings import parse_changes

LINE_SECONDS = 10.0  # between two lines, where there is no terminal
WORDS = {
    "pretraining": "1 of 3 · Pretraining: sums, written out",
    "tuning": "2 of 3 · Instruction tuning: questions and answers",
    "reinforcement": "3 of 3 · Reinforcement learning: its own answers, and a program that checks them",
}


def assemble(program: Program, folder: Path | None, answers: Path, seed: int) -> int:
    """Train a reasoner that consists of a learner's parts.

    Returns:
        The exit status.
    """
    folder = folder or _dated("reasoner")
    recipe = Recipe(seed=seed)
    reasoner.begin(folder, recipe, str(answers))
    with _removed_on_failure(folder):
        needed(program.provider).keep(answers, folder / reasoner.ANSWERS)
        return run(program, folder)


def improve(
    program: Program,
    source: Path,
    changes: Sequence[str],
    shortcuts: dict[str, Any],
    out: Path | None,
) -> int:
    """Begin a run of reinforcement learning from the instruction-tuned model of a different run.

    Args:
        changes: settings of `Recipe` in the form of `--set`.
        shortcuts: settings with their own options; None if omitted.

    Raises:
        Refused: `source` is not a run of a reasoner, or a setting is unknown, not allowed, or
            belongs to a different stage.
    """
    recipe, answers = reasoner.recipe_of(source)
    chosen = parse_changes(changes, type(recipe))
    if theirs := sorted(set(reasoner.OF_EARLIER_STAGES) & set(chosen)):
        raise Refused(f"{theirs[0]} is determined by the run in --from, and cannot be set")
    chosen |= {key: value for key, value in shortcuts.items() if value is not None}
    folder = out or _dated("grpo")
    reasoner.begin(folder, replace(recipe, **chosen), answers)
    with _removed_on_failure(folder):
        if answers:
            shutil.copytree(source / reasoner.ANSWERS, folder / reasoner.ANSWERS)
        return run(program, folder, source)


@contextmanager
def _removed_on_failure(folder: Path) -> Iterator[None]:
    """Remove a new run that fails before anything of it was saved, so that it is not in the way."""
    try:
        yield
    except (Refused, OSError, KeyboardInterrupt) as error:
        if not (folder / reasoner.STATE).exists():
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise Refused(f"{folder} cannot be written: {error.strerror or error}") from error
        raise


def _dated(name: str) -> Path:
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def run(program: Program, folder: Path, source: Path | None = None) -> int:
    """Begin or resume a run, and print what the model can do after each stage.

    Args:
        source: the run whose instruction-tuned model is the start of a new run.

    Returns:
        The exit status: 0 at the end, 130 if the run was stopped.
    """
    console = program.console()
    began = time.perf_counter()
    loaded, parts = load(program, folder)
    console.print(Text.assemble(("run  ", "quiet"), str(folder)), soft_wrap=True)
    for words in parts.lines():
        console.print(Text(words), soft_wrap=True)
    with parts.attribute_errors():
        loaded.resume()
        if source is not None:
            loaded.begin_from(source)
        stop = StopSignal(ProcessContext(torch.device("cpu")))
        with stop.handle_signals(), _showing(console) as show:
            for stage, value in loaded.train():
                show(loaded, stage, value)
                if stop.signaled and loaded.progress.stage < len(loaded.stages):
                    loaded.save()
                    return _stopped(console, loaded)
    took = timedelta(seconds=round(time.perf_counter() - began))
    talk = shlex.join(["course", "chat", str(folder)])
    console.print(Text(f"{took} in total. To ask it yourself: {talk}", "quiet"), soft_wrap=True)
    return 0


def load(program: Program, folder: Path) -> tuple[Reasoner, Parts]:
    """Build a run's model from its parts, with initial weights.

    Raises:
        Refused: the folder does not contain a run of a reasoner, or its parts do not form a model.
    """
    recipe, answers = reasoner.recipe_of(folder)
    stored = folder / reasoner.ANSWERS
    parts = needed(program.provider).reasoner(answers, stored) if answers else Parts(_reference())
    with parts.attribute_errors("do not make a model:"):
        return Reasoner(recipe, parts.module, folder), parts


class Speaker:
    """A reasoner in a conversation: a `TextGenerator` that treats each message as a separate question."""

    def __init__(self, loaded: Reasoner, parts: Parts):
        self._loaded, self._parts = loaded, parts

    def generate(self, prompt: str, tokens: int, sampling: Sampling) -> Iterator[str]:
        """Yield the answer to a question, in one piece."""
        how = {"top_k": sampling.top_k, "top_p": sampling.top_p}
        generator = torch.Generator().manual_seed(sampling.seed)
        question = f"{''.join(prompt.split()).rstrip('?')}?"
        with self._parts.attribute_errors():
            yield self._loaded.reply(question, sampling.temperature, generator=generator, **how)

    def reply(self, messages: Sequence[Message], tokens: int, sampling: Sampling) -> Iterator[str]:
        """Yield the answer to the last message."""
        return self.generate(messages[-1]["content"], tokens, sampling)


def speaker(program: Program, folder: Path) -> Speaker:
    """Load a run for a conversation.

    Raises:
        Refused: the folder does not contain a run of a reasoner, or has no checkpoint.
    """
    loaded, parts = load(program, folder)
    if not loaded.resume():
        raise Refused(f"{folder} has no checkpoint yet: `course train grpo --resume {folder}`")
    return Speaker(loaded, parts)


def _reference() -> ModuleType:
    """The reference's parts."""
    return parts_from(importlib.import_module)


def _stopped(console: Console, loaded: Reasoner) -> int:
    is_full = loaded.progress.stage < 2 or "pretraining" in loaded.progress.shares
    command = ["assemble", "reasoner"] if is_full else ["train", "grpo"]
    again = shlex.join(["course", *command, "--resume", str(loaded.folder)])
    console.print(Text(f"Stopped; the last step is saved. To resume: {again}"), soft_wrap=True)
    return INTERRUPTED


@contextmanager
def _showing(console: Console) -> Iterator[Callable[[Reasoner, Stage, float], None]]:
    """A bar for each stage, or plain lines where there is no terminal; what the model can do after each."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        tasks: dict[str, TaskID] = {}
        printed = 0.0

        def show(loaded: Reasoner, stage: Stage, value: float) -> None:
            nonlocal printed
            done = loaded.progress.step or stage.steps
            unit = "reward" if stage.name == "reinforcement" else "loss"
            words = f"{stage.name}, {unit} {value:.2f}"
            if stage.name not in tasks:
                console.print(Text(WORDS[stage.name], "bold"), soft_wrap=True)
                tasks[stage.name] = bar.add_task(words, total=stage.steps)
            bar.update(tasks[stage.name], completed=done, description=words)
            now = time.monotonic()
            if not console.is_terminal and (done == stage.steps or now - printed >= LINE_SECONDS):
                printed = now
                console.print(f"step {done} of {stage.steps}: {unit} {value:.2f}")
            if stage.name in loaded.progress.shares:
                bar.remove_task(tasks[stage.name])
                _report(console, loaded, stage)

        yield show


def _report(console: Console, loaded: Reasoner, stage: Stage) -> None:
    """The share of right answers after a stage, and an example."""
    questions = loaded.prompts()
    a, b = next(iter(questions))
    sampled, best = loaded.progress.shares[stage.name]
    words = f"{sampled:.0%} of its answers to {len(questions)} new questions are right"
    words += f", {best:.0%} at temperature 0"
    console.print(Text(words, "passed"), soft_wrap=True)
    if stage.name == "pretraining":
        sampled, best = loaded.shares_right(loaded.prompts(plain=True))
        words = f"{sampled:.0%} and {best:.0%} where the text begins as those of pretraining do"
        console.print(Text(words, "quiet"), soft_wrap=True)
    example = loaded.reply(f"{a}+{b}?", 0.0).replace("\n", "  →  ")
    console.print(Text(f"  {a}+{b}?  {example}\n", "quiet"), soft_wrap=True)
