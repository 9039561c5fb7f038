"""Grade a class: schedule submissions, reuse earlier results, and retry failures."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from course.grading.gradebook import GRADER_FAULT, VERSION, LearnerResult, Weights
from course.grading.instructions import Member
from course.grading.job import SLEEPING, Plan
from course.grading.pools import Pool, WorkerDied
from course.grading.reports import write_reports
from course.grading.reports.escaping import file_name
from course.grading.reports.files import whole_file
from course.grading.reports.graded import GradedClass
from course.grading.reports.returning import Returned
from course.grading.similarity import alike, like_what_is_given
from course.grading.submission.sources import Source
from course.workers.limits import MAX_DAY_SECONDS

MAX_TRIES = 3
OF_A_LEARNER = {"results": ".json", "feedback": ".html", "gradescope": ".json"}
SEEDS = 2**31


class InUse(RuntimeError):
    """A different run is writing into the folder."""


@dataclass
class ClassRun:
    """One run that grades a class into a folder.

    Attributes:
        folder: the folder for reports. Its `run.json` stores the seed, so that a later run resumes.
    """

    folder: Path
    plan: Plan
    weights: Weights
    sources: list[Source]
    roster: Sequence[Member] = ()

    def longest(self, width: int) -> float:
        """Return the hours that grading takes at most, so many at once: if each uses all of its time."""
        seconds = self.plan.computing + SLEEPING + MAX_DAY_SECONDS
        return math.ceil(len(self.sources) / width) * seconds / 3600

    def path(self, learner: str) -> Path:
        """Return the path of a learner's result."""
        return self.folder / "results" / f"{file_name(learner)}.json"

    def kept(self, learner: str) -> LearnerResult | None:
        """Return the learner's result of an earlier run, also of one before they were gone, if readable."""
        path = self.path(learner)
        gone = () if path.exists() else sorted(self.folder.glob(f"gone/*/results/{path.name}"))
        try:
            entry = json.loads((gone or [path])[-1].read_text(encoding="utf-8"))
            return LearnerResult.from_json(entry) if entry["version"] == VERSION else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, result: LearnerResult) -> None:
        """Write a learner's result atomically."""
        with whole_file(self.path(result.learner)) as file:
            json.dump(result.as_json(self.weights), file, ensure_ascii=False, indent=1)

    def results(self) -> Iterator[LearnerResult]:
        """Yield the results of the class, with the submissions that count."""
        for source in self.sources:
            result = self.kept(source.learner)
            if result is not None:
                yield self.weights.counting(result)

    def report(self, lacking: list[str]) -> tuple[GradedClass, list[Returned]]:
        """Write all reports.

        Returns:
            the data of the reports, and the zips of pages to hand back.
        """
        results = list(self.results())
        graded = GradedClass(
            results,
            self.weights,
            self.plan.seed,
            self.plan.device,
            datetime.now(UTC),
            [*lacking, *self._unusual(results)],
            alike(results, self.weights.days),
            like_what_is_given(results, self.weights.days),
            {source.learner: source for source in self.sources},
            self.roster,
        )
        return graded, write_reports(self.folder, graded)

    def _unusual(self, results: Iterable[LearnerResult]) -> list[str]:
        """Return which days were graded otherwise than planned, a sentence each."""
        sentences: dict[str, None] = {}
        for result in results:
            for day in result.days:
                if "fault" in day:
                    sentences[f"Day {day['day']} was not graded for some: {day['fault']}."] = None
                for name, seed in day.get("drawn_at", {}).items():
                    words = f"{name} of day {day['day']} was graded with seed {seed}"
                    sentences[
                        f"{words}: its inputs cannot be drawn with seed {self.plan.seed}."
                    ] = None
        return list(sentences)

    def put_aside(self, when: datetime) -> tuple[Path, int]:
        """Move the files of learners who are no longer in the class to a separate folder.

        Returns:
            that folder, and the number of these learners.
        """
        here = {file_name(source.learner) for source in self.sources}
        aside = self.folder / "gone" / when.strftime("%Y-%m-%dT%H-%M-%SZ")
        gone = set()
        for kind, ending in OF_A_LEARNER.items():
            for path in sorted((self.folder / kind).glob(f"*{ending}")):
                if path.name.removesuffix(ending) not in here:
                    (aside / kind).mkdir(parents=True, exist_ok=True)
                    path.replace(aside / kind / path.name)
                    gone.add(path.name.removesuffix(ending))
        return aside, len(gone)


@dataclass
class _Turn:
    """A submission that waits to be graded, perhaps again."""

    source: Source
    tries: int = 0
    troubles: list[str] = field(default_factory=list)


def grade_all(
    run: ClassRun, pool: Pool, resume: bool, done: Callable[[LearnerResult, bool], None]
) -> None:
    """Grade every submission, and write each result as soon as it is done.

    If a process dies, the submission that killed it is unknown. So each submission under way is graded again
    alone, and only the one that fails again is at fault.

    Args:
        resume: whether to keep results of an earlier run with the same plan.
        done: called with every result, and whether it was kept from an earlier run.
    """
    first, again = deque(_Turn(source) for source in run.sources), deque[_Turn]()
    at_work: dict[Future[str], _Turn] = {}
    try:
        while first or again or at_work:
            while first and len(at_work) < pool.width:
                _begin(first.popleft(), run, pool, resume, at_work)
            if not at_work:
                _begin(again.popleft(), run, pool, resume, at_work)
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                turn = at_work.pop(future)
                result = _outcome(future, turn, pool)
                if result is None:
                    stored = run.kept(turn.source.learner)
                    assert stored is not None
                    run.keep(stored)  # the weights may be others now
                    done(run.weights.counting(stored), True)
                elif result.verdict == GRADER_FAULT and turn.tries < MAX_TRIES:
                    again.append(turn)
                else:
                    done(run.weights.counting(_kept(result, run, resume)), False)
    except KeyboardInterrupt:

        def finished(future: Future[str]) -> None:
            """Keep what was in progress, unless it ends in another way."""
            result = None if future.cancelled() else _outcome(future, at_work[future], pool)
            if result and result.verdict != GRADER_FAULT:
                _kept(result, run, resume)

        for future in at_work:
            future.add_done_callback(finished)
        raise


def _kept(result: LearnerResult, run: ClassRun, resume: bool) -> LearnerResult:
    """Write a result, with the verdicts on earlier submissions."""
    stored = run.kept(result.learner) if resume else None
    result = result.after(stored) if stored else result
    run.keep(result)
    return result


def _begin(
    turn: _Turn, run: ClassRun, pool: Pool, resume: bool, at_work: dict[Future[str], _Turn]
) -> None:
    turn.tries += 1
    stored = run.kept(turn.source.learner) if resume else None
    task = {
        "plan": run.plan.as_json(),
        "source": turn.source.as_json(),
        "known": stored.digest if stored else "",
        "rows": [*stored.days, *stored.earlier] if stored else [],
    }
    at_work[pool.submit(json.dumps(task))] = turn


def _outcome(future: Future[str], turn: _Turn, pool: Pool) -> LearnerResult | None:
    """Return the result, or None if the earlier one is up to date; a grader fault has all errors so far."""
    try:
        entry = json.loads(pool.result(future))
    except WorkerDied as broken:
        entry = {"learner": turn.source.learner, "verdict": GRADER_FAULT, "reason": str(broken)}
    if entry is None:
        return None
    if entry["verdict"] == GRADER_FAULT:
        turn.troubles.append(entry["reason"])
        return LearnerResult(turn.source.learner, GRADER_FAULT, reason="\n".join(turn.troubles))
    return LearnerResult.from_json(entry)


# --- What a run remembers -------------------------------------------------------------------------


def seed_of(folder: Path, chosen: int | None, resume: bool) -> int:
    """Return the seed of the run to resume, or else the seed asked for, or else a new one.

    Raises:
        ValueError: the seed asked for is a different one, which would grade everything again.
    """
    stored = None
    if resume:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            stored = int(json.loads((folder / "run.json").read_text(encoding="utf-8"))["seed"])
    if stored is None:
        return secrets.randbelow(SEEDS) if chosen is None else chosen
    if chosen not in (None, stored):
        raise ValueError(
            f"{folder} was graded with seed {stored}. Leave --seed out to keep these grades, or use "
            "--no-resume to grade everything again."
        )
    return stored


def remember(folder: Path, plan: Plan) -> None:
    """Write what a later run needs to resume."""
    with whole_file(folder / "run.json") as file:
        json.dump({"version": 1} | plan.as_json(), file, indent=1)


@contextlib.contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Lock the folder against other runs within the context.

    Raises:
        InUse: a different run has the lock.
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")  # gone with the process, however it ends
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise InUse(f"another `course grade` is writing into {folder}") from error
    try:
        yield
    finally:
        lock.release()
