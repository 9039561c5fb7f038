"""What only a newer Python can read: told from a line at which this one has stopped.

A line is recognized only if no Python before the one that is named could read it, whatever stands around it.
"""

from __future__ import annotations

import platform
import re
import sys

STRING = re.compile(r"(?P<kind>\b[A-Za-z]{1,2})?(?P<quote>'''|\"\"\"|'|\")|#")
PARAMETERS = r"(?:(?:async\s+)?def|class)\s+\w+\s*\["
CLASS = r"[A-Z]\w*"  # in `except ValueError, e:` somebody means what Python 2 did
# By the version that brought them: what a line begins with, its strings left out.
BEGINNINGS = {
    (3, 14): re.compile(rf"except\s+{CLASS}(?:\s*,\s*{CLASS})+\s*:"),
    (3, 13): re.compile(PARAMETERS + r"[^\]=]*[^\]=!<>:]=[^=].*\]\s*[(:]"),
    (3, 12): re.compile(PARAMETERS + r".*\]\s*[(:]|type\s+[^\W\d]\w*\s*(?:\[.*\]\s*)?=(?!=)"),
}


def needs_newer(line: str) -> str:
    """Return a sentence if a line is syntax that only a newer Python than this one has, and else nothing."""
    version = _version(line.strip())
    if version is None or version <= sys.version_info[:2]:
        return ""
    this = platform.python_version()
    return f"This line is Python {version[0]}.{version[1]} syntax, and the file was read by Python {this}."


def _version(line: str) -> tuple[int, int] | None:
    plain, at, version = "", 0, None
    while opening := STRING.search(line, at):
        if opening["quote"] is None:  # a comment
            break
        kind = (opening["kind"] or "").lower()
        if "t" in kind:
            version = (3, 14)
        end, reused = _string(line, opening.end(), opening["quote"], "f" in kind)
        if reused:
            version = max(version or (3, 12), (3, 12))
        plain += line[at : opening.start()] + "''"
        if end is None:  # it goes on in the next line
            return None
        at = end
    plain += line[at : opening.start() if opening else None]
    return next((candidate for candidate, how in BEGINNINGS.items() if how.match(plain)), version)


def _string(line: str, at: int, quote: str, formatted: bool) -> tuple[int | None, bool]:
    """Where a string ends, and whether its braces hold its own quote or a backslash, as they can since 3.12.

    Args:
        line: the line that it is in.
        at: where its text begins.
        quote: what it is delimited by.
        formatted: whether its braces hold code.
    """
    depth, reused = 0, False
    while at < len(line):
        if not depth and line.startswith(quote, at):
            return at + len(quote), reused
        if depth and (inner := STRING.match(line, at)) and inner["quote"]:
            kind = (inner["kind"] or "").lower()
            end, again = _string(line, inner.end(), inner["quote"], "f" in kind)
            if end is None:
                return None, False
            reused = reused or again or inner["quote"][0] == quote or "\\" in line[at:end]
            at = end
            continue
        if depth:
            reused = reused or line[at] == "\\"
            depth += (line[at] in "([{") - (line[at] in ")]}")
        elif line[at] == "\\" or (formatted and line[at : at + 2] in ("{{", "}}")):
            at += 1
        elif formatted and line[at] == "{":
            depth = 1
        at += 1
    return None, False
