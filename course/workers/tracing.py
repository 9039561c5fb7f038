"""Which of PyTorch's ready-made answers are called while an answer runs.

This is a hint of where to look, not a proof: code in the same process can hide from it. Calls in the source
are found in the source. This trace finds the calls that are made indirectly, and reports where it could not
see calls.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

OUT_OF_SIGHT = "torch out of sight of what observes it"
"""Stands among the names of functions for calls that cannot be traced: those of a graph that was compiled
before, or those made while torch function modes are disabled."""


class CallTrace:
    """The traced functions that have been called so far."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self.is_active: Callable[[], bool] = lambda: True

    def so_far(self) -> list[str]:
        """Return the names of the functions, and `OUT_OF_SIGHT` if the trace is no longer active."""
        if not self.is_active():
            self.called.add(OUT_OF_SIGHT)
        return sorted(self.called)


@contextlib.contextmanager
def tracing_calls(names: Collection[str]) -> Iterator[CallTrace]:
    """Trace calls to these functions of torch within the context."""
    trace = CallTrace()
    if not names:
        yield trace
        return
    import torch  # a day in NumPy never needs it
    from torch.overrides import TorchFunctionMode, _get_current_function_mode

    traced = {_found(torch, name): name for name in names}

    class CallRecorder(TorchFunctionMode):
        """Record each traced function before it runs."""

        def __torch_function__(
            self,
            function: Callable[..., Any],
            _types: Any,
            positional: Any = (),
            named: Any = None,
        ) -> Any:
            if function in traced:
                trace.called.add(traced[function])
            return function(*positional, **(named or {}))

    @contextlib.contextmanager
    def recording() -> Iterator[Callable[[], bool]]:
        """Record the calls of this thread within the context, which gets what says whether that is so."""
        with CallRecorder() as recorder:
            yield (
                lambda: (
                    not torch._C._is_torch_function_all_disabled()
                    and _get_current_function_mode() is recorder  # type: ignore[no-untyped-call]
                )
            )

    def starting(start: Callable[..., Any]) -> Callable[..., Any]:
        """Record, in every thread that is started, as in this one: a mode is one thread's."""

        def recorded(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            with recording() as is_active:
                try:
                    return function(*arguments, **named)
                finally:
                    if not is_active():
                        trace.called.add(OUT_OF_SIGHT)

        return lambda function, *rest, **options: start(
            functools.partial(recorded, function), *rest, **options
        )

    def bypassing(original: Callable[..., Any]) -> Callable[..., Any]:
        """Record the use of a TorchScript graph, or of what disables function modes."""

        def recorded(*arguments: Any, **named: Any) -> Any:
            trace.called.add(OUT_OF_SIGHT)
            return original(*arguments, **named)

        return recorded

    bypasses: list[tuple[Any, str]] = [(torch._C, "DisableTorchFunction")]
    bypasses += [(kind, "__call__") for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod)]
    starters = [(holder, name) for holder in (_thread, threading) for name in _starters(holder)]
    with _replaced(bypasses, bypassing), _replaced(starters, starting), recording() as is_active:
        trace.is_active = is_active
        yield trace


def _starters(module: Any) -> list[str]:
    """Return the names of the functions that start a thread: Python's versions have different ones."""
    return [name for name in vars(module) if name.lstrip("_").startswith("start_")]


@contextlib.contextmanager
def _replaced(
    places: list[tuple[Any, str]], replacement: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """Replace functions by what is made of them, within the context."""
    originals = [(holder, name, getattr(holder, name)) for holder, name in places]
    for holder, name, original in originals:
        setattr(holder, name, replacement(original))
    try:
        yield
    finally:
        for holder, name, original in originals:
            setattr(holder, name, original)


def _found(torch: Any, name: str) -> Any:
    """Return the function of a dotted name, or the name itself where this torch has no such function."""
    try:
        return functools.reduce(getattr, name.split(".")[1:], torch)
    except AttributeError:
        return name
