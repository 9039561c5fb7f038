"""Run a worker in a sandbox of bubblewrap, cgroups, a seccomp filter and limits.

In the sandbox there is a read-only view of Python and its packages, the few files of ours that a
worker needs, and two small folders in memory to write to. There is no network, no other process, no
reference, no other submission, and nothing that outlives the worker.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from packaging.requirements import Requirement

from course.curriculum import DAYS, ROOT
from course.grading import cgroups
from course.grading.cgroups import Cgroup, Hierarchy
from course.workers.limits import MAX_MEMORY, TOO_MUCH
from course.workers.worker import (
    OutOfMemory,
    Spawned,
    Worker,
    WorkerStopped,
    program,
    seconds,
    thread_states,
)

NOBODY = 65534
HOME = "/learner"  # not below /home, which may be a link on the way to Python
INSIDE = "/course"
STAGE = "course-sandbox"

MAX_PROCESSES = 64  # threads counted; an honest worker has three
ROOM = 64 * 2**20  # bytes that can be written, in each of the two folders and in one file
MAX_FILES = 256  # open at once
ANSWERING = 60.0  # seconds in which something in the sandbox must have answered

# The modules of ours that a worker imports: none of them reveals a right answer.
MODULES = {
    "": ("__init__", "curriculum"),
    "references": ("__init__", "imports", "modules"),
    "checks": (
        *("__init__", "answer_files", "arrays", "authoring", "clock", "draw", "earlier_parts"),
        *("frames", "gradients", "loading", "observation", "practice", "raising", "seeing"),
        "tensors",
    ),
    "workers": ("__init__", "limits", "preparing", "process", "snapshot", "tracing"),
    "grading": ("__init__", "analysis"),
}

# The distributions in the sandbox, with all that they require, and torch on its days. In any other
# that is installed, some day's answer may be.
ALLOWED = ("ipython", "jaxtyping", "matplotlib", "numpy", "pytest", "safetensors", "tqdm")

# Doors that no answer needs: into other processes, into the kernel's younger parts, out of the sandbox.
FORBIDDEN_CALLS = """
    acct add_key bpf clock_adjtime clock_settime delete_module fanotify_init finit_module fsconfig
    fsmount fsopen fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp
    kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount mount_setattr move_mount
    move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open
    personality pidfd_getfd pivot_root process_madvise process_vm_readv process_vm_writev ptrace
    quotactl reboot request_key setdomainname sethostname setns settimeofday swapoff swapon
    syslog umount2 unshare userfaultfd vhangup vmsplice
"""
NEW_USERS = 0x10000000  # CLONE_NEWUSER
# AF_UNIX; every other family speaks to something outside, AF_VSOCK past namespaces
LOCAL_SOCKETS = 1


class NoSandbox(RuntimeError):
    """This machine has no sandbox; the text says why and what to do."""


@dataclass(frozen=True)
class Sandbox:
    """What this machine has to isolate workers with.

    Attributes:
        missing: what this machine cannot give, a sentence each; the sandbox holds without it.
    """

    bubblewrap: str
    shown: dict[str, str]
    """The folders that workers see, and their paths for a user who is not root."""
    inside: Path
    groups: Hierarchy | None
    filter: Path | None
    missing: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def launch(
        self, group: Cgroup | None, device: str | None
    ) -> Iterator[tuple[list[str], list[int]]]:
        """Within it: the command that starts a process in the sandbox, and the files that it must inherit.

        Args:
            group: what counts for it.
            device: where torch is to run; without one, there is no torch in the sandbox.
        """
        inherited = [os.open(self.filter, os.O_RDONLY)] if self.filter else []
        spec = {
            "cgroups": [str(folder) for folder in group.distinct()] if group else [],
            "limits": _limits(device or "cpu", bool(group)),
            "drop_to": NOBODY if os.geteuid() == 0 else None,
            "shown": self.shown,
            "argv": [self.bubblewrap, *self._options(inherited, device)],
        }
        launcher = Path(__file__).with_name("launch.py")
        try:
            yield [sys.executable, "-I", "-S", str(launcher), json.dumps(spec)], inherited
        finally:
            for file in inherited:
                os.close(file)

    def _options(self, filters: list[int], device: str | None) -> list[str]:
        """Bubblewrap's arguments, up to the program that it is to run."""
        argv = ["--unshare-all", "--unshare-user", "--disable-userns"]
        argv += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--cap-drop", "ALL"]
        argv += ["--clearenv", "--new-session", "--die-with-parent", "--hostname", "sandbox"]
        for name, value in _environment().items():
            argv += ["--setenv", name, value]
        # Before all that may lie in one of them, as a course in /tmp does.
        for folder in (HOME, "/tmp"):
            argv += ["--size", str(ROOM), "--tmpfs", folder]
        within = [folder for folder in self.shown if Path(folder).is_relative_to(ROOT)]
        around = [folder for folder in self.shown if ROOT.is_relative_to(folder)]
        allowed, hidden_packages = _packages((*ALLOWED, "torch") if device else ALLOWED)
        for shown, hidden in (
            (
                [source for source in self.shown if source not in within],
                [str(ROOT)] if around else [],
            ),
            (within, _package_folders()),
            (allowed, []),
        ):
            for path in shown:
                argv += ["--ro-bind", self._place(path), path]
            for folder in hidden:
                argv += ["--tmpfs", folder]
        for package in hidden_packages:
            argv += ["--dir", package]
        for folder in ([str(ROOT)] if around else []) + _package_folders():
            argv += ["--remount-ro", folder]
        argv += _links()
        argv += ["--ro-bind", str(self.inside), INSIDE]
        argv += ["--proc", "/proc", "--dev", "/dev"]
        if device == "cuda":
            for node in sorted(glob.glob("/dev/nvidia*")):  # noqa: PTH207
                argv += ["--dev-bind", node, node]
        argv += ["--size", str(ROOM), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        argv += ["--remount-ro", "/", "--chdir", HOME]
        for file in filters:
            argv += ["--seccomp", str(file)]
        return argv

    def _place(self, path: str) -> str:
        """Return where bubblewrap finds something that is shown."""
        if os.geteuid() != 0:
            return path
        folder = next(
            candidate for candidate in reversed(self.shown) if Path(path).is_relative_to(candidate)
        )
        return str(Path(self.shown[folder], Path(path).relative_to(folder)))


@contextlib.contextmanager
def open_sandbox() -> Iterator[Sandbox]:
    """What this machine has, tried out. Within it, workers can be started behind it.

    Raises:
        NoSandbox: bubblewrap is not there, or does not work here.
    """
    bubblewrap = shutil.which("bwrap")
    if sys.platform != "linux" or bubblewrap is None:
        raise NoSandbox(
            "bubblewrap is not there: it needs Linux, and `apt-get install bubblewrap` or your "
            "system's own way of installing it."
        )
    _sweep()
    groups, reason = cgroups.available()
    missing = [f"No cgroups ({reason}): memory and processes have weaker limits."] if reason else []
    with tempfile.TemporaryDirectory(prefix=f"{STAGE}-{os.getpid()}-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        inside = _stage(folder / "inside")
        try:
            call_filter: Path | None = _write_filter(folder / "filter.bpf")
        except (ImportError, OSError, RuntimeError) as error:
            call_filter = None
            missing.append(f"No seccomp filter ({error}): rare system calls stay open.")
        shown = {}
        for number, path in enumerate(_system_folders()):
            target = folder / str(number)
            target.mkdir()
            shown[path] = str(target)
        sandbox = Sandbox(bubblewrap, shown, inside, groups, call_filter, missing)
        _try(sandbox)
        yield sandbox


def in_words() -> Iterator[str]:
    """What other people's work can be graded behind on this machine, in a sentence or several."""
    try:
        with open_sandbox() as sandbox:
            groups = f", cgroups version {sandbox.groups.version}" if sandbox.groups else ""
            calls = ", a filter of system calls" if sandbox.filter else ""
            yield f"bubblewrap{groups}{calls}"
            yield from sandbox.missing
    except NoSandbox as error:
        yield f"none, and only grading needs it: {error}"


def _sweep() -> None:
    """Remove what runs that were killed have left: only ever a folder of copies."""
    for folder in Path(tempfile.gettempdir()).glob(f"{STAGE}-*-*"):
        owner = folder.name.split("-")[2]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _try(sandbox: Sandbox) -> None:
    """Start something in the sandbox: only that shows whether it works.

    Raises:
        NoSandbox: they do not.
    """
    group = sandbox.groups.group(MAX_MEMORY, MAX_PROCESSES) if sandbox.groups else None
    try:
        with sandbox.launch(group, "cpu") as (command, inherited):
            done = subprocess.run(
                [*command, sys.executable, "-I", "-S", "-c", "print('isolated')"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=ANSWERING,
                pass_fds=inherited,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise NoSandbox(f"bubblewrap does not answer in {ANSWERING:g} seconds.") from error
    finally:
        if group is not None:
            group.end()
    if done.stdout != "isolated\n":
        output = " ".join(done.stderr.split())[:300]
        raise NoSandbox(f"bubblewrap does not work here: {output or 'it says nothing'}.")


class SandboxedWorker(Worker):
    """A worker in the sandbox. It is asked and heard like any other."""

    def __init__(self, sandbox: Sandbox, device: str | None) -> None:
        self._group = sandbox.groups.group(MAX_MEMORY, MAX_PROCESSES) if sandbox.groups else None
        self._found = sandbox
        self._starved = False
        super().__init__(device, "course.grading.analysis")

    def _started(self, torch_on: str | None, serving: str) -> Spawned:
        code = program(INSIDE, torch_on, serving)
        with self._found.launch(self._group, torch_on) as (command, inherited):
            return Spawned([*command, sys.executable, "-P", "-s", "-E", "-c", code], inherited)

    def _computing(self) -> float:
        """The same, with its child processes."""
        if self._group is not None:
            return self._group.computed
        return sum(map(seconds, self._processes()))

    def end(self) -> None:
        """End it with its child processes; none is left when this returns.

        Raises:
            NotEmpty: something does not go.
        """
        if self.ended:
            return
        super().end()
        if self._group is not None:
            self._starved = self._group.ran_out_of_memory
            self._group.end()
        self._process.wait()

    def _look_at_memory(self) -> None:
        if self._group is None:  # else the system itself watches
            used = 0
            for process in self._processes():
                with contextlib.suppress(psutil.Error):
                    used += process.memory_info().rss
            if used > MAX_MEMORY:
                self.end()
                raise OutOfMemory(TOO_MUCH)

    def _last_words(self) -> WorkerStopped:
        return OutOfMemory(TOO_MUCH) if self._starved else super()._last_words()

    def _ended_by(self, code: int) -> WorkerStopped:
        # bubblewrap passes a signal on by a number of its own
        return super()._ended_by(128 - code if code > 128 else code)

    def _threads(self) -> Iterator[str]:
        if self._group is None:
            states = list(super()._threads())
        else:
            states = [state for each in self._group.processes() for state in thread_states(each)]
        yield from (state.replace("T", "S") for state in states)  # here one may have stopped itself

    def _processes(self) -> list[psutil.Process]:
        first = self._process.process
        try:
            return [first, *first.children(recursive=True)] if first else []
        except psutil.Error:
            return []


# --- What is visible in the sandbox ----------------------------------------------------------------


def _environment() -> dict[str, str]:
    return {
        "HOME": HOME,
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@functools.cache
def _system_folders() -> tuple[str, ...]:
    """Python, its packages and the system's libraries: every folder once, and none of ours."""
    packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    libraries = [path for path in ("/bin", "/lib", "/lib64") if not Path(path).is_symlink()]
    prefixes = ("/usr", sys.base_prefix)
    installed = [
        path for prefix in prefixes for end in ("bin", "lib*") for path in Path(prefix).glob(end)
    ]
    drivers = [*Path("/usr/local").glob("cuda*"), *Path("/usr/local").glob("nvidia*")]
    environment = [sys.prefix] if sys.prefix != sys.base_prefix else []
    paths: list[str | Path] = [*installed, *libraries, *drivers, *environment, *packages]
    folders = {Path(path).resolve() for path in paths if Path(path).is_dir()} - {ROOT}
    return tuple(
        str(folder)
        for folder in sorted(folders)
        if not any(_shows(other, folder) for other in folders)
    )


def _shows(outer: Path, inner: Path) -> bool:
    """Whether a folder shows a folder in it: not where the course, which is hidden, lies between them."""
    hidden = outer in ROOT.parents and ROOT in inner.parents
    return outer in inner.parents and not hidden


@functools.cache
def _package_folders() -> list[str]:
    """The folders of what is installed beside the standard library, for any Python that is visible."""
    prefixes = {"/usr", "/usr/local", sys.base_prefix, sys.prefix}
    patterns = ("lib*/py*/site-packages", "lib*/py*/dist-packages")
    folders = {path for prefix in prefixes for end in patterns for path in Path(prefix).glob(end)}
    folders |= {Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))}
    real = sorted({path.resolve() for path in folders if path.is_dir()})
    shown = [
        path for path in real if any(path.is_relative_to(folder) for folder in _system_folders())
    ]
    return [str(path) for path in shown if not any(other in path.parents for other in shown)]


@functools.cache
def _packages(distributions: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the paths of distributions with what they require, and those of all other packages.

    Of these an empty folder remains, so that an import that an answer does not use changes nothing.
    """
    allowed, waiting, visited = set(), [*map(Requirement, distributions)], set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in visited:
            continue
        visited.add(str(requirement))
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            distribution = importlib.metadata.distribution(requirement.name)
            allowed |= {
                distribution.locate_file(file.parts[0]) for file in distribution.files or ()
            }
            needed = map(Requirement, distribution.requires or ())
            extras = [{"extra": extra} for extra in requirement.extras or {""}]
            waiting += [r for r in needed if not r.marker or any(map(r.marker.evaluate, extras))]
    folders = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    here = sorted(path for folder in folders for path in folder.iterdir())
    real = {Path(str(path)).resolve() for path in allowed}
    hidden = [
        path for path in here if path not in real and path.is_dir() and path.name.isidentifier()
    ]
    return [str(path) for path in here if path in real], list(map(str, hidden))


def _links() -> list[str]:
    """Return the arguments for links to the system's folders, and on the way to this Python, and for two
    files."""
    argv = []
    ways = ("/bin", "/lib", "/lib64", sys.executable, sys.prefix, sys.base_prefix)
    for link, target in {source: end for way in ways for source, end in _links_on(way)}.items():
        if not any(Path(link).is_relative_to(folder) for folder in _system_folders()):
            argv += ["--symlink", target, link]
    for path in ("/etc/ld.so.cache", "/etc/alternatives"):
        argv += ["--ro-bind-try", path, path]
    return argv


def _links_on(way: str) -> Iterator[tuple[str, str]]:
    """Every link that is met on the way to a file, and what it points to."""
    here, remaining = Path("/"), [*Path(way).parts[1:]]
    while remaining:
        step = here / remaining.pop(0)
        if step.is_symlink():
            yield str(step), str(step.readlink())
            here, remaining = Path("/"), [*(here / step.readlink()).parts[1:], *remaining]
        else:
            here = step.parent.parent if step.name == ".." else step


def _stage(folder: Path) -> Path:
    """Copy what a worker needs of ours, and no more."""
    for room, modules in MODULES.items():
        (folder / "course" / room).mkdir(parents=True)
        for module in modules:
            name = Path("course", room, f"{module}.py")
            shutil.copyfile(ROOT / name, folder / name)
    (folder / "tests" / "days").mkdir(parents=True)
    for day in (day for day in DAYS if day.ready):
        shutil.copyfile(day.checks, folder / "tests" / "days" / day.checks.name)
    return folder


def _limits(device: str, grouped: bool) -> dict[str, int]:
    limits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": ROOM,
        "RLIMIT_NOFILE": MAX_FILES,
        "RLIMIT_MEMLOCK": 2**20,
        "RLIMIT_MSGQUEUE": 0,
    }
    if device == "cpu":  # a GPU's driver reserves far more than it uses
        limits["RLIMIT_DATA"] = MAX_MEMORY
    if not grouped:  # counted for all of this user's processes together
        limits["RLIMIT_NPROC"] = 4 * MAX_PROCESSES
    return limits


def _write_filter(path: Path) -> Path:
    """Compile the list of forbidden system calls.

    Raises:
        ImportError, OSError, RuntimeError: libseccomp is not there.
    """
    import pyseccomp as seccomp  # may be missing, and the libseccomp that it loads too

    calls: Any = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
    for name in FORBIDDEN_CALLS.split():
        with contextlib.suppress(RuntimeError):  # this machine has no such call
            calls.add_rule(seccomp.ERRNO(errno.EPERM), name)
    new_users = seccomp.Arg(0, seccomp.MASKED_EQ, NEW_USERS, NEW_USERS)
    calls.add_rule(seccomp.ERRNO(errno.EPERM), "clone", new_users)
    # Libc then takes clone, which can be read.
    calls.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for name in ("socket", "socketpair"):
        other = seccomp.Arg(0, seccomp.NE, LOCAL_SOCKETS)
        calls.add_rule(seccomp.ERRNO(errno.EPERM), name, other)
    with path.open("wb") as file:
        calls.export_bpf(file)
    return path
