"""Files that a kill, a full disk or a damaged one cannot lose."""

import errno

import pytest
import torch

from training import checkpoints
from training.checkpoints import (
    Damaged,
    TrainingState,
    previous,
    read_state,
    read_weights,
    write_atomically,
    write_state,
    write_weights,
)
from training.errors import Refused

FIRST = TrainingState(
    {"weights.a": torch.arange(5.0), "optimizer.step.a": torch.tensor(3.0)}, {"step": 1}
)
SECOND = TrainingState({"weights.a": torch.ones(5)}, {"step": 2, "best": None, "words": "é"})


def test_a_state_comes_back(tmp_path):
    write_state(tmp_path / "last.state", FIRST)
    state = read_state(tmp_path / "last.state")
    assert state.facts == FIRST.facts
    assert state.tensors.keys() == FIRST.tensors.keys()
    assert all(torch.equal(state.tensors[name], FIRST.tensors[name]) for name in FIRST.tensors)


def test_the_state_before_the_last_is_kept(tmp_path):
    write_state(tmp_path / "last.state", FIRST)
    write_state(tmp_path / "last.state", SECOND)
    assert read_state(tmp_path / "last.state").facts == SECOND.facts
    assert read_state(previous(tmp_path / "last.state")).facts == FIRST.facts
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.state", "previous.state"]


@pytest.mark.parametrize("position", [0, 30, 80, 100, -1])
def test_a_single_wrong_byte_is_noticed(position, tmp_path):
    path = tmp_path / "last.state"
    write_state(path, FIRST)
    body = bytearray(path.read_bytes())
    body[position] ^= 1
    path.write_bytes(body)
    with pytest.raises(Damaged, match=r"last\.state is damaged"):
        read_state(path)


@pytest.mark.parametrize("length", [0, 10, 87, 88, 200])
def test_a_truncated_state_is_noticed(length, tmp_path):
    path = tmp_path / "last.state"
    write_state(path, FIRST)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(Damaged):
        read_state(path)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "last.state"
    write_state(path, FIRST)

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_state(path, SECOND)
    assert read_state(path).facts == FIRST.facts
    assert [file.name for file in tmp_path.iterdir()] == ["last.state"]


def test_a_device_that_is_really_full_raises(tmp_path):
    # /dev/full says what a full disk says
    (tmp_path / "last.state.next.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_state(tmp_path / "last.state", FIRST)
    assert not (tmp_path / "last.state").exists()


def test_weights_come_back_shared_ones_too(tmp_path):
    table = torch.randn(4, 3)
    write_weights(tmp_path / "w", {"a": table, "b": table.T})
    weights = read_weights(tmp_path / "w")
    assert torch.equal(weights["a"], table) and torch.equal(weights["b"], table.T)


def test_damaged_weights_are_refused(tmp_path):
    write_atomically(tmp_path / "w", b"no weights at all")
    with pytest.raises(Refused, match="is damaged"):
        read_weights(tmp_path / "w")
    with pytest.raises(Refused, match="cannot be read: No such file"):
        read_weights(tmp_path / "none")
