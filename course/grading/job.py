"""One submission graded: taken in, looked through, observed behind the walls, judged outside.

It is given and gives JSON alone, so that it can run in a process beside this one or on another
machine. It never runs anything of the learner's in its own process.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import platform
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from course.checks.answers import ENDINGS
from course.curriculum import DAYS, ROOT, Day
from course.grading.allowed import Refused
from course.grading.gradebook import GRADED, GRADER_FAULT, REFUSED, LearnerResult, Shortcut
from course.grading.sandbox import HOME, WalledWorker, walls
from course.grading.submissions import Source, take
from course.judging.judge import Judge
from course.judging.results import DayResult
from course.workers.checking import Answer, as_leaves, check_answer, not_observed
from course.workers.worker import Worker, WorkerStopped, command

COMPUTING = (
    20.0  # seconds of CPU time that a submission may take for a day, before no more days run
)
WAITING = 3.0  # times as long by the clock
FINISHING = 600.0  # seconds beyond which the job itself must be at fault

MOST_FINGERPRINTS = 20_000  # of a file; an honest one has some hundred
MOST_SHORTCUTS = 50


@dataclass(frozen=True)
class Plan:
    """What all submissions of a run are graded by.

    Attributes:
        edition: a digest of checks, references and tool: with another, results may be others.
    """

    days: tuple[int, ...]
    seed: int
    device: str
    unsafe: bool
    edition: str

    @property
    def curriculum(self) -> list[Day]:
        return [DAYS[number - 1] for number in self.days]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"days": list(self.days)}

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Plan:
        return cls(**entry | {"days": tuple(entry["days"])})

    def digest(self, files: dict[str, bytes]) -> str:
        """What a result depends on, as one digest."""
        whole = hashlib.sha256(repr((self.days, self.seed, self.device, self.edition)).encode())
        for name, data in sorted(files.items()):
            whole.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(data).digest())
        return whole.hexdigest()


def grade_as_json(task: str) -> str:
    """Grade the submission that a task names.

    The task holds a `plan`, a `source`, and the digest of what is `known` already. The answer is a
    result; or `null`, where the files are those that were graded before.
    """
    entry = json.loads(task)
    plan = Plan.from_json(entry["plan"])
    source = Source.from_json(entry["source"])
    limit = FINISHING + WAITING * COMPUTING * len(plan.days)
    watchdog = threading.Timer(limit, os._exit, (1,))
    watchdog.daemon = True
    watchdog.start()
    try:
        result = _grader(plan).grade(source, entry["known"])
    except Exception:
        result = LearnerResult(source.learner, GRADER_FAULT, reason=traceback.format_exc()[-2000:])
    finally:
        watchdog.cancel()
    return json.dumps(None if result is None else asdict(result))


class Seat:
    """The workers of one submission: one for all of it, or another where that one was stopped."""

    def __init__(self, start: Callable[[], Worker], home: str) -> None:
        """Nothing is started yet.

        Args:
            start: gives a worker that has served nobody.
            home: the folder in which it may write.
        """
        self.used = False
        """Whether the worker has served an earlier day."""
        self.stopped = 0
        """How many workers had to be stopped."""
        self._start = start
        self._home = home
        self._worker: Worker | None = None
        self._computed = 0.0
        self._since = time.monotonic()

    @property
    def computed(self) -> float:
        """Seconds of CPU time that the submission has had."""
        return self._computed + (self._worker.computed if self._worker else 0.0)

    def path(self, name: str) -> str:
        """Where a worker finds a file that it is handed."""
        return f"{self._home}/{name}"

    def exhausted(self, seconds: float) -> bool:
        """Whether it has computed as long, or taken several times as long by the clock."""
        return self.computed > seconds or time.monotonic() - self._since > WAITING * seconds

    def take(self, torch_on: str | None = None) -> Worker:
        """The submission's worker. All are made ready for torch: some day will need it."""
        if self._worker is None:
            self._worker = self._start()
            self.used = False
        return self._worker

    def give_back(self, worker: Worker) -> str:
        """Keep it for the next day, unless it was stopped. What was printed is told to nobody."""
        if worker.ended:
            self.stopped += 1
            self._computed += worker.computed
            self._worker = None
        return ""

    def renew(self) -> None:
        """Have another worker next."""
        if self._worker is not None:
            self._worker.end()
            self.give_back(self._worker)

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: object) -> None:
        self.renew()


def edition() -> str:
    """A digest of all that a verdict depends on, the submission aside."""
    whole = hashlib.sha256()
    folders = (ROOT / "course", ROOT / "tests" / "days", ROOT / "variants")
    for path in sorted([*ROOT.glob("*.py"), *(one for f in folders for one in f.rglob("*.py"))]):
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


@cache
def _grader(plan: Plan) -> Grader:
    """The grader of this process; what it has made ready serves every submission.

    Raises:
        RuntimeError: this machine has other checks than the run was begun with.
    """
    if plan.edition != edition():
        raise RuntimeError(f"{platform.node()} has another edition of the course")
    grader = Grader(plan)
    atexit.register(grader.close)
    return grader


class Grader:
    """Grades one submission after another by the same plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._judges = [
            Judge(day, plan.seed, plan.device, discreet=True) for day in plan.curriculum
        ]
        self._kept = contextlib.ExitStack()
        self._start: Callable[[], Worker]
        if plan.unsafe:
            folder = self._kept.enter_context(tempfile.TemporaryDirectory(prefix="course-unsafe-"))
            self._home, self._start = (
                folder,
                partial(Worker, plan.device, command("course.grading.analysis")),
            )
        else:
            found = self._kept.enter_context(walls())
            self._home, self._start = HOME, partial(WalledWorker, found, plan.device)
        self._spare: Worker | None = None

    def grade(self, source: Source, known: str = "") -> LearnerResult | None:
        """The result of a submission; None if its digest is known.

        Raises:
            NotStarted, NotEmpty, …: something failed here, for which no learner is to blame.
        """
        try:
            files = take(source)
        except Refused as error:
            return LearnerResult(source.learner, REFUSED, reason=str(error))
        digest = self._plan.digest(files)
        if digest == known:
            return None
        with Seat(self._next, self._home) as seat:
            review, fingerprints = self._analyse(files, seat)
            days = [self._day(judge, files, seat) for judge in self._judges]
        for judge in self._judges:
            judge.forget()
        return LearnerResult(
            source.learner,
            GRADED,
            [day.as_json() for day in days],
            review=review,
            fingerprints=fingerprints,
            digest=digest,
            computed=seat.computed,
        )

    def close(self) -> None:
        """End what stands ready, and keep what was observed, should the run be gone on with."""
        for judge in self._judges:
            judge.keep()
        if self._spare is not None:
            self._spare.end()
        self._kept.close()

    def _analyse(
        self, files: dict[str, bytes], seat: Seat
    ) -> tuple[list[Shortcut], dict[str, list[int]]]:
        """What can be told of the files without running them, if they let us."""
        numbers = {judge.day.stem: judge.day.number for judge in self._judges}
        asked = {name: data for name, data in files.items() if Path(name).stem in numbers}
        review: list[Shortcut] = []
        fingerprints: dict[str, list[int]] = {}
        for name, data in asked.items():
            day = numbers[Path(name).stem]
            worker = seat.take()
            try:
                request = {"analyse": {name: [day, seat.path(name)]}}
                worker.ask(request, as_leaves({seat.path(name): data}))
                message, _ = worker.hear()
                found = message["shortcuts"][:MOST_SHORTCUTS]
                review += [Shortcut(day, int(line), str(what)[:200]) for line, what in found]
                hashes = message["fingerprints"][:MOST_FINGERPRINTS]
                fingerprints[name] = [int(one) % 2**48 for one in hashes]
            except (WorkerStopped, KeyError, TypeError, ValueError, OverflowError):
                worker.end()  # a file that no parser survives: the day's checks will say so
            finally:
                seat.give_back(worker)
        return review, fingerprints

    def _day(self, judge: Judge, files: dict[str, bytes], seat: Seat) -> DayResult:
        """The verdict on one day: what an earlier day has left behind in the process does not count."""
        names = (f"{judge.day.stem}{ending}" for ending in ENDINGS)
        name = next((name for name in names if name in files), None)
        if name is None:
            return not_observed(judge, "not_started", f"{judge.day.stem}.py was not handed in.")
        if seat.exhausted(COMPUTING * len(self._judges)):
            why = (
                f"Not run: this submission's {COMPUTING * len(self._judges):g} seconds were spent."
            )
            return not_observed(judge, "timed_out", why)
        answer = Answer(name, seat.path(name), files[name])
        used, stopped = seat.used, seat.stopped
        checked = check_answer(judge, answer, seat)
        spoilt = not checked.verdict.as_new or (used and seat.stopped > stopped)
        if spoilt and any(check.went_wrong for check in checked.verdict.checks):
            seat.renew()
            checked = check_answer(judge, answer, seat)
        seat.used = True
        return checked.look_in_batch()

    def _next(self) -> Worker:
        """A worker that has had time to start; and the next begins to."""
        worker = self._spare or self._start()
        self._spare = self._start()
        return worker
