"""What counting gives, as a level to compare a model's loss with."""

from __future__ import annotations

import torch

from training.data.tasks import Task, Text

ADDED = 0.1  # to each count, so that no pair is impossible


def counted(task: Task) -> dict[str, float]:
    """Compute the loss of two models without any parameters on the validation split, in nats per token.

    `unigram` knows how often each token occurs in the training split, `bigram` how often each follows each.
    Empty where the task is no text.
    """
    if not isinstance(task, Text):
        return {}
    size = len(task.languages.target)
    singles, pairs = torch.full((size,), ADDED), torch.full((size, size), ADDED)
    singles += torch.bincount(task.learned, minlength=size)
    neighbors = task.learned[:-1] * size + task.learned[1:]
    pairs.view(-1).add_(torch.bincount(neighbors, minlength=size**2))
    held_out = [rows.target for rows in task.held_out("validation")]
    before = torch.cat([rows[:, :-1].flatten() for rows in held_out])
    after = torch.cat([rows[:, 1:].flatten() for rows in held_out])
    unigram = (singles / singles.sum()).log()
    bigram = (pairs / pairs.sum(1, keepdim=True)).log()
    return {
        "unigram": round(-float(unigram[after].double().mean()), 4),
        "bigram": round(-float(bigram[before, after].double().mean()), 4),
    }
