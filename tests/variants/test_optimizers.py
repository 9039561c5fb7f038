"""AdamW and Muon against torch.optim's, and Newton–Schulz against singular value decompositions."""

import pytest
import torch
from torch import nn

from variants.optimizers import AdamW, Muon, orthogonalize

pytestmark = pytest.mark.usefixtures("float64")


def equal(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.fixture
def exact(monkeypatch):
    """torch's Muon without its rounding to bfloat16."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())


def walk(kind, steps=7, settings=({}, {}), **shared):
    """Where an optimizer with two groups leads; the second parameter has a gradient in every other step."""
    torch.manual_seed(41)
    parameters = [nn.Parameter(torch.randn(shape)) for shape in ((3, 5), (6, 2), (4, 4))]
    groups = [{"params": parameters[:1], **settings[0]}, {"params": parameters[1:], **settings[1]}]
    optimizer = kind(groups, **shared)
    for step in range(steps):
        for index, parameter in enumerate(parameters):
            gradient = torch.randn_like(parameter)
            parameter.grad = None if index == 1 and step % 2 == 0 else gradient
        optimizer.step()
        if step == 3:
            fresh = kind(groups, **shared)
            fresh.load_state_dict(optimizer.state_dict())
            optimizer = fresh
    return parameters


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("eps", [1e-8, 0.1])
def test_adamw_is_torchs(decay, eps):
    settings = {"lr": 0.03, "betas": (0.7, 0.9)}, {"lr": 0.2, "weight_decay": decay}
    ours = walk(AdamW, settings=settings, eps=eps)
    equal(ours, walk(torch.optim.AdamW, settings=settings, eps=eps))
    equal(walk(AdamW), walk(torch.optim.AdamW))  # the defaults


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_muon_is_torchs(decay, exact):
    settings = {"lr": 0.03, "momentum": 0.5}, {"lr": 0.2, "weight_decay": decay}
    ours = walk(Muon, settings=settings)
    equal(ours, walk(torch.optim.Muon, settings=settings, adjust_lr_fn="match_rms_adamw"))
    equal(walk(Muon), walk(torch.optim.Muon, adjust_lr_fn="match_rms_adamw"))


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 8), (9, 2), (40, 30)])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_singular_values(shape, steps):
    """The polynomial changes the singular values alone, each by itself."""
    matrix = torch.randn(shape)
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    values = values / values.norm()
    for _ in range(steps):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    equal(orthogonalize(matrix, steps), (u * values) @ v)
    if steps == 5 and min(shape) < 10:
        singular_values = torch.linalg.svdvals(orthogonalize(matrix))
        assert singular_values.min() > 0.6 and singular_values.max() < 1.3
