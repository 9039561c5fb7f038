"""Messages to a learner: what differed first, where, by how much, and what that usually means."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from course.checks.observation import RESULT, Leaf, Raised
from course.curriculum import RAISE
from course.judging.closed_words import closed_leaf
from course.judging.comparison import Difference, doubles
from course.judging.expected import is_float
from course.judging.meanings import meaning_of_exception, meaning_of_flags, meaning_of_numbers

Array = np.ndarray[Any, Any]

MAX_QUOTED = 200  # characters of words that differ
DIGITS = (5, 8, 12, 17)  # of a real number: as few as tell two apart
MAX_KEYS = 4  # of a dict that are named
MAX_NAMED = 2  # checks or parts that a sentence names
BEFORE = 40  # of these, how many where they do not yet


def describe(difference: Difference, tolerance: float, inputs: str) -> str:
    """Describe a difference in two or three lines: first what and where, last the inputs, in words."""
    with np.errstate(all="ignore"):  # numbers near the largest there are may overflow here
        lines = [_STAGES[difference.stage](difference, tolerance), inputs]
    return "\n".join(line for line in lines if line)


class Feedback(enum.StrEnum):
    """How much a report reveals about a mistake."""

    own = "own"
    """Everything: at home, where the learner's own code is trusted."""
    full = "full"
    """The same in words of closed lists, with the checks' numbers."""
    discreet = "discreet"
    """Without these: what can be handed on before all have handed in."""
    verdict = "verdict"
    """Which checks pass, and nothing else."""


def describe_for(feedback: Feedback, difference: Difference, tolerance: float, inputs: str) -> str:
    """Describe a difference as far as the feedback level allows."""
    if feedback == Feedback.own:
        return describe(difference, tolerance, inputs)
    if difference.stage == "names" and difference.yours is not None:
        return "Something is there that was not asked for."
    difference = replace(difference, extra=())  # names that the submission has chosen
    if difference.yours is not None:
        difference = replace(difference, yours=closed_leaf(difference.yours))
    if feedback == Feedback.discreet or (difference.yours and difference.yours.type == "str"):
        return _describe_discreetly(difference, tolerance)
    return describe(difference, tolerance, inputs)


def _describe_discreetly(difference: Difference, tolerance: float) -> str:
    if difference.stage not in ("nan", "values") or difference.wrong is None:
        return _STAGES[difference.stage](difference, tolerance)
    text = (
        f"{shown(difference.path, _first(difference.wrong))} is wrong ({_share(difference.wrong)})."
    )
    yours, expected = _pair(difference)
    if difference.stage == "nan":
        return f"{text} NaN is where none should be, or none where one should."
    with np.errstate(all="ignore"):
        meaning = (
            meaning_of_numbers(doubles(yours), doubles(expected), tolerance)
            if is_float(expected)
            else meaning_of_flags(yours, expected)
        )
    return f"{text} {meaning}".strip()


def describe_raised(raised: Raised, inputs: str = "") -> str:
    """Describe an exception with the learner's own lines of the traceback, and the inputs, in words."""
    message = raised.message.strip()
    lines = [f"{raised.kind}: {message}" if message not in ("", "None") else raised.kind]
    for line, function, text in list(dict.fromkeys(raised.frames))[-3:]:
        location = (
            f"line {line}, in {function}" if function and function != "<module>" else f"line {line}"
        )
        lines.append(f"  {location}: {text}" if text else f"  {location}")
    for line, _, text in raised.cpu_line:
        lines.append(f"The CPU tensor was made in line {line}: {text}")
    return "\n".join(line for line in [*lines, meaning_of_exception(raised), inputs] if line)


def not_started(exercise: str, raised: Raised, begun: Collection[str]) -> str:
    """Say which exercise is not started: this one, or one that it calls."""
    called, _, method = (raised.frames[-1][1] if raised.frames else "").partition(".")
    if called not in ("", exercise):
        return f"`{exercise}` calls `{called}`, which is still yours to write."
    if exercise in begun and method:
        return f"`{exercise}` is begun; its `{method}` is yours to write."
    if exercise in begun:
        return f"`{exercise}` is begun, but still ends in the stub's `{RAISE}`."
    return f"`{exercise}` is yours to write."


def describe_damage(names: tuple[str, ...]) -> str:
    """Describe inputs that were changed in place."""
    which = " and ".join(f"`{name}`" for name in names)
    return (
        f"The input {which} was changed in place, but the caller still needs it: "
        "`x -= y` and `x[...] = y` write into x; `x - y` creates a new array."
    )


# --- Sentences beside each other ------------------------------------------------------------------

# How a message begins that says what is right: beside another mistake it may not be.
PRAISE = re.compile(r"^(?:Your|The) [^.,:]*? (?:is|are) right, (?:but|and) (.)")
DENIED = re.compile(r"^you (?:do not|never) (.+)$")
FEW_LETTERS = 14  # by which a clause is known again: a verb and the beginning of its object


def beside_others(tell: str) -> str:
    """Return the description of a mistake that is not the only one, without the clause that praises the
    rest."""
    return PRAISE.sub(lambda match: match[1].upper(), tell)


def contradict(sentence: str, other: str) -> bool:
    """Return whether one sentence denies what the other says: "You do not drop …" and "You drop …"."""
    denied = (DENIED.match(clause) for clause in _clauses(sentence))
    begins = tuple(f"you {match[1][:FEW_LETTERS]}" for match in denied if match)
    return any(clause.startswith(begins) for clause in _clauses(other))


def something_else(unexplained: Sequence[str]) -> list[str]:
    """Return the sentence that accompanies a mistake that does not explain these failing core checks."""
    if not unexplained:
        return []
    first = " and ".join(f"`{name}`" for name in unexplained[:MAX_NAMED])
    more = len(unexplained) - MAX_NAMED
    which = f"{first}, and {more} more core checks" if more > 0 else first
    return [f"Something else is wrong as well: this does not explain {which}."]


def where_to_begin(called: Sequence[str], used: Sequence[str]) -> list[str]:
    """Advice on parts that fail core checks of their own.

    Args:
        called: the parts that the failing check calls itself.
        used: the parts that the exercise builds on, if it is written like the reference.
    """
    advice = []
    if called:
        advice.append(
            f"This check also calls your {_names_of(called)}, whose core checks fail: fix that first."
        )
    if used:
        advice.append(f"If it uses your {_names_of(used)}, fix that first: its core checks fail.")
    return advice


def _names_of(exercises: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in exercises)


@functools.cache
def _clauses(text: str) -> tuple[str, ...]:
    return tuple(part.strip().lower() for part in re.split(r"[.:;,]| and | but ", text))


def shown(path: str, index: tuple[int, ...] = ()) -> str:
    """Return the name of a leaf, or of one entry of it."""
    if path == RESULT and not index:
        return "The result"
    return f"`{path}[{', '.join(map(str, index))}]`" if index else f"`{path}`"


# --- A sentence for each stage --------------------------------------------------------------------


def _names(difference: Difference, _: float) -> str:
    if difference.yours is None and len(difference.missing) + len(difference.extra) > 1:
        return f"In {shown(difference.within)}, {' '.join(_keys(difference))}"
    if difference.yours is None:
        return f"{shown(difference.path)} is missing."
    return f"{shown(difference.path)} is not expected here."


def _type(difference: Difference, _: float) -> str:
    yours, expected = _pair(difference)
    if yours.type == "None" and difference.path.startswith("gradient"):
        return (
            f"No gradient reaches {shown(difference.path)}: it is not used, or a tensor in between is "
            "detached, converted to numbers, or computed under `no_grad`."
        )
    if yours.type == "None":
        text = f"{shown(difference.path)} is None; it should be {_a(expected.type)}."
        if difference.returns_nothing:
            return f"{text} Your function should change its arguments."
        return f"{text} Is a `return` missing, or do you return None?"
    text = f"{shown(difference.path)} is {_a(yours.type)}; it should be {_a(expected.type)}."
    return " ".join([text, *_keys(difference)])


def _keys(difference: Difference) -> list[str]:
    """Which keys of a dict are missing, and which are too many."""
    sentences = []
    for paths, what in ((difference.missing, "missing"), (difference.extra, "not asked for")):
        if paths:
            names = [f"`{path.removeprefix(f'{difference.within}.')}`" for path in paths[:MAX_KEYS]]
            more = [f"{len(paths) - MAX_KEYS} more"] if len(paths) > MAX_KEYS else []
            verb = "is" if len(paths) == 1 else "are"
            sentences.append(f"{_listed([*names, *more])} {verb} {what}.")
    return sentences


def _listed(names: Sequence[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


def _shape(difference: Difference, _: float) -> str:
    yours, expected = _pair(difference)
    mine = f"shape {yours.shape}" if yours.shape is not None else "a different shape"
    text = f"{shown(difference.path)} has {mine}; it should be {expected.shape}."
    if yours.shape is None or expected.shape is None:
        return text
    if sorted(yours.shape) == sorted(expected.shape):
        return f"{text} The sizes are right, but their order is not."
    if [s for s in yours.shape if s != 1] == [s for s in expected.shape if s != 1]:
        return f"{text} They differ by axes of length 1, which decide how arrays broadcast."
    if len(yours.shape) != len(expected.shape):
        return f"{text} The number of axes differs."
    return text


def _dtype(difference: Difference, _: float) -> str:
    yours, expected = _pair(difference)
    return f"{shown(difference.path)} has dtype {yours.dtype}; it should be {expected.dtype}."


def _device(difference: Difference, _: float) -> str:
    yours, expected = _pair(difference)
    where = f"it should be on {expected.device}, like the inputs"
    return f"{shown(difference.path)} is on {yours.device}; {where}."


def _nan(difference: Difference, _: float) -> str:
    yours, expected = _pair(difference)
    assert difference.wrong is not None
    index = _first(difference.wrong)
    mine, right = _told_apart(doubles(yours)[index], doubles(expected)[index])
    text = (
        f"{shown(difference.path, index)} is {mine}; it should be {right} "
        f"({_share(difference.wrong)})."
    )
    if not np.isnan(doubles(yours)[index]):
        return text
    return (
        f"{text} NaN comes from ∞ − ∞, ∞ / ∞, 0 / 0, 0 · ∞ or the logarithm of a negative number."
    )


def _values(difference: Difference, tolerance: float) -> str:
    yours, expected = _pair(difference)
    if difference.wrong is None:
        return f"{shown(difference.path)} is wrong."
    index = _first(difference.wrong)
    where = shown(difference.path, index)
    if not is_float(expected):
        mine, right_one = _apart(yours, expected, index)
        text = f"{where} is {mine}; it should be {right_one}"
        share = f" ({_share(difference.wrong)})" if expected.is_array else ""
        return f"{text}{share}. {meaning_of_flags(yours, expected)}".strip()
    value, right = doubles(yours), doubles(expected)
    mine, right_one = _told_apart(value[index], right[index])
    text = f"{where} is {mine}; it should be {right_one} ({_share(difference.wrong)})."
    return f"{text} {meaning_of_numbers(value, right, tolerance)}".strip()


_STAGES = {
    "names": _names,
    "type": _type,
    "shape": _shape,
    "dtype": _dtype,
    "device": _device,
    "nan": _nan,
    "values": _values,
}


# --- Words ----------------------------------------------------------------------------------------


def _pair(difference: Difference) -> tuple[Leaf, Leaf]:
    assert difference.yours is not None and difference.expected is not None
    return difference.yours, difference.expected


def _first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


def _share(wrong: Array) -> str:
    if wrong.size == 1:
        return "the only entry"
    return f"{int(wrong.sum())} of {wrong.size} entries differ"


def _apart(yours: Leaf, expected: Leaf, index: tuple[int, ...]) -> tuple[str, str]:
    """Two values that differ; of long words the part from where they do."""
    texts = _number(yours, index), _number(expected, index)
    first = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), 0)
    cut = max(0, first - BEFORE) if max(map(len, texts)) > MAX_QUOTED else 0
    mine, right = (
        f"{'…' * bool(cut)}{text[cut : cut + MAX_QUOTED]}{'…' * (len(text) > cut + MAX_QUOTED)}"
        for text in texts
    )
    return mine, right


def _told_apart(yours: float, right: float) -> tuple[str, str]:
    """Two real numbers, with as many digits as show that they differ."""
    pairs = [(_real(yours, digits), _real(right, digits)) for digits in DIGITS]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])


def _real(value: float, digits: int) -> str:
    return "NaN" if np.isnan(value) else f"{value:.{digits}g}"


def _number(leaf: Leaf, index: tuple[int, ...]) -> str:
    value = np.asarray(leaf.value)[index]
    return f"{value:.5g}" if value.dtype.kind == "f" else repr(value.item())


def _a(kind: str) -> str:
    if kind in ("None", "bool", "int", "float", "str"):
        return {
            "None": "None",
            "bool": "a bool",
            "int": "an int",
            "float": "a float",
            "str": "a str",
        }[kind]
    return kind if kind.startswith(("a ", "an ", "something")) else f"a {kind}"
