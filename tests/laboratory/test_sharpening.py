"""The study of what reinforcement learning does to a distribution: enumeration, runner, report."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from laboratory.report import sharpening as report
from laboratory.running import sharpening as runner
from laboratory.study.enumeration import (
    answers_log_probs,
    can_be_right,
    enumerate_answers,
    pass_at,
)
from laboratory.study.sharpening import FOLDER, read_grid, read_results
from training.reasoning.reasoner import END, PAD, encode, reward
from variants.grpo import sample_answers
from variants.llama import LLaMA, LLaMAConfig
from variants.test_time_compute import pass_at_k

LONGEST, STOP = 4, 3  # tokens of an answer, and the end token
PROMPTS = torch.tensor([[0, 1], [2, 2]])


def always(prefix: list[int]) -> bool:
    return True


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = LLaMAConfig(
        vocab=4, context=8, n_layers=2, n_heads=2, n_kv_heads=1, d_model=8, d_ff=16
    )
    built = LLaMA(config)
    for weight in built.parameters():
        weight.data.mul_(20.0 if weight.dim() == 2 else 1.0)  # far from uniform
    return built


def test_all_answers_are_those_of_brute_force(model: Any) -> None:
    texts = itertools.product(range(4), repeat=LONGEST)
    answers = {text[: text.index(STOP) + 1] if STOP in text else text for text in texts}
    for prompt, found in zip(
        PROMPTS,
        enumerate_answers(model, PROMPTS, LONGEST, STOP, 1e-30, [always, always]),
        strict=True,
    ):
        tokens, log_probs = zip(*found.answers, strict=True)
        assert sorted(map(tuple, tokens)) == sorted(answers)
        expected = answers_log_probs(model, prompt, list(tokens))
        torch.testing.assert_close(torch.tensor(log_probs).double(), expected, rtol=0, atol=1e-5)
        assert found.found == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("least", [0.3, 0.02, 1e-4])
def test_the_three_parts_add_up_and_bracket_the_right_answers(model: Any, least: float) -> None:
    def hopeful(prefix: list[int]) -> bool:
        return prefix[0] == 1 or STOP not in prefix[:2]

    exact, cut = (
        enumerate_answers(model, PROMPTS, LONGEST, STOP, bound, [hopeful, always])
        for bound in (1e-30, least)
    )
    for whole, part in zip(exact, cut, strict=True):
        assert part.found + part.hopeless + part.pruned == pytest.approx(1.0, abs=1e-6)
        assert part.found <= whole.found + 1e-6 <= part.found + part.pruned + 2e-6


def test_probabilities_are_the_frequencies_of_samples(model: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    answers, mask = sample_answers(model, PROMPTS[:1], 4000, LONGEST, STOP, generator)
    sampled = Counter(
        tuple(row[kept].tolist()) for row, kept in zip(answers[0], mask[0], strict=True)
    )
    (found,) = enumerate_answers(model, PROMPTS[:1], LONGEST, STOP, 1e-3, [always])
    for tokens, log_prob in found.answers:
        p = math.exp(log_prob)
        assert abs(sampled[tuple(tokens)] / 4000 - p) < 5 * math.sqrt(p * (1 - p) / 4000)


def test_a_prefix_can_be_right_if_a_continuation_earns_the_reward() -> None:
    alphabet = [*encode("12\n"), PAD, END]
    for length in range(1, 5):
        for prefix in itertools.product(alphabet, repeat=length):
            rests = itertools.product(alphabet, repeat=4 - length)
            earned = any(reward((5, 7), [*prefix, *rest]) for rest in rests)
            assert can_be_right((5, 7), 4, list(prefix)) == earned, prefix


def test_pass_at_k_is_what_estimates_are_on_average() -> None:
    binomial = [math.comb(8, c) * 0.3**c * 0.7 ** (8 - c) for c in range(9)]
    mean = sum(weight * pass_at_k(8, c, 3) for c, weight in enumerate(binomial))
    assert pass_at(3, 0.3) == pytest.approx(mean)
    assert pass_at(10**6, 1e-18) == pytest.approx(1e-12)
    assert pass_at(1, 1.0) == 1.0


def test_per_answer_divides_by_the_length_relative_to_the_mean(tmp_path: Path) -> None:
    mask = torch.tensor([[True, False, False, False], [True, True, True, False]])
    log_probs = torch.zeros(2, 4, requires_grad=True)
    parts = runner.built(read_grid().recipe_of(0), tmp_path, per_answer=True).parts
    loss = parts.policy_loss(log_probs, log_probs.detach(), torch.ones(2), mask, 0.2)
    (slopes,) = torch.autograd.grad(-loss, log_probs)
    torch.testing.assert_close(slopes.sum(dim=1), torch.tensor([1.0, 1.0]))  # 2 / 2 each
    assert slopes[0, 0] == 3 * slopes[1, 0]


def test_a_small_form_runs_and_resumes(tmp_path: Path) -> None:
    study = read_grid()
    short = {"conversations": 4, "batch": 2, "steps": 2}
    small = replace(
        study, recipe=study.recipe | short, bases={"middle": 0.0}, seeds=[0], questions=2
    )
    small = replace(small, variants={"central": {"base": "middle"}}, least=0.01)
    console = Console(quiet=True)
    results = runner.run(small, console, tmp_path)
    base, trained = results["cells"]
    assert (base["name"], trained["name"]) == ("middle", "central")
    assert trained["below"][0] == pytest.approx(sum(trained["right"]) / 2, rel=1e-3)
    assert runner.run(small, console, tmp_path)["cells"] == results["cells"]


def test_the_shipped_report_is_what_the_results_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    text = report.write(read_grid(), read_results()).read_text(encoding="utf-8")
    assert text == (FOLDER / "report.md").read_text(encoding="utf-8")
