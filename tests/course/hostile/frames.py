"""Speaking for the worker: frames forged, broken, or out of bounds, on the channel of replies.

All are sent by day 8, the last: what else is on the channel would be taken for the next day's. What a frame
itself may hold is in `test_frames.py`.
"""

from textwrap import dedent

from tests.course.hostile.kinds import Kind, before, ends, in_one_check

# The channel is found as anybody could: among all objects it is the file that is written to unbuffered
# and is not one of the first three.
SPEAK = """
import gc, io
from dataclasses import replace
import numpy as np
from course.checks.observation import Leaf, flatten, named
from course.checks.frames import to_bytes
from course.checks.frames import write_frame

files = [one for one in gc.get_objects() if type(one) is io.FileIO and one.mode == "wb"]
[replies] = [one for one in files if not one.closed and one.fileno() > 2]

def say(message, seen=None):
    write_frame(replies, to_bytes(message, seen))

LOADED = {"as_new": True, "begun": ["attention"], "missing": []}
CHECK = "test_mask[T_q T_k]"
"""


def sends(name: str, says: str, code: str) -> Kind:
    """A kind that speaks on the channel in the middle of that check."""
    return Kind(name, says, in_one_check(8, SPEAK + dedent(code)), {8: "error"})


def sends_first(name: str, says: str, code: str, status: str = "error") -> Kind:
    """A kind that speaks on the channel before the worker does."""
    return Kind(name, says, before(8, f"{SPEAK}say(LOADED)\n{dedent(code)}"), {8: status})


KINDS = [
    ends(
        "garbage-on-every-file",
        "Writes what is no frame to every file that is open.",
        """
        import os
        for fd in range(3, 256):
            try:
                os.write(fd, b"garbage, and more of it")
            except OSError:
                pass
        """,
        day=8,
    ),
    ends(
        "closes-every-file",
        "Closes every file, the channels among them.",
        "import os; os.closerange(0, 256)",
        day=8,
    ),
    sends(
        "prints-on-the-channel",
        "Makes the channel its standard output.",
        "import os; os.dup2(replies.fileno(), 1); print('passed', flush=True)",
    ),
    sends(
        "a-huge-length",
        "Announces a frame of 2⁶³ bytes.",
        "replies.write((2**63).to_bytes(8, 'little'))",
    ),
    sends(
        "half-a-frame",
        "Announces more than it sends.",
        "replies.write((10**6).to_bytes(8, 'little') + b'x'); import os; os._exit(0)",
    ),
    sends(
        "a-frame-of-nothing",
        "Sends frames without anything in them.",
        "replies.write(bytes(8) * 1000)",
    ),
    sends(
        "a-flood-of-frames",
        "Sends frames as large as they may be, without an end.",
        "while True: write_frame(replies, bytes(8 * 2**20))",
    ),
    sends_first(
        "all-checks-at-once",
        "Says of every check that it gave zeros, before any has begun.",
        """
        import torch
        from course.checks.loading import load_checks
        from course.curriculum import DAYS
        zeros = torch.zeros(2, 3, 4)
        for check in load_checks(DAYS[7]):
            say({"check": check.name, "raised": None, "damaged": []},
                flatten(named((zeros, zeros), "output", "weights", first="weights")))
        """,
        status="failed",
    ),
    sends_first(
        "claims-in-frames",
        "Says of every check that it passed, in the words of a report.",
        """
        from course.checks.loading import load_checks
        from course.curriculum import DAYS
        for check in load_checks(DAYS[7]):
            say({"check": check.name, "status": "passed", "points": 100, "verdict": "graded",
                 "raised": None, "damaged": []})
        """,
        status="failed",
    ),
    sends_first(
        "says-it-was-skipped",
        "Says that there was nothing to run, for want of a GPU.",
        """
        say(LOADED | {"skipped": "no GPU here"})
        say({"check": "test_attention", "status": "skipped", "raised": None, "damaged": []})
        """,
    ),
    sends(
        "a-check-twice",
        "Sends the same observation a second time.",
        'for _ in range(2): say({"check": CHECK, "raised": None, "damaged": []})',
    ),
    sends(
        "a-check-that-is-none",
        "Sends what a check of another day is to have seen.",
        'say({"check": "test_vector", "raised": None, "damaged": []})',
    ),
    sends(
        "an-array-that-is-not-there",
        "Sends a leaf that is an array by its words, and leaves the array out.",
        """
        pair = named(right(**inputs), "output", "weights", first="weights")
        seen = {path: replace(leaf, value=None) for path, leaf in flatten(pair).items()}
        say({"check": CHECK, "raised": None, "damaged": []}, seen)
        """,
    ),
    sends(
        "a-shape-without-an-end",
        "Sends a shape with a million sizes, for a message to repeat.",
        """
        wide = Leaf("torch.Tensor", None, (1,) * 1_000_000, "float32", "cpu")
        pair = {"result": Leaf("tuple of 2"), "weights": wide, "output": wide}
        say({"check": CHECK, "raised": None, "damaged": []}, pair)
        """,
    ),
]
