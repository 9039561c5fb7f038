"""The walls: what is behind them, what they keep in, and what is left when they go."""

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from course.checks.answer_files import read_answer
from course.curriculum import BY_NUMBER, DAYS
from course.grading import sandbox
from course.grading.analysis import listened_for
from course.grading.cgroups import Cgroup
from course.grading.sandbox import HOME, MODULES, NoSandbox, SandboxedWorker
from course.judging.closed_words import NO_TORCH
from course.judging.judge import Judge
from course.workers.answer_run import Answer, AnswerRun
from course.workers.checking import check_answer
from course.workers.limits import WAITING
from course.workers.session import WorkerSession
from course.workers.tracing import OUT_OF_SIGHT
from course.workers.worker import OutOfMemory, TimedOut


@functools.cache
def judge(number):
    return Judge(BY_NUMBER[number])


def asked(real_sandbox, source, names=()):
    """A walled worker that was asked to load an answer to day 1, and to run some of its checks."""
    worker = SandboxedWorker(real_sandbox, "cpu")
    answer = Answer("day01_softmax.py", f"{HOME}/day01_softmax.py", source.encode())
    run = AnswerRun(judge(1), answer, workers=None, names=names)
    worker.send(run._request(), run._file())
    return worker


# --- Sentences ------------------------------------------------------------------------------------

HERE = Path(__file__).parents[3]
OURS = sorted(str(Path(room, f"{name}.py")) for room, names in MODULES.items() for name in names)
NO_FILES = [HERE / name for name in ("implementation.py", "solutions", "tests")]
NO_FILES += [
    "/usr/share",
    "/etc/passwd",
    "/proc/1/root/etc/passwd",
    "/sys",
    "/var",
    "/run",
    "/root/.bashrc",
]
READ_ONLY = ["/course/course/checks/loading.py", "/usr/x", "/x", "/dev/x", f"{sys.prefix}/x"]
REFUSED = "Operation not permitted"
# Into other processes, into the kernel's younger parts, and to more rights; by their numbers on x86-64.
CALLS = {
    "ptrace": "101, 16, 1, 0, 0",
    "process_vm_readv": "310, 1, room, 1, room, 1, 0",
    "pidfd_getfd": "438, 3, 0, 0",
    "perf_event_open": "298, room, 0, -1, -1, 0",
    "kcmp": "312, 1, 2, 0, 0, 0",
    "bpf": "321, 0, room, 48",
    "userfaultfd": "323, 0",
    "io_uring_setup": "425, 4, room",
    "keyctl": "250, 0, -3, 1",
    "add_key": "248, b'user', b'mark', b'x', 1, -3",
    "open_by_handle_at": "304, 0, room, 0",
    "fsopen": "430, b'ext4', 0",
    "quotactl": "179, 0, room, 0, room",
    "syslog": "103, 10, 0, 0",
    "unshare for users": "272, 0x10000000",
    "unshare for mounts": "272, 0x20000",
    "mount": "165, b'none', b'/tmp', b'tmpfs', 0, 0",
    "umount": "166, b'/proc', 2",
    "chroot": "161, b'/tmp'",
    "pivot_root": "155, b'/tmp', b'/tmp'",
    "clone for users": "56, 0x10000000 | 17, 0, 0, 0",
    "setns": "308, 0, 0",
    "setuid": "105, 0",
    "setgroups": "116, 1, room",
}
COMMANDS = [
    "su -c id",
    "sudo -n id",
    "mount -t tmpfs x /tmp",
    "unshare -Ur id",
    "bwrap --bind / / id",
]

NAMESPACES = (
    "[os.readlink('/proc/self/ns/' + kind) for kind in ('ipc', 'mnt', 'net', 'pid', 'user', 'uts')]"
)
# Expressions, and what they return or raise behind the walls: regular expressions.
SENTENCES = {
    "sorted(str(p.relative_to('/course/course')) for p in Path('/course/course').rglob('*.*') "
    "if p.is_file())": re.escape(str(OURS)),
    **{f"os.path.exists({str(path)!r})": "False" for path in NO_FILES},
    **{f"open({path!r}, 'w')": "Read-only file system" for path in READ_ONLY},
    "socket.socket(socket.AF_INET)": REFUSED,
    "socket.socket(40, socket.SOCK_STREAM)": REFUSED,
    **dict.fromkeys((f"call({arguments})" for arguments in CALLS.values()), "^-1"),
    **{f"subprocess.call({line.split()!r}, stdin=-3, stdout=-3)": "^[1-9]|No such" for line in COMMANDS},
    **{f"os.mknod('/tmp/d', {mode}, os.makedev(1, 1))": REFUSED for mode in (0o020666, 0o060666)},
    "os.setuid(0)": f"Invalid argument|{REFUSED}",
    "os.kill(1, 9) or os.path.exists('/proc/1')": "True",  # the namespace's own first process
    # Two processes, nobody's user, and an environment that is all but empty.
    "[p for p in os.listdir('/proc') if p.isdecimal()], os.getuid(), len(os.environ)": (
        r"^\(\['1', '2'\], 65534, [0-8]\)$"
    ),
    NAMESPACES: "ipc:.*mnt:.*net:.*pid:.*user:.*uts:",
    # Last, as it fills the folder: those that can be written to take so much and no more.
    "[open(f'/tmp/{n}', 'wb').write(bytes(2**20)) for n in range(200)]": "No space left on device",
}  # fmt: skip
SAYING = """
import ctypes, json, os, socket, subprocess
from pathlib import Path

import numpy

call, room = ctypes.CDLL(None).syscall, ctypes.create_string_buffer(4096)
said = []
for expression in EXPRESSIONS:
    try:
        said.append(repr(eval(expression)))
    except BaseException as error:
        said.append(repr(error))

def softmax(x, axis=-1):
    return numpy.frombuffer(json.dumps(said).encode(), numpy.uint8)

log_softmax = softmax
"""


@pytest.fixture(scope="module")
def outputs(real_sandbox):
    """What each sentence gives behind the walls; its letters come out as numbers, as words do not."""
    check = judge(1).checks[0].name
    worker = asked(real_sandbox, f"EXPRESSIONS = {list(SENTENCES)!r}\n{SAYING}", [check])
    try:
        worker.receive(60)  # that the answer is loaded
        _, observation = worker.receive(60)
    finally:
        worker.end()
    [leaf, *_] = observation.values()
    return dict(zip(SENTENCES, json.loads(leaf.value.tobytes()), strict=True))


@pytest.mark.parametrize("expression", SENTENCES)
def test_sentences(outputs, expression):
    """Python and those of our files that tell no answer are there, and nothing of this machine; nothing can
    be written but two small folders; there is no network, no other process, no way to more rights."""
    assert re.search(SENTENCES[expression], outputs[expression]), outputs[expression]


def test_every_namespace_is_its_own(outputs):
    """Each is a wall of its own, behind the refused system calls: the network's, for example."""
    assert set(eval(outputs[NAMESPACES])).isdisjoint(eval(NAMESPACES))


def test_a_bubblewrap_that_hangs_is_no_sandbox(real_sandbox, monkeypatch):
    """What does not answer in time is reported as what does not work."""
    monkeypatch.setattr(sandbox, "ANSWERING", 0.0)
    with pytest.raises(NoSandbox, match="does not answer in 0 seconds"):
        sandbox._try(real_sandbox)


# --- Limits ---------------------------------------------------------------------------------------


def receive(real_sandbox, body, patience=3.0, waiting=WAITING):
    """What becomes of an answer that does something when it is loaded."""
    worker = asked(real_sandbox, body)
    try:
        return worker.receive(patience, waiting)
    finally:
        worker.end()


def behind(real_sandbox, group, device, *arguments):
    """Run Python in the sandbox."""
    with real_sandbox.launch(group, device) as (command, inherited):
        return subprocess.run(
            [*command, sys.executable, "-I", *arguments],
            pass_fds=inherited,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )


@pytest.mark.slow
def test_memory(real_sandbox):
    """What takes too much is ended, and called by its name, where the system counts for us."""
    if real_sandbox.groups is None:
        pytest.skip("no cgroups here")
    group = real_sandbox.groups.group(2**27, 16)
    try:
        code = "x = [bytearray(2**20) for _ in range(4000)]"
        done = behind(real_sandbox, group, "cpu", "-S", "-c", code)
        assert done.returncode != 0
        assert group.ran_out_of_memory
    finally:
        group.end()
    fill = "try: x.madvise(23)\nexcept OSError:\n    for i in range(0, 6 * 2**30, 4096): x[i] = 1"
    with pytest.raises(OutOfMemory, match="over 4 GB"):
        receive(real_sandbox, f"import mmap\nx = mmap.mmap(-1, 6 * 2**30)\n{fill}", 60.0, 600.0)


def test_time(real_sandbox):
    """A loop is ended by the time that it computes."""
    with pytest.raises(TimedOut, match=r"after 0\.5 seconds"):
        receive(real_sandbox, "while True: pass", patience=0.5)


def test_nothing_is_left(real_sandbox):
    """What it has started in the background goes with it, and its group too."""
    existing = groups()  # a grader of this process keeps workers ready
    start = "subprocess.Popen(['sleep', '4711'], start_new_session=True)"
    receive(real_sandbox, f"import subprocess\nfor _ in range(5):\n    {start}\n")
    sleeping = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "4711" in (process.info["cmdline"] or [])
    ]
    assert sleeping == []
    assert groups() == existing


def groups():
    """The control groups that this process has made and not ended."""
    return set(Path("/sys/fs/cgroup").rglob(f"course-{os.getpid()}-*"))


def test_computing_is_counted(real_sandbox):
    """What an answer computes is counted, and still known when its worker has gone."""
    worker = SandboxedWorker(real_sandbox, "cpu")
    worker.receive(60)
    before = worker.computed
    worker.end()
    assert 0.1 < before <= worker.computed < 60


READY_MADE = ("gguf", "onnx", "pip", "sacrebleu", "scipy", "tokenizers", "transformers", "yaml")


def printed_behind(real_sandbox, device, code):
    """What Python prints behind the walls of a device's days."""
    done = behind(real_sandbox, None, device, "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("device", [None, "cpu"])
def test_what_lies_ready_is_not_there(real_sandbox, device):
    """Of packages there are those of the allowlist and what they import, for days of NumPy without torch;
    nor are there any others in a folder of the system's own Python. An unused import does no harm."""
    code = f"""
import importlib.util, pathlib, pkgutil, sys
import sacrebleu, scipy, torch
sys.path += map(str, pathlib.Path('/usr').glob('lib*/python3*/*-packages'))
sys.path += map(str, pathlib.Path({sys.base_prefix!r}).glob('lib*/python3*/*-packages'))
print(*sorted(one.name for one in pkgutil.iter_modules()))
"""
    installed = set(printed_behind(real_sandbox, device, code).split())
    assert {"numpy", "matplotlib", "jaxtyping"} <= installed
    assert {"torch", "sympy"} & installed == ({"torch", "sympy"} if device else set())
    assert not installed & {*READY_MADE, "httplib2", "gi", "apt", "wheel"}


def test_a_course_within_the_system_hides_itself_alone(real_sandbox, monkeypatch):
    """A clone below /usr/lib, or in conda's, takes neither Python nor libraries away."""
    clone = next(path for path in Path("/usr/lib").iterdir() if path.name in ("apt", "dpkg", "rpm"))
    monkeypatch.setattr(sandbox, "ROOT", clone)
    assert "/usr/lib" in sandbox._system_folders.__wrapped__()
    code = f"import os, numpy; print(os.listdir({str(clone)!r}))"
    assert printed_behind(real_sandbox, None, code) == "[]\n"


@pytest.mark.slow
def test_a_python_behind_links_has_a_sandbox(real_sandbox, tmp_path):
    """The links on the way to it, to other folders and within them, are there too."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "venv").symlink_to(sys.prefix)
    (tmp_path / "home").symlink_to("real")
    python = tmp_path / "home" / ".." / "home" / "venv" / "bin" / "python"
    code = "from course.grading.sandbox import *\nwith open_sandbox(): print(sys.executable)"
    done = subprocess.run(
        [python, "-c", code], cwd=HERE, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.stderr, Path(done.stdout.strip()).parts[:-4]) == ("", tmp_path.parts)


# --- Verdicts -------------------------------------------------------------------------------------


LAYER_NORM = """
import torch
from torch import nn

def normed(x, scale, shift, eps: float):
    return torch.layer_norm(x, x.shape[-1:], scale, shift, eps)

class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return normed(x, self.scale, self.shift, self.eps)
"""
HIDDEN = {
    "in a graph compiled before": "normed = torch.jit.script(normed)",
    "by an observer that is not asked": """
def forward(self, x):
    with torch._C.DisableTorchFunction():
        return normed(x, self.scale, self.shift, self.eps)

LayerNorm.forward = forward
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_a_hidden_call_is_noticed(real_sandbox, hidden):
    """A call of torch's own layer norm that was hidden from what observes is named as that."""
    day, source = DAYS[10], f"{LAYER_NORM}\n{hidden}"
    listened = listened_for(day.number)
    answer = Answer(f"{day.stem}.py", f"{HOME}/{day.stem}.py", source.encode(), listened)
    with WorkerSession(lambda device: SandboxedWorker(real_sandbox, device), apart=True) as session:
        verdict = check_answer(judge(day.number), answer, session).verdict
    assert OUT_OF_SIGHT in verdict.called
    assert set(verdict.called) <= {*listened, OUT_OF_SIGHT}


def in_one_session(real_sandbox, answers):
    """The verdicts on a learner's days, by their numbers, in the workers that grading would use."""
    with WorkerSession(lambda device: SandboxedWorker(real_sandbox, device), apart=True) as session:
        for number, source in answers.items():
            name = f"{BY_NUMBER[number].stem}.py"
            answer = Answer(name, f"{HOME}/{name}", source.encode())
            yield number, check_answer(judge(number), answer, session).finish()


@pytest.mark.slow
def test_torch_on_a_numpy_day(real_sandbox):
    """An unused import changes nothing, on this day and the next; a use is told in words."""
    first, two = (read_answer(BY_NUMBER[number].solution) for number in (1, 2))
    unused = dict(in_one_session(real_sandbox, {1: f"import torch\n{first}", 2: two}))
    for verdict in unused.values():
        assert (verdict.status, verdict.watertight, verdict.as_new) == ("passed", True, True)
    softmax = (
        "def softmax(x, axis=-1):\n    return torch.softmax(x, axis)\n\n\nlog_softmax = softmax"
    )
    for line in ("import torch", "from torch import softmax", "import torch.nn as torch"):
        [(_, verdict)] = in_one_session(real_sandbox, {1: f"{line}\n\n\n{softmax}"})
        for check in verdict.checks:
            assert check.status == "error"
            assert NO_TORCH in check.message


@pytest.mark.slow
@pytest.mark.parametrize("how", ["attention", "fullgraph=True)(attention"])
def test_a_compiled_module_runs_uncompiled(real_sandbox, how):
    """`torch.compile` hands back what it is given: to compile takes longer than any check may."""
    right = read_answer(DAYS[7].solution)
    source = f"import torch\n{right}\n\nattention = torch.compile({how})"
    [(_, verdict)] = in_one_session(real_sandbox, {8: source})
    assert (verdict.status, verdict.watertight) == ("passed", True)


@pytest.mark.slow
def test_matplotlib_may_be_imported(real_sandbox):
    """It takes seconds behind walls where nothing is compiled ahead, and those are not the learner's."""
    source = f"import matplotlib.pyplot as plt\n{read_answer(DAYS[0].solution)}"
    [(_, verdict)] = in_one_session(real_sandbox, {1: source})
    assert (verdict.status, verdict.watertight) == ("passed", True)


def test_a_group_is_killed_at_once(tmp_path, monkeypatch):
    """Processes that fork faster than they are killed one by one end too, where the system can do it."""
    alive = [[os.getpid()], []]
    monkeypatch.setattr(Cgroup, "processes", lambda self: alive.pop(0))
    monkeypatch.setattr(Cgroup, "_remove", lambda *_: None)
    monkeypatch.setattr(os, "kill", None)
    Cgroup(2, {"pids": tmp_path}).end()
    assert (tmp_path / "cgroup.kill").read_text() == "1"
