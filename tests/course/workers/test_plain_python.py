"""Whatever Python runs as a plain file runs as an answer too; what it cannot be is told in a sentence."""

import pytest

RIGHT = """
{before}
import numpy as np

def softmax(x, axis=-1):
    {inside}
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)

def log_softmax(x, axis=-1):
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
{after}
"""

PLAIN = {
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 1",
        "assert C().a == 1",
    ),
    "dataclass with annotations from the future": (
        "from __future__ import annotations\nfrom dataclasses import dataclass, fields\n"
        "from typing import ClassVar\n@dataclass\nclass C:\n    n: ClassVar[int] = 2\n    a: int = 1",
        "assert [f.name for f in fields(C)] == ['a']",
    ),
    "enum": ("import enum\nclass E(enum.Enum):\n    A = enum.auto()", "assert E.A.name == 'A'"),
    "NamedTuple": (
        "from typing import NamedTuple\nclass N(NamedTuple):\n    a: int",
        "assert N(1).a == 1",
    ),
    "Protocol": (
        "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass P(Protocol):\n"
        "    def f(self): ...\nclass Q:\n    def f(self): ...",
        "assert isinstance(Q(), P)",
    ),
    "pickle": (
        "import pickle\nclass C:\n    pass",
        "assert type(pickle.loads(pickle.dumps(C()))) is C",
    ),
    "getsource": ("import inspect\nclass C:\n    pass", "assert 'class C' in inspect.getsource(C)"),
    "type hints": (
        "import typing\nclass C:\n    a: 'C | None'",
        "assert typing.get_type_hints(C)['a'] == C | None",
    ),
    "annotations are evaluated": ("def f(x: 1 + 1): ...", "assert f.__annotations__ == {'x': 2}"),
    "annotations from the future": (
        "from __future__ import annotations\ndef f(x: nowhere): ...",
        "assert f.__annotations__ == {'x': 'nowhere'}",
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_python(check, name):
    """A right answer that uses this passes."""
    before, inside = PLAIN[name]
    day = check(1, RIGHT.format(before=before, inside=inside, after=""))
    assert day.status == "passed", day.checks[0].message


def test_a_main_guard_is_not_run(check):
    """What a file does as a program it does not do here."""
    after = "if __name__ == '__main__':\n    raise SystemExit('run')"
    assert check(1, RIGHT.format(before="", inside="pass", after=after)).status == "passed"


@pytest.mark.parametrize("line", ["import my_helper", "from .my_helper import power"])
def test_a_file_beside_it(check, tmp_path, line):
    """It cannot be imported, and the message says that an answer is a single file."""
    (tmp_path / "my_helper.py").write_text("power = 2", encoding="utf-8")
    day = check(1, RIGHT.format(before=line, inside="pass", after=""))
    assert day.status == "error"
    assert "Your answer to a day is a single file" in day.checks[0].message
