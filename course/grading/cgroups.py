"""Control groups: what a worker and its child processes may use together, version 2 or 1.

Where there is none that we may write to, `available` says why, and weaker limits have to do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path("/sys/fs/cgroup")
EMPTYING = 10.0  # seconds until killed processes must be gone

_numbers = itertools.count()


class NotEmpty(RuntimeError):
    """Processes that were killed are still there."""


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made: one folder in version 2, one for each controller in version 1."""

    version: int
    folders: dict[str, Path]

    def group(self, memory: int, processes: int) -> Cgroup:
        """Make a group for one worker.

        Args:
            memory: bytes.
            processes: how many, threads counted.
        """
        name = f"course-{os.getpid()}-{next(_numbers)}"
        group = Cgroup(self.version, {key: path / name for key, path in self.folders.items()})
        for folder in group.distinct():
            folder.mkdir()
        group.limit(memory, processes)
        return group

    def sweep(self) -> None:
        """End the groups of runs that were killed."""
        for path in self.folders["pids"].glob("course-*-*"):
            owner = path.name.split("-")[1]
            if owner.isdecimal() and not psutil.pid_exists(int(owner)):
                folders = {key: folder / path.name for key, folder in self.folders.items()}
                with contextlib.suppress(OSError, NotEmpty):
                    Cgroup(self.version, folders).end()


@dataclass(frozen=True)
class Cgroup:
    """The group of one worker."""

    version: int
    folders: dict[str, Path]

    def distinct(self) -> list[Path]:
        return list(dict.fromkeys(self.folders.values()))

    def limit(self, memory: int, processes: int) -> None:
        if self.version == 2:
            self._write("memory", "memory.max", memory)
            with contextlib.suppress(OSError):  # not there without swap
                self._write("memory", "memory.swap.max", 0)
        else:
            self._write("memory", "memory.limit_in_bytes", memory)
            with contextlib.suppress(OSError):
                self._write("memory", "memory.memsw.limit_in_bytes", memory)
        self._write("pids", "pids.max", processes)

    @property
    def computed(self) -> float:
        """Seconds of CPU time that the group has had."""
        if self.version == 2:
            return self._fields("cpu", "cpu.stat")["usage_usec"] / 1e6
        return int((self.folders["cpu"] / "cpuacct.usage").read_text()) / 1e9

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the system ended one of its processes for want of memory."""
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        return self._fields("memory", file).get("oom_kill", 0) > 0

    def end(self) -> None:
        """Kill every process in it, wait until it is empty, and remove it.

        Raises:
            NotEmpty: something does not go.
        """
        deadline = time.monotonic() + EMPTYING
        while processes := self.processes():
            try:  # all at once, however fast they fork; version 2, since Linux 5.14
                self._write("pids", "cgroup.kill", 1)
            except OSError:
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise NotEmpty(f"{len(processes)} processes of a worker could not be ended")
            time.sleep(0.002)
        for folder in self.distinct():
            self._remove(folder, deadline)

    @staticmethod
    def _remove(folder: Path, deadline: float) -> None:
        """The system takes a moment to let go of what is empty."""
        while True:
            try:
                return folder.rmdir()
            except FileNotFoundError:
                return None
            except OSError as error:
                if time.monotonic() > deadline:
                    raise NotEmpty(f"{folder} could not be removed: {error.strerror}") from error
                time.sleep(0.002)

    def processes(self) -> list[int]:
        try:
            return [
                int(line) for line in (self.folders["pids"] / "cgroup.procs").read_text().split()
            ]
        except FileNotFoundError:
            return []

    def _write(self, controller: str, file: str, value: int) -> None:
        (self.folders[controller] / file).write_text(str(value))

    def _fields(self, controller: str, file: str) -> dict[str, int]:
        lines = (self.folders[controller] / file).read_text().splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}


def available() -> tuple[Hierarchy | None, str]:
    """Where groups can be made, or None and the reason."""
    own = dict(_own_groups())
    hierarchy = _version_2(own) or _version_1(own)
    if hierarchy is None:
        return None, "no cgroup hierarchy with memory and pids that is ours to write to"
    hierarchy.sweep()
    try:
        hierarchy.group(2**30, 16).end()
    except (OSError, NotEmpty) as error:
        return None, f"cgroups cannot be made: {error}"
    return hierarchy, ""


def _own_groups() -> list[tuple[str, str]]:
    """For each controller the group that this process is in; under "" that of version 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    entries = [line.split(":", 2) for line in lines]
    return [(name, path) for _, names, path in entries for name in names.split(",")]


def _version_2(own: dict[str, str]) -> Hierarchy | None:
    """A group can hold processes or pass on controllers, not both: so the parent of ours will do."""
    mine = ROOT / own.get("", "/").lstrip("/")
    for folder in (mine, mine.parent):
        with contextlib.suppress(OSError):
            passed_on = (folder / "cgroup.subtree_control").read_text().split()
            if {"memory", "pids"} <= set(passed_on) and os.access(folder, os.W_OK):
                return Hierarchy(2, dict.fromkeys(("memory", "pids", "cpu"), folder))
    return None


def _version_1(own: dict[str, str]) -> Hierarchy | None:
    folders = {}
    for key, controller in (("memory", "memory"), ("pids", "pids"), ("cpu", "cpuacct")):
        mount = next((ROOT / m for m in (controller, "cpu,cpuacct") if (ROOT / m).is_dir()), None)
        folder = mount and mount / own.get(controller, "/").lstrip("/")
        if folder is None or not os.access(folder, os.W_OK):
            return None
        folders[key] = folder
    return Hierarchy(1, folders)
