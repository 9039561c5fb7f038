"""What a worker imports before it is asked, or before a day's first check runs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

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
DAYS_WITH_COMPILER = frozenset({18, 32, 33, 34, 38, 41, 44})
"""The days whose checks do such a thing; tested against what they import."""


def run_uncompiled() -> None:
    """Have `torch.compile` run what it is given as it is: to compile takes longer than any check may.

    Call it before torch is imported.
    """
    os.environ["TORCH_COMPILE_DISABLE"] = "1"


def imports_ahead() -> Iterator[str]:
    """Import what the code of any PyTorch day may come to need, a part at each step."""
    for name in COMPILER:
        importlib.import_module(name)
        yield name


def prepare(day: int, thoroughly: bool) -> None:
    """Import what the checks of a day will, so that none of them has to.

    Args:
        day: its number.
        thoroughly: whether to import also what only an unusual answer needs.
    """
    if day in DAYS_WITH_COMPILER or thoroughly:
        for _ in imports_ahead():
            pass
