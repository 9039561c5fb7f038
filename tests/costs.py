"""A plugin of pytest: what the tests of each folder cost in CPU seconds, children included, beside a budget.

CPU and not wall seconds, so that a busy machine changes little. What is still running is counted when a
process goes on to another folder. `--budget` measures each test as well, and fails where one or a folder
costs too much.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections import Counter

import psutil
import pytest

# CPU seconds of `make test` with empty caches, on a machine that needs one for `import torch`.
BUDGET = {
    "collection": 45,
    "lessons": 15,
    "solutions": 5,
    "tests/course/assembly": 5,
    "tests/course/checks": 30,
    "tests/course/desk": 75,
    "tests/course/edition": 25,
    "tests/course/grading": 30,
    "tests/course/hostile": 15,
    "tests/course/judging": 15,
    "tests/course/references": 10,
    "tests/course/test_days.py": 70,
    "tests/course/test_first_contact.py": 10,
    "tests/course/test_integrations.py": 5,
    "tests/course/test_mutants.py": 5,
    "tests/course/test_published.py": 5,
    "tests/course/workers": 30,
    "tests/explorer": 20,
    "tests/laboratory": 30,
    "tests/notebooks": 15,
    "tests/reference": 8,
    "tests/training": 125,
    "tests/variants": 24,
    "tests/website": 35,
}
# Tests over a CPU second that `make test` runs all the same, and what each would be the only one to catch.
REPRESENTATIVES = {
    "tests/course/assembly/test_speaking.py::test_a_learners_part_is_what_speaks": "parts that are not used",
    "tests/course/checks/test_observation.py::test_round_trip": "an observation that changes on its way",
    "tests/course/desk/test_learner_commands.py::test_board_shows_what_passes_and_where_it_failed": "the board",
    "tests/course/desk/test_learner_commands.py::test_reset_keeps_the_old_file": "a learner's file lost",
    "tests/course/desk/test_practice.py::test_the_verdict_does_not_wait": "a verdict after its diagnosis",
    "tests/course/desk/test_watch.py::test_saves_renames_and_deletions": "a save that is not noticed",
    "tests/course/edition/test_bundle.py::test_the_first_day": "an edition that checks nothing",
    "tests/course/edition/test_bundle.py::test_what_is_left_of_a_reference_has_the_imports_that_it_needs": "imports of an edition",
    "tests/course/edition/test_installed.py::test_the_installed_command_is_the_editions": "its packages",
    "tests/course/hostile/test_hostile.py::test_the_honest_are_told_apart": "a sandbox that refuses honest work",
    "tests/course/judging/test_diagnosis.py::test_three_mistakes_at_once": "a search of several mistakes",
    "tests/course/test_first_contact.py::test_check_works_in_colab": "a check in a notebook",
    "tests/course/test_integrations.py::test_behind_walls": "an autograder's sandbox",
    "tests/course/test_mutants.py::test_a_sample_of_mutants_is_rejected": "checks that pass a wrong answer",
    "tests/course/workers/test_clock.py::test_a_timeout_is_confirmed_in_a_fresh_worker": "a false timeout",
    "tests/course/workers/test_faults.py::test_endless_loop_is_timed_out": "a loop without end",
    "tests/course/workers/test_in_process.py::test_plain_pytest_reads_no_exercises": "pytest in a learner's clone",
    "tests/explorer/test_pages.py::test_a_page_fits_and_keeps_nobody_out": "a page that does not load",
    "tests/laboratory/test_report.py::test_all_that_the_report_shows_is_drawn": "a report",
    "tests/training/test_chat.py::test_the_command_holds_a_conversation": "a chat",
    "tests/training/test_commands.py::test_a_text_is_learned_and_gone_on_with": "training and its checkpoints",
    "tests/training/test_export.py::test_onnx_runtime_says_the_same": "the graph of a run",
    "tests/training/test_processes.py::test_two_processes_have_the_losses_of_one": "DDP and FSDP2",
    "tests/training/test_reasoner.py::test_a_learners_parts_train_and_what_is_the_references_is_said": "GRPO",
    "tests/variants/test_onnx_export.py::test_it_reads_in_chunks_what_torch_reads_at_once": "a graph with a cache",
    "tests/website/test_site.py::test_a_page_works_for_everybody": "a page of the site that does not load",
    "tests/website/test_site.py::test_every_internal_link_leads_somewhere": "the site's build and links",
}
SHARED = "tests/course/test_days.py"  # the first test of a day computes what the others use: its folder counts
ROOM = 1.5  # `--budget` fails where something costs so many times what it may: clocks of CPUs vary
FOLDERS: Counter[str] = Counter()  # of this process and, in the controller, of its workers
TESTS: Counter[str] = Counter()  # with --budget


def folder_of(nodeid: str) -> str:
    """Return the line of the table that a test counts for: its folder, or its file in `tests/course`."""
    parts = nodeid.partition("::")[0].split("/")
    return "/".join(parts[:3] if parts[:2] == ["tests", "course"] else parts[:-1][:2])


def spent() -> float:
    """Return the CPU seconds of this process, its descendants included."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def scale() -> float:
    """Return the CPU seconds that this machine takes to import torch: those of the budget are for one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Costs:
    """Counts in each process, and adds up in the controller."""

    def __init__(self, each_test: bool) -> None:
        self.each_test = each_test
        self.before = 0.0

    def note(self, name: str) -> None:
        """Count what was spent since the last call for a folder."""
        now = spent()
        FOLDERS[name] += max(0.0, now - self.before)
        self.before = now

    def pytest_collection_finish(self) -> None:
        self.note("collection")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        before = spent() if self.each_test else 0.0
        result = yield
        if self.each_test:
            TESTS[item.nodeid] = spent() - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        result = yield
        if nextitem is None or folder_of(nextitem.nodeid) != folder_of(item.nodeid):
            self.note(folder_of(item.nodeid))
        return result

    def pytest_sessionfinish(self, session) -> None:
        if hasattr(session.config, "workeroutput"):
            self.note("the end")
            session.config.workeroutput["costs"] = (dict(FOLDERS), dict(TESTS))
        elif self.each_test and (faults := over(scale())):
            print("\nOver their budget:", *faults, sep="\n    ")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        folders, tests = getattr(node, "workeroutput", {}).get("costs", ({}, {}))
        FOLDERS.update(folders)
        TESTS.update(tests)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter) -> None:
        terminalreporter.section("CPU seconds, and the budget with empty caches")
        for name, seconds in FOLDERS.most_common():
            terminalreporter.write_line(f"{seconds:8.0f} {BUDGET.get(name, ''):8}  {name}")
        terminalreporter.write_line(
            f"{sum(FOLDERS.values()):8.0f} {sum(BUDGET.values()):8}  in all"
        )


def over(second: float) -> list[str]:
    """Name the folders and tests that cost more than they may, and representatives that are none.

    Args:
        second: what stands for a CPU second of the budget on this machine.
    """
    most = ROOM * second
    names = {nodeid.partition("[")[0] for nodeid in TESTS}
    folders = [
        f"{name}: {FOLDERS[name]:.0f} s"
        for name, line in BUDGET.items()
        if FOLDERS[name] > most * line
    ]
    tests = [
        f"{nodeid}: {seconds:.1f} s, and is neither slow nor a representative"
        for nodeid, seconds in TESTS.most_common()
        if seconds > most
        and nodeid.partition("[")[0] not in REPRESENTATIVES
        and not nodeid.startswith(SHARED)
    ]
    return [
        *folders,
        *tests,
        *(f"{name}: not run" for name in REPRESENTATIVES if name not in names),
    ]


def pytest_addoption(parser) -> None:
    parser.addoption(
        "--budget", action="store_true", help="fail where a folder or a test costs too much"
    )


def pytest_configure(config) -> None:
    config.pluginmanager.register(Costs(config.getoption("--budget")), "costs-of-folders")
