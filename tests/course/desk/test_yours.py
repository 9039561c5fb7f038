"""What `yours` gives to a lesson, and what it says."""

import traceback
from types import SimpleNamespace

import numpy as np
import pytest

import course.desk.state as state
import course.desk.yours as desk
import numpy_reference
from course import yours
from course.curriculum import BY_NUMBER, REFERENCE, YOURS
from course.references.editions import stub_of

DAY = BY_NUMBER[2]
RIGHT = (DAY.accepted / "loops.py").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch, tmp_path):
    """Nothing is remembered of other tests, and the answers are in a folder of this one's own."""
    monkeypatch.setattr(state, "FOLDER", tmp_path / "state")
    monkeypatch.setattr(desk, "_standings", {})
    monkeypatch.setattr(desk, "_modules", {})
    monkeypatch.setenv(YOURS, str(tmp_path))


@pytest.fixture
def write(tmp_path):
    def write(source, day=DAY):
        (tmp_path / f"{day.stem}.py").write_text(source, encoding="utf-8")

    return write


@pytest.fixture
def run_cells(monkeypatch):
    """Let cells with this code have run in a notebook."""

    def run(*cells):
        shell = SimpleNamespace(user_ns={"In": ["", *cells]})
        notebook = SimpleNamespace(get_ipython=lambda: shell)
        monkeypatch.setitem(desk.sys.modules, "IPython", notebook)

    return run


def test_a_right_answer_is_used_and_checked_once(write, capsys, monkeypatch):
    write(RIGHT)
    assert yours("attention", day=2).__module__ == DAY.stem
    monkeypatch.setattr(desk, "_standings", {})  # a new notebook
    monkeypatch.delattr(desk, "check_days")
    first = yours("attention", day=2)
    assert yours("attention", day=2) is first
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("attention: yours, from ") for line in lines)


WRONG = {
    "stub": (stub_of(DAY), "is not started"),
    "syntax": (RIGHT.replace("def attention(", "def attention(("), "has a syntax error in line"),
    "name": (RIGHT.replace("attention(", "atention("), "defines no attention"),
    "class": ("class attention:\n    pass\n", "as a class, and day 2 asks for a function"),
    "raises": (
        RIGHT.replace("\n    return", "\n    raise OSError('half-way')\n    return"),
        "(OSError: half-way)",
    ),
    "top": (f"1 / 0\n{RIGHT}", "cannot be loaded (ZeroDivisionError"),
    "empty": ("\n", "is empty"),
    "imported": ("from numpy_reference import attention\n", "is today's exercise"),
    "lesson's": (
        "def attention(**inputs):\n"
        "    from course import yours\n"
        "    return yours('attention', 2)(**inputs)\n",
        "yours() is for lessons",
    ),
    "values": (
        "def attention(query, key, value, mask=None):\n    return value, query\n",
        "a core check fails: test_",
    ),
}


@pytest.mark.parametrize(("source", "reason"), WRONG.values(), ids=WRONG)
def test_the_lesson_goes_on_with_the_reference(write, capsys, source, reason):
    write(source)
    assert yours("attention", day=2) is numpy_reference.attention
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("attention: the reference's, because ") and reason in line


@pytest.mark.slow
def test_an_endless_loop_ends(write, capsys):
    write("def attention(**inputs):\n    while True:\n        pass\n")
    assert yours("attention", day=2) is numpy_reference.attention
    assert "is there an endless loop?" in capsys.readouterr().out


def test_what_passed_can_be_broken(write, capsys):
    """A lesson asks for that; it stays the learner's own, also where a check makes it raise."""
    write(RIGHT)
    yours("attention", day=2)
    write("def attention(query, key, value, mask=None):\n    return value, query\n")
    assert yours("attention", day=2)(1, 2, 3) == (3, 1)
    write(WRONG["raises"][0])
    with pytest.raises(OSError, match="half-way"):
        yours("attention", day=2)(*[np.eye(2)] * 3)
    write("def attention(")
    assert yours("attention", day=2) is numpy_reference.attention
    lines = capsys.readouterr().out.splitlines()
    assert all(
        "yours, which passed before. Now a core check fails: " in line for line in lines[1:3]
    )


def test_what_is_raised_in_a_lesson_is_raised_in_the_learners_lines(write):
    guard = "\n    if len(query) == 77:\n        raise OSError('mine')\n"
    head, colon, body = RIGHT.partition("mask=None):")
    write(head + colon + guard + body)
    attention = yours("attention", day=2)
    with pytest.raises(OSError, match="mine") as caught:
        attention([0] * 77, 1, 2)
    last = traceback.extract_tb(caught.tb)[-1]
    assert last.filename.endswith(f"{DAY.stem}.py")
    assert last.line == "raise OSError('mine')"


@pytest.mark.slow
def test_each_exercise_of_a_day_stands_alone_and_its_classes_know_each_other(write, capsys):
    day = BY_NUMBER[11]
    source = (next(iter(sorted(day.accepted.glob("*.py"))))).read_text(encoding="utf-8")
    write(f"{source}\n\n{stub_of(day)[stub_of(day).index('def clones') :]}", day)
    own = yours("SublayerConnection")
    assert own.__init__.__globals__["LayerNorm"] is yours("LayerNorm")
    yours("clones")
    assert "clones is not started" in capsys.readouterr().out


def test_a_definition_in_the_notebook(write, run_cells, capsys):
    """It comes before the file's; what it uses comes from other cells, and stays after it is replaced."""
    write(RIGHT)
    cells = (
        "import numpy as np\nimport nothing_of_the_kind",
        "%matplotlib inline",
        "def attention(query, key, value, mask=None):\n    return value, query",  # an earlier try
        'softmax = yours("softmax")',
        "SCALE = -0.5\n1 / 0",
        "def attention(query, key, value, mask=None):\n"
        "    scores = query @ np.swapaxes(key, -1, -2) * query.shape[-1] ** SCALE\n"
        "    if mask is None:\n"
        "        weights = softmax(scores)\n"
        "    else:\n"
        "        weights = softmax(np.where(mask, scores, -1e300)) * mask\n"
        "    return weights @ value, weights",
        'attention = yours("attention", day=2)',
        "weights, scores = attention(*unknown)",  # the function has variables of these names
    )
    run_cells(*cells)
    assert "SCALE" in yours("attention", day=2).__code__.co_names
    run_cells(*cells, "def attention(query, key, value, mask=None):\n    return value, query")
    yours("attention", day=2)
    assert capsys.readouterr().out.splitlines() == [
        "attention: yours, from your cell.",
        "attention: yours, which passed before. Now a core check fails: test_output_and_weights.",
    ]


def test_the_repositorys_notebooks_run_on_the_reference_without_a_word(write, capsys, monkeypatch):
    write(RIGHT)
    monkeypatch.setenv(YOURS, REFERENCE)
    assert yours("attention", day=2) is numpy_reference.attention
    assert not capsys.readouterr().out


def test_a_name_that_no_day_or_several_ask_for():
    for arguments, words in (
        (
            ("attention",),
            r'days 2 and 8 all ask for attention: say which, yours\("attention", day=2\)',
        ),
        (("atention",), "no day asks for 'atention'"),
        (("softmax", 2), "day 2 does not ask for 'softmax'"),
    ):
        with pytest.raises(ValueError, match=words):
            yours(*arguments)
