"""What a page shows in place of the reference's: a learner's own functions, right, wrong or not there."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from course.curriculum import BY_NUMBER, DAYS
from explorer import answer
from explorer.topics import TOPICS, Topic, topic_of
from tests.explorer.conftest import View

View_ = Callable[[str], View]
OWN = "answers=my+exercises"

SOFTMAX = "import os, numpy as np\ndef softmax(x, axis=-1):\n    {0}\n"
E = "e = np.exp(x); "
ATTENTION = """import numpy as np
def attention(query, key, value, mask=None):
    s = query @ key.swapaxes(-2, -1) / query.shape[-1] ** 0.5
    e = np.exp(s){0}
    w = e / np.maximum(e.sum(-1, keepdims=True), 1e-300){1}
    return w @ value{2}
"""
SINUSOIDS = """import numpy as np
def positional_encoding(max_len, d_model):
    angles = np.arange(max_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.{0}([np.sin(angles), np.cos(angles)], -1){1}
"""
ROTATION = """import torch
def rope_angles(head_dim, max_len, base=10000.0):
    theta = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    return torch.outer(torch.arange(max_len, dtype=torch.float64), theta)
"""
SLOPES = """import torch
def alibi_slopes(n_heads):
    return torch.{0}
def alibi_bias(n_heads, t_q, t_k):
    raise NotImplementedError
"""
DISTRIBUTION = """import torch
def distribution(logits, temperature=1.0, top_k=None, top_p=None):
    return {0}
"""
RATE = "def rate(step, model_size, factor, warmup):\n    return {0}\n"
LOSS = """import torch
def load_balancing_loss(probs, experts):
    n = probs.size(-1)
    f = (experts.flatten()[:, None] == torch.arange(n)).double().mean(0)
    return ({0}(f * probs.flatten(0, -2).double().mean(0)).sum()).to(probs.dtype)
"""
WHOLE = """import torch
def flash_attention(query, key, value, block=64, causal=False):
    scores = query @ key.mT / query.size(-1) ** {0}
    if causal:
        later = torch.ones(scores.shape, dtype=torch.bool).triu(key.size(-2) - query.size(-2) + 1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ value
"""
RIGHT, WRONG = "{} is right here", "{} differs from the reference by up to"

# The page, the day whose file it is, its text, what stands in it, and what is said.
ANSWERS = {
    "softmax-right": (1, SOFTMAX, (f"{E}return e / e.sum(axis, keepdims=True)",), RIGHT),
    "softmax-wrong": (1, SOFTMAX, (f"{E}return e / e.sum()",), WRONG),
    "softmax-raises": (1, SOFTMAX, ("return x.nothing",), "has no attribute 'nothing'"),
    "softmax-loops": (1, SOFTMAX, ("while True: pass",), "endless loop"),
    "softmax-prints": (1, SOFTMAX, ("while True: print('again and again')",), "again and again"),
    "softmax-shape": (1, SOFTMAX, ("return x[:1]",), "returned the shape (1,), not (4,)"),
    "softmax-ends": (1, SOFTMAX, ("os._exit(3)",), "exit code 3"),
    "softmax-syntax": (1, "def softmax(x, axis=-1:\n", (), "day01_softmax.py"),
    "softmax-dtype": (1, SOFTMAX, ("return x + 1j",), "returned the dtype complex128, not float64"),
    "softmax-imports": (1, "from numpy_reference import softmax\n", (), "your file imports it"),
    "attention-right": (2, ATTENTION, (" * mask", "", ", w"), RIGHT),
    "attention-wrong": (2, ATTENTION, ("", "", ", w"), WRONG),
    "attention-alone": (2, ATTENTION, ("", "", ""), "not a tuple of 2"),
    "attention-nan": (2, ATTENTION, ("", " * np.nan", ", w"), "infinite or NaN"),
    "positions-right": (5, SINUSOIDS, ("stack", ".reshape(max_len, -1)"), RIGHT),
    "positions-wrong": (5, SINUSOIDS, ("concatenate", ""), WRONG),
    "positions-unfinished": (29, ROTATION, (), "`apply_rope` is yours to write"),
    "positions-shape": (30, SLOPES, ("zeros(3)",), "returned the shape (3,), not (8,)"),
    "positions-not begun": (30, SLOPES, ("ones(n_heads)",), "`alibi_bias` is yours to write"),
    "decoding-wrong": (24, DISTRIBUTION, ("(logits / temperature).softmax(-1)",), WRONG),
    "decoding-logits": (24, DISTRIBUTION, ("logits",), "returned no probabilities"),
    "decoding-zeros": (24, DISTRIBUTION, ("torch.zeros_like(logits)",), "no probabilities"),
    "decoding-infinite": (24, DISTRIBUTION, ("logits.exp() / 0",), "infinite or NaN"),
    "learning-right": (
        17,
        RATE,
        ("factor * model_size**-0.5 * min(step**-0.5, step * warmup**-1.5)",),
        RIGHT,
    ),
    "learning-wrong": (17, RATE, ("0.5",), WRONG),
    "learning-infinite": (17, RATE, ("float('inf')",), "returned inf, which cannot be drawn"),
    "experts-right": (35, LOSS, ("n * ",), RIGHT),
    "experts-wrong": (35, LOSS, ("",), WRONG),
    "flash-right": (33, WHOLE, ("0.5",), RIGHT),
    "flash-wrong": (33, WHOLE, ("1.0",), WRONG),
}
WAYS = {29: "&way=RoPE (rotated)", 30: "&way=ALiBi (a bias)", 24: "&top_p=0.9"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_said_of_an_answer(
    viewed: View_, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(answer, "PATIENCE", 0.5)
    day, source, body, message = ANSWERS[name]
    topic = name.partition("-")[0]
    (tmp_path / f"{BY_NUMBER[day].stem}.py").write_text(source.format(*body), encoding="utf-8")
    view = viewed(f"{topic}/?{OWN}{WAYS.get(day, '')}")
    text = view.text(".compared, .failed")
    shown = topic_of(topic).exercises
    exercise = next(candidate for candidate in BY_NUMBER[day].exercises if candidate in shown)
    assert message.format(exercise) in text, text
    assert bool(view.html.select(".drawn")) == (message in (RIGHT, WRONG))


@pytest.mark.parametrize(
    "topic", [topic for topic in TOPICS if topic.exercises], ids=lambda topic: topic.name
)
def test_an_answer_that_is_not_there_is_asked_for(viewed: View_, topic: Topic) -> None:
    failed = viewed(f"{topic.name}/?{OWN}").text(".failed")
    assert f"There is no {BY_NUMBER[topic.days[0]].stem}.py in" in failed
    assert "There is nothing to draw yet." in failed


def test_a_save_within_a_tick_of_the_clock_is_noticed(tmp_path, monkeypatch):
    """Some disks count time in steps of two seconds: another size is another file."""
    monkeypatch.setattr(answer, "Worker", lambda *_: SimpleNamespace(ended=False, end=lambda: None))
    parts = answer.LearnerParts(math, DAYS[0], tmp_path)
    path, workers = tmp_path / "answer.py", []
    for text in ("x = 1", "x = 1", "x = 12"):
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(0, 0))
        workers.append(parts._worker_for(path))
    assert workers[0] is workers[1] is not workers[2]
