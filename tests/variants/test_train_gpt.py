"""The training loop in one file: it learns, and an interrupted run ends as one that ran through."""

import re
from dataclasses import replace

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
    monkeypatch.setattr(train_gpt, "GRAD_ACCUM", 2)
    complete = trained(tmp_path / "complete")
    losses = [float(loss) for loss in re.findall(r"validation (\S+),", capsys.readouterr().out)]
    assert len(losses) == train_gpt.REPORTS
    assert losses[-1] < losses[0] - 0.1
    rate = train_gpt.learning_rate
    with monkeypatch.context() as patch:
        patch.setattr(train_gpt, "learning_rate", lambda step, n: rate(step, n // (step < 20)))
        with pytest.raises(ZeroDivisionError):  # in step 20
            trained(tmp_path / "cut")
    resumed = trained(tmp_path / "cut")
    assert "resumed at step 18" in capsys.readouterr().out
    assert all(torch.equal(complete[name], resumed[name]) for name in complete)
    best = torch.load(tmp_path / "cut" / "best.pt", weights_only=True)
    assert best["step"] == 3 * (losses.index(min(losses)) + 1)


def test_learning_rate_warms_up_and_decays():
    """It rises to its peak in a twentieth of the steps, and falls to a tenth of the peak."""
    rates = [train_gpt.learning_rate(step, 100) for step in range(101)]
    peak = max(rates)
    assert rates[:6] == pytest.approx([peak * share for share in (0.2, 0.4, 0.6, 0.8, 1, 1)])
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[-1] == pytest.approx(peak / 10)


def test_only_matrices_decay():
    """Biases and norms do not."""
    decayed, undecayed = train_gpt.adamw(train_gpt.GPT(CONFIG)).param_groups
    assert decayed["weight_decay"] > 0 == undecayed["weight_decay"]
    assert {parameter.dim() for parameter in decayed["params"]} == {2}
    assert {parameter.dim() for parameter in undecayed["params"]} == {1}


def test_a_text_that_is_too_short():
    with pytest.raises(ValueError, match="text must be over 160 bytes long, got 160"):
        train_gpt.train(b"x" * 160, 1, None, CONFIG)


@pytest.mark.parametrize(
    ("text", "steps", "config", "name"),
    [
        (TEXT + b".", 1, CONFIG, "text"),
        (TEXT, 2, CONFIG, "steps"),
        (TEXT, 1, replace(CONFIG, dropout=0.0), "dropout"),
    ],
)
def test_another_run_is_not_resumed(tmp_path, text, steps, config, name):
    """A checkpoint knows its text and settings: its weights are not trained on others."""
    train_gpt.train(TEXT, 1, tmp_path, CONFIG)
    checkpoint = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(ValueError, match=f"a run with a different {name}: pass a new folder"):
        train_gpt.train(text, steps, tmp_path, config)
    assert (tmp_path / "checkpoint.pt").read_bytes() == checkpoint
