"""Which day's file a name means, though it is not quite the name; and which it is nearest to."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from course.checks.answer_files import ENDINGS
from course.curriculum import BY_NUMBER, DAYS, Day

ANSWERS = {day.stem + ending for day in DAYS for ending in ENDINGS}

# What programs append to a name that is taken already: browsers, Windows, Macs, Jupyter; and Google
# Drive puts before it. Behind the ending a mail program or browser may have put another one.
COPY = re.compile(r"^copy of | *\([0-9]{1,3}\)$|(?: - |[ -])copy *[0-9]{0,3}$")
DISGUISE = re.compile(r"(?<=\.py)\.txt$|(?<=\.ipynb)\.(?:txt|json)$")
NUMBERED = re.compile(r"day_?0*([1-9][0-9]?)(?:_(.+))?")
NEAR = 0.7  # of difflib's measure: below it names are less alike than two of the course's own
LONGEST = 200  # characters of a name that may mean anything


def meaning(name: str, renames: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """The day's file that a name means: `day02_attention.py` for `Day2-attention (1).PY`.

    The number must be a day's, and the topic that day's own, or left out. What does not say its number
    means nothing: `attention.py` may be of two days.

    Args:
        name: of a file.
        renames: names of which an instructor has said what they mean.
    """
    if name in ANSWERS:
        return name
    if name in renames:
        return renames[name]
    if len(name) > LONGEST:
        return None
    plain = DISGUISE.sub("", name.lower().strip())
    ending = next((ending for ending in ENDINGS if plain.endswith(ending)), None)
    if ending is None:
        return None
    day = _day(plain.removesuffix(ending))
    return day.stem + ending if day else None


def _day(stem: str) -> Day | None:
    shorter = COPY.sub("", stem)
    while shorter != stem:  # a copy of a copy
        stem, shorter = shorter, COPY.sub("", shorter)
    found = NUMBERED.fullmatch(re.sub(r"[-_\s]+", "_", stem).strip("_"))
    if found is None or int(found[1]) not in BY_NUMBER:
        return None
    day = BY_NUMBER[int(found[1])]
    return day if found[2] in (None, day.topic) else None


def nearest(name: str, days: Iterable[Day]) -> str | None:
    """The file of these days whose name is most like this one; None if none is."""
    plain = name.lower()[:LONGEST]
    stem = plain.rpartition(".")[0] or plain
    stems: dict[str, str] = {}
    for day in days:
        stems.setdefault(day.topic, day.stem)
        stems[day.stem] = day.stem
    closest = difflib.get_close_matches(stem, stems, n=1, cutoff=NEAR)
    ending = ".ipynb" if plain.endswith(".ipynb") else ".py"
    return stems[closest[0]] + ending if closest else None
