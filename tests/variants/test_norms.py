"""RMSNorm and GroupNorm against torch's own, on one token's features, and at the edges."""

import pytest
import torch
from torch import nn

from implementation import LayerNorm
from variants.norms import GroupNorm, RMSNorm

HALVES = [torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(28)


def rms_pair(features, eps):
    ours, theirs = RMSNorm(features, eps).double(), nn.RMSNorm(features, eps).double()
    nn.init.normal_(ours.gain)
    theirs.weight.data.copy_(ours.gain.data)
    return ours, theirs


def group_pair(groups, features, eps):
    ours, theirs = GroupNorm(groups, features, eps).double(), nn.GroupNorm(groups, features, eps)
    nn.init.normal_(ours.gain)
    nn.init.normal_(ours.bias)
    theirs = theirs.double()
    theirs.weight.data.copy_(ours.gain.data)
    theirs.bias.data.copy_(ours.bias.data)
    return ours, theirs


def agree(ours, theirs, x, flat=False):
    """Equal outputs, and equal gradients of input and parameters, to 1e-10."""
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    seen = (
        x_theirs.reshape(-1, x.size(-1)) if flat else x_theirs
    )  # torch norms (N, C) token by token
    out_ours, out_theirs = ours(x_ours), theirs(seen).reshape(x.shape)
    torch.testing.assert_close(out_ours, out_theirs, rtol=0, atol=1e-10)
    direction = torch.randn_like(x)
    grads_ours = torch.autograd.grad(out_ours, [x_ours, *ours.parameters()], direction)
    grads_theirs = torch.autograd.grad(out_theirs, [x_theirs, *theirs.parameters()], direction)
    torch.testing.assert_close(grads_ours, grads_theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(12,), (2, 5, 12), (2, 3, 4, 12), (0, 12)])
@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_rms_norm_is_torchs(shape, eps):
    agree(*rms_pair(12, eps), torch.randn(shape, dtype=torch.float64) * 3 + 1)


@pytest.mark.parametrize("groups", [1, 2, 3, 12])
@pytest.mark.parametrize("shape", [(2, 12), (2, 5, 12), (2, 3, 4, 12)])
@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_group_norm_is_torchs(groups, shape, eps):
    x = torch.randn(shape, dtype=torch.float64) * 3 + 1
    agree(*group_pair(groups, 12, eps), x, flat=True)


def test_one_group_is_the_layer_norm_and_groups_of_one_give_the_bias():
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(GroupNorm(1, 12, 1e-5)(x), LayerNorm(12, 1e-5)(x))
    norm = GroupNorm(12, 12, 1e-5)
    nn.init.normal_(norm.bias)
    assert torch.equal(norm(x), norm.bias.expand(2, 5, 12))


def test_no_tokens_give_no_tokens():
    assert RMSNorm(12, 1e-5)(torch.zeros(2, 0, 12)).shape == (2, 0, 12)
    assert GroupNorm(3, 12, 1e-5)(torch.zeros(2, 0, 12)).shape == (2, 0, 12)


def test_a_token_does_not_see_another():
    for norm in (RMSNorm(12, 1e-5), GroupNorm(3, 12, 1e-5)):
        x = torch.randn(2, 5, 12)
        torch.testing.assert_close(norm(x)[:, 2:3], norm(x[:, 2:3]))
        torch.testing.assert_close(norm(x)[1, 2], norm(x[1, 2]))


def test_rms_norm_does_not_centre():
    assert torch.equal(RMSNorm(4, 0.0)(torch.full((4,), 3.0)), torch.ones(4))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("wide_gain", [True, False])
@pytest.mark.parametrize("norm", [RMSNorm(64, 1e-5), GroupNorm(4, 64, 1e-5)])
def test_halves_are_computed_in_float32(dtype, wide_gain, norm):
    x = (torch.randn(3, 64) * 300).to(dtype)
    expected = norm.float()(x.float())
    out = (norm if wide_gain else norm.to(dtype))(x)
    norm.float()
    assert out.dtype == dtype
    torch.testing.assert_close(out, expected.to(dtype), rtol=0, atol=0)


def test_a_mean_far_from_zero_is_no_trouble():
    x = torch.randn(4, 64, dtype=torch.float64) * 0.1 + 1000
    seen = x.float()
    expected = nn.functional.group_norm(seen.double(), 4, eps=1e-5)
    torch.testing.assert_close(GroupNorm(4, 64, 1e-5)(seen).double(), expected, rtol=0, atol=2e-3)


def test_zeros_give_zeros_and_finite_gradients():
    for norm in (RMSNorm(8, 1e-6), GroupNorm(2, 8, 1e-6)):
        x = torch.zeros(3, 8, requires_grad=True)
        out = norm(x)
        out.sum().backward()
        assert torch.equal(out, torch.zeros(3, 8))
        assert x.grad.isfinite().all()


def test_parameters():
    assert {name: list(p.shape) for name, p in RMSNorm(8, 1e-6).state_dict().items()} == {
        "gain": [8]
    }
    norm = GroupNorm(2, 8, 1e-6)
    assert set(norm.state_dict()) == {"gain", "bias"}
    assert torch.equal(norm.gain, torch.ones(8)) and torch.equal(norm.bias, torch.zeros(8))


@pytest.mark.parametrize(("groups", "features"), [(3, 8), (16, 8), (0, 8), (-2, 8), (2, 0)])
def test_groups_that_do_not_divide_the_features_are_refused(groups, features):
    with pytest.raises(ValueError, match="groups must divide features"):
        GroupNorm(groups, features, 1e-5)


def test_no_features_and_other_widths_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        RMSNorm(0, 1e-5)
    for norm in (RMSNorm(8, 1e-5), GroupNorm(2, 8, 1e-5)):
        for features in (1, 4, 16):
            with pytest.raises(ValueError, match=f"x must have 8 features, got {features}"):
                norm(torch.randn(3, features))
