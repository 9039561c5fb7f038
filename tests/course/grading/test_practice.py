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
def test_behind_walls(found):
    """A right answer passes there; positions made on the CPU are refused, and named."""
    source = read_answer(DAY.solution)
    wrong = source.replace("size(1), device=tokens.device)", "size(1))")
    seen = []
    for text in (source, wrong):
        name = f"{DAY.stem}.py"
        answer = Answer(name, f"/learner/{name}", text.encode())
        with WorkerSession(
            lambda torch_on: SandboxedWorker(found, torch_on), apart=True
        ) as session:
            checked = check_answer(Judge(DAY), answer, session)
            checked.finish_in_batch(200)
            seen.append(checked.result)
    right, refused = seen
    assert (right.status, right.watertight) == ("passed", True)
    [check] = [one for one in refused.checks if one.is_open]
    assert (check.device, check.misconception) == ("practice", "positions_made_on_the_cpu")
    assert "The CPU tensor was made in line" in check.message
