"""The bytes that formulas give are those that are counted, tensor by tensor."""

import pytest
import torch
import torch.nn.functional as F

from training.models.architectures import recompute_layers
from variants.gpt import GPT, GPTConfig
from variants.kv_cache import new_cache
from variants.llama import LLaMA, LLaMAConfig
from variants.memory import (
    Sizes,
    Step,
    activations,
    kv_cache,
    layer_activations,
    layer_parameters,
    moments,
    parameters,
    weights,
)

T = 11
SIZES = {"vocab": 31, "layers": 3, "d_model": 24, "heads": 6, "d_ff": 40}  # no two are equal


def gpt(dropout=0.0):
    return GPT(GPTConfig(31, T, n_layers=3, n_heads=6, d_model=24, d_ff=40, dropout=dropout))


def llama(kv_heads=6):
    return LLaMA(LLaMAConfig(31, T, 3, n_heads=6, n_kv_heads=kv_heads, d_model=24, d_ff=40))


def storages(tensors):
    """The bytes of the storages of tensors, shared ones once."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def counted(model, batch):
    """The bytes that autograd stores of a forward pass, except parameters and buffers."""
    own = {
        tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())
    }
    stored = []

    def keep(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            stored.append(tensor)
        return tensor

    tokens = torch.randint(1, 31, (batch, T + 1))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    return storages(stored)


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (gpt, Sizes(model="gpt", context=T, **SIZES)),
        (llama, Sizes(model="llama", **SIZES)),
        (lambda: llama(kv_heads=2), Sizes(model="llama", kv_heads=2, **SIZES)),
    ],
    ids=["gpt", "llama", "grouped"],
)
def test_parameters_moments_and_cache_are_exact(model, sizes):
    model = model()
    assert parameters(sizes) == sum(parameter.numel() for parameter in model.parameters())
    assert weights(sizes) == storages(model.parameters())
    adam = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 5, dtype=torch.long)).sum().backward()
    adam.step()
    states = adam.state.values()
    averages = [state[name] for state in states for name in ("exp_avg", "exp_avg_sq")]
    assert moments(sizes) == storages(averages)
    cache = new_cache(model.config, 2, 9)
    with torch.no_grad():
        model.double()(torch.randint(31, (2, 7)), cache)
    assert kv_cache(sizes, 2, 9, 8) == storages([cache.keys, cache.values])


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize(("number", "batch"), [(4, 3), (8, 2), (4, 1)])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_activations_are_exact(dropout, number, batch, recompute):
    model = gpt(dropout).to({4: torch.float32, 8: torch.float64}[number])
    if recompute:
        recompute_layers(model)
    dropped = number if dropout else 0
    step = Step(batch=batch, tokens=T, number=number, dropped=dropped, recompute=recompute)
    assert activations(Sizes(model="gpt", context=T, **SIZES), step) == counted(model, batch)


def test_a_layer_is_korthikanti_s_except_what_its_norms_store():
    """Eq. 1: s b h (34 + 5 a s / h) bytes."""
    sizes = Sizes(model="gpt", vocab=50, layers=1, d_model=1024, heads=16, d_ff=4096)
    parts = layer_activations(sizes, Step(batch=4, tokens=512, number=2, dropped=1))
    rows, d = 4 * 512, 1024
    published = rows * d * 34 + 5 * 16 * 512 * rows
    assert sum(parts.values()) == published + 2 * rows * 2 * 2  # mean and 1 / std, of both norms


def test_published_sizes():
    """GPT-2's 124 million, LLaMA's 6.7 billion; LLaMA 2's 70 billion and its cache, with 8 KV heads."""
    small = Sizes(
        model="gpt", vocab=50257, layers=12, d_model=768, heads=12, d_ff=3072, context=1024
    )
    assert parameters(small) == 124_439_808
    assert layer_parameters(small) == 12 * 768**2 + 13 * 768
    shape = {"model": "llama", "vocab": 32000}
    seven = Sizes(**shape, layers=32, d_model=4096, heads=32, d_ff=11008)
    assert parameters(seven) == 6_738_415_616
    assert kv_cache(seven, 1, 4096, 2) == 2 * 2**30
    seventy = Sizes(**shape, layers=80, d_model=8192, heads=64, d_ff=28672, kv_heads=8)
    assert parameters(seventy) == 68_976_648_192
    assert kv_cache(seventy, 1, 4096, 2) == 1.25 * 2**30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "bert", "heads": 2}, "model must be gpt or llama, got 'bert'"),
        ({"model": "gpt", "heads": 5}, "heads must divide d_model"),
        ({"model": "llama", "heads": 4, "kv_heads": 3}, "and kv_heads heads"),
        ({"model": "gpt", "heads": 4, "kv_heads": 2}, "kv_heads must be 0 unless model is llama"),
    ],
)
def test_bad_sizes(changes, message):
    with pytest.raises(ValueError, match=message):
        Sizes(vocab=5, layers=1, d_model=12, d_ff=8, **changes)
