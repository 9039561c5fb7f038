"""A report is whole or not there."""

import contextlib
import os

import pytest

from course.grading.reports import files
from course.grading.reports.files import whole_file


def test_whole_file(tmp_path):
    """A file that was written is there, in a folder that was made for it, and nothing else is."""
    with whole_file(tmp_path / "new" / "file") as file:
        file.write("all of it\n")
    assert (tmp_path / "new" / "file").read_bytes() == b"all of it\n"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_stopped_on_the_way(tmp_path):
    """Who is stopped while writing leaves the old file; the next one is not disturbed by the draft."""
    path = tmp_path / "file"
    path.write_text("old")
    with contextlib.suppress(KeyboardInterrupt), whole_file(path) as file:
        file.write("half of the new, which is rather long")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    with whole_file(path) as file:
        file.write("new")
    assert path.read_text() == "new"


def test_what_is_flushed_was_opened_for_writing(tmp_path, monkeypatch):
    """Windows refuses to flush a file that was opened to be read."""
    fcntl = pytest.importorskip("fcntl")
    modes = []
    monkeypatch.setattr(
        files.os,
        "fsync",
        lambda file: modes.append(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE),
    )
    with files.whole_file(tmp_path / "report.txt") as file:
        file.write("whole")
    assert modes == [os.O_RDWR]
