"""Checking in a notebook and under pytest, in the learner's own process."""

import re
import subprocess
import sys

import pytest

import numpy_reference
from course import check


def attention(query, key, value, mask=None):
    """A wrong one: not scaled."""
    weights = numpy_reference.softmax(query @ key.swapaxes(-2, -1))
    return weights @ value, weights


def softmax(x, axis=-1):
    """One that raises."""
    raise KeyError("oh")


def test_check_prints_the_verdict(capsys):
    """What passes, what does not, and what was misunderstood: without times, so that it is the same twice."""
    check(numpy_reference.attention, day=2)
    first = capsys.readouterr().out
    assert first.startswith(
        "Day 2 · Attention: 14 of 14 checks pass\n  ✔ test_output_and_weights\n"
    )
    check(numpy_reference.attention, day=2)
    assert capsys.readouterr().out == first
    check(attention, day=2)
    wrong = capsys.readouterr().out
    assert "✘ test_output_and_weights: The pair (output, weights)" in wrong
    assert "`weights[" in wrong


def test_check_of_some_of_a_day(capsys):
    """Only the checks of what was given are run, and the day may be left out where one day has the name."""
    check(numpy_reference.log_softmax)
    assert "✔ test_log_" in capsys.readouterr().out
    check(softmax)
    out = capsys.readouterr().out
    assert "KeyError" in out
    assert 'raise KeyError("oh")' in out


@pytest.mark.parametrize(
    ("arguments", "day", "words"),
    [
        ((), None, "needs what you wrote"),
        ((attention,), 3, "day 3 does not ask for attention, but for padding_mask"),
        ((test_check_prints_the_verdict,), None, "no day asks for test_check"),
        ((7,), None, "no day asks for 7"),
    ],
)
def test_check_says_what_it_cannot_do(arguments, day, words):
    """A ValueError that names what was given and what is allowed."""
    with pytest.raises(ValueError, match=words):
        check(*arguments, day=day)


def run_pytest(project, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


def test_pytest_grades_exercises(project, answer):
    """`pytest tests/days --answers exercises`: diagnosed, and what is not started is skipped."""
    plugin = ("-p", "course.workers.pytest_plugin", "--answers", "exercises", "-rs")
    wrong = answer.replace("math.sqrt(query.shape[-1])", "1.0")
    project.exercise.write_text(wrong, encoding="utf-8")
    done = run_pytest(
        project, *plugin, "tests/days/test_day02_attention.py", "tests/days/test_day01_softmax.py"
    )
    assert done.returncode == 1
    assert (
        "Your weights are exactly those you get when the scores are not divided by √d_k"
        in done.stdout
    )
    assert "not started: `softmax` is yours to write." in done.stdout
    project.exercise.write_text(
        answer.replace("    scaled =", "    [][1]\n    scaled ="), encoding="utf-8"
    )
    done = run_pytest(project, *plugin, "tests/days/test_day02_attention.py")
    assert "IndexError" in done.stdout
    assert "day02_attention.py:" in done.stdout
    project.exercise.write_text(answer, encoding="utf-8")
    assert run_pytest(project, *plugin, "tests/days/test_day02_attention.py").returncode == 0


def test_plain_pytest_reads_no_exercises(project):
    """Without --answers the solutions are checked, whatever lies in exercises/."""
    project.exercise.write_text("nonsense(", encoding="utf-8")
    done = run_pytest(
        project, "-p", "course.workers.pytest_plugin", "tests/days/test_day02_attention.py"
    )
    assert done.returncode == 0, done.stdout
    assert "14 passed" in done.stdout


def test_checks_fail_loudly_without_the_plugin(project):
    """A check that nobody judges must not pass."""
    done = run_pytest(project, "tests/days", "--tb=line")
    assert done.returncode != 0
    assert "fixture 'answer' not found" in done.stdout
    assert re.fullmatch(r"(\d+ warnings?, )?\d+ errors in .*", done.stdout.splitlines()[-1])
