"""Speaking for the worker: frames forged, broken, or out of bounds, on the channel of replies.

All are sent by day 8, the last: what else is on the channel would be taken for the next day's.
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
from safetensors.numpy import save

files = [one for one in gc.get_objects() if type(one) is io.FileIO and one.mode == "wb"]
[replies] = [one for one in files if not one.closed and one.fileno() > 2]

def say(message, seen=None):
    write_frame(replies, to_bytes(message, seen))

def say_text(message, leaves="[]"):
    write_frame(replies, save({}, metadata={"message": message, "leaves": leaves}))

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
        "overlapping-tensors",
        "Sends two tensors that are the same bytes, and one that goes on beyond the end.",
        """
        import json
        header = json.dumps({
            "__metadata__": {"message": '{"check": "test_mask[T_q T_k]"}', "leaves": "[]"},
            "0": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
            "1": {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]},
            "2": {"dtype": "F64", "shape": [2, 2**40], "data_offsets": [0, 2**44]},
        }).encode()
        write_frame(replies, len(header).to_bytes(8, "little") + header + bytes(16))
        """,
    ),
    sends(
        "numbers-that-are-none",
        "Sends NaN and infinities where whole numbers belong.",
        """
        leaf = '{"path": "output", "type": "torch.Tensor", "value": null, "shape": [NaN, -Infinity], '
        leaf += '"dtype": "float32", "device": "cpu"}'
        say_text('{"check": "test_mask[T_q T_k]", "raised": null, "damaged": [NaN]}', f"[{leaf}]")
        """,
    ),
    sends(
        "an-infinite-line",
        "Sends an exception that came up in line 1e999.",
        """
        say_text('{"check": "test_mask[T_q T_k]", "damaged": [], "raised": {"kind": "E", "message": "m",'
                 '"not_started": false, "frames": [[1e999, "f", "t"]]}}')
        """,
    ),
    sends(
        "half-a-character",
        "Sends strings with half a surrogate pair, which no file can hold.",
        r"""
say_text(
    r'{"check": "test_mask[T_q T_k]", "damaged": ["\ud800"], "raised": {"kind": "\udfff", '
    r'"message": "\ud800", "not_started": false, "frames": [[1, "\ud800", "\udfff"]]}}'
)
""",
    ),
    sends(
        "nested-ten-thousand-deep",
        "Sends a message that is nested so deep that reading it crashes.",
        "say_text('{\"check\": ' + '[' * 10**4 + ']' * 10**4 + '}')",
    ),
    sends(
        "integers-without-an-end",
        "Sends a number with a million digits.",
        "say_text('{\"check\": ' + '9' * 10**6 + '}')",
    ),
    sends(
        "leaves-of-other-kinds",
        "Sends leaves whose parts are of the wrong kinds, an array among the words.",
        """
        leaf = '{"path": ["output"], "type": {"a": 1}, "value": [1], "shape": "abc", "dtype": 5, '
        leaf += '"device": []}'
        say_text('{"check": "test_mask[T_q T_k]", "raised": null, "damaged": []}', f"[{leaf}, null, 3]")
        """,
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
