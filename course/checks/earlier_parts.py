"""A learner's own parts of earlier days, for editions without their references."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from course.checks.answer_files import Unreadable, begun, build_answer, find_answer, read_answer
from course.curriculum import Day


class NotDone(ImportError):
    """An earlier day's part is not written yet. The message says what to do."""


class EarlierParts:
    """The exercises in a folder, each day's file loaded once."""

    def __init__(self, folder: Path, stub_of: Callable[[Day], str]) -> None:
        """Create the parts without loading any.

        Args:
            folder: the folder of the answers.
            stub_of: returns a day's stub, to tell whether an answer is begun.
        """
        self._folder = folder
        self._stub_of = stub_of
        self._modules: dict[Day, ModuleType] = {}

    def part(self, name: str, day: Day) -> object:
        """The learner's own definition.

        Raises:
            NotDone: the definition is missing or not begun, or its file cannot be loaded.
        """
        if day not in self._modules:
            self._modules[day] = self._load(name, day)
        try:
            return getattr(self._modules[day], name)
        except AttributeError:
            raise NotDone(f"Your file of day {day.number} defines no {name}.") from None

    def _load(self, name: str, day: Day) -> ModuleType:
        message = f"{name} is day {day.number}'s exercise, and is taken from your own file"
        path = find_answer(day, self._folder)
        if path is None:
            raise NotDone(f"{message}: there is no {day.stem}.py.")
        try:
            source = read_answer(path)
            started = begun(source, self._stub_of(day), day.exercises)
        except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NotDone(
                f"{message}, which cannot be read: check day {day.number} first."
            ) from error
        if name not in started:
            raise NotDone(f"{message}: do day {day.number} first.")
        try:
            return build_answer(str(path), source)
        except (Exception, SystemExit) as error:
            raise NotDone(
                f"{message}, which cannot be loaded: check day {day.number} first."
            ) from error
