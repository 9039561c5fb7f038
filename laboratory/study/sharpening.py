"""The settings of the study `sharpening`, in `grid.yaml`: its models are those of `training.reasoning`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import yaml

from laboratory.study.description import STUDIES
from laboratory.study.results import FILE
from training.checkpoints import write_atomically
from training.reasoning.reasoner import Recipe

NAME = "sharpening"
FOLDER = STUDIES / NAME
LEVELS = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8]  # probabilities of a base model


@dataclass(frozen=True)
class Sharpening:
    """The contents of `grid.yaml`."""

    question: str
    takes: str
    setup: str
    answer: str
    bases: dict[str, float]
    recipe: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    seeds: list[int]
    questions: int
    least: float

    def recipe_of(self, seed: int, variant: str = "") -> Recipe:
        """Return the settings of a base model's run, or of a variant's."""
        changes = self.recipe | self.variants.get(variant, {}) | {"seed": seed}
        return Recipe(**{key: changes[key] for key in changes if key not in ("base", "per_answer")})


def read_grid(seeds: int = 0) -> Sharpening:
    """Return the study as its file describes it, extended to a number of seeds if it has fewer."""
    study = Sharpening(**yaml.safe_load((FOLDER / "grid.yaml").read_text(encoding="utf-8")))
    return replace(study, seeds=list(range(max(seeds, len(study.seeds)))))


def read_results() -> dict[str, Any]:
    """Return what the runs measured."""
    results: dict[str, Any] = json.loads((FOLDER / FILE).read_text(encoding="utf-8"))
    return results


def write_results(results: dict[str, Any]) -> None:
    """Write `results.json`, a cell on each line."""
    head = json.dumps({key: value for key, value in results.items() if key != "cells"})
    cells = ",\n".join(json.dumps(cell) for cell in results["cells"])
    write_atomically(FOLDER / FILE, f'{head[:-1]}, "cells": [\n{cells}\n]}}\n'.encode())
