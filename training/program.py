"""The program that these commands are joined to, and how it tells what cannot be done.

That is `course`, whose other commands messages here name. Nothing of it is imported: what is needed of it
is a `Program`.

It is imported whatever the program is started for, and so never imports torch, which takes a second.
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

from training.errors import AlreadyReported, Refused

if TYPE_CHECKING:
    from training.models.parts import PartsProvider

REFUSED, INTERRUPTED = 2, 130  # exit statuses


@dataclass(frozen=True)
class Program:
    """What the commands are given by the program that they are joined to."""

    module: str
    """What `python -m` starts it by, in each of many processes."""
    console: Callable[..., Console]
    """A console in its colours; arguments are rich's."""
    safe: Callable[[str], Text]
    """Words that may come from anyone: no markup, and control characters made visible."""
    workshop: PartsProvider

    @contextmanager
    def refusals(self, quiet: bool = False) -> Iterator[None]:
        """What cannot be done is told, and ends with 2; Ctrl-C with 130.

        Args:
            quiet: another process tells it.
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
        """Tell what cannot be done."""
        told = self.safe(str(error))
        told.stylize("failed")
        self.console(stderr=True).print(told, soft_wrap=True)


def follows() -> bool:
    """Whether this is one of many processes, and another speaks for all."""
    return int(os.environ.get("RANK", "0")) > 0
