"""What is told of an answer without running it."""

import _thread
import ast
import asyncio
import json
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from course.checks.answer_files import read_answer
from course.curriculum import DAYS, ROOT
from course.grading.analysis import TAMPERING, fingerprints, gather, serve, shortcuts
from course.grading.submission.notebooks import as_answer, untagged_cells
from course.workers.tracing import OUT_OF_SIGHT, tracing_calls

READY = [day for day in DAYS if day.ready]


def found(source, day=8):
    return sorted(set(shortcuts(textwrap.dedent(source), day)))


FUNCTIONAL, MODULES = "torch.nn.functional", "torch.nn.modules.activation"
USES = [
    ("import torch\ntorch.nn.MultiheadAttention(8, 2)", 2, "torch.nn.MultiheadAttention"),
    ("from torch import nn\nnn.MultiheadAttention", 2, "torch.nn.MultiheadAttention"),
    (f"import {FUNCTIONAL} as F\n\nF.layer_norm(x)", 3, f"{FUNCTIONAL}.layer_norm"),
    (f"from {FUNCTIONAL} import layer_norm as ln", 1, f"{FUNCTIONAL}.layer_norm"),
    (f"from {FUNCTIONAL} import *", 1, f"{FUNCTIONAL}.*"),
    (f"from {MODULES} import MultiheadAttention", 1, f"{MODULES}.MultiheadAttention"),
    (f"import {FUNCTIONAL} as F\ngetattr(F, 'lin' + 'ear')", 2, f"{FUNCTIONAL}.getattr(…)"),
    ("import torch\ngetattr(torch.nn, 'Transformer')", 2, "torch.nn.Transformer"),
    ("from torch import nn\nx = nn\nx.Transformer()", 3, "x.Transformer"),
    ("from torch import nn\n[nn][0].Transformer()", 2, ".Transformer"),
    (
        "from torch.optim import Optimizer as O\nO.__subclasses__()",
        2,
        "torch.optim.Optimizer.__subclasses__",
    ),
    ("import torch\nvars(torch.nn)['x']", 2, "torch.nn as a value"),
    ("import torch\ndef f(o):\n    return o.__dict__['x']\nf(torch.optim)", 4, "torch.optim"),
    ("import torch\nreach = getattr\nreach(torch, 'x')", 2, "getattr as a value"),
    ("import torch\nreduce(getattr, names, torch)", 2, "torch as a value"),
    ("getattr(f, '__glo' + 'bals__')", 1, "f.getattr(…)"),
    ("globals()['__builtins__']", 1, "globals"),
    ("vars()['__builtins__']", 1, "globals"),
    ("len.__self__.eval", 1, "len.__self__"),
    ("frame = error.__traceback__.tb_frame", 1, "error.__traceback__"),
    ("import queue", 1, "queue"),
    ("import contextlib\ncontextlib.sys.modules", 2, "contextlib.sys"),
    ("import sys as s\ndef f():\n    import math as s\ns.modules", 4, "sys.modules"),
    ("import implementation\nimplementation.torch", 2, "implementation.torch"),
    ("from torch.utils._mode_utils import no_dispatch", 1, "torch.utils._mode_utils"),
    ("import string\nstring.Formatter()", 2, "string.Formatter"),
    ("import torch\ntorch.load(x, weights_only=False)", 2, "torch.load"),
    ("import numpy as np\nnp.testing.runstring('x', {})", 2, "numpy.testing"),
    ("import torch\ntorch.UntypedStorage.nbytes = f", 2, "torch.UntypedStorage.nbytes replaced"),
    ("import torch\nsetattr(torch.Tensor, 'numel', f)", 2, "torch.Tensor.numel replaced"),
    ("type(x).numel = f", 1, ".numel replaced"),
    ("output.__dict__['detach'] = f", 1, ".detach replaced"),
    ("from torch import Tensor\nclass Late(Tensor): pass", 2, "torch.Tensor as a base"),
    ("import torch\ntorch.nn.__dict__", 2, "torch.nn.__dict__"),
    (
        "import torch\nmatch torch.nn:\n    case object(Transformer=x):\n        x()",
        3,
        ".Transformer",
    ),
    ("from operator import attrgetter", 1, "operator.attrgetter"),
    ("import marshal", 1, "marshal"),
    ("import types\ntypes.FunctionType(code, {})", 2, "types.FunctionType"),
    ("f = g.__wrapped__", 1, "g.__wrapped__"),
    ("import torch.utils._python_dispatch", 1, "torch.utils._python_dispatch"),
    ("import sys as s\ns._getframe(1).f_locals", 2, "sys._getframe"),
    ("import gc", 1, "gc"),
    ("from os import _exit", 1, "os._exit"),
    ("def f():\n    exec('x')", 2, "exec"),
    ("import course.judge", 1, "course.judge"),
    ("import sys\nsys.path.append(sys.base_prefix)", 2, "sys.path"),
    ("from importlib import import_module as m", 1, "importlib.import_module"),
    ("from concurrent.futures import ThreadPoolExecutor", 1, "concurrent.futures"),
]


@pytest.mark.parametrize(
    "source",
    [
        "class A(nn.Module):\n    def f(self):\n        return vars(self), self.__dict__",
        "class A(nn.Module):\n    def f(self, name):\n        return getattr(self, f'w_{name}')",
        "class A(nn.Module):\n    def __init__(self):\n        self.__dict__.update(locals())",
        "gc, signal, inspect = x.split(3)\ny = gc @ signal.mT + inspect",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "getattr(F, 'gelu')\nhasattr(torch.backends, 'mps')",
        "import sys, unittest\nx = sys.float_info.max\nunittest.main()",
        "from types import SimpleNamespace\nmatch x:\n    case SimpleNamespace(a=1): pass",
        "def f(x: torch.Tensor): return x.weight.data, x.stats.load, torch.trace(x)",
        "stats = {'detach': 1}\nstats['size'] = 2",
    ],
)
def test_what_honest_answers_do_is_no_shortcut(source):
    """Their own attributes and variables, whatever these are called, and the usual settings."""
    assert not found(
        f"import torch\nfrom torch import nn\nimport torch.nn.functional as F\n{source}", 33
    )


@pytest.mark.parametrize("day", [31, 33, 34, 43, 44])
def test_what_no_check_of_operations_or_memory_sees(day):
    """Work in NumPy is no operation of torch."""
    assert found("x.numpy()", day) == [(1, "x.numpy")]
    assert found("x.numpy()", 8) == []


@pytest.mark.parametrize(("source", "line", "name"), USES)
def test_shortcuts_and_tampering(source, line, name):
    """Each is found by what it stands for, whatever it is called, and on its line."""
    assert any(at == line and used.startswith(name) for at, used in found(source, 11))


READY_MADE = {
    3: ["torch.exp"],
    7: ["onnx.reference.ReferenceEvaluator", "jax.grad"],
    8: ["torch.jit.script", "torch.overrides.TorchFunctionMode", "torch._C.DisableTorchFunction"],
    11: [
        "torch.nn.LayerNorm",
        "torch.nn.functional.group_norm",
        "torch.nn.GroupNorm",
        "torch.nn.functional.batch_norm",
    ],
    23: ["torch.nn.MultiheadAttention"],
    28: [f"torch.nn.functional.{name}" for name in ("rms_norm", "group_norm", "gelu", "mish")]
    + [f"torch.nn.{name}" for name in ("RMSNorm", "GroupNorm", "GELU", "Mish")],
    31: ["torch.nn.functional.scaled_dot_product_attention"],
    33: ["torch.utils.checkpoint.checkpoint", "torch.nn.attention.flex_attention.flex_attention"],
    38: [
        "torch.nn.utils.clip_grad_norm_",
        "torch.utils.checkpoint.checkpoint",
        "torch.amp.GradScaler",
    ],
    39: ["torch.distributed.all_reduce"],
    40: ["torch.quantize_per_tensor", "torch.ao.quantization.quantize_dynamic"],
}


@pytest.mark.parametrize(
    ("day", "name"), [(day, name) for day, names in READY_MADE.items() for name in names]
)
def test_what_is_ready_made_is_listed(day, name):
    """Each is named on the day whose exercise it is."""
    top = name.partition(".")[0]
    assert any(shortcut == name for _, shortcut in found(f"import {top}\n{name}()", day))


@pytest.mark.parametrize("day", READY, ids=lambda day: day.stem)
def test_right_answers(day):
    """The reference takes no shortcut, and an accepted answer none that fools a check."""
    assert found(read_answer(day.solution), day.number) == []
    accepted = list((ROOT / "tests/days/accepted" / day.stem).glob("*.py"))
    assert accepted
    for path in accepted:
        for _, name in found(read_answer(path), day.number):
            assert not any(f"{name}.".startswith(f"{way}.") for way in TAMPERING.split())


def test_fingerprints_see_through_new_names():
    """Other names, comments, numbers and layout change the first only; another order of work the others."""
    source = read_answer(DAYS[1].solution)
    renamed = source.replace("scores", "energies").replace("weights", "alphas") + "\n# mine\n"
    assert fingerprints(source)[1:] == fingerprints(renamed)[1:]
    assert (
        fingerprints(source)[0]
        == fingerprints(f"{source}\n# mine\n")[0]
        != fingerprints(renamed)[0]
    )
    assert fingerprints(source)[1:] != fingerprints(read_answer(DAYS[2].solution))[1:]


PLAIN = "def f(a):\n    b = a @ g(a.T)\n    return h(b)\n"


@pytest.mark.parametrize(
    "hidden",
    [
        "def f(a: 'x') -> 'y':\n    'It.'\n    b: int = a @ g(a.T)\n    c: int\n    return h(b)\n",
        "def f(a):\n    b = a @ g(a.T)\n    _ = len(a)\n    a\n    c = a\n    c += 1\n    return h(b)\n",
        "def f(a):\n    b = (a, 0)[0] @ [0, g][-1]((a if 1 else 0).T)\n    if 1:\n        return h(b)\n",
        "def i(x):\n    return x\ndef f(a):\n    b = i(a) @ g((lambda x: x)(a).T)\n    return h(b * 1)\n",
        "def f(a):\n    b = a @ g(a.T)\n    seen.append(b)\n    return h(b)\n",
    ],
    ids=["annotated", "without effect", "wrapped", "called", "effects"],
)
def test_fingerprints_see_through_what_does_nothing(hidden):
    """Nothing that only hides where code is from changes even the hash of all of it."""
    assert fingerprints(hidden) == fingerprints(PLAIN)


@pytest.mark.parametrize(
    "hidden",
    [
        "def f(a):\n    t = a.T\n    u = g(t)\n    b = a @ u\n    c = h(b)\n    return c\n",
        "import operator as o\ndef f(a):\n    return h(o.matmul(a, g(o.attrgetter('T')(a))))\n",
        "def f(a):\n    return h(a.matmul(g(a.T)))\n",
    ],
    ids=["one operation a line", "operators as functions", "as methods"],
)
def test_fingerprints_see_through_intermediate_variables(hidden):
    """How an expression is cut into lines, and how its operators are spelled, changes no fingerprint."""
    imports = hidden.partition("def")[0]
    assert fingerprints(hidden)[1:] == fingerprints(imports + PLAIN)[1:]


@pytest.mark.parametrize("other", ["return (0, h)[0](b.T)", "return -h(b)", "b = h(b)"])
def test_fingerprints_keep_what_does_something(other):
    """Another attribute, operator or statement is other code."""
    assert fingerprints(PLAIN) != fingerprints(PLAIN.replace("return h(b)", other))


def test_a_common_stretch_always_shows():
    """Two files with fifteen tokens in a row in common share a fingerprint, whatever stands around."""
    common = "total = left[i] + right[j] * factor(k)\n"
    first = fingerprints("import os\nos.getcwd()\n" + common + "for i in range(3): pass\n")
    other = fingerprints("class A: pass\n\n" + common + "while True: break\n")
    assert set(first[1:]) & set(other[1:])


def test_files_that_cannot_be_read(tmp_path):
    """Each file is answered for, those that are no Python, too."""
    sent = []
    texts = {"a.py": b"import gc\n", "b.py": b"def (", "c.py": b"\xff\xfe", "d.py": b"(" * 50_000}
    for name, data in texts.items():
        (tmp_path / name).write_bytes(data)
        serve({"analyze": [str(tmp_path / name), 8]}, sent.append)
    assert [message["shortcuts"] for message in sent] == [[(1, "gc")], [], [], []]
    assert [message["unseen"] for message in sent] == [False, False, False, False]


def test_what_python_reads_is_looked_through(tmp_path):
    """A carriage return alone ends a line for Python's parser: it hides neither shortcut nor copy."""
    solution = read_answer(DAYS[1].solution)
    odd = f"if True:\r  import gc\r\n{solution}\r# the end\r"
    compile(odd, "answer", "exec")
    (tmp_path / "a.py").write_bytes(odd.encode())
    (tmp_path / "deep.py").write_text(f"x = 1{' + 1' * 3000}\n{solution}")
    sent = []
    for name in ("a.py", "deep.py"):
        serve({"analyze": [str(tmp_path / name), 2]}, sent.append)
    assert sent[0]["shortcuts"] == [(2, "gc")]
    assert set(fingerprints(solution)[1:]) <= set(sent[0]["fingerprints"])
    assert [message["unseen"] for message in sent] == [False, True]


# --- Calls while an answer runs ---------------------------------------------------------------------


def in_a_bare_thread(call):
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(lambda: (call(), done.release()), ())
    assert done.acquire(timeout=60)


def in_a_timer(call):
    timer = threading.Timer(0, call)
    timer.start()
    timer.join()


def in_a_pool(call):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


def out_of_sight(call):
    def hidden():
        with torch._C.DisableTorchFunction():
            call()

    in_a_pool(hidden)


NORM = "torch.nn.functional.layer_norm"


@pytest.mark.parametrize(
    ("run", "called"),
    [
        (lambda call: call(), [NORM]),
        (in_a_bare_thread, [NORM]),
        (in_a_timer, [NORM]),
        (in_a_pool, [NORM]),
        (lambda call: asyncio.run(asyncio.to_thread(call)), [NORM]),
        (out_of_sight, [OUT_OF_SIGHT]),
    ],
)
def test_calls_are_traced_in_every_thread(run, called):
    """Whatever starts the thread, as long as the trace lasts; afterwards threads start as before."""
    before = _thread.start_new_thread, threading._start_new_thread
    with tracing_calls([NORM]) as trace:
        assert not hasattr(torch._C.DisableTorchFunction, "__wrapped__")  # the way around the trace
        run(lambda: torch.nn.functional.layer_norm(torch.ones(2, 4), (4,)))
        assert trace.so_far() == called
    assert (_thread.start_new_thread, threading._start_new_thread) == before


# --- Notebooks without tags -------------------------------------------------------------------------


def gathered(*cells, exercises=("f",)):
    """The source of an answer that is made of a notebook's cells, without a line between its pieces."""
    cells = [textwrap.dedent(cell).strip("\n") for cell in cells]
    notebook = json.loads(as_answer(cells, gather(cells, exercises)))
    return [cell["source"] for cell in notebook["cells"]]


DECORATED = ["import a", "@a.b\n\ndef f(): pass"]
BASES = ["class B: pass", "class f(B): pass", "class B: x = 1"]
BRANCHES = ["try:\n    import a\nexcept ImportError:\n    a = None", "def f(): return a"]
GROWING = ["K = 1", "K += 1", "def f(): return K"]
STARS = ["from numpy import *", "def f(): return pi"]
FUTURE = "from __future__ import annotations"
GATHERED = {
    "the last definition": (["def f(): return 1", "def f(): return 2"], ["def f(): return 2"]),
    "imports": (
        ["import os, sys\nimport math as m\nfrom a import b", "def f(): return m.pi + b"],
        ["import math as m", "from a import b", "def f(): return m.pi + b"],
    ),
    "helpers of helpers": (
        ["def h(): return g()", "def g(): return K", "K = 3\nL = 4", "def f(): return h()"],
        ["def h(): return g()", "def g(): return K", "K = 3", "def f(): return h()"],
    ),
    "no examples": (
        ["x = load()", "def f(x):\n    y = x\n    return y", "y = f(1)\nprint(y)\nassert y"],
        ["def f(x):\n    y = x\n    return y"],
    ),
    "names of its own": (["s = 1/0", "def f():\n    s = [s for s in 'ab']\n    return s"], None),
    "decorators": (DECORATED, DECORATED),
    "bases as they were": (BASES, BASES),
    "what grows": (GROWING, GROWING),
    "branches": (BRANCHES, BRANCHES),
    "assigned": (["g = len", "f = g"], ["g = len", "f = g"]),
    "stars": (STARS, STARS),
    "the future first": (
        ["import a", f"{FUTURE}\ndef f(x: a.B): pass"], [FUTURE, "import a", "def f(x: a.B): pass"],
    ),
    "magic": (
        ["%matplotlib inline\n!pip install x\nf?\nimport a", "%%time\ndef f(): return a"],
        ["import a", "def f(): return a"],
    ),
    "not magic": (["def f(a):\n    return ('%d'\n        % a)"], None),
    "cells of another kind": (["%%bash\nf=1", "def f(: pass", "%%html\ndef f(): pass"], []),
    "an import is no answer": (["from numpy_reference import f"], []),
    "used, not defined": (["f(1)", "def g(): return f"], []),
    "odd ends of lines": (["x = '\u2028\x0c'\ny = 1\ndef f(): return y"], ["y = 1", "def f(): return y"]),
}  # fmt: skip


@pytest.mark.parametrize(("cells", "expected"), GATHERED.values(), ids=GATHERED)
def test_gathering(cells, expected):
    """The definition that counts, and what it needs, as it stands in the notebook; nothing else."""
    assert gathered(*cells) == (cells[-1:] if expected is None else expected)


@pytest.mark.parametrize("day", READY, ids=lambda day: day.stem)
def test_gathering_a_solution(day):
    """From a worked solution whose tags are gone comes what defines all the day's exercises."""
    notebook = json.loads(day.solution.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["metadata"].pop("tags", None)
    cells = untagged_cells(json.dumps(notebook).encode())
    pieces = ast.parse("\n".join(gathered(*cells, exercises=day.exercises))).body
    tagged = {ast.dump(node) for node in ast.parse(read_answer(day.solution)).body}
    definitions = [node for node in pieces if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert {node.name for node in definitions} >= set(day.exercises)
    assert {ast.dump(node) for node in definitions} <= tagged


@pytest.mark.slow
def test_hostile_cells():
    """Whatever stands in cells is no reason to stop, nor to take forever (pytest's timeout)."""
    cells = ["(" * 50_000, "-" * 100_000 + "1", "\0", "\ud800", "x" * 10**6, "a = a\n" * 20_000]
    assert gather([*cells, "def f(): return a"], ["f"])


def test_gathering_is_served(tmp_path):
    """It is asked for by the cells, and answered by numbers alone."""
    sent = []
    serve({"gather": ["import a", "def f(): return a"], "exercises": ["f", "g"]}, sent.append)
    assert sent == [{"spans": [(0, 0, 1), (1, 0, 1)]}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {"cells": [{"cell_type": "code", "metadata": {}, "source": ["a\r\n", "b\rc"]}]},
            ["a\nb\nc"],
        ),
        ({"cells": [{"cell_type": "markdown", "metadata": {}, "source": "x"}]}, []),
        ({"cells": [{"cell_type": "code", "metadata": {"tags": ["answer"]}, "source": "x"}]}, None),
        ({"cells": [{"cell_type": "code", "metadata": [], "source": "x"}]}, None),
        ({"cells": [{"cell_type": "code", "metadata": {}, "source": 3}]}, None),
        ({"cells": 3}, None),
        ([], None),
    ],
)
def test_untagged_cells(content, expected):
    """The code of a notebook without tags; of one with tags, or that is none, nothing."""
    assert untagged_cells(json.dumps(content).encode()) == expected


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b'{"cells": ' + b"1" * 10**6])
def test_no_notebook(data):
    """What is no notebook is left to whoever reads answers."""
    assert untagged_cells(data) is None
