"""Grade one submission: take its files, analyze them, run them in the sandbox, and judge the results.

A task and its result are JSON, so that a job can run in a different process or on a different machine. It
never runs a learner's code in its own process.
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
import traceback
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from course.checks.answer_files import ENDINGS
from course.checks.observation import Observation
from course.curriculum import BY_NUMBER, ROOT, Day
from course.grading.analysis import listened_for
from course.grading.cgroups import NotEmpty
from course.grading.gradebook import (
    GRADED,
    GRADER_FAULT,
    LOST,
    NOTHING_FOUND,
    REFUSED,
    UNSEEN,
    LearnerResult,
    Shortcut,
)
from course.grading.sandbox import HOME, SandboxedWorker, open_sandbox
from course.grading.submission.limits import SubmissionRefused
from course.grading.submission.notebooks import as_answer, gathered
from course.grading.submission.sources import Source
from course.grading.submission.taking import late_days, nothing_found, take
from course.judging.closed_words import KNOWN_MESSAGES
from course.judging.digests import digest_of, environment
from course.judging.judge import Judge
from course.judging.messages import Feedback
from course.judging.results import DayResult
from course.workers.answer_run import Answer, as_leaves
from course.workers.checking import check_answer, not_observed
from course.workers.session import WAITING, WorkerSession
from course.workers.worker import NotStarted, Worker, WorkerStopped, run_to_end

T = TypeVar("T")

_alone = threading.Lock()  # a Dask worker has a thread for each core, and they share one grader

# Seconds of CPU time that a submission may take, before no more days run: to begin with, and for each day
BEGINNING, COMPUTING = 30.0, 10.0
SLEEPING = 30.0  # seconds that it may sleep instead, on all days together
FINISHING = 600.0  # seconds beyond which the job itself must be at fault

# Runs with several mistakes at once that a submission is worth: they are on the grader's own time, and
# wrong answers can be chosen so that each of them is tried. Points do not depend on them.
MAX_RUNS = 600

MAX_FINGERPRINTS = 20_000  # of a file; an honest one has some hundred
MAX_SHORTCUTS = 50


@dataclass(frozen=True)
class Plan:
    """The settings for all submissions of a run.

    Attributes:
        edition: a digest of the course: a different one may change results.
        feedback: how much learners learn about failures.
        names: unusual names, and the days' files that they mean.
    """

    days: tuple[int, ...]
    seed: int
    device: str
    unsafe: bool
    edition: str
    feedback: Feedback = Feedback.discreet
    names: tuple[tuple[str, str], ...] = ()

    @property
    def curriculum(self) -> list[Day]:
        return [BY_NUMBER[number] for number in self.days]

    @property
    def computing(self) -> float:
        """Seconds of CPU time that a submission may take."""
        return BEGINNING + COMPUTING * len(self.days)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"days": list(self.days)}

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Plan:
        return cls(
            **entry
            | {"days": tuple(entry["days"]), "feedback": Feedback(entry["feedback"])}
            | {"names": tuple((name, means) for name, means in entry["names"])}
        )

    def digest(self, files: dict[str, bytes], beside: object = None) -> str:
        """Return a digest of what a result depends on.

        Args:
            beside: the sandbox, and what the result contains beside the verdicts.
        """
        run = (self.days, self.seed, self.device, self.unsafe, self.feedback.value, self.edition)
        hasher = hashlib.sha256(repr((run, beside)).encode())
        for name, data in sorted(files.items()):
            hasher.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(data).digest())
        return hasher.hexdigest()


def grade_as_json(task: str) -> str:
    """Grade the submission of a task.

    A task has a `plan`, a `source`, and the digest and the `rows` of days of a `known` result. Returns a
    result, or `null` if the known result is up to date.
    """
    entry = json.loads(task)
    plan = Plan.from_json(entry["plan"])
    source = Source.from_json(entry["source"])
    limit = FINISHING + WAITING * plan.computing
    watchdog = threading.Timer(limit, os._exit, (1,))
    watchdog.daemon = True
    with _alone:
        watchdog.start()
        try:
            result = _grader(plan).grade(source, entry["known"], entry["rows"])
        except Exception:
            why = traceback.format_exc()[-2000:]
            result = LearnerResult(source.learner, GRADER_FAULT, reason=why)
        finally:
            watchdog.cancel()
    return json.dumps(None if result is None else asdict(result))


def course_digest() -> str:
    """Return a digest of the whole course: what a grade depends on, beside the submission."""
    folders = (ROOT / "course", ROOT / "tests" / "days", ROOT / "variants")
    code = (file for folder in folders for file in folder.rglob("*.py"))
    return digest_of(sorted([*ROOT.glob("*.py"), *code, KNOWN_MESSAGES]), environment())


def lacking_device(device: str) -> str | None:
    """Return why this machine cannot grade on a device, or None if it can."""
    if device == "cpu":
        return None
    from course.checks.tensors import missing_device  # torch takes a second to import

    return missing_device(device)


@cache
def _grader(plan: Plan) -> Grader:
    """Return the grader of this process, shared by all submissions.

    Raises:
        RuntimeError: this machine has a different edition of the course, or lacks the device.
    """
    if plan.edition != course_digest():
        raise RuntimeError(f"{platform.node()} has another edition of the course")
    if lacking := lacking_device(plan.device):
        raise RuntimeError(f"{platform.node()}: {lacking}")
    grader = Grader(plan)
    atexit.register(grader.close)
    return grader


def _file_of(day: Day, files: Collection[str]) -> str | None:
    """Return the name of the day's file among these, of which there is at most one."""
    return next((name for end in ENDINGS if (name := f"{day.stem}{end}") in files), None)


def _found(message: dict[str, Any]) -> tuple[list[tuple[int, str]], list[int], bool]:
    """Return the shortcuts, fingerprints, and whether the analysis failed, from a worker's message."""
    shortcuts = [
        (int(line), str(what)[:200]) for line, what in message["shortcuts"][:MAX_SHORTCUTS]
    ]
    hashes = message["fingerprints"]
    unseen = bool(message["unseen"]) or len(hashes) > MAX_FINGERPRINTS
    return shortcuts, [int(value) % 2**48 for value in hashes[:MAX_FINGERPRINTS]], unseen


class Grader:
    """Grades one submission after another by the same plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._judges = [
            Judge(day, plan.seed, plan.device, plan.feedback) for day in plan.curriculum
        ]
        self._kept = contextlib.ExitStack()
        self._start: Callable[[str | None], Worker]
        self._sandbox: tuple[bool, ...] = ()
        self._budget = (plan.computing, SLEEPING)
        if plan.unsafe:
            folder = self._kept.enter_context(tempfile.TemporaryDirectory(prefix="course-unsafe-"))
            self._home = folder
            self._start = partial(Worker, serving="course.grading.analysis")
        else:
            sandbox = self._kept.enter_context(open_sandbox())
            self._home, self._start = HOME, partial(SandboxedWorker, sandbox)
            self._sandbox = (sandbox.groups is not None, sandbox.filter is not None)

    def grade(
        self, source: Source, known_digest: str = "", known_days: Iterable[dict[str, Any]] = ()
    ) -> LearnerResult | None:
        """Return the result of a submission, or None if its digest is known. Known days are not run again.

        Raises:
            NotStarted, NotEmpty, …: something failed here, which is not a learner's fault.
        """
        try:
            read = take(replace(source, renames=self._plan.names))
        except SubmissionRefused as error:
            return LearnerResult(source.learner, REFUSED, reason=str(error), late=bool(source.late))
        days = [judge.day for judge in self._judges]
        with WorkerSession(self._start, apart=True) as session:
            taken = gathered(read, days, partial(self._gather, session))
            beside = (self._sandbox, source.late, taken.taken, taken.ignored)
            digest = self._plan.digest(taken.files, beside)
            if digest == known_digest:
                return None
            about: dict[str, Any] = {
                "late": bool(source.late),
                "taken": taken.taken,
                "ignored": taken.ignored,
                "ignored_count": taken.ignored_count,
            }
            if not any(_file_of(day, taken.files) for day in days):
                reason = nothing_found(taken, days)
                return LearnerResult(source.learner, NOTHING_FOUND, reason=reason, **about)
            review, fingerprints = self._analyze(taken.files, session)
            runs = MAX_RUNS
            known = {day["digest"]: day for day in known_days if day.get("digest")}
            late = late_days(taken, source.late)
            rows = []
            for judge in self._judges:
                day_digest = self._digest_of_day(judge.day, taken.files)
                row = known.get(day_digest)
                if row is None:
                    verdict, spent, about_day = self._day_or_fault(
                        judge, taken.files, session, runs
                    )
                    runs -= spent
                    stays = "fault" not in about_day and not session.exhausted(*self._budget)
                    row = verdict.as_json() | about_day
                    row |= {"called": list(verdict.called), "digest": day_digest if stays else ""}
                rows.append(row | {"late": judge.day.number in late})
        review += [
            Shortcut(row["day"], 0, f"{name}, when it ran")
            for row in rows
            for name in row["called"]
        ]
        lost = [
            Shortcut(row["day"], 0, f"{LOST} ({row['fault']})") for row in rows if "fault" in row
        ]
        for judge in self._judges:
            judge.forget()
        return LearnerResult(
            source.learner,
            GRADED,
            rows,
            review=lost + review,
            fingerprints=fingerprints,
            digest=digest,
            computed=session.computed,
            **about,
        )

    def close(self) -> None:
        """Write the caches, for a run that resumes, and remove the sandbox."""
        for judge in self._judges:
            judge.keep()
        self._kept.close()

    def _digest_of_day(self, day: Day, files: dict[str, bytes]) -> str:
        """Return a digest of what the verdict on a day depends on."""
        name = _file_of(day, files)
        answer = {name: files[name]} if name else {}
        return replace(self._plan, days=(day.number,)).digest(answer, self._sandbox)

    def _gather(self, session: WorkerSession, cells: list[str], day: Day) -> bytes | None:
        """Return a notebook of the lines that define the exercises, empty if none do, or None on failure."""

        def answer(message: dict[str, Any]) -> bytes:
            spans = [(int(a), int(b), int(c)) for a, b, c in message["spans"]]
            return as_answer(cells, spans) if spans else b""

        return self._ask(session, {"gather": cells, "exercises": list(day.exercises)}, {}, answer)

    def _ask(
        self,
        session: WorkerSession,
        request: dict[str, Any],
        files: Observation,
        understood: Callable[[dict[str, Any]], T],
    ) -> T | None:
        """Ask a worker and parse its reply. Returns None, and ends the worker, if the reply is invalid."""
        worker = session.take(self._judges[0].torch_on)
        try:
            worker.send(request, files)
            message, _ = worker.receive()
            return understood(message)
        except (WorkerStopped, KeyError, TypeError, ValueError, IndexError, OverflowError):
            worker.end()
            return None
        finally:
            session.give_back(worker)

    def _analyze(
        self, files: dict[str, bytes], session: WorkerSession
    ) -> tuple[list[Shortcut], dict[str, list[int]]]:
        """Return the shortcuts and fingerprints found by static analysis, and the files where it failed."""
        numbers = {judge.day.stem: judge.day.number for judge in self._judges}
        answers = {name: data for name, data in files.items() if Path(name).stem in numbers}
        review: list[Shortcut] = []
        unseen: list[Shortcut] = []
        fingerprints: dict[str, list[int]] = {}
        for name, data in answers.items():
            day, path = numbers[Path(name).stem], self._path(name)
            result = self._ask(session, {"analyze": [path, day]}, as_leaves({path: data}), _found)
            if result is None or result[2]:
                unseen.append(Shortcut(day, 0, UNSEEN))
            if result is not None:
                review += [Shortcut(day, line, what) for line, what in result[0]]
                fingerprints[name] = result[1]
        return unseen + review, fingerprints

    def _day_or_fault(
        self, judge: Judge, files: dict[str, bytes], session: WorkerSession, max_runs: int
    ) -> tuple[DayResult, int, dict[str, Any]]:
        """The verdict on one day, the runs that it took, and what else to say of it. A fault in the day's own
        checks or reference loses this day alone.

        Raises:
            NotStarted, NotEmpty, OSError, MemoryError: this machine failed, and may not fail again.
        """
        name = _file_of(judge.day, files)
        about: dict[str, Any] = {
            "handed_in": name is not None,
            "file": hashlib.sha256(files[name]).hexdigest() if name else "",
        }
        try:
            verdict, spent = self._day(judge, files, session, max_runs)
            return verdict, spent, about | {"drawn_at": judge.redrawn if verdict.begun else {}}
        except (NotStarted, NotEmpty, OSError, MemoryError):
            raise
        except Exception as error:
            session.renew()
            fault = f"{type(error).__name__}: {error}"[:300]
            return not_observed(judge, "skipped", f"{LOST}."), 0, about | {"fault": fault}

    def _day(
        self, judge: Judge, files: dict[str, bytes], session: WorkerSession, max_runs: int
    ) -> tuple[DayResult, int]:
        """The verdict on one day, and how many runs with several mistakes at once its diagnosis took. What an
        earlier day has left behind in the process does not count.
        """
        name = _file_of(judge.day, files)
        if name is None:
            missing = f"{judge.day.stem}.py was not handed in."
            return not_observed(judge, "not_started", missing), 0
        if session.exhausted(*self._budget):
            why = f"Not run: this submission's {self._plan.computing:g} seconds were spent."
            return not_observed(judge, "timed_out", why), 0
        answer = Answer(name, self._path(name), files[name], listened_for(judge.day.number))
        checked = check_answer(judge, answer, session)
        if self._plan.feedback == Feedback.verdict:
            run_to_end(checked.run_on_practice())
            return checked.result.without_words(), 0
        spent = checked.finish_in_batch(max_runs)
        return checked.result, spent

    def _path(self, name: str) -> str:
        """Return the path at which a worker finds a file."""
        return f"{self._home}/{name}"
