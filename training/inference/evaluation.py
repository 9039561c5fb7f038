"""Evaluate a model on an entire held-out split, and print the result as a table."""

from __future__ import annotations

from dataclasses import dataclass

import sacrebleu
import torch
from rich.table import Table
from rich.text import Text

from training.data.tasks import Task
from training.errors import Refused
from training.inference.trained_model import TrainedModel
from training.loop.monitor import perplexity, short
from training.models.architectures import Objective
from training.progress import OnProgress, no_progress


@dataclass(frozen=True)
class Evaluation:
    """A model's evaluation on a held-out split. Losses are per token, without label smoothing."""

    split: str
    sequences: int
    loss: float
    perplexity: float
    exact_match: float | None
    """The fraction of answers that match exactly; None for language models."""
    bleu: float | None
    signature: str | None
    """sacrebleu's signature."""
    loss_per_byte: float | None = None
    """For text, the loss per UTF-8 byte, which vocabularies do not affect."""


def evaluate(
    model: TrainedModel,
    task: Task,
    split: str,
    beam: int | None = None,
    tell: OnProgress = no_progress,
) -> Evaluation:
    """Evaluate a model on an entire split.

    Args:
        split: `validation`, or `test` if there is one.
        beam: the beam size; the task's default if omitted.

    Raises:
        Refused: the task has no such split.
    """
    settings = model.settings
    if split not in task.splits:
        raise Refused(
            f"split must be one of {', '.join(task.splits)} for {settings.task}, got {split!r}"
        )
    loss, sequences, tokens = held_out_loss(model, task, split, tell)
    exact = bleu = signature = None
    if not settings.of_language:
        sources, references = map(list, zip(*task.texts(split), strict=True))
        answers = model.translate(sources, beam or model.usual_beam, tell=tell)
        right = sum(a == b for a, b in zip(answers, references, strict=True))
        exact = right / len(references)
        if settings.task == "translation":
            metric = sacrebleu.BLEU(lowercase=settings.lowercase)
            bleu = metric.corpus_score(answers, [references]).score
            signature = str(metric.get_signature())
    per_byte = loss * tokens / task.held_out_bytes if task.held_out_bytes else None
    return Evaluation(split, sequences, loss, perplexity(loss), exact, bleu, signature, per_byte)


def held_out_loss(
    model: TrainedModel, task: Task, split: str, tell: OnProgress
) -> tuple[float, int, int]:
    """Return the mean loss over all tokens of a split, and its numbers of sequences and tokens."""
    objective = Objective(model.model, smoothing=0.0)
    total, tokens, sequences = 0.0, 0, 0
    batches = task.held_out(split)
    with torch.no_grad(), model.parts.attribute_errors():
        for number, rows in enumerate(batches, 1):
            on_device = rows.to(model.device)
            total += float(objective(*on_device.tensors)[1])
            tokens += rows.tokens
            sequences += len(rows)
            tell("loss", number, len(batches))
    return total / tokens, sequences, tokens


def as_table(evaluation: Evaluation) -> Table:
    """Format the evaluation as a table."""
    table = Table.grid(padding=(0, 3, 0, 0))
    names = [f"{evaluation.split} split", "loss", "perplexity"]
    values = [
        f"{evaluation.sequences:,} sequences",
        f"{evaluation.loss:.4f}",
        short(evaluation.perplexity),
    ]
    if evaluation.loss_per_byte is not None:
        names.append("loss per byte")
        values.append(f"{evaluation.loss_per_byte:.4f}")
    if evaluation.exact_match is not None:
        names.append("exact match")
        # rounded down: 999.9 of 1000 is not 100 %
        values.append(f"{int(1000 * evaluation.exact_match) / 10:.1f}%")
    if evaluation.bleu is not None:
        names += ["BLEU", "signature"]
        values += [f"{evaluation.bleu:.2f}", str(evaluation.signature)]
    for name, value in zip(names, values, strict=True):
        table.add_row(Text(name, "quiet"), Text(value, "bold"))
    return table
