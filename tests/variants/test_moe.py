"""The mixture of experts against Mixtral's block and loss with copied weights."""

import pytest
import torch

from tests.variants.recorders import Results
from variants.hugging_face import mixtral_moe
from variants.moe import MixtureOfExperts, load_balancing_loss

SIZES = [(7, 5, 4, 2), (6, 9, 5, 1), (5, 3, 3, 3), (8, 5, 7, 4)]  # d_model d_ff N k


# --- The loss -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_loss_is_hugging_faces_over_k(k):
    theirs = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    scores = torch.randn(2, 40, 6, requires_grad=True)
    probs = scores.softmax(-1)
    ours = load_balancing_loss(probs, probs.topk(k).indices)
    expected = theirs.load_balancing_loss_func((scores.view(-1, 6),), num_experts=6, top_k=k)
    torch.testing.assert_close(k * ours, expected, rtol=1e-5, atol=1e-6)
    (gradient,), (expected_gradient,) = (
        torch.autograd.grad(loss, scores) for loss in (k * ours, expected)
    )
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-7)


# --- The mixture ----------------------------------------------------------------------------------


def mixtral(d_model, d_ff, n_experts, k):
    """Mixtral's block in float64, with the names of its weights."""
    modeling = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    from transformers import MixtralConfig

    config = MixtralConfig(
        hidden_size=d_model,
        intermediate_size=d_ff,
        num_local_experts=n_experts,
        num_experts_per_tok=k,
        experts_implementation="eager",
    )
    block = modeling.MixtralSparseMoeBlock(config).double()
    for weight in block.parameters():
        torch.nn.init.normal_(weight, std=weight.size(-1) ** -0.5)
    return block


@pytest.mark.parametrize(("d_model", "d_ff", "n_experts", "k"), SIZES)
def test_it_is_mixtrals_block(d_model, d_ff, n_experts, k, monkeypatch):
    theirs = mixtral(d_model, d_ff, n_experts, k)
    # its router's softmax is in float32 whatever comes in: for once, .float() is to keep all digits
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    ours = MixtureOfExperts(d_model, d_ff, n_experts, k).double()
    ours.load_state_dict(mixtral_moe(theirs.state_dict()))
    x = torch.randn(3, 11, d_model, dtype=torch.float64, requires_grad=True)
    output, expected = ours(x), theirs(x)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
    direction = torch.randn_like(output)
    (gradient,), (expected_gradient,) = (
        torch.autograd.grad(y, x, direction, retain_graph=True) for y in (output, expected)
    )
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-10)
    output.backward(direction)
    expected.backward(direction)
    named = mixtral_moe({name: weight.grad for name, weight in theirs.named_parameters()})
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, named[name], rtol=0, atol=1e-10, msg=name)


def test_published_names_of_single_experts_and_unknown_ones():
    layer = MixtureOfExperts(6, 5, 3, 2)
    published = {"gate.weight": layer.router.w_r.weight}
    for number, expert in enumerate(layer.experts):
        for name, linear in zip("123", (expert.w_gate, expert.w_down, expert.w_up), strict=True):
            published[f"experts.{number}.w{name}.weight"] = linear.weight
    assert {name: id(w) for name, w in mixtral_moe(published).items()} == {
        name: id(w) for name, w in layer.named_parameters()
    }
    with pytest.raises(ValueError, match=r"experts\.0\.w1\.bias"):
        mixtral_moe(published | {"experts.0.w1.bias": torch.zeros(5)})


@pytest.mark.parametrize("factor", [None, 0.5])
def test_the_cpu_reads_from_the_device_once(factor, monkeypatch):
    """For where each expert begins. No other operation has a shape that depends on values."""
    reads, tolist = [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: reads.append(1) or tolist(self))
    layer, x = MixtureOfExperts(6, 5, 4, 2, factor), torch.randn(3, 7, 6)
    with Results() as results:
        layer(x).sum().backward()
    assert "index_select" in results.operations and len(reads) == 1
    reading = {"nonzero", "_local_scalar_dense", "masked_select", "index", "bincount"}
    assert not results.operations & reading
