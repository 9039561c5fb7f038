"""Which of PyTorch's ready-made answers are called while an answer runs.

This is a hint of where to look, not a proof: code in the same process can hide from it. Calls in the source
are found in the source. This trace finds the calls that are made indirectly, and reports where it could not
see calls.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

OUT_OF_SIGHT = "torch out of sight of what observes it"
"""Stands among the names of functions for calls that cannot be traced: those of a graph that was compiled
before, or those made while torch function modes are disabled."""


class CallTrace:
    """The traced functions that were called so far."""

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

    recorder = CallRecorder()
    with recorder, _recording_bypasses(torch._C, trace.called):
        trace.is_active = lambda: (
            not torch._C._is_torch_function_all_disabled()
            and _get_current_function_mode() is recorder  # type: ignore[no-untyped-call]
        )
        yield trace


@contextlib.contextmanager
def _recording_bypasses(inner: Any, called: set[str]) -> Iterator[None]:
    """Record, within the context, uses of TorchScript graphs and of what disables function modes.

    Args:
        inner: `torch._C`.
        called: where they are recorded.
    """

    def recording(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original, updated=())
        def recorded(*arguments: Any, **named: Any) -> Any:
            called.add(OUT_OF_SIGHT)
            return original(*arguments, **named)

        return recorded

    bypasses = [(inner, "DisableTorchFunction")]
    bypasses += [(kind, "__call__") for kind in (inner.ScriptFunction, inner.ScriptMethod)]
    originals = [(holder, name, getattr(holder, name)) for holder, name in bypasses]
    for holder, name, original in originals:
        setattr(holder, name, recording(original))
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
