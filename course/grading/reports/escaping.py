"""Text from learners made harmless: for people, spreadsheets and file systems.

HTML and XML are escaped by what writes them. What no writer does is here: characters that steer a
terminal or turn a line's order round, cells that a spreadsheet would take for formulas, names that
are no file names.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from urllib.parse import quote

# Controls but tab and newline, marks and overrides of direction, invisible separators, lone
# surrogates, tags, and what XML forbids. The two joiners stay: Persian and Indic words need them.
STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
FORMULA = "=+-@"  # how a formula begins; tabs and returns, which may too, are written out before
MAX_CHARACTERS = 1000  # of a message; all of it is in results/
FILE_NAME = 200  # bytes, all ASCII: with any ending it stays below the 255 of most file systems


def visible(text: str) -> str:
    """The text with the characters that are not seen but steer written out, as in `\\x1b`."""
    return STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """A name or another text that has its place in a line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def shortened(text: str, most: int = MAX_CHARACTERS) -> str:
    """The beginning of a text that may be of any length."""
    more = len(text) - most
    return text if more <= 0 else f"{text[:most]}\n… and {more} characters more"


def cell(text: str) -> str:
    """Text for a cell of a spreadsheet, which takes it for text.

    Where `;` parts cells, as it does in half of Europe, each piece may become one. A formula may begin
    with a full-width or small twin of its sign as well.
    """
    return ";".join(map(_no_formula, one_line(text).split(";")))


def _no_formula(piece: str) -> str:
    first = unicodedata.normalize("NFKC", piece.lstrip()[:1])
    return f"'{piece}" if first and first in FORMULA else piece


def file_name(learner: str) -> str:
    """The learner's name as a file name, to which an ending is still to be appended.

    All but ASCII letters, digits, `.`, `_` and `-` is percent-encoded as UTF-8. No two names share
    a file name: one that is cut always has `FILE_NAME` bytes, one that is not has fewer. Some disks take
    `Ada` and `ada` for one file, so a name with capitals ends in `~` and a digest.
    """
    try:
        data = learner.encode("utf-8", "surrogateescape")  # as the file system had it
    except UnicodeEncodeError:
        data = learner.encode("utf-8", "surrogatepass")
    name, digest = quote(data, safe="").replace("~", "%7E"), hashlib.sha256(data).hexdigest()
    if data != data.lower():
        name += f"~{digest[:16]}"
    if len(name) < FILE_NAME:
        return name
    head = re.sub(r"%.?$", "", name[: FILE_NAME - 50])
    return f"{head}-{digest}"[:FILE_NAME]
