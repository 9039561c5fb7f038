"""Stop a run early, by Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from training.devices import ProcessContext


class StopSignal:
    """Whether a run must stop after its current step."""

    def __init__(self, context: ProcessContext):
        self.context = context
        self.signaled = False

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM finish and save the step; a second Ctrl-C stops at once."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self.signaled and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.signaled = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for signal_number, handler in before.items():
                signal.signal(signal_number, handler)

    def requested(self) -> bool:
        """Whether any process was asked to stop."""
        if self.context.world_size == 1:
            return self.signaled
        return self.context.total(self.signaled)[0] > 0
