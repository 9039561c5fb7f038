"""What can be told of an answer without running it: shortcuts that it takes, and what it resembles.

This runs behind the walls, before anything of the learner's has run there: to parse a file is already
to let its author choose what a parser does.
"""

from __future__ import annotations

import ast
import hashlib
import io
import keyword
import token
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from course.checks.answers import Unreadable, read_answer

NUMPY_DAYS = range(1, 8)
EVERY_DAY = range(1, 41)

# What does the exercise's work, by the days on which it does. For review: it costs no points.
SHORTCUTS: dict[str, Iterable[int]] = {
    "torch": NUMPY_DAYS,
    "scipy": NUMPY_DAYS,
    "torch.nn.MultiheadAttention": range(8, 15),
    "torch.nn.functional.multi_head_attention_forward": range(8, 15),
    "torch.nn.functional.scaled_dot_product_attention": (8, *range(10, 15)),
    "torch.nn.Transformer": EVERY_DAY,
    "torch.nn.TransformerEncoder": EVERY_DAY,
    "torch.nn.TransformerEncoderLayer": EVERY_DAY,
    "torch.nn.TransformerDecoder": EVERY_DAY,
    "torch.nn.TransformerDecoderLayer": EVERY_DAY,
    "torch.nn.LayerNorm": range(11, 15),
    "torch.nn.functional.layer_norm": range(11, 15),
    "torch.layer_norm": range(11, 15),
    "torch.native_layer_norm": range(11, 15),
    "torch.nn.CrossEntropyLoss": (16,),
    "torch.nn.functional.cross_entropy": (16,),
    "tokenizers": EVERY_DAY,
    "sentencepiece": EVERY_DAY,
    "tiktoken": EVERY_DAY,
    "transformers": EVERY_DAY,
    "sacrebleu": EVERY_DAY,
    "nltk": EVERY_DAY,
}

# What no answer needs, and who would fool the checks does.
TAMPERING = """
    builtins course ctypes gc inspect multiprocessing pickle pytest signal socket subprocess unittest
    importlib.reload os._exit os.abort os.environ os.execv os.fork os.kill os.listdir os.open os.read
    os.scandir os.system os.walk os.write sys._getframe sys.addaudithook sys.exit sys.meta_path
    sys.modules sys.setprofile sys.settrace threading.Thread __import__ compile eval exec open
"""

TOKENS = 10  # in a row that are compared
WINDOW = 6  # of such rows, one is kept


def serve(request: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    """Look through files, and send what was found in each."""
    for name, (number, path) in request["analyse"].items():
        try:
            source = read_answer(Path(path))
            found = sorted(set(shortcuts(source, number)))
            send({"file": name, "shortcuts": found, "fingerprints": fingerprints(source)})
        except (
            Unreadable,
            SyntaxError,
            ValueError,
            RecursionError,
            MemoryError,
            tokenize.TokenError,
        ):
            send({"file": name, "shortcuts": [], "fingerprints": []})


# --- Shortcuts ------------------------------------------------------------------------------------


def shortcuts(source: str, day: int) -> Iterator[tuple[int, str]]:
    """The lines on which an answer uses what does the exercise's work, or what could fool a check."""
    tree = ast.parse(source)
    meant = dict(_imported(tree))
    forbidden = {name for name, days in SHORTCUTS.items() if day in days} | set(TAMPERING.split())
    for line, name in _uses(tree, meant):
        parts = name.split(".")
        if any(".".join(parts[:end]) in forbidden for end in range(1, len(parts) + 1)):
            yield line, name


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What each name that an import binds stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"


def _uses(tree: ast.AST, meant: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Every dotted name that is imported or used, by what it stands for."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module or ''}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            yield node.lineno, _dotted(node, meant)


def _dotted(node: ast.expr, meant: dict[str, str]) -> str:
    """`F.softmax` as `torch.nn.functional.softmax`; nothing for what hangs on no name."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([meant.get(node.id, node.id), *reversed(attributes)])


# --- Resemblance ----------------------------------------------------------------------------------


def fingerprints(source: str) -> list[int]:
    """Hashes that two files share where they have a stretch of code in common, names aside.

    Winnowing (Schleimer, Wilkerson and Aiken 2003, section 3): of every `WINDOW` neighbouring rows of
    `TOKENS` tokens the least hash is kept, so that a common stretch of `TOKENS + WINDOW - 1` tokens
    always shows.
    """
    tokens = list(_tokens(source))
    rows = [" ".join(tokens[i : i + TOKENS]) for i in range(len(tokens) - TOKENS + 1)]
    hashes = [int.from_bytes(hashlib.sha256(row.encode()).digest()[:6]) for row in rows]
    windows = (hashes[i : i + WINDOW] for i in range(max(1, len(hashes) - WINDOW + 1)))
    return sorted({min(window) for window in windows if window})


def _tokens(source: str) -> Iterator[str]:
    """Code as its author's words do not change it: names alike, no comments, strings or layout."""
    after_dot = False
    for one in tokenize.generate_tokens(io.StringIO(source).readline):
        if one.type == token.NAME:
            # An attribute is a library's name; any other may be renamed without thought.
            yield one.string if keyword.iskeyword(one.string) or after_dot else "name"
        elif one.type == token.NUMBER:
            yield "number"
        elif one.type == token.OP:
            yield one.string
        after_dot = one.string == "."
