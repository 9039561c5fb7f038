"""Run a check on an answer, and record its output.

A worker calls it directly, without pytest, so that a verdict takes milliseconds, and the same check can
be run on inputs that were transformed first.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from course.checks.arrays import PRACTICE, copied, is_array, is_tensor, same
from course.checks.clock import CLOCK
from course.checks.draw import Draw
from course.checks.loading import Check
from course.checks.observation import Observation, Raised, flatten
from course.checks.raising import raised

Transform = Callable[[Any], Any]
"""Maps one input array or tensor to what is used instead."""

BUILD = "build"
NEAR = 10  # seeds at which fixtures are tried


@dataclass(frozen=True)
class CheckRun:
    """One run of a check: its output or its exception, and the inputs that were changed in place."""

    observation: Observation
    raised: Raised | None = None
    damaged: tuple[str, ...] = ()
    exception: BaseException | None = None
    """The exception itself, where it was raised in this process."""
    drawn_at: int | None = None
    """The seed of its inputs, where none can be drawn at the one that was asked for."""


def see(
    check: Check,
    answer: Any,
    seed: int,
    device: str = "cpu",
    transform: Transform | None = None,
    file: str | None = None,
    hand: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> CheckRun:
    """Run a check on an answer, and return its output or its exception.

    Args:
        answer: the learner's module, or the reference.
        transform: applied to every input array before the check gets it.
        file: the answer's file name, which tells its own lines from others in a traceback.
        hand: maps the inputs to what the check is given.
    """
    with device_context(device, file):
        inputs, at = _drawn_near(check, seed, device, transform)
        before = map_arrays(inputs, copied)
        try:
            with warnings.catch_warnings(), _seeded(check, seed, device):
                # An overflow shows in the values, which are compared.
                warnings.simplefilter("ignore")
                with CLOCK.started():
                    result = check.function(answer=answer, **hand(inputs))
                observation = flatten(result)
        except (Exception, SystemExit) as error:
            return CheckRun({}, raised(error, file), exception=error)
        drawn_at = at if at != seed else None
        return CheckRun(observation, damaged=tuple(_differing(before, inputs)), drawn_at=drawn_at)


def check_inputs(
    check: Check, seed: int, device: str = "cpu", transform: Transform | None = None
) -> dict[str, Any]:
    """Return the values of a check's fixtures, by name, without `answer`."""
    return _drawn_near(check, seed, device, transform)[0]


def _drawn_near(
    check: Check, seed: int, device: str, transform: Transform | None
) -> tuple[dict[str, Any], int]:
    """Draw the inputs at the first seed, from this one on, at which no fixture raises; and say which it was.

    A fixture with a mistake that shows at a rare seed costs neither the day nor a class.
    """
    for near in range(seed, seed + NEAR):
        try:
            return drawn(check, near, device, transform), near
        except Exception as error:
            failed = error
    raise failed


def drawn(
    check: Check, seed: int, device: str = "cpu", transform: Transform | None = None
) -> dict[str, Any]:
    """Draw the inputs at this very seed, whatever a fixture raises."""
    values: dict[str, Any] = {**check.parameters, "device": device, "seed": seed}
    names = [name for name in inspect.signature(check.function).parameters if name != "answer"]
    if BUILD in names:
        from course.checks.tensors import Build  # torch takes a second to import

        values[BUILD] = Build(seed, check.name, device, transform)
    inputs = {name: _fixture(check, name, values) for name in names}
    if transform is not None:
        inputs = map_arrays(inputs, transform)
    if device != "cpu":
        inputs = map_arrays(inputs, lambda array: array.to(device) if is_tensor(array) else array)
    return inputs


@functools.cache
def takes_device(check: Check) -> bool:
    """Whether a check has inputs that can be on a GPU, unlike NumPy arrays, numbers and strings."""
    if not check.tensors:
        return False
    wants = inspect.signature(check.function).parameters
    return BUILD in wants or takes_tensors(check)


def takes_tensors(check: Check) -> bool:
    """Whether any of a check's inputs is a tensor."""
    return any(is_tensor(value) for _, value in named_values(check_inputs(check, seed=0)))


def device_context(device: str, file: str | None = None) -> AbstractContextManager[None]:
    """Register the device with torch within the context."""
    if device != PRACTICE:
        return nullcontext()
    from course.checks import practice  # torch takes a second to import

    return practice.running(file)


@contextmanager
def _seeded(check: Check, seed: int, device: str) -> Iterator[None]:
    """Seed dropout, enable gradients and use one thread within the context, as tensors are small; restore all
    of these afterwards."""
    if not check.tensors:
        yield
        return
    import torch  # a second, which a day in NumPy does not need

    threads = torch.get_num_threads()
    draws_on_cpu = device in ("cpu", PRACTICE)  # whose generator is always saved
    devices: list[int] | None = [] if draws_on_cpu else None
    kind = "cuda" if draws_on_cpu else torch.device(device).type
    with torch.random.fork_rng(devices, device_type=kind), torch.enable_grad():
        torch.default_generator.manual_seed(seed)  # torch.manual_seed asks every device: slow
        if not draws_on_cpu:
            torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _fixture(check: Check, name: str, values: dict[str, Any]) -> Any:
    if name not in values:
        definition = getattr(check.module, name, None)
        if definition is None:
            raise LookupError(
                f"{check.name} asks for '{name}', which {check.module.__file__} does not define"
            )
        function = inspect.unwrap(definition)
        parameters = inspect.signature(function).parameters
        arguments = {
            other: _fixture(check, other, values) for other in parameters if other != "draw"
        }
        if "draw" in parameters:  # each fixture of each check has a stream of its own
            arguments["draw"] = _draw(check, values["seed"], name)
        values[name] = function(**arguments)
    return values[name]


def _draw(check: Check, seed: int, fixture: str) -> Draw:
    who = f"{check.name}/{fixture}"
    if not check.tensors:
        return Draw(seed, who)
    from course.checks.tensors import TensorDraw  # torch takes a second to import

    return TensorDraw(seed, who)


def map_arrays(value: Any, function: Transform) -> Any:
    """Return the same nested value with every array and tensor in it replaced."""
    if isinstance(value, dict):
        return {key: map_arrays(item, function) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map_arrays(item, function) for item in value)
    return function(value) if is_array(value) else value


def named_values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return every array, tensor and number in a nested value by its innermost key, the learner's name
    for it."""
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
