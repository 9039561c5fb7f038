"""Write to `seconds.json` how many CPU seconds each notebook takes in `make test`.

    python -m tests.notebooks.seconds                                  all notebooks
    python -m tests.notebooks.seconds lessons/day12_encoder.ipynb …    these

Each kernel counts, with its import of PyTorch. A busy machine makes the numbers up to half as large again.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import pytest

from tests.notebooks.compare import NBVAL, name_of, notebooks

FILE = Path(__file__).with_suffix(".json")


def measure(name: str) -> float | None:
    """Return the CPU seconds of a notebook's kernel; None where the notebook does not pass."""
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    failed = pytest.main([*NBVAL, "-p", "no:xdist", "-q", "--no-header", name])
    after = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    return None if failed else round(after - before, 1)


if __name__ == "__main__":
    os.environ |= {"COURSE_QUICK": "1", "OMP_NUM_THREADS": "1"}
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for name in sys.argv[1:] or [name_of(file) for _, file in notebooks()]:
        if seconds := measure(name):
            known[name] = seconds
            text = json.dumps(dict(sorted(known.items())), indent=1)
            FILE.write_text(f"{text}\n", encoding="utf-8")
