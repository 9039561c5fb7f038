"""A learner's functions on a page: called in a worker, and compared with the reference's."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from course.assembly.answer_parts import IMPORTED, NO_FILE, NOT_BEGUN
from course.checks.answer_files import find_answer
from course.checks.frames import BadFrame, raised_from
from course.checks.observation import Leaf, Observation
from course.curriculum import Day
from course.judging.messages import describe_raised
from course.terminal.display import shown
from course.workers.limits import GIBBERISH
from course.workers.worker import NotStarted, Worker, WorkerStopped
from explorer.call_in_worker import packed

PATIENCE = 5.0  # seconds that a call may compute: a page waits for it
MAX_PRINTED = 400  # characters of what was printed, shown beside a failure


class Failed(Exception):
    """A learner's function returned nothing that can be drawn. The message says why."""


class NotWritten(Failed):
    """There is no function of the learner's yet. The message says where to write it."""


class LearnerParts:
    """A reference with a learner's functions in place of some of its own."""

    def __init__(self, reference: ModuleType, day: Day, answers: Path) -> None:
        """Create the parts without starting a worker.

        Args:
            reference: the module for everything that is not an exercise of the day.
            day: the day whose exercises are the learner's.
            answers: the folder with the learner's file.
        """
        self.apart: dict[str, float] = {}
        """The maximum difference of each function's last results from the reference's."""
        self._reference = reference
        self._day = day
        self._answers = answers
        self._worker: Worker | None = None
        self._saved: tuple[int, int, int] | None = None

    def __getattr__(self, name: str) -> Any:
        expected = getattr(self._reference, name)
        if name not in self._day.exercises:
            return expected

        def called(*arguments: Any) -> Any:
            right = expected(*arguments)
            request = {"arguments": [packed(argument) for argument in arguments]}
            result = self._result(name, request, right)
            self.apart[name] = _distance(result, right)
            return result

        return called

    def each(self, name: str, calls: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """What one of the learner's functions returns for each of many arguments, asked at once."""
        right = tuple(getattr(self._reference, name)(*arguments) for arguments in calls)
        request = {"calls": [[packed(argument) for argument in arguments] for arguments in calls]}
        results: tuple[Any, ...] = self._result(name, request, right)
        self.apart[name] = _distance(results, right)
        return results

    def _result(self, name: str, arguments: dict[str, Any], right: Any) -> Any:
        path = find_answer(self._day, self._answers)
        if path is None:
            raise NotWritten(f"There is no {self._day.stem}.py in {shown(self._answers)}.")
        worker = self._worker_for(path)
        request = {
            "explored": self._day.number,
            "answer": str(path),
            "call": name,
            **arguments,
        }
        try:
            worker.send(request)
            message, observation = worker.receive(PATIENCE)
            return _understood(name, message, observation, right)
        except NotWritten as reason:
            where = f"{shown(path)} (`course watch {self._day.number}`)"
            raise NotWritten(f"{reason}: {where}.") from reason
        except (NotStarted, WorkerStopped) as stop:
            raise Failed(_with_prints(str(stop), worker)) from stop
        except (KeyError, TypeError, ValueError, BadFrame) as error:
            raise Failed(GIBBERISH) from error

    def _worker_for(self, path: Path) -> Worker:
        """The one that has loaded this file as it is now."""
        status = path.stat()
        saved = status.st_mtime_ns, status.st_size, status.st_ino
        if self._worker is None or self._worker.ended or saved != self._saved:
            self.close()
            torch_on = "cpu" if self._day.uses_torch else None
            self._worker, self._saved = Worker(torch_on, "explorer.call_in_worker"), saved
            # A page makes new parts, and forgets the old ones: their workers are not to stay.
            weakref.finalize(self, self._worker.end)
        return self._worker

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.end()


def _understood(name: str, message: dict[str, Any], observation: Observation, right: Any) -> Any:
    """What came back, if it is of the reference's form."""
    yours = f"`{name}` is yours to write"
    if reason := message.get("not_own"):
        if reason == IMPORTED:
            raise Failed(f"{yours}, and your file imports it.")
        if reason in (NOT_BEGUN, NO_FILE):
            raise NotWritten(yours)
        raise Failed(f"{yours}: {reason}")
    if error := message.get("raised"):
        raised = raised_from(error)
        if raised.not_started:
            raise NotWritten(yours)
        raise Failed(describe_raised(raised))
    leaves = list(observation.values())
    if isinstance(right, tuple):
        if leaves[0].type != f"tuple of {len(right)}" or len(leaves) != len(right) + 1:
            raise Failed(f"`{name}` returned {leaves[0].type}, not a tuple of {len(right)}.")
        return tuple(
            _value(f"{name}()[{index}]", leaf, item)
            for index, (leaf, item) in enumerate(zip(leaves[1:], right, strict=True))
        )
    return _value(name, leaves[0], right)


def _value(name: str, leaf: Leaf, right: Any) -> Any:
    """An array, tensor or number in the reference's shape, all of it finite where the reference's is."""
    kind = type(right).__name__
    if not hasattr(right, "shape"):
        if not isinstance(leaf.value, int | float | str) or isinstance(leaf.value, bool):
            raise Failed(f"`{name}` returned {leaf.type}, not {kind}.")
        if isinstance(leaf.value, float) and not math.isfinite(leaf.value):
            raise Failed(f"`{name}` returned {leaf.value}, which cannot be drawn.")
        return leaf.value
    if leaf.shape is None:
        raise Failed(f"`{name}` returned {leaf.type}, not {kind}.")
    if leaf.value is None:
        raise Failed(f"`{name}` returned the dtype {leaf.dtype}, not {right.dtype}.")
    if tuple(leaf.shape) != tuple(right.shape):
        raise Failed(f"`{name}` returned the shape {leaf.shape}, not {tuple(right.shape)}.")
    if not np.isfinite(leaf.value).all() and np.isfinite(np.asarray(right)).all():
        raise Failed(f"`{name}` returned numbers that are infinite or NaN, which cannot be drawn.")
    return leaf.value if isinstance(right, np.ndarray) else _tensor(leaf.value)


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    import torch  # takes a second to import, and some pages need none

    return torch.from_numpy(array.copy())


def _distance(result: Any, right: Any) -> float:
    pairs = zip(result, right, strict=True) if isinstance(right, tuple) else [(result, right)]
    return max(_apart(np.asarray(a, float), np.asarray(b, float)) for a, b in pairs)


def _apart(array: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    same = (array == other) | (np.isnan(array) & np.isnan(other))
    return float(np.max(np.where(same, 0.0, np.abs(array - other)), initial=0.0))


def _with_prints(words: str, worker: Worker) -> str:
    printed = worker.printed.strip()
    if not printed:
        return words
    cut = printed[:MAX_PRINTED] + (" …" if len(printed) > MAX_PRINTED else "")
    return f"{words}\nIt printed:\n{cut}"
