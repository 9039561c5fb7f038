"""A small LLaMA that learns to add, in three stages.

    pretraining      sums worked out digit by digit: the next token of such text
    tuning           forty conversations: a question, and an assistant that works it out
    reinforcement    the model's own answers, which a program checks: GRPO

A question is a sum of two numbers with `digits` digits each, `47+85?`. The answer is a line of
steps, from the last digits to the first, each with its carry, `7+5+0=12 4+8+1=13`, and then the sum
on a separate line. The random numbers of a step depend only on the seed and the step's number, so a
run that was stopped resumes with the same results.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
import yaml
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from training import settings
from training.checkpoints import (
    Damaged,
    TrainingState,
    previous,
    read_state,
    read_weights,
    write_atomically,
    write_state,
    write_weights,
)
from training.errors import Refused
from training.models.architectures import copy_weights, weights_of
from training.settings import in_range

CHARACTERS = "\n 0123456789+=?adeinrstu"  # those of a sum, and of the words user and assistant
PAD, START, END = range(len(CHARACTERS), len(CHARACTERS) + 3)
HELD_OUT = 500  # questions that are in no batch
CONTEXT = 128  # tokens; enough for the longest question with its answer
SAVE_EVERY = 50  # steps
WARMUP, COOLDOWN = 10, 0.3  # steps, and the share of the steps in which the rate falls to 0
MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of a reasoner.

    Raises:
        Refused: a value is not allowed.
    """

    digits: int = in_range(1, 6, 2)  # of each number
    layers: int = in_range(1, None, 2)
    d_model: int = in_range(1, None, 64)
    heads: int = in_range(1, None, 4)
    kv_heads: int = in_range(1, None, 2)
    d_ff: int = in_range(1, None, 192)
    seed: int = in_range(0, 2**31 - 1, 0)

    pretraining_steps: int = in_range(1, None, 600)
    pretraining_rate: float = in_range(0, None, 1e-3)
    batch: int = in_range(1, None, 64)  # texts, or conversations, of a step

    conversations: int = in_range(1, 100_000, 40)
    tuning_steps: int = in_range(1, None, 80)
    tuning_rate: float = in_range(0, None, 5e-4)

    steps: int = in_range(1, None, 400)  # of reinforcement learning
    rate: float = in_range(0, None, 3e-4)
    prompts: int = in_range(1, None, 16)  # of a step
    group: int = in_range(2, None, 16)  # answers to each prompt
    passes: int = in_range(1, None, 1)  # optimizer steps with the same answers
    clip: float = in_range(0, None, 0.2)  # ε of the policy loss
    beta: float = in_range(0, None, 0.01)  # weight of the KL penalty

    def __post_init__(self) -> None:
        for setting in fields(self):
            settings.check(setting, getattr(self, setting.name))
        if self.d_model % (2 * self.heads) or self.heads % self.kv_heads:
            raise Refused(
                "heads must divide d_model / 2, and kv_heads must divide heads, got "
                f"d_model={self.d_model}, heads={self.heads}, kv_heads={self.kv_heads}"
            )


OF_EARLIER_STAGES = (
    *("layers", "d_model", "heads", "kv_heads", "d_ff", "batch", "conversations"),
    *("pretraining_steps", "pretraining_rate", "tuning_steps", "tuning_rate"),
)
"""Settings that a run of reinforcement learning alone takes from the run that it begins with."""


# --- The task -------------------------------------------------------------------------------------

Sum = tuple[int, int]


def draw(source: random.Random, digits: int) -> Sum:
    """Draw two numbers with this number of digits."""
    low = 10 ** (digits - 1) if digits > 1 else 0
    return source.randrange(low, 10**digits), source.randrange(low, 10**digits)


def worked_out(a: int, b: int) -> str:
    """Write out a sum: the digits and the carry of each place, from the last to the first, then the sum."""
    steps, carry = [], 0
    for x, y in zip(reversed(str(a)), reversed(str(b)), strict=True):
        total = int(x) + int(y) + carry
        steps.append(f"{x}+{y}+{carry}={total:02d}")
        carry = total // 10
    return f"{' '.join(steps)}\n{a + b}"


def is_right(question: Sum, answer: str) -> bool:
    """Return whether the last line is the sum. The steps do not matter."""
    return answer.rpartition("\n")[2] == str(sum(question))


def reward(question: Sum, tokens: list[int]) -> float:
    """Return 1 if the tokens of an answer end, and are right."""
    return float(END in tokens and is_right(question, decode(tokens)))


def encode(text: str) -> list[int]:
    """Return the token of each character.

    Raises:
        Refused: the model does not know a character.
    """
    if unknown := sorted(set(text) - set(CHARACTERS)):
        raise Refused(f"The model knows sums such as 47+85? and no {unknown[0]!r}")
    return [CHARACTERS.index(character) for character in text]


def decode(tokens: Sequence[int]) -> str:
    """Return the characters of tokens, up to the first token that is not a character."""
    text = ""
    for token in tokens:
        if token >= len(CHARACTERS):
            break
        text += CHARACTERS[token]
    return text


# --- The run --------------------------------------------------------------------------------------


@dataclass
class Progress:
    """What a run has done."""

    stage: int = 0
    step: int = 0  # of this stage
    shares: dict[str, list[float]] = field(default_factory=dict)
    """After each stage, the shares of held-out questions that are answered right."""
    rewards: list[float] = field(default_factory=list)
    """The mean reward of each step of reinforcement learning."""


@dataclass(frozen=True)
class Stage:
    """One of the three stages: `losses` yields the loss of each optimizer step."""

    name: str
    steps: int
    rate: float
    losses: Callable[[random.Random, torch.Generator], Iterator[Tensor]]


class Reasoner:
    """A model, and its training.

    Args:
        parts: a module with everything in `reasoning.parts.PARTS`.
    """

    def __init__(self, recipe: Recipe, parts: ModuleType, folder: Path):
        self.recipe, self.parts, self.folder = recipe, parts, folder
        self.progress = Progress()
        torch.manual_seed(recipe.seed)
        self.model = self.built()
        self.reference = self.built().requires_grad_(False)
        self.stages = (
            Stage("pretraining", recipe.pretraining_steps, recipe.pretraining_rate, self._texts),
            Stage("tuning", recipe.tuning_steps, recipe.tuning_rate, self._conversations),
            Stage("reinforcement", recipe.steps, recipe.rate, self._answers),
        )
        source = random.Random("held out")
        total = (9 if recipe.digits > 1 else 10) ** 2 * 100 ** (recipe.digits - 1)
        self.held_out: set[Sum] = set()
        while len(self.held_out) < min(HELD_OUT, total // 2):
            self.held_out.add(draw(source, recipe.digits))
        source = random.Random(f"conversations {recipe.seed}")
        self.examples = [self._example(self.question(source)) for _ in range(recipe.conversations)]
        self._restart()

    def built(self) -> Any:
        recipe = self.recipe
        config = self.parts.LLaMAConfig(
            vocab=END + 1,
            context=CONTEXT,
            n_layers=recipe.layers,
            n_heads=recipe.heads,
            n_kv_heads=recipe.kv_heads,
            d_model=recipe.d_model,
            d_ff=recipe.d_ff,
        )
        model = self.parts.LLaMA(config)
        for module in model.modules():  # LLaMA's own initialization is for a much larger width
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
        return model

    def _restart(self) -> None:
        """Begin a stage with a new optimizer, and with the model as it is now for a reference."""
        rate = self.stages[min(self.progress.stage, 2)].rate
        self.optimizer = self.parts.AdamW(self.model.parameters(), lr=rate, weight_decay=0.0)
        copy_weights(self.reference, weights_of(self.model))

    def train(self) -> Iterator[tuple[Stage, float]]:
        """Continue the run through its stages; yield the loss, or the mean reward, after each step.

        Before the last step of a stage is yielded, `progress` has the results of the stage: its
        weights, and the share of held-out questions that the model answers right.
        """
        progress = self.progress
        while progress.stage < len(self.stages):
            stage = self.stages[progress.stage]
            value = self._step(stage)
            progress.step += 1
            if progress.step == stage.steps:
                progress.shares[stage.name] = self.shares_right(self.prompts())
                write_weights(self.folder / f"{stage.name}.safetensors", weights_of(self.model))
                progress.stage, progress.step = progress.stage + 1, 0
                self._restart()
                self.save()
            elif progress.step % SAVE_EVERY == 0:
                self.save()
            yield stage, value

    def _step(self, stage: Stage) -> float:
        """Take a step; return its loss, or the mean reward."""
        name = f"{self.recipe.seed} {stage.name} {self.progress.step}"
        source = random.Random(name)
        generator = torch.Generator().manual_seed(source.getrandbits(60))
        number, remaining = self.progress.step + 1, stage.steps - self.progress.step
        for group in self.optimizer.param_groups:
            rising, falling = number / WARMUP, remaining / (COOLDOWN * stage.steps)
            group["lr"] = stage.rate * min(1.0, rising, falling)
        for loss in stage.losses(source, generator):
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT_NORM)
            self.optimizer.step()
        return self.progress.rewards[-1] if stage.name == "reinforcement" else float(loss.detach())

    # --- What a step minimizes --------------------------------------------------------------------

    def _texts(self, source: random.Random, generator: torch.Generator) -> Iterator[Tensor]:
        """Pretraining: the next token of sums that are written out."""
        rows = [self.text(self.question(source)) for _ in range(self.recipe.batch)]
        tokens = pad_sequence(rows, batch_first=True, padding_value=PAD)  # (B, T)
        logits = self.model(tokens[:, :-1])  # (B, T − 1, V)
        yield F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)

    def _conversations(self, source: random.Random, generator: torch.Generator) -> Iterator[Tensor]:
        """Instruction tuning: the assistant's tokens alone."""
        some = source.choices(self.examples, k=self.recipe.batch)
        tokens = pad_sequence(
            [tokens_of for tokens_of, _ in some], batch_first=True, padding_value=PAD
        )
        labels = pad_sequence(
            [labels_of for _, labels_of in some], batch_first=True, padding_value=-100
        )
        yield F.cross_entropy(self.model(tokens).flatten(0, 1), labels.flatten())

    def _answers(self, source: random.Random, generator: torch.Generator) -> Iterator[Tensor]:
        """Reinforcement learning: sample a group of answers to each prompt, and reward the right ones."""
        recipe, parts = self.recipe, self.parts
        questions = [self.question(source) for _ in range(recipe.prompts)]
        prompts = torch.stack([self._prompt(question) for question in questions])  # (P, T_p)
        answers, mask = parts.sample_answers(
            self.model, prompts, recipe.group, self._longest, END, generator
        )  # (P, G, T) each
        rewards = torch.tensor(
            [
                [reward(question, row) for row in group]
                for question, group in zip(questions, answers.tolist(), strict=True)
            ]
        )  # (P, G)
        self.progress.rewards.append(float(rewards.mean()))
        advantages = parts.group_advantages(rewards)  # (P, G)
        with torch.no_grad():
            old = parts.answer_log_probs(self.model, prompts, answers)  # (P, G, T)
            reference = parts.answer_log_probs(self.reference, prompts, answers)  # (P, G, T)
        for _ in range(recipe.passes):
            log_probs = parts.answer_log_probs(self.model, prompts, answers)  # (P, G, T)
            loss = parts.policy_loss(log_probs, old, advantages, mask, recipe.clip)
            yield loss + recipe.beta * parts.kl_penalty(log_probs, reference, mask)

    def question(self, source: random.Random) -> Sum:
        """Draw a question that is not held out."""
        while (question := draw(source, self.recipe.digits)) in self.held_out:
            pass
        return question

    def text(self, question: Sum) -> Tensor:
        a, b = question
        return torch.tensor([START, *encode(f"{a}+{b}\n{worked_out(a, b)}"), END])

    def _example(self, question: Sum) -> tuple[Tensor, Tensor]:
        """A conversation's tokens and labels."""
        a, b = question
        messages = [
            {"role": "user", "content": f"{a}+{b}?"},
            {"role": "assistant", "content": worked_out(a, b)},
        ]
        tokens, is_answer = self.parts.chat_tokens(messages, encode, START, END)
        return tokens, self.parts.answer_labels(tokens, is_answer)

    def _prompt(self, question: Sum) -> Tensor:
        a, b = question
        return self.prompt_of(f"{a}+{b}?")

    def prompt_of(self, text: str) -> Tensor:
        """Return the tokens that precede the reply to a text."""
        messages = [{"role": "user", "content": text}]
        tokens: Tensor = self.parts.chat_tokens(messages, encode, START, END, reply=True)[0]
        return tokens

    # --- What it can do ---------------------------------------------------------------------------

    @property
    def _longest(self) -> int:
        """Tokens of the longest right answer: nine for each place, the sum, and the end."""
        return 10 * self.recipe.digits + 2

    def prompts(self, plain: bool = False) -> dict[Sum, Tensor]:
        """Return the held-out questions as a user asks them or, with `plain`, as in the text of
        pretraining."""
        questions = sorted(self.held_out)
        if plain:
            return {(a, b): torch.tensor([START, *encode(f"{a}+{b}\n")]) for a, b in questions}
        return {question: self._prompt(question) for question in questions}

    def shares_right(self, prompts: dict[Sum, Tensor]) -> list[float]:
        """Return the share of right answers, with sampling and with the most likely tokens."""
        rows, shares = torch.stack(list(prompts.values())), []
        for temperature in (1.0, 0.0):
            generator = torch.Generator().manual_seed(self.recipe.seed)
            answers = self.answers(rows, temperature, generator=generator)
            shares.append(sum(map(reward, prompts, answers)) / len(prompts))
        return shares

    def answers(self, prompts: Tensor, temperature: float, **how: Any) -> list[list[int]]:
        """Return the tokens of the answer to each prompt, `(P, T_p)`; `how` is passed to `generate`."""
        longest, start = self._longest, prompts.size(1)
        text = self.parts.generate_cached(
            self.model, prompts, longest, temperature, **how
        )  # (P, T_p + longest)
        texts: list[list[int]] = text[:, start:].tolist()
        return texts

    def reply(self, text: str, temperature: float, **how: Any) -> str:
        """Return the reply to a text; `how` is passed to `generate`.

        Raises:
            Refused: the model does not know a character of the text, or the text is too long.
        """
        prompt = self.prompt_of(text)
        if len(prompt) + self._longest > CONTEXT:
            raise Refused(f"The model reads {CONTEXT} characters: this question is too long")
        return decode(self.answers(prompt.unsqueeze(0), temperature, **how)[0])

    # --- The folder -------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the state that resuming needs."""
        tensors = {f"weights.{name}": tensor for name, tensor in weights_of(self.model).items()}
        tensors |= {
            f"reference.{name}": tensor for name, tensor in weights_of(self.reference).items()
        }
        numbers: dict[str, dict[str, Any]] = {}
        for index, state in self.optimizer.state_dict()["state"].items():
            for name, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{index}.{name}"] = value
                else:
                    numbers.setdefault(str(index), {})[name] = value
        facts = {"progress": asdict(self.progress), "numbers": numbers}
        write_state(self.folder / STATE, TrainingState(tensors, facts))

    def resume(self) -> bool:
        """Load the folder's last state.

        Returns:
            Whether the run had saved anything.

        Raises:
            Refused: the state cannot be read.
        """
        saved = _saved(self.folder)
        if saved is None:
            return False
        self.progress = Progress(**saved.facts["progress"])
        self._restart()
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in saved.tensors.items():
            kind, _, rest = name.partition(".")
            parts.setdefault(kind, {})[rest] = tensor
        copy_weights(self.model, parts["weights"])
        copy_weights(self.reference, parts["reference"])
        state: dict[int, dict[str, Any]] = {
            int(index): dict(some) for index, some in saved.facts["numbers"].items()
        }
        for name, tensor in parts.get("optimizer", {}).items():
            index, _, part = name.partition(".")
            state.setdefault(int(index), {})[part] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        return True

    def begin_from(self, folder: Path) -> None:
        """Begin with reinforcement learning, from the instruction-tuned model of a different run.

        Raises:
            Refused: that run has no such model, or the sizes differ.
        """
        copy_weights(self.model, read_weights(folder / "tuning.safetensors"))
        self.progress.stage = 2
        self._restart()


STATE, SETTINGS, ANSWERS = "last.state", "reasoner.yaml", "answers"


def begin(folder: Path, recipe: Recipe, answers: str) -> None:
    """Create the folder of a run.

    Args:
        answers: the folder of a learner's parts, as the user named it; empty for the reference's.

    Raises:
        Refused: the folder exists, or cannot be written.
    """
    try:
        folder.mkdir(parents=True)
        text = yaml.safe_dump(asdict(recipe) | {"answers": answers}, sort_keys=False)
        write_atomically(folder / SETTINGS, text.encode())
    except FileExistsError as error:
        raise Refused(
            f"{folder} already exists: choose a different --out, or --resume it"
        ) from error
    except OSError as error:
        raise Refused(f"{folder} cannot be written: {error.strerror}") from error


def recipe_of(folder: Path) -> tuple[Recipe, str]:
    """Return a run's settings, and whose parts it uses.

    Raises:
        Refused: the folder does not contain a run of a reasoner.
    """
    try:
        recipe = yaml.safe_load((folder / SETTINGS).read_text(encoding="utf-8"))
        answers = recipe.pop("answers")
        return Recipe(**recipe), answers
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise Refused(
            f"{folder} is no run of a reasoner: `course assemble reasoner` makes one"
        ) from error


def _saved(folder: Path) -> TrainingState | None:
    """The last state that can be read; None where the run has none yet."""
    for path in (folder / STATE, previous(folder / STATE)):
        try:
            return read_state(path)
        except FileNotFoundError:
            continue
        except (OSError, Damaged):
            if path == previous(folder / STATE):
                raise Refused(f"{path} is damaged, and so is the state after it") from None
    return None
