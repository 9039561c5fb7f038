"""The copy task, in the worker: a Transformer of the learner's parts, trained until it copies."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from course.assembly.answer_parts import put_together
from course.checks.observation import flatten
from course.checks.raising import raised

# The copy task: output the input sequence. Symbols 1 to 10, 0 is padding; 1 also starts every sequence.
VOCABULARY = 11
LENGTH = 10
START = 1
HELD_OUT = 1000

BATCH = 80
BATCHES = 20  # between two looks at what it can do
MAX_ROUNDS = 30
MODEL = {"n": 2, "d_model": 64, "d_ff": 256, "h": 4, "dropout": 0.0}
SMOOTHING = 0.1
# The paper's schedule, at half its height, and falling to 0: without the fall what has been learned
# is lost again now and then.
FACTOR = 0.5
WARMUP = 150

Send = Callable[..., None]


@dataclass
class CopyProgress:
    """The progress of the training run."""

    step: int
    max_steps: int
    loss: float
    exact: float


def sequences(source: random.Random, count: int) -> list[list[int]]:
    """Sequences that begin with the start symbol."""
    return [[START, *source.choices(range(1, VOCABULARY), k=LENGTH - 1)] for _ in range(count)]


def serve(request: dict[str, Any], send: Send) -> None:
    """Assemble and train a model; send its progress, and finally its outputs."""
    parts, own, filled = put_together(
        {stem: Path(path) for stem, path in request["assemble"].items()}
    )
    outcome: dict[str, Any] = {"own": own, "filled": filled}
    try:
        result = train(parts, request["held_out"], send)
    except (Exception, SystemExit) as error:
        files = set(request["assemble"].values())
        send(outcome | {"raised": _raised_in(error, files)})
    else:
        send(outcome, flatten(result))


def _raised_in(error: BaseException, files: set[str]) -> dict[str, Any]:
    """The exception, with the lines of that file of the learner's in which it came up last."""
    reports = [raised(error, file) for file in files]
    return asdict(max(reports, key=lambda report: len(report.frames)))


def train(parts: Any, held_out: list[list[int]], send: Send) -> dict[str, Any]:
    """Train on the copy task until held-out sequences are copied, and copy them all."""
    import torch  # takes a second to import

    torch.manual_seed(0)
    max_steps = MAX_ROUNDS * BATCHES
    model = parts.make_model(VOCABULARY, VOCABULARY, **MODEL)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (
            parts.rate(step + 1, MODEL["d_model"], FACTOR, WARMUP) * (1 - step / max_steps)
        ),
    )
    loss = parts.LabelSmoothing(VOCABULARY, 0, SMOOTHING)
    targets = torch.tensor(held_out)
    batches = _batches(parts, held_out)
    for round_ in range(1, MAX_ROUNDS + 1):
        group = itertools.islice(batches, BATCHES)
        mean = parts.run_epoch(group, model, loss, optimizer, scheduler)
        exact = (_copy(parts, model, targets[:BATCH]) == targets[:BATCH]).all(dim=1).float().mean()
        progress = CopyProgress(round_ * BATCHES, max_steps, float(mean), float(exact))
        send({"progress": vars(progress)})
        if exact == 1.0:
            copied = _copy(parts, model, targets)
            if torch.equal(copied, targets):
                break
    copied = _copy(parts, model, targets)
    return {"copied": copied, "attention": _attention(parts, model, targets[:1])}


def _batches(parts: Any, held_out: list[list[int]]) -> Iterator[Any]:
    """Sequences to learn from, none of which is held out."""
    import torch  # takes a second to import

    source, forbidden = random.Random("learnt from"), set(map(tuple, held_out))
    while True:
        fresh = [
            sequence
            for sequence in sequences(source, 10 * BATCH)
            if tuple(sequence) not in forbidden
        ]
        for pairs in parts.token_batches(
            [(sequence, sequence) for sequence in fresh], 2 * LENGTH * BATCH
        ):
            yield parts.Batch(*(torch.tensor(side) for side in zip(*pairs, strict=True)))


def _copy(parts: Any, model: Any, source: Any) -> Any:
    model.eval()
    return parts.greedy_decode(model, source, (source != 0).unsqueeze(1), LENGTH, START)


def _attention(parts: Any, model: Any, sequence: Any) -> list[Any]:
    """What each layer of the decoder looks at in the source while it copies one sequence."""
    batch = parts.Batch(sequence, sequence)
    model.eval()
    model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    return [layer.src_attn.weights[0] for layer in model.decoder.layers]
