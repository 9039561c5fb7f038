"""Several days checked in one process: nothing that one leaves behind counts for the next."""

import re

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS
from course.workers.checking import check_days

THREE = DAYS[:3]


@pytest.fixture
def answers(tmp_path):
    """Right answers to the first three days, each of which says where it runs."""
    for day in THREE:
        line = f"import os\nprint('day', {day.number}, 'in', os.getpid())\n"
        (tmp_path / f"{day.stem}.py").write_text(line + read_answer(day.solution))
    return tmp_path


def spoil(answers, day, how):
    path = answers / f"{day.stem}.py"
    path.write_text(f"{path.read_text()}\n{how}\n")


def checked(answers):
    return [pending.verdict for pending in check_days(THREE, answers)]


def test_days_share_a_process(answers):
    """One serves all of them, and each day's words are its own."""
    verdicts = checked(answers)
    assert [verdict.status for verdict in verdicts] == ["passed"] * 3
    printed = [re.findall(r"day (\d) in (\d+)", verdict.printed) for verdict in verdicts]
    assert [[number for number, _ in words] for words in printed] == [["1"], ["2"], ["3"]]
    assert len({process for [(_, process)] in printed}) == 1


@pytest.mark.parametrize(
    "how",
    [
        "np.exp = np.sin",
        "import builtins; builtins.len = lambda x: 1",
        "import atexit, os; atexit.register(os._exit, 9); del np.matmul",
    ],
)
def test_what_is_left_behind_does_not_count(how, answers):
    """The next day's file is tried again in a process of its own where it fails in a spoilt one."""
    spoil(answers, THREE[0], how)
    assert [verdict.status for verdict in checked(answers)][1:] == ["passed", "passed"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["import os; os._exit(3)", "while True: pass"])
def test_a_day_that_ends_the_process_ends_it_for_itself_alone(how, answers, monkeypatch):
    """The days after it have another one."""
    monkeypatch.setattr("course.workers.answer_run.BACKSTOP", 1.0)
    spoil(answers, THREE[1], how)
    assert [verdict.status == "passed" for verdict in checked(answers)] == [True, False, True]
