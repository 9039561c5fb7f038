"""How somebody ends a run before its time: by Ctrl-C, or as the system asks a program to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from training.devices import ProcessContext


class StopSignal:
    """Whether a run is to end after the step that it is in.

    Args:
        context: among how many processes this is one.
    """

    def __init__(self, context: ProcessContext):
        self.context = context
        self.asked = False

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Within it Ctrl-C and SIGTERM let the step end and be saved; a second Ctrl-C does not wait."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self.asked and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.asked = True

        before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def requested(self) -> bool:
        """Whether any process was asked to."""
        if self.context.world_size == 1:
            return self.asked
        return self.context.total(self.asked)[0] > 0
