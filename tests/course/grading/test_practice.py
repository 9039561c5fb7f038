"""Grading observes PyTorch days on the practice GPU, behind the walls as at home."""

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS
from course.grading.sandbox import SandboxedWorker
from course.judging.judge import Judge
from course.workers.answer_run import Answer
from course.workers.checking import check_answer
from course.workers.session import WorkerSession

DAY = DAYS[22]  # GPT


@pytest.mark.slow
def test_behind_walls(real_sandbox):
    """A right answer passes there; positions made on the CPU are refused, and named."""
    source = read_answer(DAY.solution)
    wrong = source.replace("size(1), device=tokens.device)", "size(1))")
    results = []
    for text in (source, wrong):
        name = f"{DAY.stem}.py"
        answer = Answer(name, f"/learner/{name}", text.encode())
        with WorkerSession(
            lambda torch_on: SandboxedWorker(real_sandbox, torch_on), apart=True
        ) as session:
            checked = check_answer(Judge(DAY), answer, session)
            checked.finish_in_batch(200)
            results.append(checked.result)
    right, refused = results
    assert (right.status, right.watertight) == ("passed", True)
    [check] = [row for row in refused.checks if row.is_open]
    assert (check.device, check.misconception) == ("practice", "positions_made_on_the_cpu")
    assert "The CPU tensor was made in line" in check.message
