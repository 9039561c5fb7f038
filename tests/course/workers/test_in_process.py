"""Checking in a notebook and under pytest, in the learner's own process."""

import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import scipy.special
import torch

import implementation
import numpy_reference
from course import check
from course.checks.loading import CORE, load_checks
from course.curriculum import DAYS, ROOT
from course.judging.results import CheckResult, DayResult
from course.workers.in_process import Verdict


def attention(query, key, value, mask=None):
    """A wrong one: not scaled."""
    weights = numpy_reference.softmax(query @ key.swapaxes(-2, -1))
    return weights @ value, weights


def loose(query, key, value, mask=None):
    """One that is right but for a query that may attend to nothing."""
    scores = query @ key.swapaxes(-2, -1) / np.sqrt(query.shape[-1]).astype(query.dtype)
    if mask is not None:
        scores = np.where(mask, scores, np.finfo(scores.dtype).min)
    weights = numpy_reference.softmax(scores)
    return weights @ value, weights


loose.__name__ = "attention"


def own(reference):
    """The same function, as if it had been written here."""
    copy = types.FunctionType(
        reference.__code__, reference.__globals__, reference.__name__, reference.__defaults__
    )
    copy.__module__ = __name__
    return copy


def softmax(x, axis=-1):
    """One that raises."""
    raise KeyError("oh")


def test_check_prints_the_verdict(capsys):
    """What passes, what does not, and what was misunderstood: without times, so that it is the same twice."""
    check(own(numpy_reference.attention), day=2)
    first = capsys.readouterr().out
    core = sum(row.tier == CORE for row in load_checks(DAYS[1]))
    assert first.startswith(
        f"Day 2 · Attention: {core} of {core} checks pass, ★ watertight\n"
        "  ✔ test_output_and_weights\n"
    )
    assert "  ★ test_memory_layout\n" in first
    check(own(numpy_reference.attention), day=2)
    assert capsys.readouterr().out == first
    check(attention, day=2)
    wrong = capsys.readouterr().out
    title, exercise, named, *_, passed = wrong.splitlines()
    assert re.fullmatch(rf"Day 2 · Attention: \d of {core} checks pass", title)
    assert (exercise, named) == ("✘ attention", "  not_scaled: Two things at once.")
    assert "\n  test_output_and_weights: The function returns (output, weights)" in wrong
    assert "`weights[" in wrong and passed.startswith("✔ ")


def on_the_cpu(query, key, value, mask=None, dropout=None):
    """One that is right, but only where new tensors lie by themselves."""
    output, weights = implementation.attention(query, key, value, mask, dropout)
    return output * torch.ones(value.size(-1), dtype=value.dtype), weights


on_the_cpu.__name__ = "attention"


def test_check_says_what_fails_on_the_practice_gpu(capsys, monkeypatch):
    """What passes on the CPU is observed there too, and what passes there is not told of."""
    monkeypatch.setattr("course.workers.in_process._has_gpu", lambda: False)
    check(own(implementation.attention), day=8)
    assert "practice" not in capsys.readouterr().out
    check(on_the_cpu, day=8)
    output = capsys.readouterr().out
    assert output.count(" on the practice GPU") == 2
    assert "Expected all tensors to be on the same device" in output
    assert re.search(r'case\(8, "test_\w+", device="practice"\)', output)


@pytest.mark.slow
def test_check_leaves_a_real_gpu_alone():
    """The notebook's process may train on it, which torch cannot once it knows the practice GPU."""
    program = """
import course.workers.in_process as place, torch
from course import check
place._has_gpu = lambda: True
def subsequent_mask(size, device=None):
    return torch.ones(1, size, size, dtype=torch.bool, device=device).tril()
check(subsequent_mask, day=13)
print("known as", torch._C._get_privateuse1_backend_name())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert re.search(r"(\d+) of \1 checks pass", done.stdout)
    assert "known as privateuseone" in done.stdout


def test_check_leaves_torch_as_it_was():
    """A learner's notebook computes on as many threads afterwards as before."""
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        check(own(implementation.subsequent_mask), day=13)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_check_invites(capsys):
    """What a passed day lacks to be watertight comes after its core, as no failure."""
    check(loose, day=2)
    output = capsys.readouterr().out
    passed, invitations = output.split(". Invitations to make it watertight (★):\n")
    assert "✘" not in output and "☆" not in passed
    assert invitations.startswith(
        "☆ attention\n  empty_row_uniform: In your answer, a query with no visible key"
    )
    assert "test_query_with_no_key: A query with no visible key" in invitations


def test_a_notebook_shows_html_without_what_a_learner_may_have_put_into_it():
    """Names, messages and sentences are escaped; what passes is folded."""
    words = "<script>x</script>\x1b[31m"
    wrong = CheckResult(words, "attention", "failed", f"{words}\n{words}", words, words)
    shown = Verdict(DayResult(DAYS[1], (CheckResult("test_<b>", "attention", "passed"), wrong)))
    html = shown._repr_html_()
    assert "<script>" not in html and "\x1b" not in html + repr(shown)
    assert html.count("&lt;script&gt;x&lt;/script&gt;\\x1b[31m") == 6
    assert "<details><summary" in html and "test_&lt;b&gt;</details>" in html


def test_check_of_some_of_a_day(capsys):
    """Only the checks of what was given are run, and the day may be left out where one day has the name."""
    check(own(numpy_reference.log_softmax))
    assert "✔ test_log_" in capsys.readouterr().out
    check(softmax)
    out = capsys.readouterr().out
    assert "KeyError" in out
    assert 'raise KeyError("oh")' in out


@pytest.mark.parametrize(
    ("arguments", "day", "words"),
    [
        ((), None, r"takes the functions.*check\(softmax, log_softmax, day=1\)"),
        ((), 3, r"For day 3: check\(padding_mask, subsequent_mask, target_mask, day=3\)"),
        ((attention,), 3, "day 3 does not ask for attention, but for padding_mask"),
        ((test_check_prints_the_verdict,), None, "no day asks for test_check"),
        (
            (7,),
            None,
            r"got 7\. For day 7: check\(softmax_backward, .*, day=7\).*`course check 7`",
        ),
        (("softmax",), None, r"takes the functions.*got 'softmax'"),
        (
            (numpy_reference.softmax,),
            None,
            "softmax is from numpy_reference: .* you wrote yourself",
        ),
        ((implementation.Batch,), None, "Batch is from implementation"),
        ((torch.softmax,), None, "softmax is from torch"),
        ((torch.Tensor.softmax,), None, "softmax is from a library"),
        ((scipy.special.log_softmax,), None, "log_softmax is from scipy"),
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
        timeout=600,
    )


@pytest.mark.slow
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
    assert f"{len(load_checks(DAYS[1]))} passed" in done.stdout


@pytest.mark.slow
def test_pytest_needs_no_more_than_a_learner_has(project, answer):
    """The project's own configuration, where pytest-xdist and pytest-timeout are not installed."""
    shutil.copytree(ROOT / "explorer", project.root / "explorer")
    for file in (ROOT / "pyproject.toml", *(ROOT / "tests").glob("*.py")):
        shutil.copy(file, project.root / file.relative_to(ROOT))
    project.exercise.write_text(answer, encoding="utf-8")
    without = ("-p", "no:xdist", "-p", "no:timeout", "--answers", "exercises")
    done = run_pytest(project, *without, "tests/days/test_day02_attention.py")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"{len(load_checks(DAYS[1]))} passed in")


@pytest.mark.slow
def test_checks_fail_loudly_without_the_plugin(project):
    """A check that nobody judges must not pass."""
    done = run_pytest(project, "tests/days", "--tb=line")
    assert done.returncode != 0
    assert "fixture 'answer' not found" in done.stdout
    assert re.fullmatch(r"(\d+ warnings?, )?\d+ errors in .*", done.stdout.splitlines()[-1])
