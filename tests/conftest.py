"""What is tested, at which seed, and what stays together when tests are shared out among processes."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests import affected
from tests.changes import seed
from tests.selection import Whole, left_out, turn
from training.cores import cores

FRESH_SEED = "COURSE_FRESH_SEED"  # one for all processes of a run; set it to try another

# Files of which the tests share nothing, and may run in different processes.
APART = (
    "tests/training/test_commands.py",
    "tests/training/test_processes.py",
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


WHOLE = pytest.StashKey[Whole]()


def pytest_addoption(parser):
    parser.addoption(
        "--thorough",
        action="store_true",
        help="everything that `make test` runs by turn; ten seeds",
    )
    parser.addoption(
        "--affected",
        action="store_true",
        help="only the tests that a change affects, and named files",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "by_turn(unit): costs over 0.1 s; `make test` runs a share of these (tests/selection.py), and all "
        "where what they test has changed. unit: '' (the test), 'function', 'file' or 'day'",
    )
    config.addinivalue_line(
        "markers",
        "slow: takes over a CPU second, and `make thorough` runs it (by itself: `pytest -m slow FILE`)",
    )
    if not hasattr(config, "workerinput"):  # it takes seconds to find out: once, for all processes
        budget = config.getoption("--budget", default=False)  # of tests/costs.py
        plan = affected.Plan() if budget else affected.now()
        config.stash[WHOLE] = Whole.of(plan, config.args)
    else:
        config.stash[WHOLE] = Whole(*map(frozenset, config.workerinput["whole"]))
    os.environ.setdefault(FRESH_SEED, str(10 + seed()))
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # as in `make test &`: children inherit it,
        signal.signal(signal.SIGINT, signal.default_int_handler)  # and some tests interrupt theirs


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Hand a process of pytest-xdist what is run without regard to turns."""
    whole = node.config.stash[WHOLE]
    node.workerinput["whole"] = [sorted(whole.files), sorted(whole.subjects)]


def pytest_ignore_collect(collection_path, config):
    """Hidden checks are no tests: of two days, for the plugin, unless they are asked for."""
    asked = any("days" in Path(one.partition("::")[0]).parts for one in config.args)
    day = re.match(r"test_(day\d\d)_", collection_path.name)
    return True if day and day[1] not in ("day02", "day08") and not asked else None


def pytest_report_header(config):
    return f"{FRESH_SEED}={os.environ[FRESH_SEED]}, turn {turn()}"


def pytest_runtest_logreport(report):
    """Name a failed test at once: the run goes on, and its traceback comes at the end."""
    if report.failed:
        print(f"\nFAILED {report.nodeid}", flush=True)


def pytest_generate_tests(metafunc):
    """Tests that take a `seed` run at a fresh one, or at ten."""
    if "seed" in metafunc.fixturenames and metafunc.module.__name__.endswith("test_days"):
        thorough = metafunc.config.getoption("--thorough")
        seeds = range(1, 11) if thorough else [int(os.environ[FRESH_SEED])]
        metafunc.parametrize("seed", seeds)


def pytest_collection_modifyitems(config, items):
    whole = config.stash[WHOLE]
    gone = set()
    if config.getoption("--affected"):
        gone = {item for item in items if item.path.suffix == ".py" and item.nodeid not in whole}
    elif not config.getoption("--thorough"):
        gone = left_out(items, whole, turn())
    if gone:
        config.hook.pytest_deselected(items=list(gone))
        items[:] = [item for item in items if item not in gone]
    items.sort(key=lambda item: _place(item, whole))


def _place(item, whole):
    """Order tests: notebooks, then those of what has just changed, then what takes long."""
    file = item.nodeid.partition("::")[0]
    place = LONGEST.index(file) if file in LONGEST else len(LONGEST)
    return not file.endswith(".ipynb"), item.nodeid not in whole, place


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
