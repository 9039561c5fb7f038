"""Known wrong answers, executable: each is the reference with a small change.

A file in `tests/days/misconceptions/` lists them for a day, the more specific first, and imports
only this:

    MISCONCEPTIONS = [
        *of(
            "attention",
            {
                "not_scaled": ("You do not divide …", {"_ / math.sqrt(...)": "_"}),
                "mask_inverted": ("Your mask hides …", {"2: ~mask": "mask", "4: ~mask": "mask"}),
                "mask_in_a_loop": ("You loop over …", WHOLE_DEFINITION),
            },
        ),
    ]

`course/references/edits.py` describes edits. Name the smallest piece of syntax that occurs once, so
that all other code of the reference can change; if a piece occurs several times, name its step,
too. An edit that no longer fits the reference fails the tests and `course sync --check`, which name
it. Use a whole definition only for changes that edits cannot express.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from course.checks.arrays import PRACTICE
from course.checks.loading import Outline
from course.curriculum import Day
from course.references.edits import Draft, Drifted
from course.references.modules import load_module
from course.references.patched import reference_module
from course.references.text import bound_by, definition_text, used_for


@dataclass(frozen=True, eq=False)
class Misconception:
    """A wrong answer that people really give, and the message to them.

    Attributes:
        id: a stable name, such as `not_scaled`.
        definition: the exercise that is changed.
        tell: the message to the learner: what was misunderstood, in a sentence or two that do not
            give the code away.
        change: the edits of the reference, or a whole definition.
        device: where the mistake is visible: on the CPU, or only on a GPU.
        recorded: what `parts` returns in an edition without the reference.
    """

    id: str
    definition: str
    tell: str
    change: Mapping[str, str] | str = field(default_factory=dict)
    device: str = "cpu"
    recorded: Sequence[str] = ()

    def shows_on(self, device: str) -> bool:
        """Return whether to search for the mistake on a device: on the CPU, mistakes about devices
        are not visible, and on the practice GPU, after the CPU has passed, only these are searched.
        """
        return device not in ("cpu", PRACTICE) or device == self.device

    def text(self, day: Day) -> str:
        """Return the wrong definition.

        Raises:
            Drifted: an edit does not fit the reference.
        """
        return ast.unparse(self.applied(day).tree)

    def applied(self, day: Day, draft: Draft | None = None) -> Draft:
        """Return the reference's definition, or one that already has a different mistake, with this
        mistake.

        Raises:
            Drifted: an edit does not fit the definition.
        """
        if isinstance(self.change, str):
            return Draft(self.change)
        draft = draft or Draft(definition_text(day, self.definition))
        for find, put in self.change.items():
            try:
                draft.edit(find, put)
            except Drifted as error:
                name = f"{self.id} no longer fits {self.definition}"
                raise Drifted(f"{name}: {error}") from error
        return draft

    def parts(self, day: Day) -> Sequence[str]:
        """Return the changed methods of a class, as `Class.method`."""
        return self.recorded if not self.change else _changed_methods(self, day)

    def module(self, day: Day) -> ModuleType:
        """Return the day's reference with this one definition wrong."""
        return reference_module(day, {self.definition: self.applied(day).tree})


def may_show(one: Misconception, check: Outline, day: Day) -> bool:
    """Return whether a check can see a mistake: whether it uses something of the answer that the
    mistake changes.

    Checks and definitions can reach a definition only by its name, in any thread. So a definition
    that none of them names makes no difference: the check's observation equals the reference's, to
    the last bit.
    """
    return not _changed_by(one, day).isdisjoint(used_for(day, check.uses))


@functools.lru_cache(maxsize=1024)
def _changed_by(one: Misconception, day: Day) -> frozenset[str]:
    """The names that a mistake gives another value."""
    return frozenset[str]().union(*map(bound_by, one.applied(day).tree.body))


@functools.lru_cache(maxsize=1024)
def _changed_methods(one: Misconception, day: Day) -> tuple[str, ...]:
    wrong, right = (
        {
            f"{definition.name}.{node.name}": ast.dump(node)
            for definition in tree.body
            if isinstance(definition, ast.ClassDef)
            for node in definition.body
            if isinstance(node, ast.FunctionDef)
        }
        for tree in (one.applied(day).tree, ast.parse(definition_text(day, one.definition)))
    )
    return tuple(name for name in {**right, **wrong} if wrong.get(name) != right.get(name))


def of(
    definition: str, answers: Mapping[str, tuple[str, Mapping[str, str] | str]]
) -> list[Misconception]:
    """Return the known wrong answers of one definition, by id: the message, and the change."""
    return [Misconception(id, definition, tell, how) for id, (tell, how) in answers.items()]


def on_devices(
    definition: str, answers: Mapping[str, tuple[str, Mapping[str, str] | str]]
) -> list[Misconception]:
    """Do the same for answers that are right on the CPU, and fail on a GPU."""
    return [
        Misconception(id, definition, tell, how, PRACTICE) for id, (tell, how) in answers.items()
    ]


def module_with(mistakes: Sequence[Misconception], day: Day) -> ModuleType | None:
    """Return the day's reference with several mistakes at once; None if they cannot be combined.

    Two may change the same code, and only in one order: each is tried.
    """
    for order in itertools.permutations(mistakes):
        drafts: dict[str, Draft] = {}
        try:
            for one in order:
                drafts[one.definition] = one.applied(day, drafts.get(one.definition))
            return reference_module(day, {name: draft.tree for name, draft in drafts.items()})
        except (Drifted, SyntaxError):
            continue
    return None


def load_misconceptions(day: Day, device: str = "cpu") -> list[Misconception]:
    """The known wrong answers of a day that show on a device, in the order in which they are tried."""
    return [one for one in _all_misconceptions(day) if one.shows_on(device)]


def _all_misconceptions(day: Day) -> list[Misconception]:
    if not day.misconceptions.exists():
        return []
    found: list[Misconception] = load_module(day.misconceptions).MISCONCEPTIONS
    return found


def drifted(day: Day) -> Iterator[str]:
    """Name each known wrong answer of a day that no longer fits the reference, and the edit that does not."""
    for one in _all_misconceptions(day):
        try:
            one.applied(day)
        except Drifted as error:
            yield str(error)
