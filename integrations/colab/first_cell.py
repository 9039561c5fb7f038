# Sets up the course in Colab. Run this cell first; run again, it does no harm.
import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = "https://github.com/OWNER/NAME"
COURSE = Path("/content/course")
# What the lessons, check() and yours() need beside torch and NumPy. Colab has these, and keeps its own.
NEEDED = ("filelock", "jaxtyping", "matplotlib", "platformdirs", "psutil", "pytest", "safetensors")


def run(what, *command):
    """Run a command; where it fails, say what could not be done, and the command's own last words."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        output = done.stderr.strip() or f"it ended with {done.returncode}"
        raise RuntimeError(f"{what} Is there a network? {command[0]} says:\n{output}")


if not (COURSE / "course" / "__init__.py").exists():
    shutil.rmtree(COURSE, ignore_errors=True)  # a clone that was cut off
    without = f"The course could not be fetched from {REPOSITORY}."
    run(without, "git", "clone", "--quiet", "--depth", "1", REPOSITORY, str(COURSE))

pinned = [f"{name}=={importlib.metadata.version(name)}" for name in ("numpy", "torch")]
missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if missing:
    without = f"{', '.join(missing)} could not be installed."
    run(without, sys.executable, "-m", "pip", "install", "--quiet", *missing, *pinned)
    importlib.invalidate_caches()

os.chdir(COURSE)
if str(COURSE) not in sys.path:
    sys.path.insert(0, str(COURSE))

from course import check  # noqa: E402, F401

print("Ready, with", " and ".join(pinned))
