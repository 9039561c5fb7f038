"""What the tool says, to the letter: `golden/` holds it. Delete a file there, and the test writes it anew."""

import re
import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

SAID = {
    "passed": ("check", "2"),
    "invitation": ("check", "2"),
    "diagnosed": ("check", "2"),
    "neutral": ("check", "2"),
    "raised": ("check", "2"),
    "not_started": ("check", "2"),
    "cannot_load": ("check", "2"),
    "board_at_first": (),
    "board_with_a_failure": (),
    "board_with_stars": (),
    "case": ("check", "2", "--case", "scale"),
    "two_exercises": ("check", "1"),
    "hint": ("hint", "2"),
    "no_such_day": ("check", "unicorn"),
}
NAIVE = """import numpy as np


def softmax(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def log_softmax(x, axis=-1):
    return np.log(softmax(x))
"""
EDITS = {
    "case": ("math.sqrt(query.shape[-1])", "query.shape[-1]"),
    "diagnosed": ("math.sqrt(query.shape[-1])", "query.shape[-1]"),
    "neutral": ("softmax(scores)", "softmax(scores) ** 1.1"),
    "raised": ("scores = np", "scores = query[0][99] @ np"),
    "board_with_a_failure": ("math.sqrt(query.shape[-1])", "query.shape[-1]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_said(project, answer, loose, name):
    """The whole output of a command."""
    if name == "invitation":
        project.exercise.write_text(loose, encoding="utf-8")
    elif name == "board_with_stars":
        accepted = project.root / "tests" / "days" / "accepted" / "day01_softmax"
        shutil.copy(sorted(accepted.glob("*.py"))[0], project.exercise.parent / "day01_softmax.py")
        project.exercise.write_text(loose, encoding="utf-8")
    elif name == "passed":
        project.exercise.write_text(answer, encoding="utf-8")
    elif name == "cannot_load":
        project.exercise.write_text("def attention(query, key:\n    pass\n", encoding="utf-8")
    elif name == "two_exercises":
        (project.root / "exercises" / "day01_softmax.py").write_text(NAIVE, encoding="utf-8")
    elif name in EDITS:
        assert EDITS[name][0] in answer
        project.exercise.write_text(answer.replace(*EDITS[name]), encoding="utf-8")
    done = project.course(*SAID[name])
    output = done.stdout + done.stderr
    output = re.sub(re.escape(str(project.root)) + "/", "", output)
    output = re.sub(r"^Day \d+: .* …\n", "", output, flags=re.MULTILINE)  # only on a busy machine
    output = "\n".join(line.rstrip() for line in output.splitlines()) + "\n"
    file = GOLDEN / f"{name}.txt"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(output, encoding="utf-8")
        pytest.fail(f"{file.name} was not there and is written now: read it, then run again")
    assert output == file.read_text(encoding="utf-8")
