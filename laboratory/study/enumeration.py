"""The right answers of a model, enumerated with their probabilities, and exact pass@k.

pass@k is the probability that at least one of k sampled answers is right. It is usually estimated from
samples (Chen et al. 2021, *Evaluating Large Language Models Trained on Code*, eq. 1). Where the answers can
be enumerated, it is 1 − (1 − p)ᵏ, and p is the sum of the right answers' probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from variants.grpo import answer_log_probs
from variants.kv_cache import new_cache


@dataclass
class Enumerated:
    """The probability of all answers to a prompt, in three parts that add up to 1."""

    answers: list[tuple[list[int], float]]
    """The enumerated answers: tokens up to the end token, or to the limit, and log-probability."""
    hopeless: float = 0.0
    """The total probability of prefixes that cannot become right."""
    pruned: float = 0.0
    """The total probability of other prefixes that were not expanded."""

    @property
    def found(self) -> float:
        """The total probability of the enumerated answers."""
        return math.fsum(math.exp(log_prob) for _, log_prob in self.answers)


def enumerate_answers(
    model: Any,
    prompts: Tensor,
    longest: int,
    end: int,
    least: float,
    hopeful: Sequence[Callable[[list[int]], bool]],
) -> list[Enumerated]:
    """Expand the answers to prompts, `(P, T_p)`, level by level: all prefixes of a level are one batch.

    An answer is complete at `end`, or with `longest` tokens. A prefix is not expanded if its probability is
    below `least`, or if it is not hopeful. So the right answers to a prompt have a total probability
    between `found` and `found + pruned`.

    Args:
        hopeful: for each prompt, whether an answer that begins with these tokens can be right.
    """
    results = [Enumerated([]) for _ in prompts]
    cache = new_cache(model.config, len(prompts), prompts.size(1) + longest)
    owners = torch.arange(len(prompts))  # (N,), each prefix's prompt
    prefixes = torch.empty(len(prompts), 0, dtype=torch.long)  # (N, t)
    log_probs = torch.zeros(len(prompts), dtype=torch.float64)  # (N,)
    chunk = prompts
    for _ in range(longest):
        with torch.no_grad():
            logits = model(chunk, cache, last=True)[:, -1]  # (N, V)
        following = log_probs[:, None] + logits.double().log_softmax(dim=-1)  # (N, V)
        kept = following >= math.log(least)
        left_out = following.exp().masked_fill(kept, 0.0).sum(dim=-1)  # (N,)
        for owner, probability in zip(owners.tolist(), left_out.tolist(), strict=True):
            results[owner].pruned += probability
        parents, tokens = kept.nonzero(as_tuple=True)  # (N',) each
        owners, log_probs = owners[parents], following[kept]
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)  # (N', t + 1)
        open_rows = _sort(results, owners, prefixes, log_probs, longest, end, hopeful)
        if not open_rows:
            break
        rows = torch.tensor(open_rows)
        owners, prefixes, log_probs = owners[rows], prefixes[rows], log_probs[rows]
        cache.keys, cache.values = (
            stored[:, parents[rows]] for stored in (cache.keys, cache.values)
        )
        chunk = prefixes[:, -1:]
    return results


def _sort(
    results: list[Enumerated],
    owners: Tensor,
    prefixes: Tensor,
    log_probs: Tensor,
    longest: int,
    end: int,
    hopeful: Sequence[Callable[[list[int]], bool]],
) -> list[int]:
    """Record the prefixes that are hopeless or complete; return the rows of the others."""
    open_rows = []
    rows = zip(owners.tolist(), prefixes.tolist(), log_probs.tolist(), strict=True)
    for row, (owner, prefix, log_prob) in enumerate(rows):
        if not hopeful[owner](prefix):
            results[owner].hopeless += math.exp(log_prob)
        elif prefix[-1] == end or len(prefix) == longest:
            results[owner].answers.append((prefix, log_prob))
        else:
            open_rows.append(row)
    return open_rows


def answers_log_probs(model: Any, prompt: Tensor, answers: list[list[int]]) -> Tensor:
    """Return the log-probability of each complete answer to a prompt, `(N,)`, by teacher forcing."""
    tokens = pad_sequence([torch.tensor(answer) for answer in answers], batch_first=True)  # (N, T)
    lengths = torch.tensor([[len(answer)] for answer in answers])
    with torch.no_grad():
        each = answer_log_probs(model, prompt[None], tokens[None])[0].double()  # (N, T)
    return each.masked_fill(torch.arange(tokens.size(1)) >= lengths, 0.0).sum(dim=1)


def pass_at(k: int, share: float) -> float:
    """Return pass@k = 1 − (1 − p)ᵏ of answers that are right with probability p.

    It is computed with logarithms: 1 − p would round a small p.
    """
    return 1.0 if share >= 1 else -math.expm1(k * math.log1p(-share))
