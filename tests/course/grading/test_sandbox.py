"""The walls: what is behind them, what they keep in, and what is left when they go."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from course.checks.answers import read_answer
from course.curriculum import DAYS
from course.grading import sandbox
from course.grading.analysis import listened_for
from course.grading.cgroups import Cgroup, Hierarchy
from course.grading.sandbox import HOME, MODULES, NoSandbox, WalledWorker
from course.judging.closed_words import NO_TORCH
from course.judging.judge import Judge
from course.workers.answer_run import Answer
from course.workers.checking import check_answer
from course.workers.limits import WAITING
from course.workers.session import WorkerSession
from course.workers.tracing import OUT_OF_SIGHT
from course.workers.worker import OutOfMemory, TimedOut

SOFTMAX = DAYS[0]


class Alone:
    """Hands out one walled worker, keeps it, and remembers what came out of it."""

    def __init__(self, found):
        self.worker = WalledWorker(found, "cpu")
        self.observations = []
        hearing = self.worker.hearing

        def remember(*how):
            message, observation = yield from hearing(*how)
            self.observations.append(observation)
            return message, observation

        self.worker.hearing = remember

    def take(self, torch_on):
        return self.worker

    def give_back(self, worker):
        return ""


ANSWER = """
import numpy

def softmax(x, axis=-1):
    try:
        said = repr(({expression}))
    except BaseException as error:
        said = repr(error)
    return numpy.frombuffer(said.encode(), numpy.uint8)

log_softmax = softmax
"""


def say(found, expression, setup=""):
    """What an expression gives behind the walls, or raises there: its letters come out as numbers, for
    of words nothing does."""
    source = f"{setup}\n{ANSWER.format(expression=expression)}"
    session = Alone(found)
    try:
        answer = Answer("day01_softmax.py", f"{HOME}/day01_softmax.py", source.encode())
        check_answer(Judge(SOFTMAX), answer, session)
    finally:
        session.worker.end()
    [leaf, *_] = next(observation for observation in session.observations if observation).values()
    return leaf.value.tobytes().decode()


def test_a_bubblewrap_that_hangs_is_no_sandbox(found, monkeypatch):
    """What does not answer in time is reported as what does not work."""
    monkeypatch.setattr(sandbox, "ANSWERING", 0.0)
    with pytest.raises(NoSandbox, match="does not answer in 0 seconds"):
        sandbox._try(found)


def test_what_is_there(found):
    """Python, its packages, and those of our files that tell no answer."""
    files = "sorted(str(p.relative_to(there)) for p in there.rglob('*') if p.is_file())"
    said = say(found, files, "import pathlib\nthere = pathlib.Path('/course/course')")
    ours = [str(Path(room, f"{name}.py")) for room, names in MODULES.items() for name in names]
    assert str(sorted(ours)) in said


@pytest.mark.parametrize(
    "path",
    [str(Path(__file__).parents[3] / name) for name in ("implementation.py", "solutions", "tests")]
    + ["/etc/passwd", "/proc/1/root/etc/passwd", "/sys", "/var", "/run", "/root/.bashrc"],
)
def test_what_is_not_there(found, path):
    """No reference, no solution, no misconception, nothing of this machine."""
    assert "False" in say(found, f"os.path.exists({path!r})", "import os")


@pytest.mark.parametrize(
    "path", ["/course/course/checks/loading.py", "/usr/x", "/x", "/dev/x", sys.prefix + "/x"]
)
def test_nothing_can_be_written(found, path):
    """All but two small folders in memory is read-only."""
    assert "Read-only file system" in say(found, f"open({path!r}, 'w')")


def test_room_is_limited(found):
    """The folders that can be written to take so much and no more."""
    setup = "def fill():\n    for n in range(200):\n        open(f'/tmp/{n}', 'wb').write(bytes(2**20))\n"
    assert "No space left on device" in say(found, "fill()", setup)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("socket.socket(socket.AF_INET)", "Operation not permitted"),
        ("socket.socket(40, socket.SOCK_STREAM)", "Operation not permitted"),
        ("call(272, 0x10000000)", "-1"),  # unshare, for new users
        ("call(101, 16, 1, 0, 0)", "-1"),  # ptrace
        ("call(165, 0, 0, 0, 0, 0)", "-1"),  # mount
        ("call(425, 4, 0)", "-1"),  # io_uring_setup
        ("os.setuid(0)", "Invalid argument|Operation not permitted"),
        ("os.kill(1, 9) or os.path.exists('/proc/1')", "True"),  # the namespace's own first process
    ],
)  # fmt: skip
def test_doors_that_are_shut(found, call, words):
    """No network, no other process, no way to more rights."""
    setup = "import ctypes, os, socket\ncall = ctypes.CDLL(None).syscall\n"
    said = say(found, call, setup)
    assert any(word in said for word in words.split("|"))


def test_processes_and_environment(found):
    """Behind the walls there are two processes, nobody's user, and an empty environment."""
    setup = "import os\n"
    said = say(
        found,
        "[p for p in os.listdir('/proc') if p.isdecimal()], os.getuid(), len(os.environ)",
        setup,
    )
    assert "(['1', '2'], 65534, " in said
    assert int(said.split("65534, ")[1].split(")")[0]) <= 8


def hear(found, body, patience=3.0, waiting=WAITING):
    """What becomes of an answer that does something when it is loaded."""
    worker = WalledWorker(found, "cpu")
    answer = Answer("day01_softmax.py", f"{HOME}/day01_softmax.py", body.encode())
    try:
        from course.references.cut import cut_sources
        from course.references.stubs import stub_text
        from course.workers.answer_run import as_leaves

        request = {
            "day": 1,
            "names": [],
            "thoroughly": False,
            "answer": answer.path,
            "shown": answer.shown,
            "stubs": {SOFTMAX.stem: stub_text(SOFTMAX)},
            "cut": cut_sources(SOFTMAX),
            "listen": [],
            "seed": 0,
            "device": "cpu",
        }
        worker.ask(request, as_leaves({answer.path: answer.data}))
        return worker.hear(patience, waiting)
    finally:
        worker.end()


def test_memory(found):
    """What takes too much is ended, and called by its name, where the system counts for us."""
    if found.groups is None:
        pytest.skip("no cgroups here")
    small = Hierarchy(found.groups.version, found.groups.folders)
    group = small.group(2**27, 16)
    try:
        launch, file = found.launch(group, "cpu")
        code = "x = [bytearray(2**20) for _ in range(4000)]"
        done = subprocess.run(
            [*launch, sys.executable, "-I", "-S", "-c", code],
            pass_fds=[file] if file is not None else [],
            capture_output=True,
            check=False,
        )
        assert done.returncode != 0
        assert group.ran_out_of_memory
    finally:
        group.end()
    fill = "try: x.madvise(23)\nexcept OSError:\n    for i in range(0, 6 * 2**30, 4096): x[i] = 1"
    with pytest.raises(OutOfMemory, match="over 4 GB"):
        hear(found, f"import mmap\nx = mmap.mmap(-1, 6 * 2**30)\n{fill}", 60.0, 600.0)


def test_time(found):
    """A loop is ended by the time that it computes."""
    with pytest.raises(TimedOut, match="after 3 seconds"):
        hear(found, "while True: pass")


def test_nothing_is_left(found):
    """What it has started in the background goes with it, and its group too."""
    others = groups()  # a grader of this process keeps workers ready
    start = "subprocess.Popen(['sleep', '4711'], start_new_session=True)"
    hear(found, f"import subprocess\nfor _ in range(5):\n    {start}\n")
    sleeping = [
        one for one in psutil.process_iter(["cmdline"]) if "4711" in (one.info["cmdline"] or [])
    ]
    assert sleeping == []
    assert groups() == others


def groups():
    """The control groups that this process has made and not ended."""
    return set(Path("/sys/fs/cgroup").rglob(f"course-{os.getpid()}-*"))


def test_computing_is_counted(found):
    """What an answer computes is counted, and still known when its worker has gone."""
    worker = WalledWorker(found, "cpu")
    worker.hear(60)
    before = worker.computed
    worker.end()
    assert 0.1 < before <= worker.computed < 60


READY_MADE = ("gguf", "onnx", "pip", "sacrebleu", "scipy", "tokenizers", "transformers", "yaml")


@pytest.mark.parametrize("device", [None, "cpu"])
def test_what_lies_ready_is_not_there(found, device):
    """Of packages there are those of the allowlist and what they import, for days of NumPy without torch;
    nor are there any others in a folder of the system's own Python. An unused import does no harm."""
    code = f"""
import importlib.util, pathlib, pkgutil, sys
import sacrebleu, scipy, torch
sys.path += map(str, pathlib.Path('/usr').glob('lib*/python3*/*-packages'))
sys.path += map(str, pathlib.Path({sys.base_prefix!r}).glob('lib*/python3*/*-packages'))
print(*sorted(one.name for one in pkgutil.iter_modules()))
"""
    launch, file = found.launch(None, device)
    done = subprocess.run(
        [*launch, sys.executable, "-I", "-c", code],
        pass_fds=[file] if file is not None else [],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    there = set(done.stdout.split())
    assert {"numpy", "matplotlib", "jaxtyping"} <= there
    assert {"torch", "sympy"} & there == ({"torch", "sympy"} if device else set())
    assert not there & {*READY_MADE, "httplib2", "gi", "apt", "wheel"}


def test_a_course_within_the_system_hides_itself_alone(found, monkeypatch):
    """A clone below /usr, or in conda's prefix, takes neither Python nor libraries away."""
    monkeypatch.setattr(sandbox, "ROOT", Path("/usr/share"))
    assert "/usr" in sandbox._system_folders.__wrapped__()
    launch, file = found.launch(None, None)
    code = "import os, numpy; print(os.listdir('/usr/share'))"
    done = subprocess.run(
        [*launch, sys.executable, "-I", "-c", code],
        pass_fds=[file] if file is not None else [],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stdout == "[]\n"


def test_detours_to_ready_made_answers_are_seen(found, tmp_path):
    """Whatever it is called in the source: torch's own layer norm is noticed when it runs."""
    source = """
import importlib
from torch import nn

class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        functions = importlib.import_module("torch.nn." + "func" + "tional")
        return getattr(functions, "layer" + "_norm")(x, x.shape[-1:], self.scale, self.shift, self.eps)
"""
    day = DAYS[10]
    answer = Answer(
        f"{day.stem}.py",
        f"{HOME}/{day.stem}.py",
        ("import torch" + source).encode(),
        listened_for(day.number),
    )
    with WorkerSession(lambda device: WalledWorker(found, device), apart=True) as session:
        verdict = check_answer(Judge(day), answer, session).verdict
    assert set(verdict.called) <= set(listened_for(day.number))
    assert "torch.nn.functional.layer_norm" in verdict.called


HIDDEN = {
    "a graph compiled before": """
def normed(x, scale, shift, eps: float):
    return torch.layer_norm(x, x.shape[-1:], scale, shift, eps)

normed = torch.jit.script(normed)
""",
    "an observer that is not asked": """
def normed(x, scale, shift, eps):
    with torch._C.DisableTorchFunction():
        return torch.layer_norm(x, x.shape[-1:], scale, shift, eps)
""",
}


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_calls_out_of_sight_are_reported(found, hidden):
    """A call that was hidden from what observes is named as that, where the answer said nothing else."""
    day = DAYS[10]
    source = f"""
import torch
from torch import nn
{hidden}

class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return normed(x, self.scale, self.shift, self.eps)
"""
    answer = Answer(
        f"{day.stem}.py", f"{HOME}/{day.stem}.py", source.encode(), listened_for(day.number)
    )
    with WorkerSession(lambda device: WalledWorker(found, device), apart=True) as session:
        verdict = check_answer(Judge(day), answer, session).verdict
    assert OUT_OF_SIGHT in verdict.called


def in_one_session(found, answers):
    """The verdicts on a learner's days, by their numbers, in the workers that grading would use."""
    with WorkerSession(lambda device: WalledWorker(found, device), apart=True) as session:
        for number, source in answers.items():
            name = f"{DAYS[number - 1].stem}.py"
            answer = Answer(name, f"{HOME}/{name}", source.encode())
            yield number, check_answer(Judge(DAYS[number - 1]), answer, session).look()


def test_torch_on_a_numpy_day(found):
    """An unused import changes nothing, on this day and the next; a use is told in words."""
    one, two = (read_answer(DAYS[number - 1].solution) for number in (1, 2))
    unused = dict(in_one_session(found, {1: f"import torch\n{one}", 2: two}))
    for verdict in unused.values():
        assert (verdict.status, verdict.watertight, verdict.as_new) == ("passed", True, True)
    softmax = (
        "def softmax(x, axis=-1):\n    return torch.softmax(x, axis)\n\n\nlog_softmax = softmax"
    )
    for line in ("import torch", "from torch import softmax", "import torch.nn as torch"):
        [(_, verdict)] = in_one_session(found, {1: f"{line}\n\n\n{softmax}"})
        for check in verdict.checks:
            assert check.status == "error"
            assert NO_TORCH in check.message


def test_a_compiled_module_runs_uncompiled(found):
    """`torch.compile` hands back what it is given: to compile takes longer than any check may."""
    right = read_answer(DAYS[7].solution)
    source = f"import torch\n{right}\n\nattention = torch.compile(attention)"
    [(_, verdict)] = in_one_session(found, {8: source})
    assert (verdict.status, verdict.watertight) == ("passed", True)


def test_matplotlib_may_be_imported(found):
    """It takes seconds behind walls where nothing is compiled ahead, and those are not the learner's."""
    source = f"import matplotlib.pyplot as plt\n{read_answer(DAYS[0].solution)}"
    [(_, verdict)] = in_one_session(found, {1: source})
    assert (verdict.status, verdict.watertight) == ("passed", True)


def test_a_group_is_killed_at_once(tmp_path, monkeypatch):
    """Processes that fork faster than they are killed one by one end too, where the system can do it."""
    alive = [[os.getpid()], []]
    monkeypatch.setattr(Cgroup, "_processes", lambda self: alive.pop(0))
    monkeypatch.setattr(Cgroup, "_remove", lambda *_: None)
    monkeypatch.setattr(os, "kill", None)
    Cgroup(2, {"pids": tmp_path}).end()
    assert (tmp_path / "cgroup.kill").read_text() == "1"
