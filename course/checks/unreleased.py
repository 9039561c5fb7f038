"""What the references of a student edition provide for names that they do not contain."""

from __future__ import annotations

from course.checks.earlier_parts import EarlierParts
from course.curriculum import ROOT, day_of_definition
from course.references.editions import stub_of

_OWN = EarlierParts(ROOT / "exercises", stub_of)


def unreleased_part(module: str, name: str) -> object:
    """Return what a reference of an edition provides for a name that it does not contain.

    Raises:
        AttributeError: no day asks for such a name.
        ImportError: the learner's own definition is missing, or not begun.
    """
    day = day_of_definition(f"{module.replace('.', '/')}.py", name)
    if day is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return _OWN.part(name, day)
