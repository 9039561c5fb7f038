"""A GPU that is lost to a process, as by an index out of range, is lost to nothing else: told without one."""

import os
import re
import subprocess
import sys

import pytest

from course.checks.answer_files import read_answer
from course.checks.seeing import see
from course.curriculum import ROOT, find_day
from course.judging import expected, truth
from course.judging.misconceptions import load_misconceptions, may_show
from course.judging.observation_cache import ObservationCache
from course.judging.truth import Truth
from course.workers.checking import check_days

DAY = find_day("13")
LOST = "CUDA error: device-side assert triggered"
RAISES = f"""
import os, torch
words = "{LOST}\\nFor debugging consider …"
def lost(*arguments, **more):
    print("lost in", os.getpid())
    raise torch.AcceleratorError(words)
"""


def test_the_other_checks_get_a_process_that_has_one(tmp_path):
    """The check says what happened in a sentence; the rest of the day is right, and is said to be."""
    source = read_answer(DAY.solution)
    loud = (
        f"import os\nprint('began in', os.getpid())\n{source}\n{RAISES}\nsubsequent_mask = lost\n"
    )
    (tmp_path / f"{DAY.stem}.py").write_text(loud)
    [verdict] = [pending.verdict for pending in check_days([DAY], tmp_path)]
    lost = [check for check in verdict.checks if "AcceleratorError" in check.message]
    assert {check.exercise for check in lost} == {"subsequent_mask", "Decoder"}
    assert f"AcceleratorError: {LOST}\n" in lost[0].message
    assert "debugging" not in lost[0].message
    assert "an index is out of range" in lost[0].message
    assert verdict.printed.count("began in") == len(lost) + 1
    given_up = [check for check in verdict.checks if check.status == "error" and check not in lost]
    assert {check.exercise for check in given_up} == {"subsequent_mask"}
    assert all("Your code stopped the GPU" in check.message for check in given_up)


@pytest.mark.slow
def test_what_raises_on_the_cpu_is_not_run_on_a_gpu(monkeypatch, tmp_path):
    """Known wrong answers run in the judge's own process, which must keep its GPU."""
    ran, outcomes = [], set()

    def without_gpu(check, module, seed, device="cpu", **more):
        run = see(check, module, seed, **more)
        ran.append((device, run.raised is not None))
        return run

    monkeypatch.setattr(truth, "see", without_gpu)
    monkeypatch.setattr(expected, "see", without_gpu)
    day = find_day("10")
    on_gpu = Truth(day, 0, "cuda", load_misconceptions(day), ObservationCache(tmp_path / "kept"))
    for outline in on_gpu.outlines():
        on_gpu.right(outline)
        for mistake in on_gpu.misconceptions:
            ran.clear()
            fails = on_gpu.wrong(outline, mistake).run.raised is not None
            once = [("cpu", True)] if fails else [("cpu", False), ("cuda", False)]
            assert ran == (once if may_show(mistake, outline, day) else [])
            outcomes.add(fails)
    assert outcomes == {True, False}


@pytest.mark.slow
def test_the_practice_gpu_is_not_made_known_beside_a_real_one(tmp_path):
    """A judge of a real device runs nothing on it: torch could not go backward on the real one any more."""
    program = """
from course.curriculum import find_day
from course.judging.judge import Judge
import torch
print(sum(check.on_practice for check in Judge(find_day("13"), device="cuda").checks), "are repeated there")
print("known as", torch._C._get_privateuse1_backend_name())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
        check=True,
    )
    assert re.match(r"[1-9]\d* are repeated there\nknown as privateuseone", done.stdout)
