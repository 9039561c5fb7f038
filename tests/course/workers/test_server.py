"""Workers are forked from a server, and nothing of it is left behind."""

import fcntl
import io
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from course.curriculum import DAYS, ROOT
from course.judging.judge import Judge
from course.workers import forking
from course.workers.answer_run import Answer
from course.workers.checking import check_answer
from course.workers.forking import CAN_FORK, close_servers
from course.workers.pool import WorkerPool
from course.workers.worker import LOST, Spawned, Worker, WorkerLost

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="workers are new interpreters here")

PATIENCE = 60
SERVING = "tests.course.workers.serving"


@pytest.fixture(autouse=True)
def no_server_is_left():
    yield
    close_servers()


def run(worker, code):
    """What a worker sends for a piece of code."""
    worker.send({"code": code})
    return worker.receive(PATIENCE, PATIENCE)[0]


def test_a_worker_is_a_fork_of_a_process_that_computed_nothing():
    """The server has one thread and torch; a fork of it computes, with gradients and an optimizer."""
    worker = Worker("cpu", SERVING)
    reply = run(
        worker,
        "import os, torch\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "x.sum().backward()\n"
        "torch.optim.Adam([x]).step()\n"
        "send({'server': os.getppid(), 'session': os.getsid(0) == os.getpid()})",
    )
    server = psutil.Process(reply["server"])
    assert server.num_threads() == 1
    assert "workers.server" in " ".join(server.cmdline())
    assert reply["session"]
    worker.end()


@pytest.mark.slow
def test_days_with_and_without_torch_have_servers_of_their_own():
    """A NumPy day's worker never holds torch."""
    code = "import sys, os; send({'torch': 'torch' in sys.modules, 'server': os.getppid()})"
    numpy, torch = Worker(None, SERVING), Worker("cpu", SERVING)
    first, other = run(numpy, code), run(torch, code)
    assert (first["torch"], other["torch"]) == (False, True)
    assert first["server"] != other["server"]
    again = Worker("cpu", SERVING)
    assert run(again, code)["server"] == other["server"]


def test_workers_know_nothing_of_each_other():
    """What one changes in its process the next does not see, and each has its own channel."""
    first, second = Worker(None, SERVING), Worker(None, SERVING)
    assert run(first, "import math; math.pi = 3; send({'pi': math.pi})")["pi"] == 3
    assert run(second, "import math; send({'pi': math.pi})")["pi"] != 3


@pytest.mark.parametrize(
    "end", ["os._exit(7)", "os.kill(os.getpid(), 9)"], ids=["an exit code", "a signal"]
)
def test_how_a_worker_ended_is_known(end):
    """The server reports it, and the words are those for any worker."""
    worker = Worker(None, SERVING)
    words = "exit code 7" if "_exit" in end else "signal 9"
    with pytest.raises(Exception, match=words):
        run(worker, f"import os; {end}")


def test_a_lost_server_is_nobody_s_fault():
    """Its workers go with it, that is no mistake of the answer, and the next worker has another server."""
    worker = Worker(None, SERVING)
    server = run(worker, "import os; send({'server': os.getppid(), 'own': os.getpid()})")
    os.kill(server["server"], signal.SIGKILL)
    with pytest.raises(WorkerLost, match=LOST[:20]):
        worker.receive(PATIENCE, PATIENCE)
    assert gone(server["own"])
    assert run(Worker(None, SERVING), "import os; send({'server': os.getppid()})") != server


def test_a_verdict_survives_a_lost_server(monkeypatch):
    """The check is made again in another worker."""
    judge, killed = Judge(DAYS[0]), []
    send = Worker.sending

    def kill_the_first(self, request, files=None):
        yield from send(self, request, files)
        if not killed:
            killed.append(self._process.process.ppid())
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(Worker, "sending", kill_the_first)
    solution = DAYS[0].solution
    with WorkerPool(1) as pool:
        verdict = check_answer(judge, Answer(str(solution), str(solution)), pool).verdict
    assert killed
    assert verdict.status == "passed"


def test_a_server_is_replaced_when_the_course_s_code_has_changed(monkeypatch):
    """As after a pull; workers of the old one go on."""
    code = "import os; send({'server': os.getppid()})"
    old = Worker(None, SERVING)
    before = run(old, code)
    monkeypatch.setattr(forking, "_signature", lambda: (("another", 0, 0),))
    assert run(Worker(None, SERVING), code) != before
    assert run(old, code) == before


def test_without_a_server_a_worker_is_a_new_interpreter(monkeypatch):
    """A library that starts a thread when it is imported makes forks unsafe: the server refuses."""
    thread = "import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start(); "
    monkeypatch.setattr(forking, "PROGRAM", thread + forking.PROGRAM)
    with pytest.raises(WorkerLost):
        Worker(None).send({})
    worker = Worker(None)
    assert isinstance(worker._process, Spawned)
    worker.send({})
    worker.end()


def gone(*processes):
    """Whether they all end, in time."""
    living = [psutil.Process(number) for number in processes if psutil.pid_exists(number)]
    return not psutil.wait_procs(living, timeout=PATIENCE)[1]


COMPUTES = "while True: pass"
HOLDS_THE_INTERPRETER = "import re; re.match('(a+)+$', 'a' * 64 + 'b')"
STARTS_ANOTHER = "import subprocess, time; subprocess.Popen(['sleep', '999']); time.sleep(999)"


@pytest.mark.parametrize("code", [COMPUTES, HOLDS_THE_INTERPRETER, STARTS_ANOTHER])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_the_process_that_asked(tmp_path, how, code):
    """Whatever the learner's code is doing, and however `course check` is ended."""
    (tmp_path / "day01_softmax.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "course.cli", "check", "1", "--answers", str(tmp_path)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    expected = 3 if code == STARTS_ANOTHER else 2
    deadline = time.monotonic() + PATIENCE
    started = []
    while len(started) < expected and time.monotonic() < deadline:
        started = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.02)
    process.send_signal(how)
    process.wait(PATIENCE)
    assert len(started) >= expected
    assert gone(*(child.pid for child in started))


@pytest.mark.skipif(not CAN_FORK, reason="this system does not fork workers")
def test_a_process_with_many_files_open_can_wait_for_a_fork():
    """A notebook's kernel may have more than 1,024, and `select` takes no descriptor above."""
    report, reporting = os.pipe()
    high = fcntl.fcntl(report, fcntl.F_DUPFD, 1024)
    forked = forking.Forked(io.BytesIO(), io.BytesIO(), io.BytesIO(), high)
    assert not forked._number_comes(0.0)
    os.write(reporting, bytes(forking.NUMBER))
    assert forked._number_comes(0.0)
    forked.close()
    for end in (report, reporting):
        os.close(end)


@pytest.mark.slow
def test_no_worker_waits_for_the_compiler():
    """The second with torch begins its import in a server of its own, from which workers come when it is
    done."""
    code = (
        "import sys, os; send({'compiler': 'torch._dynamo' in sys.modules, 'server': os.getppid()})"
    )
    first, second = (run(Worker("cpu", SERVING), code) for _ in range(2))
    assert first == second
    assert not first["compiler"]
    deadline = time.monotonic() + PATIENCE
    while not forking._servers[forking.COMPILER].is_ready and time.monotonic() < deadline:
        time.sleep(0.1)
    later = run(Worker("cpu", SERVING), code)
    assert later["compiler"]
    assert later["server"] != first["server"]
