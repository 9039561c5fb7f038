"""The class of all kinds of hostile submissions, graded once for all tests."""

import shutil
import tempfile
from pathlib import Path

import pytest

from course.grading.sandbox import NoSandbox, open_sandbox
from tests.course.hostile.classes import HONEST, KINDS, Class, listeners


@pytest.fixture(scope="session")
def empty_class():
    """Makes classes without anybody in them; folders that everybody may enter, as workers must."""
    try:
        with open_sandbox():
            pass
    except NoSandbox as reason:
        pytest.skip(f"no sandbox here: {reason}")
    folders = []

    def make():
        folders.append(Path(tempfile.mkdtemp(prefix="course-hostile-")))
        folders[-1].chmod(0o755)
        return Class(folders[-1])

    yield make
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sockets():
    """Where an attack would arrive."""
    with listeners() as opened:
        yield opened


def pytest_generate_tests(metafunc):
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def chosen(items):
    """The kinds whose tests are to run: these are graded, at their turn or all of them."""
    mine = [item for item in items if item.path.name == "test_hostile.py"]
    return [item.callspec.params["kind"] for item in mine if "kind" in item.fixturenames]


@pytest.fixture(scope="session")
def graded(empty_class, sockets, request):
    """The class of the kinds and the honest, graded two at a time."""
    mixed = empty_class()
    port = sockets[0].getsockname()[1]
    for kind in chosen(request.session.items):
        mixed.add_kind(kind, port)
    for learner, days in HONEST.items():
        mixed.add(learner, days)
    mixed.grade(jobs=2)
    return mixed
