"""A learner's own parts: told whose they are, kept with the run, and their errors told as theirs."""

import errno
import os
import sys
from pathlib import Path

import pytest
import torch

import implementation
from course.assembly import runs
from tests.training.conftest import CPU, QUIET, small
from training.data import tasks
from training.data.vocabulary import Languages, Symbols
from training.errors import Refused
from training.inference.evaluation import evaluate
from training.inference.trained_model import TrainedModel
from training.loop.run_folder import Run
from training.loop.training_loop import Trainer
from training.models.architectures import build, copy_weights, weights_of
from training.models.parts import REFERENCES, parts_of
from variants.gpt import GPT

LOUD = """
import math
def attention(query, key, value, mask=None, dropout=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(-1)
    return 30 * weights @ value, weights
"""
LATER = """
class Generator(__import__("torch").nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = __import__("torch").nn.Linear(d_model, vocab)
    def forward(self, x):
        raise NotImplementedError
"""


@pytest.fixture
def answers(tmp_path):
    """A folder with an attention that gives thirty times what it should."""
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "day08_attention.py").write_text(LOUD, encoding="utf-8")
    return folder


def begun(answers, folder, **changes):
    """A new run with these answers, and its trainer."""
    settings = small(answers=str(answers), fused=False, dropout=0.0, **changes)
    return again(Run.begin(folder, settings, runs))


def again(run):
    settings = run.settings()
    task = tasks.load(settings, QUIET, run.languages())
    run.keep_languages(task.languages)
    return Trainer(settings, task, run, CPU, parts_of(settings, run.answers, runs))


def test_whose_parts_they_are_is_told(answers):
    (answers / "day16_label_smoothing.py").write_text("nonsense", encoding="utf-8")
    parts = parts_of(small(answers="mine"), answers, runs)
    assert parts.own == ["attention"] and list(parts.filled) == ["no file"]
    yours, rest = parts.lines()
    assert yours == "Yours (1): attention"
    assert rest.startswith("From the reference (14), no file: MultiHeadedAttention")
    assert "LabelSmoothing" not in rest and "subsequent_mask" not in rest
    assert sys.modules["implementation"] is implementation


def test_an_answer_that_cannot_be_read_is_named(answers, tmp_path, monkeypatch):
    """Not the run's folder, of which nothing is left."""
    read = Path.read_bytes

    def refused(path):
        if path.parent == answers:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(
        Refused, match=r"answers/day08_attention\.py cannot be read: Permission denied"
    ):
        begun(answers, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_answers_nothing_is_told(tmp_path):
    parts = parts_of(small(), tmp_path / "none", runs)
    assert parts.module is implementation and not list(parts.lines())


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "day10_feed_forward_and_embeddings.py",
            "1 / 0",
            "embeddings.py cannot be loaded: ZeroDiv",
        ),
        (
            "day12_encoder.py",
            "class Encoder:\n  def",
            r"day12_encoder.py cannot .* SyntaxError.*line 2",
        ),
        ("day14_make_model.py", "\0", "day14_make_model.py holds a NUL"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused(answers, name, text, words):
    (answers / name).write_text(
        text + "\nclass Mine: pass\nclass Encoder: pass\n", encoding="utf-8"
    )
    with pytest.raises(Refused, match=words) as refusal:
        parts_of(small(answers="mine"), answers, runs)
    assert "course check --answers mine" in str(refusal.value) and "<unknown>" not in str(
        refusal.value
    )


def test_where_nothing_is_the_learner_s_there_is_nothing_to_train(answers):
    (answers / "day08_attention.py").unlink()
    with pytest.raises(
        Refused, match=r"No part of this model is yours:\nFrom the .*, no file: att"
    ):
        parts_of(small(answers="mine"), answers, runs)


def test_a_decoder_is_no_part_of_a_language_model(answers):
    (answers / "day08_attention.py").unlink()
    (answers / "day13_decoder.py").write_text("class Decoder: pass", encoding="utf-8")
    assert parts_of(small(answers="mine"), answers, runs).own == ["Decoder"]
    with pytest.raises(Refused, match="No part of this model is yours"):
        parts_of(small("text", answers="mine"), answers, runs)


def test_what_is_trained_is_what_is_measured_and_used(answers, tmp_path):
    trainer = begun(answers, tmp_path / "run", steps=30, validate_every=30)
    trainer.train(None)
    (answers / "day08_attention.py").write_text("gone", encoding="utf-8")
    model = TrainedModel.load(trainer.run.folder, "cpu", runs)
    evaluation = evaluate(model, trainer.task, "validation")
    assert evaluation.loss == pytest.approx(trainer.progress.best, rel=1e-6)
    settings = trainer.settings.replace({"answers": ""})
    reference = TrainedModel(
        settings, model.languages, implementation_model(model), torch.device("cpu")
    )
    assert abs(evaluate(reference, trainer.task, "validation").loss - evaluation.loss) > 1e-4


def implementation_model(model):
    """The reference's model with the same weights."""
    from training.models.architectures import build, copy_weights, weights_of

    other = build(model.settings, model.languages)
    copy_weights(other, weights_of(model.model))
    return other


def test_a_run_goes_on_with_its_own_parts_alone(answers, tmp_path):
    trainer = begun(answers, tmp_path / "run")
    trainer.train(None)
    copied = trainer.run.answers / "day08_attention.py"
    copied.write_text(LOUD.replace("30 *", "3 *"), encoding="utf-8")
    with pytest.raises(Refused, match="answers has changed since the run was begun"):
        again(trainer.run)
    copied.unlink()
    copied.parent.rmdir()
    with pytest.raises(Refused, match="answers is gone"):
        again(trainer.run)


def test_an_error_in_a_part_is_told_by_its_line(answers, tmp_path):
    (answers / "day08_attention.py").write_text(LOUD.replace("30 * weights", "none"))
    trainer = begun(answers, tmp_path / "run")
    with pytest.raises(Refused) as refusal:
        trainer.train(None)
    lines = str(refusal.value).splitlines()
    assert lines[0].endswith("raise an error. NameError: name 'none' is not defined")
    assert lines[1] == "  line 8, in attention: return none @ value, weights"
    assert lines[2] == "Did you mean `None`?"
    assert lines[3] == f"day08_attention.py: `course check 8 --answers {answers}` tells more"
    assert len(lines) == 4


def test_a_part_that_is_half_begun_says_so(answers, tmp_path):
    (answers / "day14_make_model.py").write_text(LATER, encoding="utf-8")
    with pytest.raises(Refused, match="`Generator` is begun; its `forward` is yours"):
        begun(answers, tmp_path / "run").train(None)


def test_an_error_on_the_way_back_is_told_too(answers, tmp_path):
    damaging = LOUD.replace("    return", "    weights *= 2\n    return")
    (answers / "day08_attention.py").write_text(damaging, encoding="utf-8")
    with pytest.raises(
        Refused, match=r"(?s)RuntimeError: .*inplace operation.*`course check --ans"
    ):
        begun(answers, tmp_path / "run").train(None)


def test_without_a_workshop_a_learner_s_parts_are_refused(answers, tmp_path):
    settings = small(answers=str(answers))
    with pytest.raises(Refused, match="this program cannot put them together"):
        parts_of(settings, answers, None)
    with pytest.raises(Refused, match="this program cannot put them together"):
        Run.begin(tmp_path / "run", settings)


def test_an_error_of_ours_is_no_learner_s(tmp_path):
    with pytest.raises(ZeroDivisionError), REFERENCES["paper"].attribute_errors():
        raise ZeroDivisionError


# --- GPT and LLaMA --------------------------------------------------------------------------------

NORM = """
import torch
class NAME(torch.nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(features))
        BIAS
    def forward(self, x):
        return x * self.gain
"""
NO_ATTENTION = """
import torch
class CausalSelfAttention(torch.nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        self.w_qkv = torch.nn.Linear(d_model, 3 * d_model)
        self.w_o = torch.nn.Linear(d_model, d_model)
    def forward(self, x):
        return self.w_o(x)
"""
RMS_NORM = NORM.replace("NAME", "RMSNorm").replace("BIAS", "")


@pytest.mark.parametrize(
    ("model", "stem", "text", "name"),
    [
        ("gpt", "day23_gpt", NO_ATTENTION, "CausalSelfAttention"),
        ("llama", "day28_norms_and_activations", RMS_NORM, "RMSNorm"),
    ],
)
def test_what_is_built_upon_a_part_finds_the_learner_s(tmp_path, model, stem, text, name):
    """The reference's GPT and LLaMA compute with it; afterwards nothing else of the reference does."""
    (tmp_path / f"{stem}.py").write_text(text, encoding="utf-8")
    settings = small("shakespeare", model=model, dropout=0.0, answers="mine")
    parts = parts_of(settings, tmp_path, runs)
    assert parts.own == [name]
    filled = {name for names in parts.filled.values() for name in names}
    assert {"gpt": "GPT", "llama": "LLaMA"}[model] in filled
    assert not filled & {"make_model", "MultiHeadedAttention", "rate", "generate"}
    languages = Languages(None, Symbols(tuple("abc"), ""), None)
    theirs, reference = build(settings, languages, parts), build(settings, languages)
    copy_weights(reference, weights_of(theirs))
    tokens = torch.tensor([[0, 1, 2, 1]])
    assert not torch.allclose(theirs(tokens), reference(tokens))
    assert sys.modules["variants.gpt"].GPT is GPT


def test_a_day_that_is_no_part_of_the_model_is_none(tmp_path):
    (tmp_path / "day09_multi_head_attention.py").write_text(
        "class MultiHeadedAttention: pass", encoding="utf-8"
    )
    with pytest.raises(Refused, match=r"Its parts are exercises of days 23$"):
        parts_of(small("shakespeare", model="gpt", answers="mine"), tmp_path, runs)
