"""Which day's file a name means, though it is not quite the name; and which it is nearest to."""

from __future__ import annotations

import difflib
import fnmatch
import re
import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from course.checks.answer_files import ENDINGS
from course.curriculum import BY_NUMBER, DAYS, Day

ANSWERS = {day.stem + ending for day in DAYS for ending in ENDINGS}

# What programs add to a name that is taken already, in English, German, French and Spanish: browsers,
# Windows, Macs, GNOME and Jupyter behind it, Google Drive before it.
COPY = re.compile(
    r"^(?:copy of|kopie von|copie de|copia de) "
    r"| *\((?:[0-9]{1,3}|(?:copy|kopie|copie|copia)(?: [0-9]{1,3})?)\)$"
    r"|(?: - |[ -])(?:copy|kopie|copie|copia) *[0-9]{0,3}$"
)
# Behind the ending a mail program or browser may have put another one.
DISGUISE = re.compile(r"(?<=\.py)\.txt$|(?<=\.ipynb)\.(?:txt|json)$")
NUMBERED = re.compile(r"(?<![^\W\d_])day_?0*([1-9][0-9]?)(?=_|$)")
ANOTHER = re.compile(r"_[0-9]{1,2}(?=_|$)")  # number right behind a day's: `day1_2` may be two days
# Words beside a day's name that say which version a file is, or whose by a number; and that it is none.
VERSION = re.compile(
    r"v?[0-9]{1,3}|[a-z]{0,2}[0-9]{4,}|v|version|final|last|new|neu|fixed|corrected|submission|abgabe"
)
OLD = {"old", "alt", "backup", "bak", "draft", "wrong"}
TESTS = {"test", "tests"}
NEAR = 0.7  # of difflib's measure: below it names are less alike than two of the course's own
MAX_NAME_LENGTH = 200  # characters of a name that may mean anything


class Reading(NamedTuple):
    """What a name means.

    Attributes:
        name: the day's file.
        beside: what the name has beside the day's: 0 nothing but what a copy has; 1 a number or words for a
            version; 2 other words, such as a learner's name; 3 words that say that the file is old.
    """

    name: str
    beside: int = 0


def meaning(name: str, renames: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """The day's file that a name means: `day02_attention.py` for `Day2-attention (1).PY`; see `reading`."""
    result = reading(name, renames)
    return result.name if result else None


def reading(name: str, renames: Mapping[str, str] = MappingProxyType({})) -> Reading | None:
    """What a name means, where exactly one day fits.

    It must have the number of one day. What stands before and behind that day's name may be anything but the
    topic of another day or a second number. What does not say its number means nothing: `attention.py`
    may be of two days.

    Args:
        name: of a file.
        renames: names, or patterns such as `hw2*.py`, of which an instructor has said what they mean.
    """
    if name in ANSWERS:
        return Reading(name)
    for pattern, means in renames.items():
        if matches(name, pattern):
            return Reading(means)
    if len(name) > MAX_NAME_LENGTH:
        return None
    plain = DISGUISE.sub("", name.lower().strip())
    ending = next((ending for ending in ENDINGS if plain.endswith(ending)), None)
    recognized = _day(plain.removesuffix(ending)) if ending else None
    return Reading(recognized[0].stem + ending, recognized[1]) if recognized and ending else None


def matches(name: str, pattern: str) -> bool:
    """Whether a line of an instructor's map is about this name."""
    name, pattern = composed(name), composed(pattern)
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def composed(name: str) -> str:
    """The name with each accented letter as one character, of which a Mac may make two."""
    return unicodedata.normalize("NFC", name)


def _day(stem: str) -> tuple[Day, int] | None:
    """The day of a name without its ending, and what else stands in it, as in a `Reading`."""
    shorter = COPY.sub("", stem)
    while shorter != stem:  # a copy of a copy
        stem, shorter = shorter, COPY.sub("", shorter)
    plain = re.sub(r"[\W_]+", "_", stem).strip("_")
    numbers = list(NUMBERED.finditer(plain))
    if len(numbers) != 1 or int(numbers[0][1]) not in BY_NUMBER:
        return None
    day = BY_NUMBER[int(numbers[0][1])]
    rest = f"_{plain[: numbers[0].start()]}_{plain[numbers[0].end() :]}_"
    named = f"_{day.topic}_" in rest
    rest = rest.replace(f"_{day.topic}_", "_", 1)
    words = [word for word in rest.split("_") if word]
    doubtful = not named and any(
        f"_{other.topic}_" in rest for other in DAYS if other.topic != day.topic
    )
    if doubtful or TESTS.intersection(words) or ANOTHER.match(plain, numbers[0].end()):
        return None
    if OLD.intersection(words):
        return day, 3
    return day, (1 if all(map(VERSION.fullmatch, words)) else 2) if words else 0


def nearest(name: str, days: Iterable[Day]) -> str | None:
    """The file of these days whose name is most like this one; None if none is."""
    plain = name.lower()[:MAX_NAME_LENGTH]
    stem = plain.rpartition(".")[0] or plain
    stems: dict[str, str] = {}
    for day in days:
        stems.setdefault(day.topic, day.stem)
        stems[day.stem] = day.stem
    closest = difflib.get_close_matches(stem, stems, n=1, cutoff=NEAR)
    ending = ".ipynb" if plain.endswith(".ipynb") else ".py"
    return stems[closest[0]] + ending if closest else None
