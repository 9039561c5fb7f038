"""The hidden checks, read and run.

A check is a plain pytest function in `tests/days/`: it takes the learner's module as `answer`, uses
it, and returns what it saw. Its other arguments are fixtures of its file. pytest is not needed to
run one: a worker calls it directly, so that a verdict takes milliseconds, and the same check can be
run on inputs that were transformed first (`see(…, transform)`).
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import linecache
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from course.arrays import copied, is_array, is_tensor, same
from course.curriculum import Day
from course.definitions import RAISE
from course.draw import Draw
from course.observation import Observation, Raised, flatten

Transform = Callable[[Any], Any]
"""Maps one input array or tensor to what is used instead."""

BUILD = "build"

DEEPEST_TRACEBACK = 12  # endless recursion fills a thousand lines that say the same


@dataclass(frozen=True)
class Check:
    """One check with its parameters fixed."""

    name: str
    exercise: str
    uses: frozenset[str]
    """The definitions of the answer that it touches."""
    function: Callable[..., Any]
    parameters: dict[str, Any]
    module: ModuleType
    tensors: bool = False
    """Whether its fixtures draw tensors."""
    constant: dict[str, str] = field(default_factory=dict)
    """Leaves that are the same for every seed, and why (declared by `@pytest.mark.constant`)."""

    @cached_property
    def takes_device(self) -> bool:
        """Whether it has anything that can lie on a GPU: NumPy's arrays, numbers and words cannot."""
        if not self.tensors:
            return False
        inputs = check_inputs(self, seed=0)
        return BUILD in inputs or any(is_tensor(value) for _, value in named_values(inputs))

    @property
    def says(self) -> str:
        """What it checks, in a sentence: its docstring."""
        return " ".join((self.function.__doc__ or "").split())


@dataclass(frozen=True)
class Seen:
    """What came of running a check: an observation or an exception, and which inputs were damaged."""

    observation: Observation
    raised: Raised | None = None
    damaged: tuple[str, ...] = ()
    exception: BaseException | None = None
    """The exception itself, where it was raised in this process."""


def load_module(path: Path) -> ModuleType:
    """Import a file by its path under a name of its own."""
    name = f"course_loaded_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_checks(day: Day) -> list[Check]:
    """The checks of a day in the order of its file, one for each combination of parameters."""
    exercises = day.exercises
    module = load_module(day.checks)
    checks: list[Check] = []
    for name, function in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(function):
            uses = _definitions_used(function, exercises)
            if not uses:
                raise ValueError(f"{day.checks.name}: {name} uses none of {', '.join(exercises)}")
            # A check of several exercises counts for the last: what comes later stands on what came
            # before.
            exercise = max(uses, key=exercises.index)
            constant = {
                leaf: mark.args[-1]
                for mark in _marks(function, "constant")
                for leaf in mark.args[:-1]
            }
            for suffix, parameters in _parameter_sets(function):
                checks.append(
                    Check(
                        name + suffix,
                        exercise,
                        uses,
                        function,
                        parameters,
                        module,
                        day.uses_torch,
                        constant,
                    )
                )
    return checks


def _definitions_used(function: Callable[..., Any], exercises: tuple[str, ...]) -> frozenset[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "answer"
    }
    return frozenset(name for name in exercises if name in names)


def _marks(function: Callable[..., Any], name: str) -> list[Any]:
    return [mark for mark in getattr(function, "pytestmark", []) if mark.name == name]


def _parameter_sets(function: Callable[..., Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each combination of `parametrize` values, with the suffix that pytest would give the name."""
    marks = _marks(function, "parametrize")
    if not marks:
        yield "", {}
        return
    for values in itertools.product(*(mark.args[1] for mark in reversed(marks))):
        names = [mark.args[0] for mark in reversed(marks)]
        yield (
            f"[{'-'.join(str(value) for value in reversed(values))}]",
            dict(zip(names, values, strict=True)),
        )


# --- Running one ----------------------------------------------------------------------------------


def see(
    check: Check,
    answer: Any,
    seed: int,
    device: str = "cpu",
    transform: Transform | None = None,
    file: str | None = None,
) -> Seen:
    """Run a check on an answer and keep what it saw; an exception is something seen, too.

    Args:
        check: the check.
        answer: the learner's module, or the reference.
        seed: where the inputs come from.
        device: where the inputs lie.
        transform: applied to every input array before the check gets it.
        file: the answer's file name, by which its own lines are told from others in a traceback.
    """
    inputs = check_inputs(check, seed, device, transform)
    before = map_arrays(inputs, copied)
    try:
        with warnings.catch_warnings(), _seeded(check, seed, device):
            warnings.simplefilter("ignore")  # an overflow shows in the values, which are compared
            observation = flatten(check.function(answer=answer, **inputs))
    except (Exception, SystemExit) as error:
        return Seen({}, raised(error, file), exception=error)
    return Seen(observation, damaged=tuple(_differing(before, inputs)))


def check_inputs(
    check: Check, seed: int, device: str = "cpu", transform: Transform | None = None
) -> dict[str, Any]:
    """The values of a check's fixtures, by name, without `answer`."""
    known: dict[str, Any] = {**check.parameters, "device": device, "seed": seed}
    wanted = [name for name in inspect.signature(check.function).parameters if name != "answer"]
    if BUILD in wanted:
        from course.tensors import Build

        known[BUILD] = Build(seed, check.name, device, transform)
    inputs = {name: _fixture(check, name, known) for name in wanted}
    if transform is not None:
        inputs = map_arrays(inputs, transform)
    if device != "cpu":
        inputs = map_arrays(inputs, lambda array: array.to(device) if is_tensor(array) else array)
    return inputs


@contextmanager
def _seeded(check: Check, seed: int, device: str) -> Iterator[None]:
    """Within it, dropout draws what it draws every time; without, everything is as it was before."""
    if not check.tensors:
        yield
        return
    import torch

    with torch.random.fork_rng([] if device == "cpu" else None):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed asks every device: slow
        if device != "cpu":
            torch.manual_seed(seed)
        yield


def _fixture(check: Check, name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        definition = getattr(check.module, name, None)
        if definition is None:
            raise LookupError(
                f"{check.name} asks for '{name}', which {check.module.__file__} does not define"
            )
        function = inspect.unwrap(definition)
        wanted = inspect.signature(function).parameters
        arguments = {other: _fixture(check, other, known) for other in wanted if other != "draw"}
        if "draw" in wanted:  # each fixture of each check has a stream of its own
            arguments["draw"] = _draw(check, known["seed"], name)
        known[name] = function(**arguments)
    return known[name]


def _draw(check: Check, seed: int, fixture: str) -> Draw:
    who = f"{check.name}/{fixture}"
    if not check.tensors:
        return Draw(seed, who)
    from course.tensors import TensorDraw

    return TensorDraw(seed, who)


def map_arrays(value: Any, function: Transform) -> Any:
    """The same nested value with every array and tensor in it replaced."""
    if isinstance(value, dict):
        return {key: map_arrays(item, function) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map_arrays(item, function) for item in value)
    return function(value) if is_array(value) else value


def named_values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every array, tensor and number in a nested value, by its innermost key: the learner's name for it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from named_values(item, str(key))
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from named_values(item, f"{path}[{index}]")
    elif is_array(value) or isinstance(value, int | float):
        yield path, value


def _differing(before: Any, after: Any) -> Iterator[str]:
    """The names of what is no longer as it was, or no longer there, or new."""
    old, new = list(named_values(before)), list(named_values(after))
    if [name for name, _ in old] != [name for name, _ in new]:
        yield from sorted({name for name, _ in old} ^ {name for name, _ in new})
        return
    for (name, was), (_, value) in zip(old, new, strict=True):
        if not same(was, value):
            yield name


# --- Exceptions as data ---------------------------------------------------------------------------


def raised(error: BaseException, file: str | None) -> Raised:
    """An exception as data. Of its traceback only the lines of the answer's own file are kept."""
    frames = [
        (line, frame.f_code.co_qualname, linecache.getline(frame.f_code.co_filename, line).strip())
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == file
    ][-DEEPEST_TRACEBACK:]
    if isinstance(error, SyntaxError) and error.filename == file:
        frames.append((error.lineno or 0, "", (error.text or "").strip()))
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    kind = "MemoryError" if _is_out_of_memory(error) else type(error).__name__
    return Raised(kind, message, frames, _is_stubs_own(error, file))


def _is_out_of_memory(error: BaseException) -> bool:
    """NumPy and torch have kinds of their own for it, and torch on the CPU has only words."""
    if "can't allocate memory" in str(error):
        return True
    return bool(
        {kind.__name__ for kind in type(error).__mro__} & {"MemoryError", "OutOfMemoryError"}
    )


def _is_stubs_own(error: BaseException, file: str | None) -> bool:
    """Whether it comes from a line that is the stub's, unchanged, and not from a base class's method."""
    if type(error) is not NotImplementedError or error.args:
        return False
    *_, (last, line) = traceback.walk_tb(error.__traceback__)
    name = last.f_code.co_filename
    return name == file and linecache.getline(name, line).strip() == RAISE
