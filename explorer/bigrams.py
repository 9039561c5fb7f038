"""A language small enough to follow by hand, and what the reference's beam search does with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from implementation import beam_search

START, END = "<s>", "</s>"
# How likely each word is after another. What is not listed shares the rest: wrong, and never impossible.
FOLLOWS = {
    START: {"the": 0.55, "a": 0.40},
    "the": {"cat": 0.36, "dog": 0.32, "mouse": 0.27},
    "a": {"mouse": 0.85, "dog": 0.08},
    "cat": {"sleeps": 0.50, "sees": 0.42},
    "dog": {"sees": 0.48, "sleeps": 0.45},
    "mouse": {"sleeps": 0.76, "sees": 0.19},
    "sees": {"the": 0.50, "a": 0.45},
    "sleeps": {END: 0.50, "softly": 0.46},
    "softly": {END: 0.93},
}
VOCABULARY = (*FOLLOWS, END)
NUMBER = {word: number for number, word in enumerate(VOCABULARY)}
SAID = VOCABULARY[1:]  # `<s>` is never generated


class Bigrams:
    """The language as a model: what comes next hangs on the last word alone.

    It has the parts of an `EncoderDecoder` that decoding asks for, and no source to read.
    """

    def __init__(self) -> None:
        table = torch.zeros(len(VOCABULARY), len(VOCABULARY), dtype=torch.float64)
        for last, options in FOLLOWS.items():
            unlisted = [word for word in SAID if word not in options]
            rest = (1 - sum(options.values())) / len(unlisted)
            for word, share in (dict.fromkeys(unlisted, rest) | options).items():
                table[NUMBER[last], NUMBER[word]] = share
        self.log_probs = table.log()
        """Probabilities of the next word after each word, `(V, V)`; `<s>` is never next."""

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        return src.to(self.log_probs.dtype)

    def decode(self, memory: Tensor, src_mask: Tensor, tgt: Tensor, tgt_mask: Tensor) -> Tensor:
        return self.log_probs[tgt]

    def generator(self, states: Tensor) -> Tensor:
        return states


@dataclass(frozen=True)
class Branch:
    """A beginning, and what became of it.

    Attributes:
        words: all of it, without the start symbol.
        log_prob: their log-probability.
        fate: `kept`, `ended` (with the end symbol, or with the last word there may be), `cut`, or `given up`,
            where the search stopped because it could win no more.
        worth: of what ended: the log-probability over the length penalty.
    """

    words: tuple[str, ...]
    log_prob: float
    fate: str
    worth: float | None = None


class _SearchRecorder(TorchFunctionMode):
    """Record the scores that `beam_search` compares, which it does not return, within the context."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[dict[str, Tensor]] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function is Tensor.topk:  # of all continuations of a round
            self.rounds.append({"totals": args[0][0], "chosen": result.indices[0]})
        elif function is Tensor.gather:  # the beginnings that they continue
            self.rounds[-1]["tokens"] = args[0][0]
        elif function is Tensor.max and "worth" not in self.rounds[-1]:
            self.rounds[-1]["worth"] = args[0][0]
        return result


def searched(
    model: Bigrams, beam: int, alpha: float, max_len: int
) -> tuple[list[list[Branch]], tuple[str, ...]]:
    """What the reference's beam search does with the language.

    Args:
        beam, alpha: as `beam_search` takes them.
        max_len: the most words of a sentence, the end included.

    Returns:
        For each round the continuations, the likeliest first, and so those that are kept before all that
        are cut; and the sentence that the search returns.
    """
    src, src_mask = torch.zeros(1, 1), torch.ones(1, 1, 1, dtype=torch.bool)
    with _SearchRecorder() as recorder:
        best = beam_search(
            model, src, src_mask, max_len + 1, NUMBER[START], NUMBER[END], beam, alpha
        )
    rounds = [_branches(noted) for noted in recorder.rounds]
    if len(rounds) < max_len:  # it stopped early
        rounds[-1] = [
            Branch(branch.words, branch.log_prob, "given up") if branch.fate == "kept" else branch
            for branch in rounds[-1]
        ]
    return rounds, _spoken(best[0])


def _branches(noted: dict[str, Tensor]) -> list[Branch]:
    """The continuations of a round; those of beginnings that had ended already are none."""
    totals, chosen = noted["totals"].tolist(), noted["chosen"].tolist()
    places = sorted(range(len(totals)), key=lambda index: (-totals[index], index not in chosen))
    branches = []
    for position in places:
        if totals[position] == -math.inf:
            continue
        words = _spoken(noted["tokens"][position // len(VOCABULARY)])
        words += (VOCABULARY[position % len(VOCABULARY)],)
        worth = noted["worth"][chosen.index(position)].item() if position in chosen else -math.inf
        fate = "cut" if position not in chosen else "kept" if worth == -math.inf else "ended"
        branches.append(Branch(words, totals[position], fate, worth if fate == "ended" else None))
    return branches


def _spoken(tokens: Tensor) -> tuple[str, ...]:
    """The words of a hypothesis: its start symbol left out, and the fill after its end."""
    return tuple(VOCABULARY[token] for token in tokens.tolist() if token != NUMBER[START])
