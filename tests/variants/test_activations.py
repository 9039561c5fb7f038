"""GELU and Mish against torch's, the gated network against its equation written out."""

import math

import pytest
import torch
import torch.nn.functional as F

from variants.activations import SwiGLU, gelu, mish

CURVES = {
    "gelu": (lambda x: gelu(x, "none"), lambda x: F.gelu(x, approximate="none")),
    "gelu_tanh": (lambda x: gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "mish": (mish, F.mish),
}


@pytest.fixture(params=CURVES.values(), ids=CURVES)
def pair(request):
    return request.param


def test_curves_are_torchs_with_their_gradients(pair):
    ours, theirs = pair
    x = torch.linspace(-30, 30, 2001, dtype=torch.float64).view(3, 23, 29).requires_grad_()
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-10)
    (grad_ours,) = torch.autograd.grad(ours(x).sum(), x)
    (grad_theirs,) = torch.autograd.grad(theirs(x).sum(), x)
    torch.testing.assert_close(grad_ours, grad_theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_right_to_their_rounding(pair, dtype):
    ours, theirs = pair
    x = torch.linspace(-30, 30, 2001).to(dtype)
    out = ours(x)
    assert out.dtype == dtype
    torch.testing.assert_close(
        out, theirs(x.double()).to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-6
    )


def test_far_from_zero(pair):
    ours, _ = pair
    x = torch.tensor([-1e4, -200.0, 0.0, 200.0, 1e4], requires_grad=True)
    out = ours(x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(out, x.detach().relu(), rtol=0, atol=1e-6)
    torch.testing.assert_close(grad[[0, 1, 3, 4]], torch.tensor([0.0, 0.0, 1.0, 1.0]))


def test_nothing_gives_nothing(pair):
    assert pair[0](torch.zeros(2, 0, 5)).shape == (2, 0, 5)


def test_known_values():
    one = torch.tensor(1.0, dtype=torch.float64)
    assert gelu(one, "none").item() == pytest.approx(0.8413447460685429, abs=1e-12)  # Φ(1)
    assert mish(one).item() == pytest.approx(math.tanh(math.log(1 + math.e)), abs=1e-12)
    x = torch.linspace(-10, 10, 100_001, dtype=torch.float64)
    assert mish(x).min().item() == pytest.approx(-0.31, abs=0.005)
    gap = (gelu(x, "none") - gelu(x, "tanh")).abs().max().item()
    assert 1e-4 < gap < 1e-3


@pytest.mark.parametrize("approximate", ["erf", "", None, True])
def test_another_approximation_is_refused(approximate):
    with pytest.raises(ValueError, match='"none" or "tanh"'):
        gelu(torch.zeros(3), approximate)


def test_swiglu_is_its_equation():
    torch.manual_seed(28)
    layer = SwiGLU(6, 10).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    w, v, w_2 = (m.weight for m in (layer.w_gate, layer.w_up, layer.w_down))
    expected = torch.einsum(
        "btf,of->bto",
        F.silu(torch.einsum("btd,fd->btf", x, w)) * torch.einsum("btd,fd->btf", x, v),
        w_2,
    )
    out = layer(x)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)
    direction = torch.randn_like(out)
    torch.testing.assert_close(
        torch.autograd.grad(out, [x, w, v, w_2], direction),
        torch.autograd.grad(expected, [x, w, v, w_2], direction),
        rtol=0,
        atol=1e-10,
    )


def test_swiglu_is_the_feed_forward_network_of_llama():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    torch.manual_seed(28)
    config = LlamaConfig(hidden_size=6, intermediate_size=10, num_attention_heads=1)
    theirs = llama.LlamaMLP(config).double()
    ours = SwiGLU(6, 10).double()
    for name, source in (("w_gate", "gate_proj"), ("w_up", "up_proj"), ("w_down", "down_proj")):
        getattr(ours, name).load_state_dict(getattr(theirs, source).state_dict())
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-10)


def test_swiglu_shapes_and_parameters():
    layer = SwiGLU(6, 10)
    shapes = {name: tuple(weight.shape) for name, weight in layer.state_dict().items()}
    assert shapes == {
        "w_gate.weight": (10, 6),
        "w_up.weight": (10, 6),
        "w_down.weight": (6, 10),
    }
    assert layer(torch.zeros(2, 0, 6)).shape == (2, 0, 6)
    assert layer.bfloat16()(torch.zeros(6, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(("d_model", "d_ff"), [(0, 4), (4, 0), (-1, 4)])
def test_swiglu_without_width_is_refused(d_model, d_ff):
    with pytest.raises(ValueError, match="at least 1"):
        SwiGLU(d_model, d_ff)
