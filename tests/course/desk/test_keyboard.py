"""The keys of `course watch`: each is one key, whatever bytes the terminal sends for it."""

import contextlib
import os
import queue
import sys

import pytest

from course.desk.keyboard import keys_to

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX terminal")
PATIENCE = 120  # seconds, and how often a `.` is typed


@pytest.fixture
def keyboard(monkeypatch):
    """Type bytes at a terminal; returns the keys that were pressed before the `.` typed after them."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    pressed: queue.Queue[str] = queue.Queue()

    def type_(sent: bytes) -> list[str]:
        with os.fdopen(os.dup(theirs), encoding="utf-8") as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            with keys_to(pressed.put) as has_keys:
                assert has_keys
                os.write(ours, sent)
                keys = []
                for _ in range(PATIENCE):
                    os.write(ours, b".")  # which may be taken for Alt and . at first
                    with contextlib.suppress(queue.Empty):
                        while not keys or keys[-1] != ".":
                            keys.append(pressed.get(timeout=1))
                        break
        return [key for key in keys if key != "."]

    yield type_
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("key", ["h", "n", "p", "r", "q", "?", "H", "é"])
def test_a_character_is_itself(keyboard, key):
    """Upper case stays upper case: Shift and h spend no hint."""
    assert keyboard(key.encode()) == [key]


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        (b"\x1b[H", "home"),
        (b"\x1b[F", "end"),
        (b"\x1bOP", "f1"),
        (b"\x1bOQ", "f2"),
        (b"\x1bOR", "f3"),
        (b"\x1b[A", "up"),
        (b"\x1b[3~", "delete"),
    ],
)
def test_a_named_key_is_one_key(keyboard, sent, key):
    """None of the letters in its escape sequence counts."""
    assert keyboard(sent) == [key]


def test_enter_is_a_key(keyboard):
    assert keyboard(b"\r") in (["c-m"], ["c-j"])


@pytest.mark.parametrize("pasted", ["np", "q", "h\nh\n", "r\x1b[Hq"])
def test_what_is_pasted_is_not_pressed(keyboard, pasted):
    """The terminal marks a paste, because it was asked to."""
    assert keyboard(b"\x1b[200~" + pasted.encode() + b"\x1b[201~") == ["<bracketed-paste>"]


@pytest.mark.parametrize("sent", [b"\x1bh", b"\x1bq", b"\x1b[?1;2c"])
def test_what_follows_an_escape_at_once_is_not_pressed(keyboard, sent):
    """Alt with a letter, and unknown sequences."""
    assert keyboard(sent) == []
