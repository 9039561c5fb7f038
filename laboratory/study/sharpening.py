"""The study of what reinforcement learning does to a distribution that can be enumerated: its settings.

They are in `grid.yaml`, not `study.yaml`: the models are those of `training.reasoning`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import yaml

from laboratory.study.description import STUDIES
from training.reasoning.reasoner import Recipe

NAME = "sharpening"
FOLDER = STUDIES / NAME
LEVELS = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8]  # probabilities of a base model


@dataclass(frozen=True)
class Sharpening:
    """What the file says.

    Attributes:
        takes: how long it took on one core.
        setup: what was run, for the report; `{seeds}` stands for the number of seeds.
        bases: base models, each with the share of sampled answers right at which tuning stores it.
        recipe: settings of `Recipe` that all runs share.
        variants: trained models: `base`, settings that differ, and `per_answer`: whether the loss of
            each answer is divided by its length.
        questions: how many held-out questions have their answers enumerated.
        least: the probability below which a prefix is not expanded.
    """

    question: str
    takes: str
    setup: str
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
        settings = json.dumps([self.bases, self.recipe, self.variants], sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()[:12]

    def recipe_of(self, seed: int, variant: str = "") -> Recipe:
        """Return the settings of a base model's run, or of a variant's."""
        changes = dict(self.variants.get(variant, {}))
        for name in ("base", "per_answer"):
            changes.pop(name, None)
        return Recipe(**{**self.recipe, **changes, "seed": seed})


def read_grid(seeds: int = 0) -> Sharpening:
    """Return the study as its file describes it, extended to a number of seeds if it has fewer."""
    study = Sharpening(**yaml.safe_load((FOLDER / "grid.yaml").read_text(encoding="utf-8")))
    return replace(study, seeds=list(range(max(seeds, len(study.seeds)))))
