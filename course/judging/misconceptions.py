"""Known wrong answers, executable: each is the reference with something small changed.

A file in `tests/days/misconceptions/` lists them for a day, the more special first, and imports this alone:

    MISCONCEPTIONS = [
        Misconception("not_scaled", "attention", "You do not divide …", {" / math.sqrt(d_k)": ""}),
        Misconception("loops_forever", "train_bpe", "You merge …", source=WHOLE_DEFINITION),
    ]

The text that an edit replaces must stand in its definition exactly once, so a misconception can never
drift from the reference unnoticed. Several edits are made in their order; `source` is a whole
definition, where edits cannot say it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType

from course.curriculum import Day
from course.references.changed import reference_module
from course.references.modules import load_module
from course.references.text import definition_text


class Drifted(ValueError):
    """An edit whose text no longer stands in the reference exactly once."""


@dataclass(frozen=True, eq=False)
class Misconception:
    """One wrong answer that people really give, and what to tell them.

    Attributes:
        id: a stable name, such as `not_scaled`.
        definition: the exercise that is changed.
        tell: what was misunderstood, to the learner, in a sentence or two that do not give the code
            away.
        edits: the text to replace and what stands there instead.
        source: a whole definition, where edits cannot say it.
    """

    id: str
    definition: str
    tell: str
    edits: dict[str, str] = field(default_factory=dict)
    source: str | None = None

    def text(self, day: Day) -> str:
        """The wrong definition.

        Raises:
            Drifted: a text to replace does not stand in the definition exactly once.
        """
        return self.applied_to(definition_text(day, self.definition), day)

    def applied_to(self, text: str, day: Day) -> str:
        """The definition's text, in which there may be another mistake already, with this one."""
        if self.source is not None:
            return self.source
        for find, put in self.edits.items():
            if text.count(find) != 1:
                raise Drifted(
                    f"{day.stem}: misconception {self.id}: {find!r} stands {text.count(find)} times "
                    f"in {self.definition}, not once"
                )
            text = text.replace(find, put)
        return text

    def module(self, day: Day) -> ModuleType:
        """The day's reference with this one definition wrong."""
        return reference_module(day, {self.definition: self.text(day)})


def module_of(mistakes: Sequence[Misconception], day: Day) -> ModuleType | None:
    """The day's reference with several mistakes at once; None where they cannot be made together.

    Two may change the same line, and only in one order: each is tried.
    """
    for order in itertools.permutations(mistakes):
        texts: dict[str, str] = {}
        try:
            for one in order:
                text = texts.get(one.definition) or definition_text(day, one.definition)
                texts[one.definition] = one.applied_to(text, day)
            return reference_module(day, texts)
        except (Drifted, SyntaxError):
            continue
    return None


def load_misconceptions(day: Day) -> list[Misconception]:
    """The known wrong answers of a day, in the order in which they are tried."""
    if not day.misconceptions.exists():
        return []
    found: list[Misconception] = load_module(day.misconceptions).MISCONCEPTIONS
    return found
