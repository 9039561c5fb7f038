"""Single keys from the terminal, without Enter, on POSIX and Windows; and none where there is no terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOK = 0.1  # seconds between two looks whether to stop


@contextmanager
def keys_to(receive: Callable[[str], None]) -> Iterator[bool]:
    """Within it, every key pressed is given to `receive`; yields whether there is a keyboard.

    The terminal is as before afterwards, however the block is left.
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
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def _reading(
    read: Callable[[], str], receive: Callable[[str], None], stop: threading.Event
) -> Iterator[None]:
    def loop() -> None:
        while not stop.is_set():
            if key := read():
                receive(key)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _read_posix() -> str:
    import os
    import select

    terminal = sys.stdin.fileno()
    ready, _, _ = select.select([terminal], [], [], LOOK)
    return os.read(terminal, 1).decode("latin-1") if ready else ""


def _read_windows() -> str:
    import msvcrt
    import time

    if not msvcrt.kbhit():  # type: ignore[attr-defined]
        time.sleep(LOOK)
        return ""
    return str(msvcrt.getwch())  # type: ignore[attr-defined]
