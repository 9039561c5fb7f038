"""Read single keys from the terminal, without Enter, on POSIX and Windows; none without a terminal."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.input import Input

POLL_SECONDS = (
    0.05  # seconds between two looks for keys, and how long an Escape may be part of another key
)
CTRL_C = "c-c"


@contextlib.contextmanager
def keys_to(receive: Callable[[str], None]) -> Iterator[bool]:
    """Pass every key pressed within the block to `receive`; yield whether there is a keyboard.

    A key has prompt_toolkit's name: `h`, `H`, `home`, `f1`, `c-c`, and `<bracketed-paste>` for
    pasted text. The terminal's settings are restored, however the block is left. A terminal that is
    closed counts as Ctrl-C.
    """
    if not (sys.stdin and sys.stdin.isatty()):
        yield False
        return
    from prompt_toolkit.input import create_input  # takes a tenth of a second
    from prompt_toolkit.output import create_output

    keyboard, screen = create_input(), create_output()
    with _key_by_key(keyboard), _reading(keyboard, receive):
        screen.enable_bracketed_paste()
        screen.flush()
        try:
            yield True
        finally:
            with contextlib.suppress(OSError):  # there may be no terminal any more
                screen.disable_bracketed_paste()
                screen.flush()


def _key_by_key(keyboard: Input) -> AbstractContextManager[None]:
    """The terminal's mode in which keys come without Enter and are not shown."""
    return keyboard.raw_mode() if sys.platform == "win32" else _cbreak()


@contextlib.contextmanager
def _cbreak() -> Iterator[None]:
    """Leave Ctrl-C and Ctrl-Z signals, unlike raw mode: they must not wait for a verdict to be made."""
    import termios  # POSIX only
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield
    finally:
        with contextlib.suppress(termios.error):  # there may be no terminal any more
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _reading(keyboard: Input, receive: Callable[[str], None]) -> Iterator[None]:
    stop = threading.Event()

    def loop() -> None:
        while not (keyboard.closed or stop.wait(POLL_SECONDS)):
            for key in _pressed(keyboard):
                receive(key)
        if not stop.is_set():
            receive(CTRL_C)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _pressed(keyboard: Input) -> Iterator[str]:
    """The names of the keys pressed since the last look, without Alt's: a terminal sends Alt and a letter
    as Escape and that letter, and starts with Escape what prompt_toolkit may not know either."""
    from prompt_toolkit.keys import Keys  # see `keys_to`

    presses = keyboard.read_keys() or keyboard.flush_keys()
    for press in itertools.takewhile(lambda press: press.key != Keys.Escape, presses):
        yield press.key.value if isinstance(press.key, Keys) else press.key
