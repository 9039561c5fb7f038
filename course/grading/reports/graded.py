"""What the reports are made of: a class that was graded, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from course.grading.gradebook import GRADER_FAULT, LearnerResult, Weights
from course.grading.instructions import Member
from course.grading.submission.sources import Source


@dataclass(frozen=True)
class Alike:
    """Submissions that are more alike than independent work would be.

    Attributes:
        learners: all alike.
        days: on which they share nearly everything.
        same: those of these days on which they have the same code, names and all.
        share: how much the two share that are most alike, up to 1.
    """

    learners: list[str]
    days: list[int]
    same: list[int]
    share: float


@dataclass(frozen=True)
class Given:
    """A submission that is much like what the course itself gives, and on which days, and how much."""

    learner: str
    what: str
    days: list[int]
    share: float


@dataclass(frozen=True)
class GradedClass:
    """A class and the run that graded it.

    Attributes:
        results: the learners' results, in order.
        weights: the days that were graded, and their points.
        lacking: what the sandbox could not give on this machine, and which days were graded otherwise than
            planned, a sentence each.
        alike: groups to look at, the most alike first.
        given: submissions that are like the worked solution or the stub.
        sources: the submissions by their learners.
        roster: the members of the class, where they are known.
    """

    results: Sequence[LearnerResult]
    weights: Weights
    seed: int
    device: str
    when: datetime
    lacking: Sequence[str] = ()
    alike: Sequence[Alike] = ()
    given: Sequence[Given] = ()
    sources: Mapping[str, Source] = field(default_factory=dict)
    roster: Sequence[Member] = ()

    @property
    def known(self) -> Iterator[LearnerResult]:
        """The results that a gradebook may take in: of learners that it knows, and not of a fault here."""
        for result in self.results:
            if result.verdict != GRADER_FAULT and not self.unclear(result.learner):
                yield result

    def unclear(self, learner: str) -> Sequence[str]:
        """Whose a submission may be, where that is not clear."""
        return self.sources[learner].unclear if learner in self.sources else ()

    def system_of(self, learner: str) -> str:
        """The system from which a submission came, or nothing."""
        return self.sources[learner].system if learner in self.sources else ""

    @property
    def systems(self) -> list[str]:
        """The systems from which submissions came."""
        return sorted({source.system for source in self.sources.values() if source.system})

    @property
    def which_days(self) -> str:
        """The days that were graded, as in `1–7, 9`."""
        return spans(day.number for day in self.weights.days)


def spans(numbers: Iterable[int]) -> str:
    """Ascending numbers with neighbors drawn together: `1–3, 8`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{g[0]}–{g[-1]}" if len(g) > 1 else f"{g[0]}" for g in groups)
