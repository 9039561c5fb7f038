"""Files that are no answers, and answers that change the ground they stand on."""

import json

import numpy as np

from course.checks.loading import load_checks
from course.checks.seeing import check_inputs, named_values
from course.curriculum import DAYS
from tests.course.hostile.kinds import (
    GRADED,
    Kind,
    before,
    in_one_check,
    instead,
    reaches,
    right,
)

EXITS = "import os\nos._exit(3)\n"


def notebook(**cell: object) -> str:
    """A notebook with one cell, tagged as an answer."""
    defaults = {"cell_type": "code", "metadata": {"tags": ["answer"]}, "source": ""}
    return json.dumps(
        {"cells": [defaults | cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    )


def remembered() -> dict[int, str]:
    """Day 2 with the right outputs for the public seed's inputs, and nothing else."""
    namespace: dict[str, object] = {}
    exec(right(2), namespace)
    table = {}
    for check in load_checks(DAYS[1]):
        for inputs in check_inputs(check, seed=0).values():
            if isinstance(inputs, dict):
                key = tuple(float(np.sum(value)) for _, value in named_values(inputs))
                table[key] = [part.tolist() for part in namespace["attention"](**inputs)]
    return instead(
        2,
        f"""
        table = {table}
        given = [query, key, value] if mask is None else [query, key, value, mask]
        known = table.get(tuple(float(np.sum(one)) for one in given))
        if known:
            output, weights = (np.array(one, query.dtype) for one in known)
        """,
    )


KINDS = [
    Kind(
        "no-text",
        "Files with a NUL byte, in another encoding, and of five megabytes.",
        {
            1: right(1).encode() + b"\0",
            2: right(2).encode("utf-16-le"),
            8: right(8) + "#" * 5_000_000,
        },
        {1: "error", 2: "error", 8: "error"},
    ),
    Kind(
        "a-claimed-encoding",
        "Claims an encoding in which the same bytes are another program.",
        {2: "# -*- coding: utf-7 -*-\n# +AAo-import os+ADs- os._exit(0)\n" + right(2)},
    ),
    Kind(
        "crashes-the-parser",
        "Files that are empty, and nested deeper than a parser's and a compiler's stack.",
        {1: b"", 2: "-" * 1_000_000 + "1\n", 8: "x = f" + "()" * 300_000 + "\n"},
        {1: "error", 2: "error", 8: "error"},
    ),
    Kind(
        "no-notebooks",
        "Notebooks nested ten thousand deep, with a number for a source, and half a character.",
        dict.fromkeys(GRADED),
        {1: "error", 2: "error", 8: "error"},
        beside={
            "day01_softmax.ipynb": '{"cells": ' + "[" * 10**4 + "]" * 10**4 + "}",
            "day02_attention.ipynb": notebook(source=5),
            "day08_attention.ipynb": notebook(source="# \ud800\n!cat /etc/passwd"),
        },
    ),
    Kind(
        "shadowed-modules",
        "Lays modules of well-known names beside the days' files.",
        beside=dict.fromkeys(
            ["random.py", "numpy.py", "torch.py", "json.py", "conftest.py", "sitecustomize.py"],
            EXITS,
        )
        | {"pytest.ini": "[pytest]\naddopts = --exitfirst -p random\n", "numpy/__init__.py": EXITS}
        | {"numpy_reference.py": EXITS, "implementation.py": EXITS, "course/__init__.py": EXITS},
    ),
    Kind(
        "known-by-heart",
        "Has the outputs for the seed that every learner can see.",
        remembered(),
        {2: "failed"},
    ),
    Kind(
        "builtins-patched",
        "Python's own functions say other things.",
        before(
            8,
            """
            import builtins
            builtins.len = builtins.sum = builtins.hash = lambda *_: 0
            builtins.sorted = builtins.hasattr = builtins.all = None
            """,
        ),
        {8: "error"},
    ),
    reaches(
        "watches-every-line",
        "A trace function grabs the variables of whatever runs, here and in threads.",
        """
        import sys, threading
        def grab(frame, event, argument):
            expected = {**frame.f_locals}.get("expected")
            if expected is not None:
                raise SystemExit("found the expected value")
            return grab
        sys.settrace(grab)
        threading.settrace(grab)
        sys.setprofile(lambda *_: None)
        """,
    ),
    reaches(
        "import-hooks",
        "Every module that is imported later is one of its own.",
        """
        import builtins, importlib.machinery, sys, types
        class Hook:
            def find_spec(self, name, path=None, target=None):
                if name in ("numpy_reference", "implementation", "course.grading.analysis"):
                    return importlib.machinery.ModuleSpec(name, self)
            def create_module(self, spec):
                module = types.ModuleType(spec.name)
                module.__getattr__ = lambda name: lambda *_, **__: 0
                return module
            def exec_module(self, module):
                pass
        sys.meta_path.insert(0, Hook())
        """,
        day=1,
    ),
    # What stays in a process that serves several days: days 2 and 8 are right, and must pass.
    Kind(
        "settings-changed",
        "Changes what torch and NumPy do by default, which its own day does not survive.",
        before(
            1,
            """
            import numpy as np, os, sys, torch
            torch.set_default_dtype(torch.float16)
            torch.set_default_device("meta")
            torch.set_grad_enabled(False)
            torch.use_deterministic_algorithms(True)
            np.seterr(all="raise")
            os.environ["PYTHONPATH"] = "/tmp"
            sys.path.insert(0, "/tmp")
            """,
        ),
        {1: "error"},
    ),
    reaches(
        "functions-replaced",
        "Replaces what other days compute with.",
        """
        import math, numpy as np
        np.swapaxes = np.where = None
        math.sqrt = lambda _: 1.0
        """,
        day=1,
    ),
    Kind(
        "nothing-to-print-to",
        "Closes what it would print to.",
        in_one_check(8, "import sys; sys.stdout.close()"),
    ),
    reaches(
        "a-thread-that-stays",
        "Leaves a thread that computes for ever.",
        """
        import threading
        def busy():
            while True:
                pass
        threading.Thread(target=busy, daemon=True).start()
        """,
        day=1,
    ),
    Kind(
        "a-folder-that-is-gone",
        "Leaves the process in a folder that is there no more.",
        {1: right(1) + "\nimport os\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n"},
    ),
]
