"""The tools for checks of PyTorch days: drawn tensors, modules with given weights, devices.

A module is built as its author wrote it, and then gets weights that depend only on the seed and on
the parameters' names. So all right answers compute the same.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from course.checks.arrays import PRACTICE
from course.checks.clock import CLOCK
from course.checks.draw import Draw
from course.checks.gradients import named_parameters


class TensorDraw(Draw):
    """The same stream as tensors, in float32 unless a different dtype is requested."""

    usual = "float32"

    def _made(self, values: Any, dtype: str | None) -> Any:
        tensor = torch.from_numpy(np.array(values))
        return tensor if dtype is None else tensor.to(getattr(torch, dtype))


class Build:
    """The `build` fixture: makes a module for a check, and gives it weights by name.

    The module is on the check's device and in training mode. Weights of matrices have the standard
    deviation 1/√(inputs), those of vectors are around 0.5, so that each has an effect.
    """

    def __init__(
        self, seed: int, who: str, device: str, transform: Callable[[Tensor], Tensor] | None
    ) -> None:
        self._seed = seed
        self._who = who
        self._device = device
        self._transform = transform or (lambda tensor: tensor)

    def __call__(
        self, make: Callable[..., Any], *arguments: Any, dtype: str = "float32", **options: Any
    ) -> Any:
        """`make(*arguments, **options)` with weights of that dtype."""
        target = self._transform(torch.zeros(1, dtype=getattr(torch, dtype))).dtype
        with _default_dtype(target):
            module = make(*arguments, **options)
        if isinstance(module, nn.Module):
            # `module.to` would make real numbers of complex ones, such as rotations.
            cast = lambda tensor: tensor.to(target) if tensor.is_floating_point() else tensor  # noqa: E731
            module._apply(cast)  # type: ignore[no-untyped-call]
            self._give_weights(module, dtype)
            module.to(self._device)
        return module

    @torch.no_grad()
    @CLOCK.stopped()
    def _give_weights(self, module: nn.Module, dtype: str) -> None:
        for name, parameter in named_parameters(module):
            weights = _weights(self._seed, f"{self._who}/{name}", tuple(parameter.shape))
            transformed = self._transform(weights.to(getattr(torch, dtype)))
            parameter.copy_(transformed)


@functools.lru_cache(maxsize=4096)
def _weights(seed: int, who: str, shape: tuple[int, ...]) -> Tensor:
    matrix = len(shape) > 1
    how = {"scale": shape[-1] ** -0.5} if matrix else {"mean": 0.5, "scale": 0.7}
    weights: Tensor = TensorDraw(seed, who).normal(*shape, dtype="float64", **how)
    return weights


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Create tensors in float64 within the context if `dtype` is float64, and else in float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if dtype == torch.float64 else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# --- Intermediate values ------------------------------------------------------------------------


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that does not import PyTorch's compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False, so that torch does not exclude `__torch_dispatch__` from its compiler: to do so, it
        would import the compiler, which takes more than a second and is not used here."""
        return False


class LargestResult(DispatchMode):
    """Count the numbers of the largest tensor that any operation returns within the context."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                self.numbers = max(self.numbers, value.numel())
        return result


class OperationRecorder(DispatchMode):
    """Report the floating-point result of every operation on tensors within the context.

    Uninitialized memory, which may hold any number, is NaN there, so that no part or copy of it passes for
    a result.
    """

    def __init__(self, note: Callable[[Tensor], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._note = note

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if "empty" in str(function):
            return result.fill_(math.nan) if result.is_floating_point() else result
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor) and value.is_floating_point():
                self._note(value)
        return result


# --- Devices --------------------------------------------------------------------------------------


@functools.cache
def _has_practice() -> bool:
    """Whether this torch has the private parts that the practice GPU is made of."""
    try:
        importlib.import_module("course.checks.practice")
    except (ImportError, AttributeError):
        return False
    return True


def missing_device(device: str) -> str | None:
    """Return why this machine has no such device, or None if it has one."""
    if device == "cuda" and not torch.cuda.is_available():
        return "no CUDA GPU here"
    if device == "mps" and not torch.backends.mps.is_available():
        return "no Apple GPU (mps) here"
    if device == PRACTICE and not _has_practice():
        return f"torch {torch.__version__} knows no devices written in Python"
    return None
