"""A learner's own earlier parts, where an edition holds no reference to import them from."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from course.answers import begun, build_answer, find_answer, read_answer
from course.curriculum import ROOT, Day, day_of_definition


class OwnParts:
    """The exercises in a folder, each day's file loaded once."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._modules: dict[Day, ModuleType] = {}

    def part(self, name: str, day: Day) -> object:
        """The learner's own definition.

        Raises:
            ImportError: it is not there, or not begun.
        """
        if day not in self._modules:
            self._modules[day] = self._load(name, day)
        try:
            return getattr(self._modules[day], name)
        except AttributeError:
            raise ImportError(f"Your file of day {day.number} defines no {name}.") from None

    def _load(self, name: str, day: Day) -> ModuleType:
        from course.recorded import stub_of  # which stands on what stands on this

        wanted = f"{name} is day {day.number}'s exercise, and is taken from your own file"
        path = find_answer(day, self._folder) if self._folder else None
        if path is None:
            raise ImportError(f"{wanted}: there is no {day.stem}.py.")
        source = read_answer(path)
        if name not in begun(source, stub_of(day), day.exercises):
            raise ImportError(f"{wanted}: do day {day.number} first.")
        return build_answer(str(path), source)


def unreleased_part(module: str, name: str) -> object:
    """What a reference of an edition gives for a name that it does not hold.

    Raises:
        AttributeError: no day asks for such a name.
        ImportError: the learner's own definition is not there, or not begun.
    """
    day = day_of_definition(f"{module.replace('.', '/')}.py", name)
    if day is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return _OWN.part(name, day)


_OWN = OwnParts(ROOT / "exercises")
