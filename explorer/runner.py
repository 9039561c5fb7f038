"""A button that starts and stops a run, which advances only while its page is open."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

BESIDE = Path(__file__)


class Runner(anywidget.AnyWidget):
    """While it runs, it asks for one part of the work after another, each when the one before is done.

    The page does a part whenever `asked` has changed, and then calls `answer`. The beat comes from the
    browser: so a page that is left stands still, nothing piles up where the machine is slow, and no thread
    is left over.
    """

    _esm = BESIDE.with_name("runner.js")
    _css = BESIDE.with_name("runner.css")

    running = traitlets.Bool(False).tag(sync=True)
    asked = traitlets.Int(0).tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)
    label = traitlets.Unicode("Start").tag(sync=True)
    """What the button says while nothing runs."""

    def answer(self, begun: bool, ended: bool) -> None:
        """Report that the requested steps are done.

        Args:
            begun: whether anything has been done so far.
            ended: whether nothing is left to do; it then runs no more.
        """
        with self.hold_sync():
            if ended:
                self.running = False
            self.label = "Start" if not begun else "Ended" if ended else "Go on"
            self.answered = self.asked
