"""Single keys from the terminal, without Enter, on POSIX and Windows; and none where there is no terminal."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator

LOOK = 0.1  # seconds between two looks whether to stop
CTRL_C = "\x03"


@contextlib.contextmanager
def keys_to(receive: Callable[[str], None]) -> Iterator[bool]:
    """Within it, every key pressed is given to `receive`; yields whether there is a keyboard.

    The terminal is as before afterwards, however the block is left. One that goes away has pressed
    Ctrl-C.
    """
    if not (sys.stdin and sys.stdin.isatty()):
        yield False
        return
    stop = threading.Event()
    if sys.platform == "win32":
        with _reading(_read_windows, receive, stop):
            yield True
        return
    import termios  # POSIX only
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        with _reading(_read_posix, receive, stop):
            yield True
    finally:
        with contextlib.suppress(termios.error):  # there may be no terminal any more
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _reading(
    read: Callable[[], str], receive: Callable[[str], None], stop: threading.Event
) -> Iterator[None]:
    def loop() -> None:
        try:
            while not stop.is_set():
                if key := read():
                    receive(key)
        except (EOFError, OSError):
            receive(CTRL_C)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _read_posix() -> str:
    terminal = sys.stdin.fileno()
    ready, _, _ = select.select([terminal], [], [], LOOK)
    if not ready:
        return ""
    if not (key := os.read(terminal, 1)):
        raise EOFError("the terminal is gone")
    return key.decode("latin-1")


def _read_windows() -> str:
    import msvcrt  # Windows only

    if not msvcrt.kbhit():  # type: ignore[attr-defined]
        time.sleep(LOOK)
        return ""
    return str(msvcrt.getwch())  # type: ignore[attr-defined]
