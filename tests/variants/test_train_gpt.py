"""The training loop in one file: it learns, and an interrupted run ends as one that ran through."""

import re

import pytest
import torch

from variants import train_gpt
from variants.gpt import GPTConfig

TEXT = b"the cat sat on the mat, and the rat sat on the cat. " * 10
CONFIG = GPTConfig(256, context=16, n_layers=1, n_heads=2, d_model=16, d_ff=32, dropout=0.1)


def trained(out):
    return train_gpt.train(TEXT, 30, out, CONFIG).state_dict()


@pytest.mark.slow
def test_a_resumed_run_is_the_run(tmp_path, capsys, monkeypatch):
    """It continues after the last checkpoint, with the same batches, dropout and learning rates."""
    monkeypatch.setattr(train_gpt, "ACCUMULATED", 2)
    whole = trained(tmp_path / "whole")
    losses = [float(one) for one in re.findall(r"validation (\S+)", capsys.readouterr().out)]
    assert len(losses) == train_gpt.REPORTS
    assert losses[-1] < losses[0] - 0.1
    rate = train_gpt.learning_rate
    with monkeypatch.context() as patch:
        patch.setattr(train_gpt, "learning_rate", lambda step, n: rate(step, n // (step < 20)))
        with pytest.raises(ZeroDivisionError):  # in step 20
            trained(tmp_path / "cut")
    resumed = trained(tmp_path / "cut")
    assert "resumed at step 18" in capsys.readouterr().out
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_learning_rate_warms_up_and_decays():
    """It rises to its peak in a twentieth of the steps, and falls to a tenth of the peak."""
    rates = [train_gpt.learning_rate(step, 100) for step in range(101)]
    peak = max(rates)
    assert rates[:6] == pytest.approx([peak * share for share in (0.2, 0.4, 0.6, 0.8, 1, 1)])
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[-1] == pytest.approx(peak / 10)


def test_only_matrices_decay():
    """Biases and norms do not."""
    decayed, others = train_gpt.adamw(train_gpt.GPT(CONFIG)).param_groups
    assert decayed["weight_decay"] > 0 == others["weight_decay"]
    assert {one.dim() for one in decayed["params"]} == {2}
    assert {one.dim() for one in others["params"]} == {1}


def test_a_text_that_is_too_short():
    with pytest.raises(ValueError, match="text must be over 160 bytes long, got 160"):
        train_gpt.train(b"x" * 160, 1, None, CONFIG)
