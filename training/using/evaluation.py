"""What a model does on what it has not seen: a whole held-out split, measured, and shown as a table."""

from __future__ import annotations

from dataclasses import dataclass

import sacrebleu
import torch
from rich.table import Table
from rich.text import Text

from training.data.tasks import Task
from training.errors import Refused
from training.loop.monitor import perplexity, short
from training.models.architectures import Objective
from training.progress import OnProgress, no_progress
from training.using.inference import Model


@dataclass(frozen=True)
class Evaluation:
    """What a model does on a whole held-out split. Losses are per token, and not smoothed."""

    split: str
    sequences: int
    loss: float
    perplexity: float
    exact_match: float | None
    """The share of answers that are the wanted ones to the letter; None for language models."""
    bleu: float | None
    signature: str | None
    """How sacrebleu computed it."""
    loss_per_byte: float | None = None
    """Of a text, per byte of its UTF-8: comparable between vocabularies, as the loss per token is not."""


def evaluate(
    model: Model, task: Task, split: str, beam: int | None = None, tell: OnProgress = no_progress
) -> Evaluation:
    """Measure a model on a whole split.

    Args:
        model: which.
        task: whose data it is.
        split: `validation`, or `test` where there is one.
        beam: hypotheses side by side; the usual ones if left out.
        tell: called as it gets on.

    Raises:
        Refused: the task has no such split.
    """
    settings = model.settings
    if split not in task.splits:
        raise Refused(f"{settings.task} has no split {split!r}: {', '.join(task.splits)}")
    loss, sequences, tokens = held_out_loss(model, task, split, tell)
    exact = bleu = signature = None
    if not settings.of_language:
        sources, wanted = map(list, zip(*task.texts(split), strict=True))
        answers = model.translate(sources, beam or model.usual_beam, tell=tell)
        right = sum(a == b for a, b in zip(answers, wanted, strict=True))
        exact = right / len(wanted)
        if settings.task == "translation":
            metric = sacrebleu.BLEU(lowercase=settings.lowercase)
            bleu = metric.corpus_score(answers, [wanted]).score
            signature = str(metric.get_signature())
    per_byte = loss * tokens / task.held_out_bytes if task.held_out_bytes else None
    return Evaluation(split, sequences, loss, perplexity(loss), exact, bleu, signature, per_byte)


def held_out_loss(model: Model, task: Task, split: str, tell: OnProgress) -> tuple[float, int, int]:
    """The mean over all tokens of a split, and how many sequences and tokens it has."""
    objective = Objective(model.model, smoothing=0.0)
    total, tokens, sequences = 0.0, 0, 0
    batches = task.held_out(split)
    with torch.no_grad(), model.parts.attribute_errors():
        for number, rows in enumerate(batches, 1):
            on_device = rows.to(model.device)
            total += float(objective(on_device.source, on_device.target)[1])
            tokens += rows.tokens
            sequences += len(rows)
            tell("loss", number, len(batches))
    return total / tokens, sequences, tokens


def as_table(found: Evaluation) -> Table:
    """What was measured, as it is shown."""
    table = Table.grid(padding=(0, 3, 0, 0))
    names = [f"{found.split} split", "loss", "perplexity"]
    values = [f"{found.sequences:,} sequences", f"{found.loss:.4f}", short(found.perplexity)]
    if found.loss_per_byte is not None:
        names.append("loss per byte")
        values.append(f"{found.loss_per_byte:.4f}")
    if found.exact_match is not None:
        names.append("exact match")
        # 999.9 of 1000 is not 100 %
        values.append(f"{int(1000 * found.exact_match) / 10:.1f}%")
    if found.bleu is not None:
        names += ["BLEU", "signature"]
        values += [f"{found.bleu:.2f}", str(found.signature)]
    for name, value in zip(names, values, strict=True):
        table.add_row(Text(name, "quiet"), Text(value, "bold"))
    return table
