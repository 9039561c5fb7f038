"""The imports of a worker, before its first request or before a day's first check."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

# Seconds without a request after which more is imported: `watch` waits that long for a save, and one `check`
# does not.
IDLE = 5.0

# PyTorch imports its compiler, 800 modules, at the first step of an optimizer, under the first dispatch
# mode, and for the first module on the meta device. Here it comes in parts, so that a request waits for
# one part at most.
COMPILER = (
    "sympy",
    "torch.fx.experimental.symbolic_shapes",
    "torch._inductor",
    "torch._dynamo",
)
DAYS_WITH_COMPILER = frozenset({18, 32, 38, 41, 46})
"""The days whose checks do such a thing; tested against what they import."""


def run_uncompiled() -> None:
    """Let `torch.compile` return its argument unchanged, because compilation takes longer than a
    check's limit.

    Call it before torch is imported.
    """
    os.environ["TORCH_COMPILE_DISABLE"] = "1"


def uncompiled(function: Any = None, **options: object) -> Any:
    """Stand in for `torch.compile`, which raises with `fullgraph=True` where it is switched off."""
    return (lambda function: function) if function is None else function


def imports_ahead() -> Iterator[str]:
    """Import everything that the code of a PyTorch day may need, a part at each step."""
    for name in COMPILER:
        importlib.import_module(name)
        yield name


def prepare(day: int, thoroughly: bool) -> None:
    """Import what the checks of a day need, so that no check has to.

    Args:
        thoroughly: whether to import also modules that only an unusual answer needs.
    """
    if day in DAYS_WITH_COMPILER or thoroughly:
        for _ in imports_ahead():
            pass
