"""The right answers of a model, enumerated with their probabilities, and exact pass@k.

pass@k is the probability that at least one of k sampled answers is right. It is usually estimated from
samples (Chen et al. 2021, *Evaluating Large Language Models Trained on Code*, eq. 1). Where the answers can
be enumerated, it is 1 − (1 − p)ᵏ, and p is the sum of the right answers' probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from training.reasoning.reasoner import END, Sum, decode, is_right
from variants.grpo import answer_log_probs
from variants.kv_cache import new_cache


@dataclass
class Enumerated:
    """The probability of all answers to a prompt, in three parts that add up to 1."""

    answers: list[tuple[list[int], float]] = field(default_factory=list)
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
    results = [Enumerated() for _ in prompts]
    cache = new_cache(model.config, len(prompts), prompts.size(1) + longest)
    owners, chunk = torch.arange(len(prompts)), prompts  # (N,), the prompt of each prefix
    prefixes = torch.empty(len(prompts), 0, dtype=torch.long)  # (N, t)
    log_probs = torch.zeros(len(prompts), dtype=torch.float64)  # (N,)
    for length in range(1, longest + 1):
        with torch.no_grad():
            logits = model(chunk, cache, last=True)[:, -1]  # (N, V)
        following = log_probs[:, None] + logits.double().log_softmax(dim=-1)  # (N, V)
        expanded = following >= math.log(least)
        pruned = following.exp().masked_fill(expanded, 0.0).sum(dim=-1)  # (N,)
        for owner, probability in zip(owners.tolist(), pruned.tolist(), strict=True):
            results[owner].pruned += probability
        parents, tokens = expanded.nonzero(as_tuple=True)  # (N',) each
        owners, log_probs = owners[parents], following[expanded]
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)  # (N', t + 1)
        remaining = []
        rows = zip(owners.tolist(), prefixes.tolist(), log_probs.tolist(), strict=True)
        for row, (owner, prefix, log_prob) in enumerate(rows):
            if not hopeful[owner](prefix):
                results[owner].hopeless += math.exp(log_prob)
            elif prefix[-1] == end or length == longest:
                results[owner].answers.append((prefix, log_prob))
            else:
                remaining.append(row)
        if not remaining:
            break
        owners, prefixes, log_probs = owners[remaining], prefixes[remaining], log_probs[remaining]
        rows_kept = parents[remaining]
        cache.keys, cache.values = cache.keys[:, rows_kept], cache.values[:, rows_kept]
        chunk = prefixes[:, -1:]
    return results


def can_be_right(question: Sum, longest: int, prefix: list[int]) -> bool:
    """Return whether an answer of at most `longest` tokens that begins with this prefix can be right."""
    text, remaining = decode(prefix), longest - len(prefix)
    if len(text) < len(prefix):  # a special token ended the text; the answer must end with END
        return is_right(question, text) and (END in prefix or remaining > 0)
    line, total = text.rpartition("\n")[2], str(sum(question))
    rest = len(total) - len(line) if total.startswith(line) else 1 + len(total)
    return rest + 1 <= remaining


def answers_log_probs(model: Any, prompt: Tensor, answers: list[list[int]]) -> Tensor:
    """Return the log-probability of each complete answer to a prompt, `(N,)`, by teacher forcing."""
    if not answers:
        return torch.empty(0, dtype=torch.float64)
    tokens = pad_sequence([torch.tensor(answer) for answer in answers], batch_first=True)  # (N, T)
    lengths = torch.tensor([[len(answer)] for answer in answers])  # (N, 1)
    with torch.no_grad():
        each = answer_log_probs(model, prompt[None], tokens[None])[0].double()  # (N, T)
    return each.masked_fill(torch.arange(tokens.size(1)) >= lengths, 0.0).sum(dim=1)


def pass_at(k: int, share: float) -> float:
    """Return pass@k = 1 − (1 − p)ᵏ where an answer is right with probability p, precise for a small p."""
    return 1.0 if share >= 1 else -math.expm1(k * math.log1p(-share))
