"""Words from closed lists, for reports on a submission that may control its worker.

A worker in which a learner's code has run can send any text. So no text from it is shown. Kinds of
types, dtypes, devices and exceptions come from lists. An exception's message is shown if, apart
from names and numbers, Python, NumPy or torch is known to produce it; its names must occur in the
lines that are shown, or in the day's stub. This process reads the lines from the submission.
"""

from __future__ import annotations

import builtins
import functools
import keyword
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from course.checks.observation import CARRIED, MAX_NAME_LENGTH, Leaf, Raised

TYPES = {"None", "bool", "int", "float", "str", "numpy.ndarray", "torch.Tensor", "a NumPy number"}
CONTAINER = re.compile(r"(tuple|list|dict) of \d{1,3}")
OTHER_TYPE = "something of another type"
DTYPES = CARRIED | {"bfloat16", "complex64", "complex128", "object"}
OTHER_DTYPE = "another dtype"
DEVICES = {"cpu", "cuda", "mps", "practice"}
OTHER_DEVICE = "another device"
MAX_SIZES, MAX_SIZE = 5, 999  # of a shape that is reported

KNOWN_MESSAGES = Path(__file__).with_name("known_messages.txt")
EXCEPTIONS = {
    *(name for name, value in vars(builtins).items() if isinstance(value, type)),
    *("AxisError", "LinAlgError", "UFuncTypeError", "UFuncNoLoopError", "OutOfMemoryError"),
    *("AcceleratorError", "BdbQuit", "FrozenInstanceError", "JSONDecodeError", "TclError"),
}
OTHER_EXCEPTION = "An exception"
NO_TORCH = "torch is not available when days 1 to 7 are graded: they are written in NumPy alone."
ABSENT = ("AttributeError", "ImportError", "ModuleNotFoundError")
OF_TORCH = re.compile(r"(module|No module named|cannot import name '\w+' from) '(torch[\w.]*)'")
# What the course itself says of an import, see `course/references/imports.py`.
OURS = re.compile(
    r"(\w+) of ([\w.]+) (?:is today's exercise|belongs to day \d{1,2}, after today): it is yours to write, "
    r"so it cannot be imported here\. What earlier days wrote can\."
)
MAX_LINE_LENGTH = 200  # characters of a line of the submission
MAX_LINES = 2

# In an exception's words: a name between quotes, a function's name, a dtype as torch calls it, numbers.
QUOTED = re.compile(r"'([^'\n]{1,60})'")
CALLED = re.compile(r"\b([A-Za-z_][\w.<>]*)\(\)")
DTYPE = re.compile(
    r"\b(c10::)?(Half|BFloat16|Float|Double|Long|Int|Bool|float|double)\b"
    r"|\btorch\.(\w+Tensor|bfloat16|float\d+|u?int\d+|bool)\b"
)
CHARACTER = re.compile(r"U\+[0-9A-F]{4,6}")
NUMBERS = re.compile(r"-?\d+(\.\d+)?(, ?-?\d+)*,?")
MAX_DIGITS = 3  # digits; a size or an index has no more
MAX_NUMBERS = 8
MAX_SIGNS = 3  # in quotes, that are not letters or digits: `<=`, `numpy.linalg.norm`


def closed_leaf(leaf: Leaf) -> Leaf:
    """Return a leaf of an observation with its kind in words from closed lists."""
    known_type = leaf.type in TYPES or CONTAINER.fullmatch(leaf.type)
    shape = leaf.shape
    if shape and (len(shape) > MAX_SIZES or max(shape) > MAX_SIZE):
        shape = None
    return replace(
        leaf,
        type=leaf.type if known_type else OTHER_TYPE,
        dtype=leaf.dtype if leaf.dtype in DTYPES | {None} else OTHER_DTYPE,
        device=leaf.device if leaf.device in DEVICES | {None} else OTHER_DEVICE,
        shape=shape,
    )


def closed_raised(raised: Raised, source: str, stub: str) -> Raised:
    """Return an exception in words from closed lists.

    Args:
        raised: the exception as the worker reports it.
        source: the submission that, according to the worker, raised it.
        stub: the day's stub, which everybody knows.
    """
    lines = source.splitlines()
    frames, cpu_line = (
        [
            (line, _function_at(lines, line), lines[line - 1].strip()[:MAX_LINE_LENGTH])
            for line, _, _ in places
            if 1 <= line <= len(lines)
        ]
        for places in (raised.frames[-MAX_LINES:], raised.cpu_line)
    )
    names = _names_in("\n".join([stub, *(text for _, _, text in frames)]))
    kind = raised.kind if raised.kind in EXCEPTIONS else OTHER_EXCEPTION
    first = raised.message.partition("\n")[0]
    message = first if is_known(first, names) else ""
    return Raised(kind, message, frames, raised.not_started, cpu_line)


def lacks_torch(raised: Raised) -> bool:
    """Return whether code used torch although only an empty folder has that name."""
    return raised.kind in ABSENT and bool(OF_TORCH.match(raised.message))


def is_known(message: str, names: Collection[str]) -> bool:
    """Return whether Python, NumPy or torch produces this message, apart from these names and short
    numbers."""
    if match := OURS.fullmatch(message):
        return {match[1], *match[2].split(".")} <= set(names)
    words = [*QUOTED.findall(message), *CALLED.findall(message)]
    signs = [re.sub(r"\w", "", word) for word in words]
    parts = {part for word in words for part in re.findall(r"\w+", word)}
    numbers = re.findall(r"\d+", CHARACTER.sub("", message))
    return (
        pattern(message) in known()
        and all(part in names or part in _WORDS or part.isdecimal() for part in parts)
        and all(len(sign) <= MAX_SIGNS for sign in signs)
        and len(numbers) <= MAX_NUMBERS
        and all(len(number) <= MAX_DIGITS for number in numbers)
    )


def pattern(message: str) -> str:
    """Return an exception's message without its names and numbers, as in the list."""
    nameless = DTYPE.sub("@", CALLED.sub("@()", QUOTED.sub("'@'", message)))
    return NUMBERS.sub("#", CHARACTER.sub("U+@", nameless)).strip()


@functools.cache
def known() -> frozenset[str]:
    """Return the patterns of known messages."""
    lines = KNOWN_MESSAGES.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("## "))


def _names_in(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def _function_at(lines: Sequence[str], line: int) -> str:
    """The name of the function in which a line stands, as far as its indentation tells."""
    depth = _indentation(lines[line - 1])
    for text in reversed(lines[: line - 1]):
        if text.strip() and _indentation(text) < depth:
            depth = _indentation(text)
            if match := re.match(r"\s*(?:async )?def (\w+)", text):
                return match[1][:MAX_NAME_LENGTH]
    return ""


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


# What Python says of its own in quotes: types, operators' operands, the methods of a module.
_WORDS = {
    *dir(builtins),
    *keyword.kwlist,
    *("NoneType", "function", "method", "module", "builtin_function_or_method", "generator"),
    *("ndarray", "Tensor", "Parameter", "numpy", "torch", "nn", "forward", "__init__", "locals"),
    *("float16", "float32", "float64", "bfloat16", "int32", "int64", "Float", "Double", "Half"),
    *("Long", "Int", "Bool", "BFloat16", "indices", "safe", "bitwise_and", "any", "all", "a"),
    *("logical_not", "len", "tk", "qt", "gtk3", "headless"),
}
