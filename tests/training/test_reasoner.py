"""The reasoner: its task, its three stages, and what of it is a learner's."""

import shutil

import pytest
import torch
from typer.testing import CliRunner

from course.cli import app
from training.checkpoints import read_weights
from training.errors import Refused
from training.reasoning import reasoner, running
from training.reasoning.reasoner import Reasoner, Recipe, decode, encode, is_right, worked_out

TINY = {"digits": 1, "layers": 1, "d_model": 16, "heads": 2, "kv_heads": 1, "d_ff": 16, "batch": 8}
SHORT = {"pretraining_steps": 6, "tuning_steps": 3, "steps": 4, "prompts": 4, "group": 4}
HALVED = """
def group_advantages(rewards):
    centered = rewards - rewards.mean(-1, keepdim=True)
    {body}
"""


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A working folder, and a recipe that takes a second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reasoner, "SAVE_EVERY", 2)
    monkeypatch.setattr(running, "Recipe", lambda **how: Recipe(**TINY, **SHORT, **how))
    return tmp_path


@pytest.fixture
def answers(tmp_path):
    """A folder in which day 48's advantages are the learner's, and nothing else is begun."""

    def write(body):
        (tmp_path / "mine").mkdir(exist_ok=True)
        path = tmp_path / "mine" / "day48_reinforcement_learning.py"
        path.write_text(HALVED.format(body=body), encoding="utf-8")
        return path.parent

    return write


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def begun(folder, **how):
    """A run of the reference's parts."""
    reasoner.begin(folder, Recipe(**TINY, **SHORT, **how), "")
    return again(folder)


def again(folder):
    recipe, _ = reasoner.recipe_of(folder)
    return Reasoner(recipe, running._reference(), folder)


def test_a_sum_is_worked_out_from_its_last_digit():
    assert worked_out(347, 285) == "7+5+0=12 4+8+1=13 3+2+1=06\n632"
    assert worked_out(5, 5) == "5+5+0=10\n10"


@pytest.mark.parametrize(
    ("answer", "right"),
    [("7+5+0=12\n12", True), ("12", True), ("7+5+0=12", False), ("\n012", False), ("12\n", False)],
)
def test_the_reward_is_for_the_last_line(answer, right):
    assert is_right((7, 5), answer) is right


def test_every_text_of_the_task_has_tokens():
    for a, b in ((0, 0), (999_999, 999_999)):
        text = f"user\nassistant\n{a}+{b}?{worked_out(a, b)}"
        assert decode(encode(text)) == text
    assert decode([*encode("12"), reasoner.END, *encode("3")]) == "12"
    with pytest.raises(Refused, match="no '×'"):
        encode("3×4?")


@pytest.mark.parametrize("digits", [1, 2, 6])
def test_held_out_questions_are_in_no_batch(tmp_path, digits):
    model = Reasoner(Recipe(**TINY | {"digits": digits}), running._reference(), tmp_path)
    source = reasoner.random.Random(0)
    questions = {model.question(source) for _ in range(2000)}
    assert len(model.held_out) == (50 if digits == 1 else 500) and not questions & model.held_out
    assert {len(str(number)) for pair in questions for number in pair} == {digits}
    longest = max(len(encode(worked_out(*pair))) for pair in questions)
    assert longest + 1 <= model._longest < longest + 4


def test_a_stopped_run_goes_on_with_the_same_results(tmp_path):
    full = begun(tmp_path / "whole")
    steps = list(full.train())
    assert [stage.name for stage, _ in steps] == 6 * ["pretraining"] + 3 * ["tuning"] + 4 * [
        "reinforcement"
    ]
    parts, taken = begun(tmp_path / "parts"), []
    while parts.progress.stage < 3:
        for stage, value in parts.train():
            taken.append((stage.name, value))
            if len(taken) % 4 == 0:  # in the middle of each stage
                parts.save()
                break
        parts = again(tmp_path / "parts")
        parts.resume()
    assert taken == [(stage.name, value) for stage, value in steps]
    assert parts.progress == full.progress
    for stage in ("pretraining", "tuning", "reinforcement"):
        first, second = (
            read_weights(tmp_path / folder / f"{stage}.safetensors")
            for folder in ("whole", "parts")
        )
        assert all(torch.equal(first[name], second[name]) for name in first | second)


def test_a_damaged_state_gives_way_to_the_one_before(tmp_path):
    first = begun(tmp_path / "run")
    for _, _ in zip(range(5), first.train(), strict=False):
        first.save()
    (tmp_path / "run" / reasoner.STATE).write_bytes(b"nonsense")
    second = again(tmp_path / "run")
    second.resume()
    assert (second.progress.stage, second.progress.step) == (0, 4)
    (tmp_path / "run" / "previous.state").write_bytes(b"")
    with pytest.raises(Refused, match="damaged"):
        again(tmp_path / "run").resume()


def test_a_learners_parts_train_and_what_is_the_references_is_said(tiny, answers):
    done = run("assemble", "reasoner", "--answers", answers("return centered / 2"), "--out", "run")
    assert done.exit_code == 0, done.output
    assert "Yours (1): group_advantages" in done.output
    assert "Day 48" in done.output  # it fails its checks, which is told first
    places = [done.output.index(words) for words in running.WORDS.values()]
    assert places == sorted(places) and done.output.count("new questions are right") == 3
    shutil.rmtree(tiny / "mine")  # the run keeps its own copy
    more = ["--from", "run", "--task", "sums", "--steps", "2", "--set", "group=6", "--out", "more"]
    done = run("train", "grpo", *more)
    assert done.exit_code == 0, done.output
    assert "Yours (1): group_advantages" in done.output and "Pretraining" not in done.output
    recipe, named = reasoner.recipe_of(tiny / "more")
    assert (recipe.steps, recipe.group, recipe.d_model) == (2, 6, 16) and named.endswith("mine")


def test_a_learners_error_is_told_as_theirs(tiny, answers):
    done = run("assemble", "reasoner", "--answers", answers("return missing"), "--out", "run")
    assert done.exit_code == 2
    assert "'missing' is not defined" in done.output.replace("\n", " ")
    assert "course check 48" in done.output.replace("\n", " ")


def test_a_reasoner_of_nobody_s_parts_is_none(tiny):
    (tiny / "empty").mkdir()
    done = run("assemble", "reasoner", "--answers", tiny / "empty", "--out", "run")
    assert done.exit_code == 2 and "No part of this model is yours" in done.output
    assert not (tiny / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("grpo", "--from RUN and --task sums"),
        ("grpo --from run --task products", "--task sums"),
        ("grpo --from nowhere --task sums", "no run of a reasoner"),
        ("grpo --from run --task sums --set d_model=32", "d_model is determined by the run"),
        (
            "grpo --from run --task sums --set tuning_steps=9",
            "tuning_steps is determined by the run",
        ),
        ("grpo --from run --task sums --set grup=8", "did you mean 'group'"),
        ("grpo --from run --task sums --set group=1", "group must be at least 2"),
        ("grpo --from run --task sums --out run", "already exists"),
        ("grpo --resume run --steps 9", "keeps its settings"),
        ("grpo --from run --task sums --epochs 2", "course train grpo takes"),
        ("copy --task sums", "--task is for course train grpo"),
    ],
)
def test_refusals(tiny, arguments, words):
    reasoner.begin(tiny / "run", Recipe(**TINY, **SHORT), "")
    done = run("train", *arguments.split())
    assert done.exit_code == 2 and words in " ".join(done.output.split())
    assert [path.name for path in tiny.iterdir()] == ["run"]
