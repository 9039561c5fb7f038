"""The explorer's pages: what each asks, of which days it is, and where it lies."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

STILLS = Path(__file__).parent / "stills"  # pictures of each page, taken by website/stills.py


def picture_of(name: str, dark: bool = False, moving: bool = False) -> str:
    """The file in `STILLS` with a page's picture, or with its animation."""
    return f"{name}{'.moving' * moving}{'.dark' * dark}.webp"


@dataclass(frozen=True)
class Topic:
    """One page.

    Attributes:
        name: what `course explore` calls it, and the stem of its file.
        title: its heading.
        question: what it answers, in one sentence.
        suggestion: what to try first, and what is then seen.
        days: those that it belongs to, the first before all.
        exercises: of its days, those that a learner's own can take the place of.
    """

    name: str
    title: str
    question: str
    suggestion: str
    days: tuple[int, ...]
    exercises: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        return Path(__file__).parent / f"{self.name}.py"


TOPICS = (
    Topic(
        "softmax",
        "Softmax and temperature",
        "What does temperature do to a distribution?",
        "lower the temperature: the highest score takes all. Back at 1, raise all four scores by 1: no "
        "probability changes.",
        (1, 24),
        ("softmax",),
    ),
    Topic(
        "attention",
        "Attention and masks",
        "How do scores become weights, and what does a mask forbid?",
        "choose the causal mask, then click a word: it attends to no later word.",
        (2, 3, 8),
        ("attention",),
    ),
    Topic(
        "heads",
        "Heads of a trained model",
        "What does each head do, and what is lost without it?",
        "head 3 of the encoder's second layer is off at first, and “elle” becomes “il”. Switch it on, then "
        "other heads off.",
        (9, 12, 13, 22),
    ),
    Topic(
        "positions",
        "Positions",
        "How can a model know the order of tokens, and how far apart they are?",
        "choose RoPE, and move the query and the key by the same amount: every hand moves, and no product "
        "changes.",
        (5, 29, 30),
        ("positional_encoding", "rope_angles", "apply_rope", "alibi_slopes", "alibi_bias"),
    ),
    Topic(
        "decoding",
        "Decoding, step by step",
        "Which token comes next: the most likely one, a sampled one, or the one that beam search prefers?",
        "set the temperature to 2 and sample to the end, a few times: unlikely words slip in. With top-p at "
        "0.5 they are cut. Or choose beam search.",
        (24, 19, 20),
        ("distribution",),
    ),
    Topic(
        "drafting",
        "Speculative decoding",
        "How can a small model write ahead without changing what the large one says?",
        "make the draft worse: fewer of its words are accepted, and each pair of bars still agrees. At 1 "
        "everything is accepted.",
        (42,),
    ),
    Topic(
        "learning",
        "Learning rate",
        "What does the learning rate do to a training run?",
        "start a run. Then try a factor of 4, or a warm-up of 1 step: the loss stays at ln 10, the loss of "
        "guessing.",
        (17, 18, 16),
        ("rate",),
    ),
    Topic(
        "memory",
        "The KV cache",
        "What does a KV cache hold, and what makes it large?",
        "make the sequences longer, or add more of them, until the cache is larger than the weights.",
        (25, 31, 32),
    ),
    Topic(
        "experts",
        "Mixture of experts",
        "Which tokens go to which expert, and what happens when too many choose the same one?",
        "raise the router skew to 3: 12 of 26 assignments are dropped. Then raise the capacity factor until "
        "none is.",
        (35,),
        ("load_balancing_loss",),
    ),
    Topic(
        "flash",
        "Flash attention, tile by tile",
        "How can a softmax be computed tile by tile?",
        "step through the tiles until a higher score comes: what was summed before is scaled down.",
        (33, 8),
        ("flash_attention",),
    ),
)


class NoSuchTopic(ValueError):
    """There is no page of that name. Its text says which there are."""


def topic_of(name: str) -> Topic:
    """The page that is called so.

    Raises:
        NoSuchTopic: there is none.
    """
    by_name = {topic.name: topic for topic in TOPICS}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise NoSuchTopic(f"there is no page '{name}'. {guess}There are: {', '.join(by_name)}")
