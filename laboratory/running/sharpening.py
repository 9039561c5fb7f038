"""Run the study `sharpening`: train base models, improve them by reinforcement learning, and enumerate."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from laboratory.running.machine import kind_of
from laboratory.running.runner import RUNS, commit
from laboratory.study.enumeration import Enumerated, answers_log_probs, enumerate_answers
from laboratory.study.results import FILE
from laboratory.study.sharpening import (
    FOLDER,
    LEVELS,
    NAME,
    Sharpening,
    can_be_right,
    enumerated_questions,
)
from training.checkpoints import read_weights, write_atomically, write_weights
from training.models.architectures import copy_weights, weights_of
from training.reasoning.parts import parts_from
from training.reasoning.reasoner import END, Reasoner, Recipe

CHECK_EVERY = 10  # tuning steps between two looks at the share of right answers
CHECKED = 100  # questions of a look
AT_ONCE = 5  # questions that are enumerated in one batch


def run(study: Sharpening, console: Console, runs: Path = RUNS) -> dict[str, Any]:
    """Run what is not finished yet, a seed after the other, on one core; return the results."""
    begun = commit(NAME)
    torch.set_num_threads(1)
    cells = []
    for seed in study.seeds:
        folder = runs / NAME / study.digest / f"seed{seed}"
        train_bases(study, seed, folder)
        for name in (*study.bases, *study.variants):
            path = folder / name / f"masses-{study.questions}-{study.least:g}.json"
            if not path.exists():
                began = time.process_time()
                cell = (
                    _base(study, folder / name)
                    if name in study.bases
                    else _trained(study, name, seed, folder)
                )
                seconds = round(time.process_time() - began, 1)
                write_atomically(
                    path,
                    json.dumps(
                        {"name": name, "seed": seed, **cell, "core_seconds": seconds}
                    ).encode(),
                )
                console.print(f"seed {seed}, {name}: {seconds} s", highlight=False)
            cells.append(json.loads(path.read_text(encoding="utf-8")))
    made = {
        "machine": kind_of(torch.device("cpu")),
        "torch": torch.__version__,
        "commit": begun,
        "settings": study.digest,
    }
    return {"study": NAME, "made": made, "cells": cells}


def write(results: dict[str, Any]) -> None:
    """Write `results.json`, a cell on each line."""
    cells = ",\n".join(json.dumps(cell) for cell in results["cells"])
    head = json.dumps({key: value for key, value in results.items() if key != "cells"}, indent=1)
    write_atomically(FOLDER / FILE, f'{head[:-2]},\n "cells": [\n{cells}\n]}}\n'.encode())


# --- Training -------------------------------------------------------------------------------------


def train_bases(study: Sharpening, seed: int, folder: Path) -> None:
    """Pretrain and tune one model; store it where it first answers each share of sampled answers right."""
    paths = {name: folder / name / "tuning.safetensors" for name in study.bases}
    if all(path.exists() for path in paths.values()):
        return
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    remaining = list(study.bases)
    reasoner = built(study.recipe_of("", seed), folder)
    source = random.Random("checked")
    questions = [reasoner.question(source) for _ in range(CHECKED)]
    prompts = {question: reasoner.prompt_of("{}+{}?".format(*question)) for question in questions}
    for stage, _ in reasoner.train():
        if stage.name != "tuning" or reasoner.progress.step % CHECK_EVERY:
            continue
        share = reasoner.shares_right(prompts)[0]
        while remaining and share >= study.bases[remaining[0]]:
            write_weights(paths[remaining.pop(0)], weights_of(reasoner.model))
        if not remaining:
            break


def built(recipe: Recipe, folder: Path, per_answer: bool = False) -> Reasoner:
    """Return a reasoner of the references' parts.

    Args:
        per_answer: whether the loss of each answer is divided by its length, as in DeepSeekMath, and
            multiplied by the mean length, so that the weight of the KL penalty means the same.
    """
    parts = parts_from(import_module)
    if per_answer:
        summed: Callable[..., Tensor] = parts.policy_loss

        def averaged(
            log_probs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, clip: float
        ) -> Tensor:
            lengths = mask.sum(dim=-1).float()
            return summed(log_probs, old, advantages * lengths.mean() / lengths, mask, clip)

        parts.policy_loss = averaged  # type: ignore[attr-defined]
    return Reasoner(recipe, parts, folder)


# --- Measuring ------------------------------------------------------------------------------------


def _base(study: Sharpening, folder: Path) -> dict[str, Any]:
    return _masses(_enumerated(study, _loaded(study, folder)))


def _trained(study: Sharpening, name: str, seed: int, seed_folder: Path) -> dict[str, Any]:
    """Train a variant; enumerate its answers, and compare their probabilities with the base model's."""
    changes = study.variants[name]
    folder, base = seed_folder / name, seed_folder / changes["base"]
    folder.mkdir(parents=True, exist_ok=True)
    reasoner = built(study.recipe_of(name, seed), folder, changes.get("per_answer", False))
    if not reasoner.resume():
        reasoner.begin_from(base)
    for _ in reasoner.train():
        pass
    answers = _enumerated(study, reasoner)
    rewards = reasoner.progress.rewards
    means = [
        round(sum(rewards[first : first + 10]) / 10, 4) for first in range(0, len(rewards), 10)
    ]
    return _masses(answers) | {
        "below": _below(study, _loaded(study, base), answers),
        "rewards": means,
    }


def _loaded(study: Sharpening, folder: Path) -> Reasoner:
    """Return a base model."""
    reasoner = built(study.recipe_of("", 0), folder)
    copy_weights(reasoner.model, read_weights(folder / "tuning.safetensors"))
    return reasoner


def _enumerated(study: Sharpening, reasoner: Reasoner) -> list[Enumerated]:
    """Return the right answers to each question."""
    questions = enumerated_questions(reasoner, study.questions)
    longest = 10 * reasoner.recipe.digits + 2  # tokens, as in training
    found: list[Enumerated] = []
    for first in range(0, len(questions), AT_ONCE):
        some = questions[first : first + AT_ONCE]
        prompts = torch.stack([reasoner.prompt_of("{}+{}?".format(*question)) for question in some])
        found += enumerate_answers(
            reasoner.model,
            prompts,
            longest,
            END,
            study.least,
            [partial(can_be_right, question, longest) for question in some],
        )
    return found


def _masses(answers: list[Enumerated]) -> dict[str, Any]:
    """The probability of the right answers to each question, and that of what was pruned."""
    return {
        "right": [float(f"{found.found:.6g}") for found in answers],
        "pruned": [float(f"{found.pruned:.3g}") for found in answers],
    }


def _below(study: Sharpening, base: Reasoner, answers: list[Enumerated]) -> list[float]:
    """The trained model's probability of right answers that the base model gives less than each level.

    It is a mean over the questions. Each answer is complete, so the base model's probability is exact.
    """
    masses = [0.0 for _ in LEVELS]
    for question, found in zip(enumerated_questions(base, study.questions), answers, strict=True):
        if not found.answers:
            continue
        prompt = base.prompt_of("{}+{}?".format(*question))
        values = answers_log_probs(base.model, prompt, [tokens for tokens, _ in found.answers])
        for (_, log_prob), value in zip(found.answers, values.tolist(), strict=True):
            for index, level in enumerate(LEVELS):
                masses[index] += math.exp(log_prob) * (value < math.log(level))
    return [float(f"{mass / study.questions:.4g}") for mass in masses]
