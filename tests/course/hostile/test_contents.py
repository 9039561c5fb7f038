"""What lies behind the walls on a late day: no text of any reference, however it is searched for."""

import re

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import BY_NUMBER, DAYS, ROOT
from course.grading.sandbox import HOME, SandboxedWorker
from course.judging.judge import Judge
from course.judging.messages import Feedback
from course.workers.answer_run import Answer
from course.workers.checking import check_answer
from course.workers.session import WorkerSession

# Each needle is written so that it does not find itself: its first letter stands in brackets.
SEARCH = """
import gc, inspect, re, sys

needles = [re.compile(one) for one in NEEDLES]

def memory():
    for line in open("/proc/self/maps"):
        place, rights, _, _, _, *path = line.split()
        if rights.startswith("r") and (not path or path[0] in ("[heap]", "[stack]")):
            start, end = (int(one, 16) for one in place.split("-"))
            with open("/proc/self/mem", "rb", buffering=0) as file:
                file.seek(start)
                yield file.read(end - start)

def sources():
    frame = sys._getframe()
    while frame:
        yield repr(frame.f_locals).encode()
        frame = frame.f_back
    for one in gc.get_objects():
        if inspect.isfunction(one) and one.__module__ in ("implementation", "numpy_reference"):
            yield repr((one.__doc__, one.__code__.co_consts, one.__annotations__)).encode()

seen = 0
for found in (memory, sources):
    for piece in found():
        seen += len(piece)
        for needle in needles:
            if hit := needle.search(piece):
                raise RuntimeError("a reference is here")
if seen < 10**7:
    raise RuntimeError("nothing was searched")
"""


def lines_of(file, but):
    """Lines of a reference, comments and docstrings among them, that stand nowhere in a text."""
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if len(line.strip()) > 45 and line.strip() not in but:
            yield line.strip()


def needle(line):
    return f"[{line[0]}]".encode() + re.escape(line[1:].encode())


def searched(real_sandbox, day, planted=""):
    """The verdict on a day's right answer that looks for the references before anything else."""
    checks = "".join(other.checks.read_text(encoding="utf-8") for other in DAYS if other.ready)
    stubs = "".join(other.stub.read_text(encoding="utf-8") for other in DAYS if other.ready)
    harmless = read_answer(day.solution) + checks + stubs
    needles = [
        needle(line)
        for file in ("numpy_reference.py", "implementation.py")
        for line in list(lines_of(file, harmless))[::12]
    ]
    assert len(needles) > 20
    code = f"{planted}\nNEEDLES = {needles!r}\n{SEARCH}\n{read_answer(day.solution)}"
    answer = Answer(f"{day.stem}.py", f"{HOME}/{day.stem}.py", code.encode())
    with WorkerSession(lambda device: SandboxedWorker(real_sandbox, device), apart=True) as session:
        judge = Judge(day, feedback=Feedback.discreet)
        return check_answer(judge, answer, session).finish()


@pytest.mark.slow
@pytest.mark.parametrize("number", [14, 22])
def test_no_reference_can_be_found(real_sandbox, number):
    """By memory, by frames, among all objects and in what functions carry with them."""
    verdict = searched(real_sandbox, BY_NUMBER[number])
    assert verdict.status == "passed", {check.message for check in verdict.checks}


@pytest.mark.slow
def test_what_is_there_is_found(real_sandbox):
    """The same search, with one line of the reference in the submission itself."""
    first = next(lines_of("numpy_reference.py", ""))
    verdict = searched(real_sandbox, DAYS[13], planted=f"HELD = {first!r}")
    assert verdict.status == "error"
    assert all("cannot be loaded.\nRuntimeError" in check.message for check in verdict.checks)
