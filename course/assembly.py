"""`course assemble`: the learner's own Transformer, put together and trained on the copy task.

The parts run in a worker, as everything of a learner's does. What it says of its progress is shown;
whether it has learnt to copy is judged here, from the tokens that it sends.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from course.answers import Unreadable, begun, build_answer, find_answer, read_answer
from course.checks import raised
from course.curriculum import DAYS, Day
from course.definitions import build_module, reference
from course.observation import Observation, Raised, flatten, raised_from
from course.recorded import stub_of
from course.workers import GIBBERISH, Worker, WorkerStopped

REFERENCE = "implementation.py"
MODULE = "implementation"

# The copy task: say again what was said. Symbols 1 to 10, 0 is padding; 1 also starts every sequence.
VOCABULARY = 11
LENGTH = 10
START = 1
HELD_OUT = 1000

BATCH = 80
BATCHES = 20  # between two looks at what it can do
MOST_ROUNDS = 30
MODEL = {"n": 2, "d_model": 64, "d_ff": 256, "h": 4, "dropout": 0.0}
SMOOTHING = 0.1
# The paper's schedule, at half its height, and falling to 0: without the fall what has been learnt
# is lost again now and then.
FACTOR = 0.5
WARMUP = 150

PATIENCE = 60.0  # seconds between two signs of life

# Why the reference stands in for a part without anything being wrong.
NO_FILE, NOT_BEGUN, IMPORTED = "no file", "not begun", "imported from it"
NOTHING_WRONG = (NO_FILE, NOT_BEGUN, IMPORTED)

Send = Callable[..., None]


@dataclass
class Progress:
    """How far the training is."""

    step: int
    most_steps: int
    loss: float
    exact: float


@dataclass
class Assembled:
    """What came of it."""

    own: list[str] = field(default_factory=list)
    """The learner's exercises that are in it."""
    filled: dict[str, list[str]] = field(default_factory=dict)
    """Those that the reference stands in for, by the reason."""
    exact: float = 0.0
    """The share of held-out sequences that were copied without a mistake."""
    attention: list[Any] = field(default_factory=list)
    """For each layer of the decoder its attention to the source, `(h, T, S)`."""
    problem: Raised | None = None
    printed: str = ""


def part_days() -> list[Day]:
    """The days whose exercises are parts of the paper's Transformer."""
    return [day for day in DAYS if REFERENCE in day.references]


def assemble(answers: Path, report: Callable[[Progress], None]) -> Assembled:
    """Put the answers in a folder together, train, and judge.

    Raises:
        WorkerStopped: the learner's code ended its process, or had to be ended.
        NotStarted: the process did not start.
    """
    held_out = _sequences(random.Random("held out"), HELD_OUT)
    worker = Worker(torch_on="cpu")
    result = Assembled()
    try:
        worker.ask({"assemble": files_of(answers), "held_out": held_out})
        while True:
            message, seen = worker.hear(PATIENCE)
            if "progress" in message:
                report(Progress(**message["progress"]))
                continue
            result.own, result.filled = list(message["own"]), dict(message["filled"])
            if message.get("raised"):
                result.problem = raised_from(message["raised"])
            else:
                result.exact = _share_exact(seen, held_out)
                result.attention = [
                    leaf.value for path, leaf in seen.items() if "attention[" in path
                ]
            return result
    except (KeyError, TypeError, ValueError) as error:
        raise WorkerStopped(GIBBERISH) from error
    finally:
        worker.end()
        result.printed = worker.printed


def files_of(answers: Path) -> dict[str, str]:
    """For each day of which there is a file: where it lies."""
    found = {day.stem: find_answer(day, answers) for day in part_days()}
    return {stem: str(path) for stem, path in found.items() if path is not None}


def _sequences(source: random.Random, count: int) -> list[list[int]]:
    """Sequences that begin with the start symbol."""
    return [[START, *source.choices(range(1, VOCABULARY), k=LENGTH - 1)] for _ in range(count)]


def _share_exact(seen: Observation, wanted: list[list[int]]) -> float:
    leaf = seen["copied"]
    copied, target = np.asarray(leaf.value), np.asarray(wanted)
    return float((copied == target).all(axis=1).mean()) if copied.shape == target.shape else 0.0


# --- In the worker --------------------------------------------------------------------------------


def serve(request: dict[str, Any], send: Send) -> None:
    """Assemble and train; send how it goes, and at the end what it can do."""
    parts, own, filled = put_together(
        {stem: Path(path) for stem, path in request["assemble"].items()}
    )
    outcome: dict[str, Any] = {"own": own, "filled": filled}
    try:
        seen = train(parts, request["held_out"], send)
    except (Exception, SystemExit) as error:
        files = set(request["assemble"].values())
        send(outcome | {"raised": _told(error, files)})
    else:
        send(outcome, flatten(seen))


def put_together(
    files: dict[str, Path],
) -> tuple[ModuleType, list[str], dict[str, list[str]]]:
    """The reference with the learner's own definitions in place of its own.

    Each file finds the learner's earlier parts where it imports from the reference.

    Returns:
        The module; the exercises that are the learner's; those that are not, with the reason.
    """
    parts = build_module(MODULE, reference(REFERENCE).source)
    sys.modules[MODULE] = parts
    own: list[str] = []
    filled: dict[str, list[str]] = {}
    for day in part_days():
        names, answer, reason = _own_of(day, files.get(day.stem))
        for name in day.exercises:
            found = getattr(answer, name, None) if name in names else None
            if found is None:
                filled.setdefault(reason or NOT_BEGUN, []).append(name)
            elif found is getattr(parts, name):  # `from implementation import *`
                filled.setdefault(IMPORTED, []).append(name)
            else:
                setattr(parts, name, found)
                own.append(name)
    return parts, own, filled


def _own_of(day: Day, path: Path | None) -> tuple[list[str], ModuleType | None, str]:
    """The exercises of a day that the learner has begun, their module, or why there is none."""
    if path is None:
        return [], None, NO_FILE
    try:
        source = read_answer(path)
        names = begun(source, stub_of(day), day.exercises)
        return names, build_answer(str(path), source) if names else None, ""
    except Unreadable as error:
        return [], None, str(error)
    except (Exception, SystemExit) as error:
        return [], None, f"{path.name} cannot be loaded: {type(error).__name__}: {error}"


def _told(error: BaseException, files: set[str]) -> dict[str, Any]:
    """The exception, with the lines of that file of the learner's in which it came up last."""
    told = [raised(error, file) for file in files]
    return asdict(max(told, key=lambda one: len(one.frames)))


def train(parts: Any, held_out: list[list[int]], send: Send) -> dict[str, Any]:
    """Train on the copy task until held-out sequences are copied, and copy them all."""
    import torch

    torch.manual_seed(0)
    most_steps = MOST_ROUNDS * BATCHES
    model = parts.make_model(VOCABULARY, VOCABULARY, **MODEL)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (
            parts.rate(step + 1, MODEL["d_model"], FACTOR, WARMUP) * (1 - step / most_steps)
        ),
    )
    loss = parts.LabelSmoothing(VOCABULARY, 0, SMOOTHING)
    wanted = torch.tensor(held_out)
    batches = _batches(parts, held_out)
    for round_ in range(1, MOST_ROUNDS + 1):
        group = itertools.islice(batches, BATCHES)
        mean = parts.run_epoch(group, model, loss, optimizer, scheduler)
        exact = (_copy(parts, model, wanted[:BATCH]) == wanted[:BATCH]).all(dim=1).float().mean()
        progress = Progress(round_ * BATCHES, most_steps, float(mean), float(exact))
        send({"progress": vars(progress)})
        if exact == 1.0:
            copied = _copy(parts, model, wanted)
            if torch.equal(copied, wanted):
                break
    copied = _copy(parts, model, wanted)
    return {"copied": copied, "attention": _attention(parts, model, wanted[:1])}


def _batches(parts: Any, held_out: list[list[int]]) -> Iterator[Any]:
    """Sequences to learn from, none of which is held out."""
    import torch

    source, forbidden = random.Random("learnt from"), set(map(tuple, held_out))
    while True:
        fresh = [one for one in _sequences(source, 10 * BATCH) if tuple(one) not in forbidden]
        for pairs in parts.token_batches([(one, one) for one in fresh], 2 * LENGTH * BATCH):
            yield parts.Batch(*(torch.tensor(side) for side in zip(*pairs, strict=True)))


def _copy(parts: Any, model: Any, wanted: Any) -> Any:
    model.eval()
    return parts.greedy_decode(model, wanted, (wanted != 0).unsqueeze(1), LENGTH, START)


def _attention(parts: Any, model: Any, one: Any) -> list[Any]:
    """What each layer of the decoder looks at in the source while it copies one sequence."""
    batch = parts.Batch(one, one)
    model.eval()
    model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    return [layer.src_attn.weights[0] for layer in model.decoder.layers]
