"""The study of what reinforcement learning changes in a distribution that can be enumerated: its settings.

It is described in `grid.yaml`, not `study.yaml`: its models are those of `training.reasoning`, and what it
measures is a distribution and not a loss.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import Any

import yaml

from laboratory.study.description import STUDIES
from laboratory.study.results import FILE
from training.errors import Refused
from training.reasoning.reasoner import END, Reasoner, Recipe, Sum, decode, is_right

NAME = "sharpening"
FOLDER = STUDIES / NAME
LEVELS = [10.0**-exponent for exponent in range(9)]  # probabilities, 1 to 1e-8
SMALL = 1e-6  # what the base gives less is called new


@dataclass(frozen=True)
class Sharpening:
    """What the file says.

    Attributes:
        bases: by name, the share of sampled answers right at which tuning has reached the base model.
        recipe: settings of `Recipe` that all runs share.
        variants: by name, `base`, the settings that differ, and `per_answer`: whether the loss of an
            answer is divided by its length.
        questions: of the held-out ones, those whose answers are enumerated.
        least: the probability below which a prefix is not expanded.
    """

    question: str
    answer: str
    bases: dict[str, float]
    recipe: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    central: str
    seeds: list[int]
    questions: int
    least: float

    @property
    def digest(self) -> str:
        """A digest of the settings that training depends on."""
        settings = [self.bases, self.recipe, self.variants]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]

    def recipe_of(self, variant: str, seed: int) -> Recipe:
        """Return the settings of a run; those of no variant, of its base models."""
        changes = {**self.variants.get(variant, {})}
        for name in ("base", "per_answer"):
            changes.pop(name, None)
        return Recipe(**{**self.recipe, **changes, "seed": seed})


def read_grid() -> Sharpening:
    """Return the study as its file describes it."""
    return Sharpening(**yaml.safe_load((FOLDER / "grid.yaml").read_text(encoding="utf-8")))


def read_results() -> dict[str, Any]:
    """Return what the runs measured.

    Raises:
        Refused: the study has no results yet.
    """
    try:
        results: dict[str, Any] = json.loads((FOLDER / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Refused(f"{FOLDER / FILE} does not exist: the study has no results yet") from error
    return results


def enumerated_questions(reasoner: Reasoner, count: int) -> list[Sum]:
    """Return held-out questions, the same for every seed."""
    return sorted(random.Random("enumerated").sample(sorted(reasoner.held_out), count))


def can_be_right(question: Sum, longest: int, prefix: list[int]) -> bool:
    """Return whether an answer of at most `longest` tokens that begins with this prefix can be right."""
    text, remaining = decode(prefix), longest - len(prefix)
    if len(text) < len(prefix):  # The text has ended, but the answer only ends at END.
        return is_right(question, text) and (END in prefix or remaining > 0)
    line, total = text.rpartition("\n")[2], str(sum(question))
    rest = len(total) - len(line) if total.startswith(line) else 1 + len(total)
    return rest + 1 <= remaining
