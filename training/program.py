"""The program that these commands belong to, and how it prints errors.

The program is `course`. Nothing of `course` is imported: it passes a `Program`. Every command of `course`
imports this module, so it must not import torch, which takes a second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from training.cores import under_torchrun
from training.errors import AlreadyReported, Refused

if TYPE_CHECKING:
    from training.models.parts import PartsProvider

REFUSED, INTERRUPTED = 2, 130  # exit statuses


@dataclass(frozen=True)
class Program:
    """What the program passes to the commands."""

    module: str
    """The module that `python -m` starts in each of several processes."""
    console: Callable[..., Console]
    """Return a console in the program's colors; the arguments are rich's."""
    safe: Callable[[str], Text]
    """Untrusted text: without markup, and with control characters made visible."""
    provider: PartsProvider

    @contextmanager
    def refusals(self, quiet: bool = False) -> Iterator[None]:
        """Print errors and exit with status 2; exit with 130 after Ctrl-C.

        Args:
            quiet: do not print, because another process does.
        """
        try:
            yield
        except AlreadyReported as error:
            raise typer.Exit(REFUSED) from error
        except Refused as error:
            if not quiet:
                self.refuse(error)
            raise typer.Exit(REFUSED) from error
        except KeyboardInterrupt as error:
            if not quiet:
                self.console(stderr=True).print("Stopped.")
            raise typer.Exit(INTERRUPTED) from error

    def refuse(self, error: Refused) -> None:
        """Print an error."""
        text = self.safe(str(error))
        text.stylize("failed")
        self.console(stderr=True).print(text, soft_wrap=True)


def follows() -> bool:
    """Whether this is one of several processes, and not the main one."""
    return under_torchrun() and int(os.environ["RANK"]) > 0  # SLURM and MPI set RANK as well
