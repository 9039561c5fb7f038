"""What is told of an answer without running it."""

import textwrap

import pytest

from course.checks.answers import read_answer
from course.curriculum import DAYS, ROOT
from course.grading.analysis import TAMPERING, fingerprints, serve, shortcuts

READY = [day for day in DAYS if day.ready]


def found(source, day=8):
    return sorted(set(shortcuts(textwrap.dedent(source), day)))


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import torch\ntorch.nn.MultiheadAttention(8, 2)", (2, "torch.nn.MultiheadAttention")),
        ("from torch import nn\nnn.MultiheadAttention", (2, "torch.nn.MultiheadAttention")),
        (
            "import torch.nn.functional as F\n\nF.scaled_dot_product_attention(q, k, v)",
            (3, "torch.nn.functional.scaled_dot_product_attention"),
        ),
        (
            "from torch.nn.functional import scaled_dot_product_attention as sdpa",
            (1, "torch.nn.functional.scaled_dot_product_attention"),
        ),
        ("import sys as s\ns._getframe(1).f_locals", (2, "sys._getframe.f_locals")),
        ("import gc", (1, "gc")),
        ("from os import _exit", (1, "os._exit")),
        ("def f():\n    exec('x')", (2, "exec")),
        ("import course.judge", (1, "course.judge")),
    ],
)
def test_shortcuts_and_tampering(source, what):
    """Each is found by what it stands for, whatever it is called, and on its line."""
    names = [(line, name.removesuffix("()")) for line, name in found(source)]
    assert any(
        line == what[0] and name.startswith(what[1].split(".f_locals")[0]) for line, name in names
    )


def test_days_differ():
    """Layer norm is the exercise of day 11, and a tool on day 20; torch has no place before day 8."""
    source = "import torch\ntorch.nn.LayerNorm(4)"
    assert found(source, 11) == [(2, "torch.nn.LayerNorm")]
    assert found(source, 20) == []
    assert found("import torch", 3) == [(1, "torch")]


@pytest.mark.parametrize("day", READY, ids=lambda day: day.stem)
def test_right_answers(day):
    """The reference takes no shortcut, and an accepted answer none that fools a check."""
    assert found(read_answer(day.solution), day.number) == []
    accepted = list((ROOT / "tests/days/accepted" / day.stem).glob("*.py"))
    assert accepted
    for path in accepted:
        for _, name in found(read_answer(path), day.number):
            assert name.split(".")[0] not in TAMPERING.split()


def test_fingerprints_see_through_new_names():
    """Other names, comments, numbers and layout change nothing; another order of work does."""
    one = read_answer(DAYS[1].solution)
    renamed = one.replace("scores", "energies").replace("weights", "alphas") + "\n# mine\n"
    assert fingerprints(one) == fingerprints(renamed)
    assert fingerprints(one) != fingerprints(read_answer(DAYS[2].solution))


def test_a_common_stretch_always_shows():
    """Two files with fifteen tokens in a row in common share a fingerprint, whatever stands around."""
    common = "total = left[i] + right[j] * factor(k)\n"
    one = fingerprints("import os\nos.getcwd()\n" + common + "for i in range(3): pass\n")
    other = fingerprints("class A: pass\n\n" + common + "while True: break\n")
    assert set(one) & set(other)


def test_files_that_cannot_be_read(tmp_path):
    """Each file is answered for, those that are no Python, too."""
    texts = {"a.py": b"import gc\n", "b.py": b"def (", "c.py": b"\xff\xfe", "d.py": b"(" * 50_000}
    for name, data in texts.items():
        (tmp_path / name).write_bytes(data)
    sent = []
    serve({"analyse": {name: [8, str(tmp_path / name)] for name in texts}}, sent.append)
    assert [one["file"] for one in sent] == list(texts)
    assert [one["shortcuts"] for one in sent] == [[(1, "gc")], [], [], []]
