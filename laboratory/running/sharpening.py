"""Run the study `sharpening`: tune, improve, enumerate, and compare with the base model, seed by seed."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import statistics
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from laboratory.running.machine import kind_of
from laboratory.running.runner import RUNS, commit
from laboratory.study.enumeration import (
    Enumerated,
    answers_log_probs,
    can_be_right,
    enumerate_answers,
)
from laboratory.study.sharpening import LEVELS, NAME, Sharpening
from training.checkpoints import read_weights, write_atomically, write_weights
from training.models.architectures import copy_weights, weights_of
from training.reasoning import lessons
from training.reasoning.parts import parts_from
from training.reasoning.reasoner import END, Reasoner, Recipe, Sum

BASE = "tuning.safetensors"  # the file with which `Reasoner.begin_from` begins
CHECK_EVERY, CHECKED = 4, 100  # tuning steps between two checks, questions of a check
AT_ONCE = 5  # questions that are enumerated in one batch


def run(study: Sharpening, console: Console, runs: Path = RUNS) -> dict[str, Any]:
    """Run what is not finished yet, on one core; return the results."""
    torch.set_num_threads(1)
    settings = json.dumps([study.bases, study.recipe, study.variants], sort_keys=True)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:12]
    provenance = {"machine": kind_of(torch.device("cpu")), "torch": torch.__version__}
    provenance |= {"commit": commit(NAME), "settings": digest}
    cells = []
    for name, seed in itertools.product([*study.bases, *study.variants], study.seeds):
        folder = runs / NAME / digest / f"seed{seed}"
        if not all((folder / base / BASE).exists() for base in study.bases):
            tune(study, seed, folder)
        path = folder / name / f"masses-{study.questions}-{study.least:g}.json"
        if not path.exists():
            began = time.process_time()
            cell = {"name": name, "seed": seed, **_measured(study, name, seed, folder)}
            cell["core_seconds"] = round(time.process_time() - began, 1)
            write_atomically(path, json.dumps(cell).encode())
            console.print(f"{name}, seed {seed}: {cell['core_seconds']} s", highlight=False)
        cells.append(json.loads(path.read_text(encoding="utf-8")))
    return {"study": NAME, "made": provenance, "cells": cells}


def tune(study: Sharpening, seed: int, folder: Path) -> None:
    """Tune the pretrained model; store it where it first has each base model's share of right answers."""
    reasoner = built(study.recipe_of(seed), folder)
    copy_weights(reasoner.model, weights_of(lessons.base()))
    reasoner.progress.stage = 1
    questions, remaining = lessons.sums(CHECKED, seed=0), dict(study.bases)
    prompts = dict(
        zip(questions, lessons.prompts(reasoner.parts.chat_tokens, questions), strict=True)
    )
    for _ in reasoner.train():
        if reasoner.progress.step % CHECK_EVERY == 0:
            share = reasoner.shares_right(prompts)[0]
            for name in [name for name, least in remaining.items() if share >= least]:
                (folder / name).mkdir(parents=True, exist_ok=True)
                write_weights(folder / name / BASE, weights_of(reasoner.model))
                del remaining[name]
            if not remaining:
                break


def built(recipe: Recipe, folder: Path, per_answer: bool = False) -> Reasoner:
    """Return a reasoner of the references' parts.

    Args:
        per_answer: whether the policy loss of each answer is divided by its length, as in DeepSeekMath. It
            is multiplied by the mean length, so that it keeps its size beside the KL penalty.
    """
    parts = parts_from(import_module)
    summed = parts.policy_loss

    def averaged(new: Tensor, old: Tensor, gains: Tensor, mask: Tensor, clip: float) -> Tensor:
        lengths = mask.sum(dim=-1).float()  # (P, G)
        loss: Tensor = summed(new, old, gains * lengths.mean() / lengths, mask, clip)
        return loss

    if per_answer:
        vars(parts)["policy_loss"] = averaged
    folder.mkdir(parents=True, exist_ok=True)
    return Reasoner(recipe, parts, folder)


def _measured(study: Sharpening, name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Enumerate the right answers of a base model, or train a variant, and compare it with its base model."""
    variant = study.variants.get(name, {})
    base = built(study.recipe_of(seed), folder / variant.get("base", name))
    copy_weights(base.model, read_weights(base.folder / BASE))
    questions = random.Random("enumerated").sample(lessons.TEST, study.questions)
    if not variant:
        return _masses(enumerated(base, questions, study.least))
    recipe = study.recipe_of(seed, name)
    reasoner = built(recipe, folder / name, variant.get("per_answer", False))
    reasoner.begin_from(base.folder)
    for _ in itertools.islice(reasoner.train(), recipe.steps - 1):
        pass  # the last step, at a rate of nearly 0, would also ask all 500 held-out questions
    enumerations = enumerated(reasoner, questions, study.least)
    rewards = reasoner.progress.rewards
    means = [round(statistics.fmean(rewards[i : i + 10]), 4) for i in range(0, len(rewards), 10)]
    return _masses(enumerations) | {
        "below": _below(base, questions, enumerations),
        "rewards": means,
    }


def enumerated(reasoner: Reasoner, questions: list[Sum], least: float) -> list[Enumerated]:
    """Enumerate the right answers to each question."""
    enumerations = []
    for first in range(0, len(questions), AT_ONCE):
        some = questions[first : first + AT_ONCE]
        prompts = lessons.prompts(reasoner.parts.chat_tokens, some)
        hopeful = [partial(can_be_right, question, lessons.LONGEST) for question in some]
        enumerations += enumerate_answers(
            reasoner.model, prompts, lessons.LONGEST, END, least, hopeful
        )
    return enumerations


def _masses(enumerations: list[Enumerated]) -> dict[str, Any]:
    """Return the probabilities of the right answers to each question, and of what was not expanded."""
    right = [float(f"{some.found:.6g}") for some in enumerations]
    return {"right": right, "pruned": [float(f"{some.pruned:.3g}") for some in enumerations]}


def _below(base: Reasoner, questions: list[Sum], enumerations: list[Enumerated]) -> list[float]:
    """Return the probability of right answers that the base model finds less probable than each level.

    It is the trained model's probability, as a mean over the questions.
    """
    masses = [0.0 for _ in LEVELS]
    prompts = lessons.prompts(base.parts.chat_tokens, questions)
    for prompt, some in zip(prompts, enumerations, strict=True):
        answers = [answer for answer, _ in some.answers]
        before = answers_log_probs(base.model, prompt, answers).tolist()
        for (_, log_prob), base_log_prob in zip(some.answers, before, strict=True):
            for index, level in enumerate(LEVELS):
                masses[index] += math.exp(log_prob) * (base_log_prob < math.log(level))
    return [float(f"{mass / len(questions):.4g}") for mass in masses]
