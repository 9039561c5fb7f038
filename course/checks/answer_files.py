"""An answer to a day: find its file, read it, and build a module from it."""

from __future__ import annotations

import ast
import codecs
import contextlib
import io
import json
import re
import sys
import tokenize
from pathlib import Path
from types import ModuleType

from course.curriculum import ANSWER_TAG, Day
from course.references.modules import execute

ENDINGS = (".py", ".ipynb")
MAX_FILE_BYTES = 2_000_000  # bytes; of a notebook without its outputs
MAX_NOTEBOOK_BYTES = 30_000_000  # bytes with its outputs, which may be plots
# What a file may declare, by its codec's name. Of the others some are slow, and some decode no text.
DECLARED = re.compile(
    r"ascii|iso8859-[0-9]+|cp[0-9]+|mac-[a-z]+|koi8-.|gb[0-9k]+|big5|shift_jis|euc_.."
)


class Unreadable(Exception):
    """A file that cannot be read as Python source, with the reason in the learner's words."""


def find_answer(day: Day, folder: Path) -> Path | None:
    """Return the day's file in a folder of answers: a Python file, or else a solution notebook."""
    for ending in ENDINGS:
        path = folder / f"{day.stem}{ending}"
        try:
            if path.is_file():
                return path
        except OSError:  # reading it will raise the error that tells why
            return path
    return None


def read_answer(path: Path) -> str:
    """Return the Python source of an answer; for a notebook, its tagged cells.

    Raises:
        Unreadable: the file is not text, not a notebook, too large, or missing.
    """
    try:
        most = largest(path.name)
        if path.stat().st_size > most:
            raise Unreadable(
                f"{path.name} is larger than {most // 10**6} MB: is it the right file?"
            )
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read: {error.strerror or error}.") from error
    return source_in(data, path.name)


def largest(name: str) -> int:
    """Return the maximum size of a file of this name, in bytes."""
    return MAX_NOTEBOOK_BYTES if name.lower().endswith(".ipynb") else MAX_FILE_BYTES


def without_outputs(data: bytes) -> bytes:
    """Remove outputs and pasted pictures from a notebook. Other data, and a notebook that is too large,
    do not change."""
    if len(data) > MAX_NOTEBOOK_BYTES:
        return data
    try:
        notebook = json.loads(decoded(data, ".ipynb"))
        for cell in notebook["cells"]:
            cell.pop("attachments", None)
            if "outputs" in cell:
                cell["outputs"] = []
        return json.dumps(notebook, ensure_ascii=False).encode()
    except (Unreadable, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data


def decoded(data: bytes, name: str) -> str:
    """The text in a file's bytes: UTF-8, UTF-16 with its mark, or of Python what it declares (PEP 263).

    Raises:
        Unreadable: it is none of these.
    """
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif not name.endswith(".ipynb"):
        with contextlib.suppress(SyntaxError, LookupError):  # none is declared that is known
            declared = codecs.lookup(tokenize.detect_encoding(io.BytesIO(data).readline)[0]).name
            encoding = declared if DECLARED.fullmatch(declared) else encoding
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        what = encoding.removesuffix("-sig").upper()
        raise Unreadable(
            f"{name} is not {what}: byte {error.start} cannot be read. Save it with the encoding UTF-8."
        ) from error


def source_in(data: bytes, name: str) -> str:
    """Do the same for a file's bytes, given its name.

    Raises:
        Unreadable: the data are not text, not a notebook, or too much code.
    """
    text = decoded(data, name)
    if "\0" in text:
        raise Unreadable(
            f"{name} holds a NUL character: it is not a text file. Save it with the encoding UTF-8."
        )
    source = _tagged_cells(text, name) if name.endswith(".ipynb") else text
    if len(source) > MAX_FILE_BYTES:
        most = MAX_FILE_BYTES // 10**6
        raise Unreadable(f"{name} holds more than {most} MB of code: is it the right file?")
    if not source.strip():
        raise Unreadable(f"{name} is empty. `course reset` restores the stub.")
    return source


def _tagged_cells(text: str, name: str) -> str:
    try:
        cells = json.loads(text)["cells"]
        tagged = [
            "".join(cell["source"])
            for cell in cells
            if cell["cell_type"] == "code" and ANSWER_TAG in cell["metadata"].get("tags", [])
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{name} is not a notebook that can be read.") from error
    return "\n\n\n".join(tagged) + "\n"


def build_answer(name: str, source: str) -> ModuleType:
    """Build the module of an answer. Exceptions of its top level propagate.

    Code that runs as a file also runs here: dataclasses, pickle and `inspect` find the module by
    its name.
    """
    module = ModuleType("answer")
    module.__file__ = name
    sys.modules["answer"] = module
    try:
        execute(module, source)
    finally:
        sys.modules["answer"] = module  # it may have loaded another, of an earlier day
    return module


def begun(source: str, stub: str, exercises: tuple[str, ...]) -> list[str]:
    """Return the exercises whose definition differs from the stub's, apart from comments and blank
    lines."""
    theirs, ours = _definitions(source), _definitions(stub)
    return [name for name in exercises if theirs.get(name) != ours.get(name)]


def _definitions(source: str) -> dict[str, str]:
    return {
        node.name: ast.dump(node)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
