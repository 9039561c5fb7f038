"""Known wrong answers, as data: each is the reference with a small change.

A file in `tests/days/misconceptions/` lists those of a day, the more specific first:

    [[mistakes]]
    exercise = "attention"
    id = "not_scaled"
    sentence = "You do not divide the scores by √d_k. …"
    edits."_ / math.sqrt(...)" = "_"

    [[mistakes.alternatives]]
    edits."math.sqrt(...)" = "1.0"

`sentence` is the message to the learner. `edits` are all made together; `course/references/edits.py`
describes them. Name the smallest piece of syntax that occurs once, so that all other code of the
reference can change; if a piece occurs several times, name its step, too. `code`, in the place of
`edits`, is a whole definition, for what edits cannot express. `alternatives` make the same mistake
differently, with different results. `device = "practice"` marks a mistake that is right on the CPU
and shows on a GPU. `course sync --check` names what is wrong with an entry.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from course.checks.arrays import PRACTICE
from course.checks.loading import Outline
from course.curriculum import Day
from course.references.edits import Draft, Drifted
from course.references.patched import reference_module
from course.references.text import bound_by, definition_text, used_for

REQUIRED = {"exercise", "id", "sentence"}
OPTIONAL = {"edits", "code", "device", "alternatives"}
MIN_SENTENCE, MAX_SENTENCE = 25, 350  # characters


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
        alternative: 0, or which alternative of its entry it is.
    """

    id: str
    definition: str
    tell: str
    change: Mapping[str, str] | str = field(default_factory=dict)
    device: str = "cpu"
    recorded: Sequence[str] = ()
    alternative: int = 0

    @property
    def key(self) -> str:
        """A name that no other wrong answer of the day has: its id, and the number of an alternative."""
        return f"{self.id}.{self.alternative}" if self.alternative else self.id

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
                name = f"{self.key} no longer fits {self.definition}"
                raise Drifted(f"{name}: {error}") from error
        return draft

    def parts(self, day: Day) -> Sequence[str]:
        """Return the changed methods of a class, as `Class.method`."""
        return self.recorded if not self.change else _changed_methods(self, day)

    def module(self, day: Day) -> ModuleType:
        """Return the day's reference with this one definition wrong."""
        return reference_module(day, {self.definition: self.applied(day).tree})


def may_show(mistake: Misconception, check: Outline, day: Day) -> bool:
    """Return whether a check can see a mistake: whether it uses something of the answer that the
    mistake changes.

    Checks and definitions can reach a definition only by its name, in any thread. So a definition
    that none of them names makes no difference: the check's observation equals the reference's, to
    the last bit.
    """
    return not _changed_by(mistake, day).isdisjoint(used_for(day, check.uses))


@functools.lru_cache(maxsize=1024)
def _changed_by(mistake: Misconception, day: Day) -> frozenset[str]:
    """The names that a mistake gives another value."""
    return frozenset[str]().union(*map(bound_by, mistake.applied(day).tree.body))


@functools.lru_cache(maxsize=1024)
def _changed_methods(mistake: Misconception, day: Day) -> tuple[str, ...]:
    wrong, right = (
        {
            f"{definition.name}.{node.name}": ast.dump(node)
            for definition in tree.body
            if isinstance(definition, ast.ClassDef)
            for node in definition.body
            if isinstance(node, ast.FunctionDef)
        }
        for tree in (mistake.applied(day).tree, ast.parse(definition_text(day, mistake.definition)))
    )
    return tuple(name for name in {**right, **wrong} if wrong.get(name) != right.get(name))


def module_with(mistakes: Sequence[Misconception], day: Day) -> ModuleType | None:
    """Return the day's reference with several mistakes at once; None if they cannot be combined.

    Two may change the same code, and only in one order: each is tried.
    """
    for order in itertools.permutations(mistakes):
        drafts: dict[str, Draft] = {}
        try:
            for mistake in order:
                drafts[mistake.definition] = mistake.applied(day, drafts.get(mistake.definition))
            return reference_module(day, {name: draft.tree for name, draft in drafts.items()})
        except (Drifted, SyntaxError):
            continue
    return None


def load_misconceptions(day: Day, device: str = "cpu") -> list[Misconception]:
    """The known wrong answers of a day that show on a device, in the order in which they are tried."""
    return [mistake for mistake in _all_misconceptions(day) if mistake.shows_on(device)]


def _all_misconceptions(day: Day) -> list[Misconception]:
    return [mistake for entry in _entries(day) for mistake in _read(entry)]


def _entries(day: Day) -> list[dict[str, Any]]:
    """Return the entries of a day's file.

    Raises:
        ValueError: the file is not TOML, or an entry lacks what it needs.
    """
    if not day.misconceptions.exists():
        return []
    file = tomllib.loads(day.misconceptions.read_text(encoding="utf-8"))
    entries: list[dict[str, Any]] = file.get("mistakes", [])
    for number, entry in enumerate(entries, 1):
        for fault in _faults_of_form(entry):
            raise ValueError(f"{entry.get('id', f'mistake {number}')}: {fault}")
    return entries


def _read(entry: Mapping[str, Any]) -> Iterator[Misconception]:
    """Yield the known wrong answer of an entry, and its alternatives."""
    tell, device = " ".join(entry["sentence"].split()), entry.get("device", "cpu")
    for number, change in enumerate(_changes(entry)):
        yield Misconception(
            entry["id"], entry["exercise"], tell, change, device, alternative=number
        )


def _changes(entry: Mapping[str, Any]) -> list[Mapping[str, str] | str]:
    """Return the change of an entry, and those of its alternatives."""
    hows = [entry, *entry.get("alternatives", [])]
    return [how["code"] if "code" in how else how["edits"] for how in hows]


# --- Checking the files ---------------------------------------------------------------------------


def faults(day: Day) -> Iterator[str]:
    """Name what is wrong with a day's known wrong answers: their form, their sentences, edits that no longer
    fit the reference, and mistakes that are the same."""
    try:
        entries = _entries(day)
    except ValueError as error:
        yield str(error)
        return
    ids = [entry["id"] for entry in entries]
    yield from (
        f"{id}: the id is used twice" for id in sorted({i for i in ids if ids.count(i) > 1})
    )
    for entry in entries:
        yield from (f"{entry['id']}: {fault}" for fault in _faults_of_words(entry, day))
    yield from _faults_of_code(day)


def _faults_of_form(entry: Mapping[str, Any]) -> Iterator[str]:
    """Name what keeps an entry from being read."""
    yield from (f"`{key}` is missing" for key in sorted(REQUIRED - entry.keys()))
    yield from (f"unknown key `{key}`" for key in sorted(entry.keys() - REQUIRED - OPTIONAL))
    words = (entry.get(key, "") for key in (*REQUIRED, "device"))
    if not all(isinstance(text, str) for text in words):
        yield "`exercise`, `id`, `sentence` and `device` are strings"
    for how in [entry, *entry.get("alternatives", [])]:
        match how.get("edits"), how.get("code"):
            case dict() as edits, None if edits and all(isinstance(v, str) for v in edits.values()):
                pass
            case None, str():
                pass
            case _:
                yield "one of `edits` (strings for strings) and `code` (a string) must be given"


def _faults_of_words(entry: Mapping[str, Any], day: Day) -> Iterator[str]:
    """Name what is wrong with what an entry says."""
    sentence = " ".join(entry["sentence"].split())
    if not re.fullmatch(r"[\w-]+", entry["id"]):
        yield "an id has letters, digits, hyphens and underscores only"
    if entry["exercise"] not in day.exercises:
        yield f"`{entry['exercise']}` is not an exercise of day {day.number}"
    if entry.get("device", "cpu") not in ("cpu", PRACTICE):
        yield f"the device must be cpu or {PRACTICE}, got {entry['device']}"
    if not re.fullmatch(r"[A-Z`].*([.?!]\)?|…)", sentence):
        yield "the sentence must begin with a capital (or code) and end with a full stop"
    if not MIN_SENTENCE <= len(sentence) <= MAX_SENTENCE:
        length = f"{MIN_SENTENCE} to {MAX_SENTENCE} characters"
        yield f"the sentence must have {length}, got {len(sentence)}"


def _faults_of_code(day: Day) -> Iterator[str]:
    """Name each edit that does not fit the reference, and each wrong definition that is the reference's or a
    different mistake's."""
    names = {
        (name, ast.unparse(ast.parse(definition_text(day, name)))): "the reference"
        for name in day.exercises
    }
    for mistake in _all_misconceptions(day):
        try:
            text = mistake.text(day)
        except (Drifted, SyntaxError) as error:
            yield str(error)
            continue
        same = names.setdefault((mistake.definition, text), mistake.key)
        if same != mistake.key:
            yield f"{mistake.key}: the code is that of {same}"
