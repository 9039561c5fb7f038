"""The paper's model in PyTorch's kernels computes what the lessons' classes compute, gradients included."""

import copy

import pytest
import torch
from torch import nn

from implementation import Batch, LayerNorm, MultiHeadedAttention, make_model
from training.models.fused import FUSED, fuse

# Roundings that results may be apart, in their dtype's eps: sums are made in another order. Ninety were seen.
ROUNDINGS = 512


def are_alike(tensor, other):
    """Equal but for rounding."""
    room = ROUNDINGS * torch.finfo(tensor.dtype).eps
    torch.testing.assert_close(other, tensor, rtol=room, atol=room * float(tensor.abs().max()))


def both(dtype=torch.float64, dropout=0.0):
    """The same model twice, the second fused."""
    torch.manual_seed(0)
    model = make_model(11, 11, n=2, d_model=16, d_ff=24, h=4, dropout=dropout, norm="pre").to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():  # so that attention is not even
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model, fuse(copy.deepcopy(model))


def batch():
    """Three pairs; the second source is only padding, so that its decoder attends to nothing."""
    src, tgt = torch.randint(1, 11, (3, 6)), torch.randint(1, 11, (3, 5))
    src[0, 4:] = src[1] = tgt[2, 3:] = 0
    return Batch(src, tgt)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_results_and_gradients(dtype):
    slow, fast = both(dtype)
    rows, results = batch(), []
    for model in (slow, fast):
        states = model(rows.src, rows.tgt, rows.src_mask, rows.tgt_mask)
        states.float().square().sum().backward()
        gradients = [  # that of a key's bias is 0, but for rounding
            weight.grad
            for name, weight in model.named_parameters()
            if weight.grad is not None and not name.endswith("w_k.bias")
        ]
        results.append([states, *gradients])
    for tensor, other in zip(*results, strict=True):
        assert other.isfinite().all()
        are_alike(tensor.detach(), other.detach())


def test_it_can_be_switched_back():
    slow, fast = both()
    assert list(slow.state_dict()) == list(fast.state_dict())
    assert {type(module) for module in fast.modules()} >= set(FUSED.values())
    assert not {type(module) for module in fast.modules()} & FUSED.keys()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    assert fast.encoder.layers[0].self_attn(x, x, x).shape == x.shape
    assert fast.encoder.layers[0].self_attn.weights is None
    back = fuse(fast, False)
    assert [type(module) for module in back.modules()] == [
        type(module) for module in slow.modules()
    ]
    assert torch.equal(back.encoder(x, None), slow.encoder(x, None))


def test_dropout_is_only_for_training():
    _, model = both(dropout=0.5)
    attention, x = model.encoder.layers[0].self_attn, torch.randn(2, 5, 16, dtype=torch.float64)
    assert not torch.equal(attention(x, x, x), attention(x, x, x))
    attention.eval()
    assert torch.equal(attention(x, x, x), attention(x, x, x))


def test_a_learners_own_class_is_left_alone():
    class Mine(MultiHeadedAttention):
        pass

    model = fuse(nn.ModuleList([Mine(2, 8), LayerNorm(8)]))
    assert type(model[0]) is Mine and type(model[1]) is FUSED[LayerNorm]
