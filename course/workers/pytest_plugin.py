"""The hidden checks under pytest: `pytest tests/days --answers exercises` grades your own work.

A check returns an observation, and only this plugin turns it into a verdict: without the plugin,
there is no `answer`, and every check fails. Without `--answers`, the checks run on the solutions.
"""

from __future__ import annotations

import atexit
import functools
import os
from pathlib import Path
from typing import Any

import pytest

from course.checks.answer_files import Unreadable, build_answer, find_answer, read_answer
from course.checks.earlier_parts import EarlierParts
from course.checks.loading import CORE, WATERTIGHT, Outline
from course.curriculum import DAYS, REFERENCE, ROOT, YOURS, Day
from course.judging.judge import Judge, Outcome
from course.references.editions import stub_of
from course.references.imports import redacted_imports
from course.references.redacted import redacted_references

DAY = pytest.StashKey[Day]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("course")
    group.addoption(
        "--answers", type=Path, default=ROOT / "solutions", help="the folder of answers to check"
    )
    group.addoption("--seed", type=int, default=0, help="where the inputs of the checks come from")
    group.addoption("--device", default="cpu", help="where the inputs of the checks lie")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("nbval", False):  # what notebooks printed, they printed with the reference
        os.environ.setdefault(YOURS, REFERENCE)
    config.addinivalue_line(
        "markers", "constant(leaf, …, why): leaves that are the same for every seed, and why"
    )
    config.addinivalue_line(
        "markers", "watertight(why): asks more than the day is about; a day passes without it"
    )
    config.addinivalue_line(
        "markers", "on_devices: observed on the practice GPU too, without being asked"
    )
    config.addinivalue_line("markers", "real_devices(why): not run on the practice GPU, and why")
    config.addinivalue_line("markers", "core: what a day is about; every other hidden check")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let `-m core` and `-m watertight` select hidden checks."""
    if _day_of(item.path) is not None and item.get_closest_marker(WATERTIGHT) is None:
        item.add_marker(CORE)


@pytest.fixture
def answer() -> Any:
    """The learner's module. The plugin runs the check itself, so this value is never read."""


@pytest.fixture
def draw() -> Any:
    """The stream from which inputs are drawn. The plugin runs the fixtures of a check itself, for a
    seed and a check."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip pytest's set-up of the checks' fixtures: each run of a check draws its own inputs."""
    if isinstance(item, pytest.Function) and _day_of(item.path) is not None:
        item.fixturenames[:] = []


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a hidden check on the answer in this process, and compare with the reference."""
    day = _day_of(pyfuncitem.path)
    if day is None:
        return None
    config = pyfuncitem.config
    judge = _judge(day, config.getoption("seed"), config.getoption("device"))
    check = next(check for check in judge.checks if check.name == pyfuncitem.name)
    if check.name in (skipped := judge.skipped()):
        pytest.skip(skipped[check.name].message)
    module, file = _load(day, config.getoption("answers"), check)
    run = judge.truth.run(check, module, file)
    if run.exception is not None and run.raised is not None and not run.raised.not_started:
        raise run.exception
    outcomes = {check.name: Outcome(run)}
    # A diagnosis rests on all that the exercise's checks see.
    if not judge.truth.accepts(check, run):
        checks = [other for other in judge.checks if other.exercise == check.exercise]
        outcomes = {other.name: Outcome(judge.truth.run(other, module, file)) for other in checks}
    [result] = [result for result in judge.results(outcomes) if result.name == check.name]
    if result.status == "not_started":
        pytest.skip(f"not started: {result.message}")
    if result.status != "passed":
        pytest.fail(f"{check.says}\n{result.message}", pytrace=False)
    return True


@functools.cache
def _judge(day: Day, seed: int, device: str) -> Judge:
    judge = Judge(day, seed, device)
    atexit.register(judge.keep)
    return judge


@functools.cache  # asked for each of thousands of tests
def _day_of(path: Path) -> Day | None:
    return next((day for day in DAYS if day.checks == path), None)


def _load(day: Day, answers: Path, check: Outline) -> tuple[Any, str]:
    path = find_answer(day, answers)
    if path is None:
        pytest.skip(f"not started: {answers / day.stem}.py is not there")
    try:
        with redacted_imports(
            redacted_references(day), day.number, EarlierParts(answers, stub_of).part
        ):
            module = build_answer(str(path), read_answer(path))
    except Unreadable as error:
        pytest.fail(str(error), pytrace=False)
    missing = [name for name in check.uses if not hasattr(module, name)]
    if missing:
        pytest.fail(f"{path.name} defines no {', '.join(missing)}", pytrace=False)
    return module, str(path)
