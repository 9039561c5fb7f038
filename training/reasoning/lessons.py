"""The model that days 45 to 49 share: a reasoner of one layer after its pretraining, and its world.

The lessons tune it with the learner's functions. Day 45 shows the cell that trained the stored weights.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from training.checkpoints import read_weights
from training.models.architectures import copy_weights
from training.reasoning.parts import parts_from
from training.reasoning.reasoner import (
    END,
    PAD,
    START,
    Reasoner,
    Recipe,
    Sum,
    encode,
    reward,
    worked_out,
)

# Stored in float16, as are those of days 46, 47 and 48.
WEIGHTS = Path(__file__).with_name("base.safetensors")
LONGEST = 22  # tokens of an answer
world = Reasoner(
    Recipe(layers=1, d_ff=160, pretraining_rate=3e-3), parts_from(import_module), Path()
)
TEST = sorted(world.held_out)


def base() -> Any:
    """Return the pretrained model."""
    return _stored(WEIGHTS)


def after(day: int) -> Any:
    """Return the model that the lesson of day 46, 47 or 48 hands on."""
    return _stored(WEIGHTS.with_name(f"day{day}.safetensors"))


def _stored(file: Path) -> Any:
    model = world.built()
    copy_weights(model, {name: weight.float() for name, weight in read_weights(file).items()})
    return model


def sums(count: int, seed: int) -> list[Sum]:
    """Draw questions that are not held out."""
    source = random.Random(seed)
    return [world.question(source) for _ in range(count)]


def conversation(question: Sum) -> list[dict[str, str]]:
    """Return a user's question, and the assistant's answer to it."""
    asked = {"role": "user", "content": "{}+{}?".format(*question)}
    return [asked, {"role": "assistant", "content": worked_out(*question)}]


def prompts(chat_tokens: Callable[..., Any], questions: Sequence[Sum]) -> Tensor:
    """Return the tokens that precede the answer to each question, `(P, T_p)`."""
    asked = (conversation(question)[:1] for question in questions)
    return torch.stack([chat_tokens(talk, encode, START, END, reply=True)[0] for talk in asked])


def sampled(
    model: Any,
    chat_tokens: Callable[..., Any],
    questions: Sequence[Sum],
    count: int,
    seed: int,
    temperature: float = 1.0,
) -> list[list[list[int]]]:
    """Sample answers: for each question `count` lists of tokens, up to the end token."""
    asked = prompts(chat_tokens, questions).repeat_interleave(count, dim=0)
    generator = torch.Generator().manual_seed(seed)
    text = world.parts.generate_cached(model, asked, LONGEST, temperature, generator=generator)
    rows = text[:, asked.size(1) :].tolist()
    answers = [row[: row.index(END) + 1] if END in row else row for row in rows]
    return [answers[first : first + count] for first in range(0, len(answers), count)]


def share_right(model: Any, chat_tokens: Callable[..., Any]) -> float:
    """Return the share of the 500 held-out questions that a model answers right at temperature 0."""
    return _share(model, prompts(chat_tokens, TEST))


def share_continued(model: Any) -> float:
    """Return the share that a model answers right if the question begins like a text of pretraining."""
    return _share(model, torch.stack(list(world.prompts(plain=True).values())))


def _share(model: Any, begun: Tensor) -> float:
    text = world.parts.generate_cached(model, begun, LONGEST, 0.0)[:, begun.size(1) :]
    return sum(map(reward, TEST, text.tolist())) / len(TEST)


def loss_of(model: Any, examples: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the cross-entropy of examples, each of tokens and labels, in padded rows."""
    tokens, labels = zip(*examples, strict=True)
    logits = model(pad_sequence(list(tokens), batch_first=True, padding_value=PAD))  # (B, T, V)
    targets = pad_sequence(list(labels), batch_first=True, padding_value=-100)  # (B, T)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def fit(model: Any, loss: Callable[[], Tensor], steps: int, rate: float) -> Any:
    """Train what requires a gradient; the rate rises for ten steps and falls in the last 30%."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(steps):
        scale = min(1.0, (step + 1) / 10, (steps - step) / (0.3 * steps))
        optimizer.param_groups[0]["lr"] = rate * scale
        optimizer.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
    return model


def tune(
    model: Any,
    chat_tokens: Callable[..., Any],
    answer_labels: Any,
    rate: float = 5e-4,
    seed: int = 0,
    replay: int = 4,
) -> Any:
    """Repeat day 45: train for 80 steps on 40 conversations, with texts of pretraining in each step."""

    def labeled(tokens: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
        return tokens, answer_labels(tokens, written)

    talks = [chat_tokens(conversation(asked), encode, START, END) for asked in sums(40, seed)]
    examples = [labeled(*talk) for talk in talks]
    source = random.Random(seed)

    def loss() -> Tensor:
        texts = [world.text(world.question(source)) for _ in range(replay)]
        replayed = [labeled(text, torch.ones_like(text, dtype=torch.bool)) for text in texts]
        return loss_of(model, source.choices(examples, k=16) + replayed)

    return fit(model, loss, 80, rate)
