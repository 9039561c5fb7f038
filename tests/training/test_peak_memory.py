"""The bytes that formulas give are those that are counted, tensor by tensor."""

import pytest
import torch

from tests.training.conftest import small
from training.data.tasks import load
from training.models.architectures import Objective, build, count, recompute_layers
from training.models.peak_memory import inference_peak, sizes_of, to_look_at, training_peak
from variants.kv_cache import new_cache
from variants.memory import (
    Sizes,
    Step,
    activations,
    kv_cache,
    layer_activations,
    layer_parameters,
    moments,
    outer_activations,
    parameters,
    tables,
    weights,
)

T = 11
CASES = {
    "paper": {},
    "paper, pre-norm, tied": {"norm": "pre", "tie": True},
    "gpt": {"model": "gpt"},
    "llama": {"model": "llama"},
    "llama, grouped": {"model": "llama", "kv_heads": 2},
}


def made(poem, **changes):
    """A model and its sizes, none of which are equal."""
    usual = {"layers": 3, "d_model": 24, "heads": 6, "d_ff": 40, "context": T, "dropout": 0.0}
    settings = small("text", data=str(poem), **(usual | {"fused": False} | changes))
    languages = load(settings, None).languages
    return build(settings, languages), sizes_of(settings, len(languages.target))


def storages(tensors):
    """The bytes that tensors lie in, shared ones once."""
    return sum(
        {one.data_ptr(): one.nbytes() for one in (t.untyped_storage() for t in tensors)}.values()
    )


def counted(model, sizes, batch):
    """The bytes that autograd keeps of a forward pass, but for parameters and buffers."""
    own = {one.untyped_storage().data_ptr() for one in (*model.parameters(), *model.buffers())}
    kept = []

    def keep(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept.append(tensor)
        return tensor

    tokens = torch.randint(1, sizes.vocab, (batch, T + 1))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss, _ = Objective(model, 0.0)(None, tokens)
    loss.backward()
    return storages(kept)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_parameters_and_moments_are_exact(poem, changes):
    model, sizes = made(poem, **changes)
    assert parameters(sizes) == count(model)
    assert weights(sizes) == storages(model.parameters())
    beside = list(model.buffers()) + [
        one.angles for one in model.modules() if hasattr(one, "angles")
    ]
    assert tables(sizes) == storages(beside)
    adam = torch.optim.Adam(model.parameters())
    Objective(model, 0.0)(None, torch.ones(2, 5, dtype=torch.long))[0].backward()
    adam.step()
    states = adam.state.values()
    assert moments(sizes) == storages(s[name] for s in states for name in ("exp_avg", "exp_avg_sq"))


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize(("number", "batch"), [(4, 3), (8, 2), (4, 1)])
@pytest.mark.parametrize(
    "changes",
    [
        *CASES.values(),
        {"dropout": 0.1},
        {"dropout": 0.1, "norm": "pre"},
        {"dropout": 0.1, "model": "gpt"},
        {"fused": True},
        {"fused": True, "norm": "pre"},
        {"fused": True, "model": "gpt"},
        {"fused": True, "model": "llama", "kv_heads": 2},
    ],
    ids=str,
)
def test_activations_are_exact(poem, changes, number, batch, recompute):
    model, sizes = made(poem, **changes)
    model.to({4: torch.float32, 8: torch.float64}[number])
    if recompute:
        recompute_layers(model)
    step = Step(
        batch=batch,
        tokens=T,
        number=number,
        dropped=number if changes.get("dropout") else 0,
        fused=changes.get("fused", False),
        recompute=recompute,
    )
    assert activations(sizes, step) == counted(model, sizes, batch)


def test_a_layer_is_korthikanti_s_but_for_what_its_norms_store():
    """Eq. 1: s b h (34 + 5 a s / h) bytes."""
    sizes = Sizes(model="gpt", vocab=50, layers=1, d_model=1024, heads=16, d_ff=4096)
    parts = layer_activations(sizes, Step(batch=4, tokens=512, number=2, dropped=1))
    rows, d = 4 * 512, 1024
    theirs = rows * d * 34 + 5 * 16 * 512 * rows
    assert sum(parts.values()) == theirs + 2 * rows * 2 * 2  # mean and 1 / std, of both norms


def test_published_sizes():
    """GPT-2's 124 million, LLaMA's 6.7 billion; LLaMA 2's 70 billion and its cache, with eight sets."""
    gpt = Sizes(model="gpt", vocab=50257, layers=12, d_model=768, heads=12, d_ff=3072, context=1024)
    assert parameters(gpt) == 124_439_808
    assert layer_parameters(gpt) == 12 * 768**2 + 13 * 768
    shape = {"model": "llama", "vocab": 32000}
    llama = Sizes(**shape, layers=32, d_model=4096, heads=32, d_ff=11008)
    assert parameters(llama) == 6_738_415_616
    assert kv_cache(llama, 1, 4096, 2) == 2 * 2**30
    large = Sizes(**shape, layers=80, d_model=8192, heads=64, d_ff=28672, kv_heads=8)
    assert parameters(large) == 68_976_648_192
    assert kv_cache(large, 1, 4096, 2) == 1.25 * 2**30


def test_the_cache_is_exact():
    from variants.llama import LLaMA, LLaMAConfig

    config = LLaMAConfig(
        vocab=50, context=20, n_layers=3, n_heads=6, n_kv_heads=2, d_model=24, d_ff=40
    )
    cache = new_cache(config, 2, 13)
    with torch.no_grad():
        LLaMA(config).double()(torch.randint(50, (2, 7)), cache)
    sizes = Sizes(
        model="llama", vocab=50, layers=3, d_model=24, heads=6, kv_heads=2, d_ff=40, context=20
    )
    assert kv_cache(sizes, 2, 13, 8) == storages([cache.keys, cache.values])
    assert inference_peak(sizes, Step(batch=2, tokens=7, number=8), 13)["cache"] == kv_cache(
        sizes, 2, 13, 8
    )


def test_the_peak_is_where_most_is_held():
    """A long batch is largest when the backward pass begins, a short one when Adam steps."""
    sizes = Sizes(model="gpt", vocab=500, layers=6, d_model=64, heads=4, d_ff=256, context=512)
    long, short = Step(batch=8, tokens=512), Step(batch=1, tokens=8)
    begun, ended = training_peak(sizes, long), training_peak(sizes, short)
    assert begun["activations"] == activations(sizes, long) and begun["gradients"] == 0
    assert ended["activations"] == 0 and ended["gradients"] == weights(sizes)
    again = Step(batch=8, tokens=512, recompute=True)
    less = training_peak(sizes, again)
    assert sum(less.values()) < sum(begun.values()) / 2
    assert less["activations"] < outer_activations(sizes, again)["head"] * 4


def test_weights_to_look_at_are_held_by_the_paper_s_decoder(poem):
    """They are there after a pass without gradients, and not where they were never written down."""
    for fused in (False, True):
        model, sizes = made(poem, fused=fused)
        with torch.no_grad():
            model(torch.ones(3, 7, dtype=torch.long))
        kept = [one.weights for one in model.modules() if getattr(one, "weights", None) is not None]
        step = Step(batch=3, tokens=7, fused=fused)
        assert to_look_at(sizes, step) == storages(kept)
        assert inference_peak(sizes, step)["to look at"] == storages(kept)
    assert to_look_at(made(poem, model="gpt")[1], Step(batch=3, tokens=7)) == 0


def test_sizes_that_there_are_not():
    usual = {"vocab": 5, "layers": 1, "d_model": 12, "d_ff": 8}
    for wrong in ({"model": "bert", "heads": 2}, {"model": "gpt", "heads": 5}):
        with pytest.raises(ValueError, match=r"must"):
            Sizes(**usual, **wrong)
    with pytest.raises(ValueError, match="llama"):
        Sizes(**usual, model="gpt", heads=4, kv_heads=2)
    with pytest.raises(ValueError, match="no such kernel"):
        Step(batch=1, tokens=1, fused=True, dropped=4)
