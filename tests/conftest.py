"""At how many seeds days are tested, and what stays together when tests are shared out among processes."""

import re
import signal
from pathlib import Path

import pytest

from training.cores import cores

FIRST_SEED = 11  # of those at which the checks of days are tried; `course check` takes 0

# Files of which the tests share nothing, and may run in different processes.
APART = (
    "tests/training/test_commands.py",
    "tests/course/desk/test_learner_commands.py",
    "tests/course/hostile/test_stalls.py",
)
# These take longest, and are begun first, so that no process is left alone with one at the end.
LONGEST = (
    "tests/course/hostile/test_hostile.py",
    "tests/website/test_site.py",
    "tests/course/grading/test_sandbox.py",
    "tests/course/desk/test_watch.py",
    "tests/course/assembly/test_assembly.py",
    "tests/course/grading/test_cluster.py",
    "tests/training/test_commands.py",
    "tests/training/test_processes.py",
    "tests/training/test_kill.py",
    "tests/training/test_export.py",
    "tests/variants/test_onnx_export.py",
)


def pytest_addoption(parser):
    parser.addoption(
        "--seeds", type=int, default=1, help="at how many seeds the checks of days are tried"
    )


def pytest_configure(config):
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # as in `make test &`: children inherit it,
        signal.signal(signal.SIGINT, signal.default_int_handler)  # and some tests interrupt theirs


def pytest_ignore_collect(collection_path, config):
    """Hidden checks are no tests: of two days, for the plugin, unless they are asked for."""
    requested = any("days" in Path(argument.partition("::")[0]).parts for argument in config.args)
    day = re.match(r"test_(day\d\d)_", collection_path.name)
    return True if day and day[1] not in ("day02", "day08") and not requested else None


def pytest_runtest_logreport(report):
    """Name a failed test at once: the run goes on, and its traceback comes at the end."""
    if report.failed:
        print(f"\nFAILED {report.nodeid}", flush=True)


def pytest_generate_tests(metafunc):
    """Tests that take a `seed` run at a fixed one, or at several."""
    if "seed" in metafunc.fixturenames and metafunc.module.__name__.endswith("test_days"):
        seeds = metafunc.config.getoption("--seeds")
        metafunc.parametrize("seed", range(FIRST_SEED, FIRST_SEED + seeds))


def pytest_collection_modifyitems(items):
    """Begin with notebooks, then with what takes long: no process shall be left alone with one."""
    items.sort(key=_place)


def _place(item):
    file = item.nodeid.partition("::")[0]
    position = LONGEST.index(file) if file in LONGEST else len(LONGEST)
    return not file.endswith(".ipynb"), position


@pytest.hookimpl(optionalhook=True)  # a learner has no pytest-xdist
def pytest_xdist_auto_num_workers():
    return processes()


def processes():
    """One more than there are cores: some always wait for a page, a process or a file."""
    return cores() + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The tests of one day share what its judge has computed; other tests stay with their file.

    Not by marks: from pytest 9.2 on, pytest-xdist 3.8 reads none (it writes to a node's `_nodeid`).
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, test = nodeid.partition("::")
            if file in APART:
                return nodeid
            day = re.search(r"\bday\d\d", test) if file.endswith("test_days.py") else None
            return day[0] if day else file

    config.option.loadscopereorder = False  # ours is the order
    return Together(config, log)
