"""Which of torch's ready-made answers are called while somebody's code runs.

It is a hint of where to look, and no proof: whoever runs in the same process can hide from it. What is
written in the source is found in the source; this finds what was reached by a detour.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any


@contextlib.contextmanager
def listening(names: Collection[str]) -> Iterator[set[str]]:
    """Within it, the set holds those of these functions of torch that were called so far."""
    called: set[str] = set()
    if not names:
        yield called
        return
    import torch  # a day in NumPy never needs it
    from torch.overrides import TorchFunctionMode

    listed = {_found(torch, name): name for name in names}

    class Ear(TorchFunctionMode):
        """Is told of each function of torch before it runs."""

        def __torch_function__(
            self,
            function: Callable[..., Any],
            _types: Any,
            positional: Any = (),
            named: Any = None,
        ) -> Any:
            if function in listed:
                called.add(listed[function])
            return function(*positional, **(named or {}))

    with Ear():
        yield called


def _found(torch: Any, name: str) -> Any:
    """The function of a dotted name; the name itself where this torch has none."""
    try:
        return functools.reduce(getattr, name.split(".")[1:], torch)
    except AttributeError:
        return name
