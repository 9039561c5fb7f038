"""Pictures: any token can be written on an axis, and none makes a picture too large."""

import errno
import warnings

import pytest
import torch
from matplotlib.image import imread

from training import checkpoints
from training.inference.plots import MAX_PIXELS, draw_attention, label
from training.inference.trained_model import AttentionMap


def attention(names, heads=2, title="layer 1"):
    weights = torch.rand(heads, len(names), len(names)).softmax(-1)
    return AttentionMap(title, weights, names, names)


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("$x$", "$x$"),
        ("␣the", "␣the"),
        ("\t\r", "⇥␍"),
        ("漢", "U+6F22"),
        ("\x07", "U+7"),
        ("\u200b", "U+200B"),
        ("\u0301", "U+301"),
        ("a long long token", "a␣long␣long…"),
    ],
)
def test_a_label_can_be_drawn(token, shown):
    assert label(token) == shown


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_any_token_is_drawn_without_a_word(tmp_path, ending):
    names = ["$\\frac$", "$", "漢", "\t", "\ufffd", "<pad>", "\n", "\x00", "^_{"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_attention([attention(names)], tmp_path / f"picture.{ending}")
    assert [path.name for path in tmp_path.iterdir()] == [f"picture.{ending}"]


@pytest.mark.slow
def test_a_large_model_makes_no_picture_that_is_too_large(tmp_path):
    maps = [attention(["word"] * 60, heads=3, title=f"layer {n}") for n in range(70)]
    path = tmp_path / "picture.png"
    draw_attention(maps, path)
    assert max(imread(path).shape[:2]) <= MAX_PIXELS + 1


def test_a_full_disk_leaves_no_half_of_a_picture(tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        draw_attention([attention(["a", "b"])], tmp_path / "picture.png")
    assert not list(tmp_path.iterdir())
