"""Which lines only a newer Python can read, and that nothing else is taken for one."""

import ast
import sys

import pytest

from course.judging import newer_syntax

NEWER = {
    'x = f"{d["a"]}"': (3, 12),
    "x = f'{x!r} {d['k']:>{w['k']}}'": (3, 12),
    'x = f"{f"{f"{1}"}"}"': (3, 12),
    "x = f\"{'\\n'.join(x)}\"": (3, 12),
    "type Rows = list[int]": (3, 12),
    "type Rows[T] = list[T]": (3, 12),
    "class A[T: int]: pass": (3, 12),
    "async def f[T, *Ts](x): pass": (3, 12),
    "def f[T = int](x: T) -> T: return x": (3, 13),
    "def f[T: (int, str) = int](x): pass": (3, 13),
    "except ValueError, TypeError:": (3, 14),
    'x = t"{a}"': (3, 14),
}
OTHERS = [
    *('print "a"', "except ValueError, e:", "def f(x", "def f[x, y=1):", "class A[T", "let's go"),
    *(
        'x = f"{d["a"]',
        'x = f"{{d["a"]}}" y',
        "x = f\"{d['a']}\" y",
        'x = "f"a""',
        'f"it\'s {x}" y',
    ),
    *('# f"{d["a"]}"', 'f"""{d["a"]}""" y', 's = f"{x}" + "{d["a"]}"', r'f"\{x}" y', r'rb"\{x" y'),
    *("type(x) = 3", "type = 3 3", "type == 3 3", "type x", 'x = rt "a"', 'f(x) y # t"x"', ""),
]


@pytest.mark.parametrize(("line", "version"), NEWER.items())
def test_newer_syntax(line, version, monkeypatch):
    """It is named where this Python is older, and this one indeed cannot read it."""
    monkeypatch.setattr(sys, "version_info", (3, 11, 7))
    assert f"is Python 3.{version[1]} syntax" in newer_syntax.needs_newer(line)
    monkeypatch.setattr(sys, "version_info", version)
    assert newer_syntax.needs_newer(line) == ""
    monkeypatch.undo()
    source = f"try: pass\n{line} pass" if line.startswith("except") else line
    if sys.version_info < version:
        with pytest.raises(SyntaxError):
            ast.parse(source)
    else:
        ast.parse(source)


@pytest.mark.parametrize("line", OTHERS)
def test_other_mistakes(line, monkeypatch):
    """A line that no Python reads, or each, is not said to need a newer one."""
    monkeypatch.setattr(sys, "version_info", (3, 11, 7))
    assert newer_syntax.needs_newer(line) == ""
