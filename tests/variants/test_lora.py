"""Low-rank updates: nothing at first, the merged model in the end, and nothing else is trained.

The independent oracle is `torch.nn.utils.parametrize`: there, W + (α / r) B A is computed as one matrix, in
an ordinary linear layer, and autograd finds the gradients of both factors from its gradient.
"""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from variants.gpt import GPT, GPTConfig
from variants.llama import LLaMA, LLaMAConfig
from variants.lora import LoRALinear, add_lora, merge_lora, merged

SIZES = {"vocab": 50, "context": 16, "n_layers": 2, "n_heads": 4, "d_model": 24, "d_ff": 40}
TOKENS = torch.arange(24).view(2, 12)


def made(kind):
    torch.manual_seed(3)
    if kind == "gpt":
        return GPT(GPTConfig(**SIZES, dropout=0.0)).double()
    return LLaMA(LLaMAConfig(**SIZES, n_kv_heads=2)).double()


def trained(model, steps=5):
    """A few steps of Adam on what asks for gradients."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adam = torch.optim.Adam(parameters, lr=0.01)
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
        name for name, tensor in made(kind).state_dict().items() if not tensor.equal(weights[name])
    }
    assert changed == {name for name in before if name.split(".")[-2] in names and "weight" in name}


class Sum(nn.Module):
    """The weight of a linear layer with an update, as one matrix."""

    def __init__(self, layer):
        super().__init__()
        self.a, self.b = (nn.Parameter(factor.detach().clone()) for factor in (layer.a, layer.b))
        self.scale = layer.scale

    def forward(self, weight):
        return weight + torch.einsum("or,ri->oi", self.b, self.a).mul(self.scale)


def test_it_trains_as_a_weight_that_is_a_sum():
    """The same updates after some steps, and the same merged weights, in float64."""
    theirs, ours = made("llama"), made("llama")
    add_lora(ours, 3, ("w_q", "w_down"), alpha=6.0)
    theirs.requires_grad_(False)
    sums = {}
    for name, layer in ours.named_modules():
        if isinstance(layer, LoRALinear):
            sums[name] = Sum(layer)
            parametrize.register_parametrization(theirs.get_submodule(name), "weight", sums[name])
    assert len(sums) == 4
    trained(theirs)
    trained(ours)
    for name, update in sums.items():
        torch.testing.assert_close(ours.get_submodule(name).a, update.a, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(ours.get_submodule(name).b, update.b, rtol=1e-8, atol=1e-10)
    of_the_state = merged(ours.state_dict(), alpha=6.0)
    merge_lora(ours)
    assert not any(parameter.requires_grad for parameter in ours.parameters())
    assert not any(isinstance(layer, LoRALinear) for layer in ours.modules())
    for name in sums:
        weight = theirs.get_submodule(name).weight
        torch.testing.assert_close(ours.get_submodule(name).weight, weight, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(dict(ours.state_dict()), of_the_state, rtol=1e-12, atol=1e-14)
