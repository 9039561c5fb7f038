"""Low-rank updates: nothing at first, the merged model in the end, and nothing else is trained."""

import pytest
import torch
from torch import nn

from variants.gpt import GPT, GPTConfig
from variants.llama import LLaMA, LLaMAConfig
from variants.lora import LoRALinear, add_lora, merged

SIZES = {"vocab": 50, "context": 16, "n_layers": 2, "n_heads": 4, "d_model": 24, "d_ff": 40}
TOKENS = torch.arange(24).view(2, 12)


def made(kind):
    torch.manual_seed(3)
    if kind == "gpt":
        return GPT(GPTConfig(**SIZES, dropout=0.0)).double()
    return LLaMA(LLaMAConfig(**SIZES, n_kv_heads=2)).double()


def trained(model, steps=5):
    """A few steps of Adam on what asks for gradients."""
    some = [one for one in model.parameters() if one.requires_grad]
    adam = torch.optim.Adam(some, lr=0.01)
    for _ in range(steps):
        adam.zero_grad()
        nn.functional.cross_entropy(model(TOKENS).flatten(0, 1), TOKENS.flatten()).backward()
        adam.step()
    return model


@pytest.mark.parametrize(
    ("kind", "names"),
    [("gpt", ("w_qkv", "w_2")), ("llama", ("w_q", "w_v")), ("llama", ("w_k", "w_down"))],
)
def test_it_is_the_model_at_first_and_when_merged(kind, names):
    plain, model = made(kind), made(kind)
    add_lora(model, rank=3, names=names)
    assert torch.equal(model(TOKENS), plain(TOKENS))
    trained(model)
    after = model(TOKENS)
    assert (after - plain(TOKENS)).abs().max() > 1e-3
    before = plain.state_dict()
    weights = merged(model.state_dict())
    plain.load_state_dict(weights)
    torch.testing.assert_close(plain(TOKENS), after, rtol=1e-12, atol=1e-12)
    changed = {
        name for name, one in made(kind).state_dict().items() if not one.equal(weights[name])
    }
    assert changed == {name for name in before if name.split(".")[-2] in names and "weight" in name}


def test_the_gradient_is_that_of_the_matrices_product():
    """∂L/∂A = (α / r) Bᵀ ∂L/∂W and ∂L/∂B = (α / r) ∂L/∂W Aᵀ."""
    torch.manual_seed(4)
    linear = nn.Linear(7, 5).double()
    layer = LoRALinear(linear, rank=2, alpha=6.0)
    nn.init.normal_(layer.b)
    weight = (linear.weight + 3.0 * layer.b @ layer.a).detach().requires_grad_()
    x, wanted = torch.randn(4, 7).double(), torch.randn(4, 5).double()
    ((layer(x) - wanted) ** 2).sum().backward()
    ((nn.functional.linear(x, weight, linear.bias) - wanted) ** 2).sum().backward()
    torch.testing.assert_close(layer.a.grad, 3.0 * layer.b.T @ weight.grad)
    torch.testing.assert_close(layer.b.grad, 3.0 * weight.grad @ layer.a.T)
    assert layer.weight.grad is None and layer.weight is linear.weight


def test_only_the_updates_are_trained():
    model = made("llama")
    add_lora(model, rank=3, names=("w_q", "w_v"))
    some = {name: one.numel() for name, one in model.named_parameters() if one.requires_grad}
    assert {name.rpartition(".")[2] for name in some} == {"a", "b"}
    assert sum(some.values()) == 2 * (3 * (24 + 24) + 3 * (24 + 12))


def test_updates_are_in_the_dtype_of_their_layer():
    layer = LoRALinear(nn.Linear(6, 4, bias=False).bfloat16(), rank=2)
    assert {one.dtype for one in layer.parameters()} == {torch.bfloat16} and layer.bias is None
    assert layer(torch.ones(3, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_what_cannot_be_updated_is_refused():
    with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
        add_lora(made("gpt"), rank=0, names=("w_qkv",))
    with pytest.raises(ValueError, match="a linear layer's, got w_q, embed"):
        add_lora(made("gpt"), rank=2, names=("w_q", "embed"))
