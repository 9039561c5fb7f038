"""Day 46 · LoRALinear(linear, rank, alpha), add_lora(model, rank, names, alpha), merge_lora(model)."""

from collections import OrderedDict

import pytest
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course.checks.authoring import (
    DTYPES,
    FLOAT64,
    backward,
    gradients,
    named_parameters,
    shapes,
    wanting_gradients,
)

LARGE = "the product B A is as large as the weight, which a small layer does not notice"
AXES = "an input without a batch is rare in training"
SHARED = "a model that is merged is seldom used again without its update"
NAMES = ("w_q", "head", "embed")  # the last names no linear layer, though it has one inside


# --- Models ---------------------------------------------------------------------------------------


def tower(vocab, width, inner, classes):
    """Two blocks between embeddings and a head. Of the names, `w_q` is a part of two others."""

    def block():
        parts = {
            "w_q": nn.Linear(width, inner),
            "norm": nn.LayerNorm(inner),
            "w_qk": nn.Linear(inner, inner, bias=False),
            "w_up": nn.Linear(inner, inner),
            "new_w_q": nn.Linear(inner, width),
        }
        return nn.Sequential(OrderedDict(parts))

    embed = {"table": nn.Embedding(vocab, width), "inner": nn.Linear(width, width)}
    parts = {
        "embed": nn.Sequential(OrderedDict(embed)),
        "block_1": block(),
        "block_2": block(),
        "w_q": nn.Linear(width, width, bias=False),
        "head": nn.Linear(width, classes, bias=False),
    }
    return nn.Sequential(OrderedDict(parts))


def updated(add_lora, sizes, how):
    """Make a tower with updates."""
    model = tower(**sizes)
    add_lora(model, **how)
    return model


def weights(module):
    """The numbers of all parameters by name."""
    return {name: parameter.detach().clone() for name, parameter in named_parameters(module)}


def trained(module):
    """The shapes of the parameters that require gradients, and the names of those that do not."""
    frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
    trainable = {name: shape for name, shape in shapes(module).items() if name not in frozen}
    return {"trained": trainable, "frozen": joined(frozen)}


def joined(names):
    """Names in the order of the alphabet."""
    return ", ".join(sorted(names)) or "none"


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def dtype():
    """What numbers are in, unless a check says otherwise."""
    return "float32"


@pytest.fixture
def leading():
    """The axes before the last one, unless a check says otherwise."""
    return 2


@pytest.fixture
def layer(draw):
    """The arguments of an `nn.Linear`."""
    d_in, d_out = draw.sizes(5, 11, 2)
    return {"in_features": d_in, "out_features": d_out}


@pytest.fixture
def how(draw):
    """Rank and α, of which neither divides the other."""
    return {"rank": draw.size(2, 4), "alpha": draw.choice([5.0, 7.0, 11.0])}


@pytest.fixture
def x(draw, layer, dtype, leading):
    """What goes into the layer."""
    return draw.normal(*draw.sizes(2, 4, 2)[:leading], layer["in_features"], dtype=dtype)


@pytest.fixture
def sizes(draw):
    """The sizes of a tower."""
    vocab, width, inner, classes = draw.sizes(4, 12, 4)
    return {"vocab": vocab, "width": width, "inner": inner, "classes": classes}


@pytest.fixture
def tokens(draw, sizes):
    """Tokens for a tower."""
    return draw.integers(0, sizes["vocab"] - 1, *draw.sizes(2, 5, 2))


@pytest.fixture
def lora(how):
    """All that `add_lora` is given, apart from the model."""
    return {**how, "names": NAMES}


# --- LoRALinear -----------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_same_at_first(answer, build, layer, how, x):
    """The update is 0 at initialization, because B is."""
    linear = build(nn.Linear, **layer)
    new = answer.LoRALinear(linear, **how)
    return {"output": new(x), "b": new.b}


@pytest.mark.constant("A x beside x", "it always is about as large")
def test_a_is_drawn(answer, build, layer):
    """A is drawn from N(0, 1 / d_in): the product of two zeros would never learn."""
    d_in = 30 * layer["in_features"]
    a = answer.LoRALinear(build(nn.Linear, d_in, 16 + layer["out_features"]), 16).a
    size = a.std() * d_in**0.5
    limits = {"0": 0, "much smaller": 0.4, "smaller": 0.85, "as large": 1.15}
    word = next((name for name, limit in limits.items() if size <= limit), "larger")
    return {"A x beside x": word, "columns of a": a.size(1)}


@pytest.mark.constant(
    *("the layer's own weight", "the layer's own bias", "frozen", "state dict"),
    "neither names nor owners depend on the sizes",
)
def test_frozen(answer, build, layer, how):
    """Only A and B require gradients; weight and bias are the layer's own, not copies."""
    linear = build(nn.Linear, **layer)
    new = answer.LoRALinear(linear, **how)
    own = {
        "the layer's own weight": new.weight is linear.weight,
        "the layer's own bias": new.bias is linear.bias,
    }
    return {**trained(new), **own, "state dict": joined(new.state_dict())}


@pytest.mark.on_devices
def test_output(answer, build, layer, how, x):
    """The update, times α / r, is added to the output of the layer."""
    return {"output": build(lambda: answer.LoRALinear(nn.Linear(**layer), **how))(x)}


def test_default_alpha(answer, build, layer, how, x):
    """By default, α is 16."""
    return {"output": build(lambda: answer.LoRALinear(nn.Linear(**layer), how["rank"]))(x)}


def test_without_bias(answer, build, layer, how, x):
    """A layer without a bias still has none."""
    new = build(lambda: answer.LoRALinear(nn.Linear(**layer, bias=False), **how))
    return {"output": new(x), "parameters": shapes(new)}


def test_gradients(answer, build, layer, how, x):
    """A, B and the input have gradients; the layer's weight and bias have none."""
    new = build(lambda: answer.LoRALinear(nn.Linear(**layer), **how))
    given = wanting_gradients({"x": x})
    backward(new(given["x"]))
    return {"parameters": gradients(new), "input": gradients(given)}


@pytest.mark.constant("dtype of a", "it is the layer's")
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, layer, how, x, dtype):
    """The update has the dtype of its layer."""
    new = answer.LoRALinear(build(nn.Linear, **layer, dtype=dtype), **how)
    return {"output": new(x), "b": new.b, "dtype of a": str(new.a.dtype)}


@pytest.mark.watertight(LARGE)
@pytest.mark.constant(
    "multiplications", "a right answer never needs more than W, A and B have numbers"
)
def test_thin_products(answer, build, layer, how, x):
    """The update goes through the r numbers A x: the product B A is never computed."""
    new = build(lambda: answer.LoRALinear(nn.Linear(**layer), **how))
    with FlopCounterMode(display=False) as counter:
        output = new(x[:1, :1])  # one token
    d_in, d_out = layer.values()
    thin = d_in * d_out + how["rank"] * (d_in + d_out)
    multiplications = counter.get_total_flops() // 2
    return {"multiplications": "few" if multiplications <= thin else "as for B A", "output": output}


@pytest.mark.watertight(AXES)
@pytest.mark.parametrize("leading", [0, 1])
def test_leading_axes(answer, build, layer, how, x, leading):
    """The input may have any number of leading axes."""
    return {"output": build(lambda: answer.LoRALinear(nn.Linear(**layer), **how))(x)}


# --- add_lora -------------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_model_stays_the_same(answer, build, sizes, tokens, lora):
    """At initialization, the model computes the same as before."""
    model = build(tower, **sizes)
    answer.add_lora(model, **lora)
    return {"output": model(tokens)}


@pytest.mark.constant("frozen", "the model always has the same names")
def test_chosen_layers(answer, sizes, lora):
    """The linear layers with the given names have updates, and nothing else is trained."""
    return trained(updated(answer.add_lora, sizes, lora))


def test_updated_model(answer, build, sizes, tokens, lora):
    """Each update has the given rank and scale."""
    return {"output": build(updated, answer.add_lora, sizes, lora)(tokens)}


def test_default_alpha_of_a_model(answer, build, sizes, tokens, lora):
    """By default, α is 16 in all layers."""
    how = {"rank": lora["rank"], "names": NAMES}
    return {"output": build(updated, answer.add_lora, sizes, how)(tokens)}


def test_gradients_of_a_model(answer, build, sizes, tokens, lora):
    """Gradients reach every update through the frozen layers, and no frozen parameter has a gradient."""
    model = build(updated, answer.add_lora, sizes, lora)
    backward(model(tokens))
    return {"parameters": gradients(model)}


@pytest.mark.constant("saved", "unexpected", "the model always has the same names")
def test_update_alone(answer, build, sizes, tokens, lora):
    """Only the updates have to be saved: they turn a copy of the original into the tuned model."""
    source = build(updated, answer.add_lora, sizes, lora)
    update = {
        name: parameter for name, parameter in source.named_parameters() if parameter.requires_grad
    }
    target = build(tower, **sizes)
    answer.add_lora(target, **lora)
    unexpected = target.load_state_dict(update, strict=False).unexpected_keys
    return {"output": target(tokens), "saved": joined(update), "unexpected": joined(unexpected)}


# --- merge_lora -----------------------------------------------------------------------------------


def test_merged_weights(answer, build, sizes, lora):
    """Weights with an update are merged with it; all other weights and all biases do not change."""
    model = build(updated, answer.add_lora, sizes, lora)
    answer.merge_lora(model)
    return {"parameters": weights(model)}


@pytest.mark.parametrize("dtype", [FLOAT64, "float32"])
def test_merged_model(answer, build, sizes, tokens, lora, dtype):
    """The merged model computes the same as the model with updates."""
    model = build(updated, answer.add_lora, sizes, lora, dtype=dtype)
    answer.merge_lora(model)
    return {"output": model(tokens)}


@pytest.mark.constant("kinds", "the model always has the same layers")
def test_plain_layers(answer, sizes, lora):
    """A merged model consists of the original model's layers, without updates."""
    model = updated(answer.add_lora, sizes, lora)
    answer.merge_lora(model)
    kinds = joined(f"{name}: {type(layer).__name__}" for name, layer in model.named_modules())
    sizes = joined(
        f"{name}: {layer.in_features} to {layer.out_features}"
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
    )
    return {"kinds": kinds, "sizes": sizes, "parameters": shapes(model)}


@pytest.mark.watertight(SHARED)
def test_base_stays(answer, build, sizes, lora):
    """The weight that a layer had before it was merged is not changed."""
    model = build(updated, answer.add_lora, sizes, lora)
    weight = model.block_1.w_q.weight
    answer.merge_lora(model)
    return {"the old weight": weight}
