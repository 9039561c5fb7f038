"""Speaking for the worker: frames forged, broken, or out of bounds, on the channel of replies.

All are sent by day 8, the last: what else is on the channel would be taken for the next day's.
"""

from tests.course.hostile.kinds import Kind, before, in_one_check

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


def sent(code: str) -> dict[int, str]:
    """Day 8, with code that speaks on the channel in the middle of that check."""
    return in_one_check(8, SPEAK + code)


def sent_first(code: str) -> dict[int, str]:
    """Day 8, with code that speaks on the channel before the worker does."""
    return before(8, SPEAK + "say(LOADED)\n" + code)


WRONG = {8: "error"}

KINDS = [
    Kind(
        "garbage-on-every-file",
        "Writes what is no frame to every file that is open.",
        in_one_check(
            8,
            """
            import os
            for fd in range(3, 256):
                try:
                    os.write(fd, b"garbage, and more of it")
                except OSError:
                    pass
            """,
        ),
        WRONG,
    ),
    Kind(
        "closes-every-file",
        "Closes every file, the channels among them.",
        in_one_check(8, "import os; os.closerange(0, 256)"),
        WRONG,
    ),
    Kind(
        "prints-on-the-channel",
        "Makes the channel its standard output.",
        sent("import os; os.dup2(replies.fileno(), 1); print('passed', flush=True)"),
        WRONG,
    ),
    Kind(
        "a-huge-length",
        "Announces a frame of 2⁶³ bytes.",
        sent("replies.write((2**63).to_bytes(8, 'little'))"),
        WRONG,
    ),
    Kind(
        "half-a-frame",
        "Announces more than it sends.",
        sent("replies.write((10**6).to_bytes(8, 'little') + b'x'); import os; os._exit(0)"),
        WRONG,
    ),
    Kind(
        "a-frame-of-nothing",
        "Sends frames without anything in them.",
        sent("replies.write(bytes(8) * 1000)"),
        WRONG,
    ),
    Kind(
        "a-flood-of-frames",
        "Sends frames as large as they may be, without an end.",
        sent("while True: write_frame(replies, bytes(8 * 2**20))"),
        WRONG,
    ),
    Kind(
        "all-checks-at-once",
        "Says of every check that it gave zeros, before any has begun.",
        sent_first(
            """
import torch
from course.checks.loading import load_checks
from course.curriculum import DAYS
zeros = torch.zeros(2, 3, 4)
for check in load_checks(DAYS[7]):
    say({"check": check.name, "raised": None, "damaged": []},
        flatten(named((zeros, zeros), "output", "weights", first="weights")))
"""
        ),
        {8: "failed"},
    ),
    Kind(
        "claims-in-frames",
        "Says of every check that it passed, in the words of a report.",
        sent_first(
            """
from course.checks.loading import load_checks
from course.curriculum import DAYS
for check in load_checks(DAYS[7]):
    say({"check": check.name, "status": "passed", "points": 100, "verdict": "graded",
         "raised": None, "damaged": []})
"""
        ),
        {8: "failed"},
    ),
    Kind(
        "says-it-was-skipped",
        "Says that there was nothing to run, for want of a GPU.",
        sent_first(
            """
say(LOADED | {"skipped": "no GPU here"})
say({"check": "test_attention", "status": "skipped", "raised": None, "damaged": []})
"""
        ),
        WRONG,
    ),
    Kind(
        "a-check-twice",
        "Sends the same observation a second time.",
        sent('for _ in range(2): say({"check": CHECK, "raised": None, "damaged": []})'),
        WRONG,
    ),
    Kind(
        "a-check-that-is-none",
        "Sends what a check of another day is to have seen.",
        sent('say({"check": "test_vector", "raised": None, "damaged": []})'),
        WRONG,
    ),
    Kind(
        "overlapping-tensors",
        "Sends two tensors that are the same bytes, and one that goes on beyond the end.",
        sent(
            """
import json
header = json.dumps({
    "__metadata__": {"message": '{"check": "test_mask[T_q T_k]"}', "leaves": "[]"},
    "0": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
    "1": {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]},
    "2": {"dtype": "F64", "shape": [2, 2**40], "data_offsets": [0, 2**44]},
}).encode()
write_frame(replies, len(header).to_bytes(8, "little") + header + bytes(16))
"""
        ),
        WRONG,
    ),
    Kind(
        "numbers-that-are-none",
        "Sends NaN and infinities where whole numbers belong.",
        sent(
            """
leaf = '{"path": "output", "type": "torch.Tensor", "value": null, "shape": [NaN, -Infinity], '
leaf += '"dtype": "float32", "device": "cpu"}'
say_text('{"check": "test_mask[T_q T_k]", "raised": null, "damaged": [NaN]}', f"[{leaf}]")
"""
        ),
        WRONG,
    ),
    Kind(
        "an-infinite-line",
        "Sends an exception that came up in line 1e999.",
        sent(
            """
say_text('{"check": "test_mask[T_q T_k]", "damaged": [], "raised": {"kind": "E", "message": "m",'
         '"not_started": false, "frames": [[1e999, "f", "t"]]}}')
"""
        ),
        WRONG,
    ),
    Kind(
        "half-a-character",
        "Sends strings with half a surrogate pair, which no file can hold.",
        sent(
            r"""
say_text(
    r'{"check": "test_mask[T_q T_k]", "damaged": ["\ud800"], "raised": {"kind": "\udfff", '
    r'"message": "\ud800", "not_started": false, "frames": [[1, "\ud800", "\udfff"]]}}'
)
"""
        ),
        WRONG,
    ),
    Kind(
        "nested-ten-thousand-deep",
        "Sends a message that is nested so deep that reading it crashes.",
        sent("say_text('{\"check\": ' + '[' * 10**4 + ']' * 10**4 + '}')"),
        WRONG,
    ),
    Kind(
        "integers-without-an-end",
        "Sends a number with a million digits.",
        sent("say_text('{\"check\": ' + '9' * 10**6 + '}')"),
        WRONG,
    ),
    Kind(
        "leaves-of-other-kinds",
        "Sends leaves whose parts are of the wrong kinds, an array among the words.",
        sent(
            """
leaf = '{"path": ["output"], "type": {"a": 1}, "value": [1], "shape": "abc", "dtype": 5, "device": []}'
say_text('{"check": "test_mask[T_q T_k]", "raised": null, "damaged": []}', f"[{leaf}, null, 3]")
"""
        ),
        WRONG,
    ),
    Kind(
        "an-array-that-is-not-there",
        "Sends a leaf that is an array by its words, and leaves the array out.",
        sent(
            """
pair = named(right(**inputs), "output", "weights", first="weights")
seen = {path: replace(leaf, value=None) for path, leaf in flatten(pair).items()}
say({"check": CHECK, "raised": None, "damaged": []}, seen)
"""
        ),
        WRONG,
    ),
    Kind(
        "a-shape-without-an-end",
        "Sends a shape with a million sizes, for a message to repeat.",
        sent(
            """
wide = Leaf("torch.Tensor", None, (1,) * 1_000_000, "float32", "cpu")
pair = {"result": Leaf("tuple of 2"), "weights": wide, "output": wide}
say({"check": CHECK, "raised": None, "damaged": []}, pair)
"""
        ),
        WRONG,
    ),
]
