"""Which of torch's ready-made answers are called while somebody's code runs.

It is a hint of where to look, and no proof: whoever runs in the same process can hide from it. What is
written in the source is found in the source; this finds what was reached by a detour, and says where it
could not hear.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

OUT_OF_SIGHT = "torch out of sight of what observes it"
"""Stands among the names of functions for calls that cannot be heard: of a graph that was compiled before,
or where torch was told to ask no observer."""


class CallTrace:
    """Those of the functions that were called so far."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self._still_hears: Callable[[], bool] = lambda: True

    def listen_by(self, still_hears: Callable[[], bool]) -> None:
        """Have something that tells whether it still hears."""
        self._still_hears = still_hears

    def so_far(self) -> list[str]:
        """Their names, and what stands for those that could not be heard."""
        if not self._still_hears():
            self.called.add(OUT_OF_SIGHT)
        return sorted(self.called)


@contextlib.contextmanager
def tracing_calls(names: Collection[str]) -> Iterator[CallTrace]:
    """Within it, it is noted which of these functions of torch are called."""
    trace = CallTrace()
    if not names:
        yield trace
        return
    import torch  # a day in NumPy never needs it
    from torch.overrides import TorchFunctionMode

    listed = {_found(torch, name): name for name in names}

    class CallRecorder(TorchFunctionMode):
        """Is told of each function of torch before it runs."""

        def __torch_function__(
            self,
            function: Callable[..., Any],
            _types: Any,
            positional: Any = (),
            named: Any = None,
        ) -> Any:
            if function in listed:
                trace.called.add(listed[function])
            return function(*positional, **(named or {}))

    recorder = CallRecorder()
    with recorder, _ways_past_it_noted(torch._C, trace.called):
        trace.listen_by(lambda: _hears(torch, recorder))
        yield trace


def _hears(torch: Any, recorder: Any) -> bool:
    """Whether torch still asks it."""
    disabled = torch._C._is_torch_function_all_disabled()
    return not disabled and torch.overrides._get_current_function_mode() is recorder


@contextlib.contextmanager
def _ways_past_it_noted(inner: Any, called: set[str]) -> Iterator[None]:
    """Within it, graphs of TorchScript and what disables all observers note that they were used.

    Args:
        inner: `torch._C`.
        called: where they note it.
    """

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original, updated=())
        def noted(*arguments: Any, **named: Any) -> Any:
            called.add(OUT_OF_SIGHT)
            return original(*arguments, **named)

        return noted

    places = [(inner, "DisableTorchFunction")]
    places += [(kind, "__call__") for kind in (inner.ScriptFunction, inner.ScriptMethod)]
    originals = [(holder, name, getattr(holder, name)) for holder, name in places]
    for holder, name, original in originals:
        setattr(holder, name, noting(original))
    try:
        yield
    finally:
        for holder, name, original in originals:
            setattr(holder, name, original)


def _found(torch: Any, name: str) -> Any:
    """The function of a dotted name; the name itself where this torch has none."""
    try:
        return functools.reduce(getattr, name.split(".")[1:], torch)
    except AttributeError:
        return name
