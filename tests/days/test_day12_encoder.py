"""Day 12 · EncoderLayer(size, self_attn, feed_forward, dropout, norm="post"), Encoder(layer, n)."""

import pytest
import torch
from torch import nn

from course.checks.authoring import DTYPES, backward, gradients, shapes, wanting_gradients
from implementation import attention

SINGLE = "a sentence of one token, or a stack of one layer, is how one begins to look for a mistake"
NORMS = ["post", "pre"]


def layer_of(kind, sizes, norm, dropout=0.0):
    """A layer of this kind, around the smallest parts there are."""
    width = sizes["d_model"]
    return kind(width, OneHead(width), OneMatrix(width), dropout, norm)


def stack_of(kind, layer_kind, sizes, norm, dropout=0.0):
    """A stack of two such layers."""
    return kind(layer_of(layer_kind, sizes, norm, dropout), 2)


def stack_of_stand_ins(kind, sizes, norm, n=3, note=None):
    """A stack around layers of the check's own."""
    return kind(stand_in_for(kind, sizes["d_model"], norm, note), n)


def stand_in_for(kind, *given):
    """A stand-in that is a `EncoderLayer` of the stack's own module, as the annotation says."""
    definition = getattr(kind.__init__, "__globals__", {}).get("EncoderLayer")
    base = (
        definition
        if isinstance(definition, type) and issubclass(definition, nn.Module)
        else nn.Module
    )
    return type("StandIn", (StandIn, base), {})(*given)


def whole(mask, query, key):
    """The mask with every axis at its full length: an answer may spell it out before it passes it on."""
    return None if mask is None else mask.expand(query.size(0), query.size(1), key.size(1))


class OneHead(nn.Module):
    """Attention at its smallest: what a layer can do wrong shows as well as with many heads."""

    def __init__(self, size):
        super().__init__()
        self.w_q = nn.Parameter(torch.eye(size))
        self.w_v = nn.Parameter(torch.eye(size))

    def forward(self, query, key, value, mask=None):
        return attention(query @ self.w_q, key, value @ self.w_v, mask)[0]


class OneMatrix(nn.Module):
    """A network at its smallest."""

    def __init__(self, size):
        super().__init__()
        self.w = nn.Parameter(torch.eye(size))

    def forward(self, x):
        return (x @ self.w).relu()


class Part(nn.Module):
    """Stands for attention or the network: notes what it is called on, and gives something simple back."""

    def __init__(self, note, give):
        super().__init__()
        self.note = note
        self.give = give


class Attention(Part):
    def forward(self, query, key, value, mask=None):
        mask = whole(mask, query, key)
        self.note({"query": query, "key": key, "value": value, "mask": mask})
        return self.give(query, value)


class Network(Part):
    def forward(self, x):
        self.note({"feed_forward": x})
        return self.give(x)


class StandIn(nn.Module):
    """Stands for an encoder layer: it turns, scales and shifts, so that order shows, and adds what the
    mask lets through."""

    def __init__(self, size, norm, note=None):
        nn.Module.__init__(self)
        self.size = size
        self.norm = norm
        self.gain = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.ones(size))
        self.note = note or (lambda mask: None)

    def forward(self, x, mask=None):
        self.note(whole(mask, x, x))
        if mask is not None:
            x = x + mask.to(x.dtype) @ x
        return x.roll(1, dims=-1) * self.gain + self.bias


def reached(inputs, module):
    """The gradients of inputs and weights."""
    return gradients(inputs) | gradients(module)


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def sizes(draw):
    """Sizes that are all different, of a batch and of a model."""
    return dict(zip(["B", "S", "d_model"], [*draw.sizes(2, 5, 2), draw.size(6, 9)], strict=True))


@pytest.fixture
def norm(draw):
    """One of the two."""
    return draw.choice(NORMS)


@pytest.fixture
def x(draw, sizes):
    """Sentences."""
    return draw.normal(sizes["B"], sizes["S"], sizes["d_model"], mean=0.3)


@pytest.fixture
def mask(draw, sizes, shape):
    """The same for every query, or each query's own."""
    return draw.mask(*(sizes.get(axis, 1) for axis in shape.split()))


@pytest.fixture
def padding(draw, sizes):
    """Which tokens are real, `(B, 1, S)`."""
    return draw.mask(sizes["B"], 1, sizes["S"])


@pytest.fixture
def other_padding(draw, sizes, x, padding):
    """The same sentences with something else at the padded places."""
    other = draw.normal(sizes["B"], sizes["S"], sizes["d_model"], scale=3.0)
    return torch.where(padding.transpose(1, 2), x, other)


@pytest.fixture
def one_token(draw, sizes):
    """One sentence of one token."""
    return draw.normal(1, 1, sizes["d_model"], mean=0.3)


@pytest.fixture
def longer(draw, sizes):
    """Another batch, of longer sentences, and a mask for it."""
    b, s = sizes["B"] + 1, sizes["S"] + 2
    return {"x": draw.normal(b, s, sizes["d_model"]), "mask": draw.mask(b, s, s)}


@pytest.fixture
def of_dtype(draw, sizes, dtype):
    """Sentences in this dtype, and a mask."""
    b, s = sizes["B"], sizes["S"]
    return {
        "x": draw.normal(b, s, sizes["d_model"], mean=0.3, dtype=dtype),
        "mask": draw.mask(b, 1, s),
    }


@pytest.fixture
def many(draw):
    """Many tokens, so that shares can be counted."""
    return draw.normal(20, 20, 10)


@pytest.fixture
def share(draw):
    """The share that dropout takes."""
    return draw.choice([0.2, 0.4, 0.6, 0.8])


# --- EncoderLayer ---------------------------------------------------------------------------------


def test_parameters_of_a_layer(answer, build, sizes):
    """The layer holds its two parts, and two connections as `sublayer`; there are no other parameters."""
    return shapes(build(layer_of, answer.EncoderLayer, sizes, "post"))


@pytest.mark.constant("the usual norm", "it is the paper's")
@pytest.mark.constant("the parts are those given", "they are, whatever the sizes")
def test_what_a_layer_keeps(answer, sizes, norm):
    """The layer stores its parts as given, and `size` and `norm` for the stack; post-norm is the
    default."""
    attention, network = nn.Identity(), nn.Identity()
    layer = answer.EncoderLayer(sizes["d_model"], attention, network, 0.0, norm)
    usual = answer.EncoderLayer(sizes["d_model"], attention, network, 0.0)
    return {
        "size": layer.size,
        "norm": layer.norm,
        "the usual norm": usual.norm,
        "the parts are those given": layer.self_attn is attention and layer.feed_forward is network,
    }


@pytest.mark.parametrize("norm", NORMS)
def test_layer(answer, build, sizes, x, norm):
    """Attention comes first, then the feed-forward network, each in its own connection."""
    return {"output": build(layer_of, answer.EncoderLayer, sizes, norm)(x)}


@pytest.mark.parametrize("norm", NORMS)
def test_what_the_parts_are_given(answer, build, sizes, x, padding, norm):
    """Query, key and value are the same tokens; the feed-forward network's input is the sum after
    attention."""
    arguments = {}
    attention = Attention(arguments.update, lambda query, value: 0.5 * query + value.mean(1, True))
    network = Network(arguments.update, lambda x: -2.0 * x)
    layer = build(answer.EncoderLayer, sizes["d_model"], attention, network, 0.0, norm)
    output = layer(x, padding)
    return arguments | {"output": output}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", ["B 1 S", "B S S"])
def test_mask_of_a_layer(answer, build, sizes, x, mask, shape, norm):
    """The mask hides keys, for all queries or for each query separately."""
    return {"output": build(layer_of, answer.EncoderLayer, sizes, norm)(x, mask=mask)}


@pytest.mark.parametrize("norm", NORMS)
def test_padding_is_invisible_to_a_layer(answer, build, sizes, x, other_padding, padding, norm):
    """The real tokens' outputs do not depend on the contents of padded positions."""
    layer = build(layer_of, answer.EncoderLayer, sizes, norm)
    real = padding.squeeze(1)
    return {
        "real tokens": layer(x, padding)[real],
        "with another padding": layer(other_padding, padding)[real],
    }


@pytest.mark.watertight(SINGLE)
def test_one_token(answer, build, sizes, one_token, norm):
    """In a sentence of one token, the token attends to itself."""
    return {"output": build(layer_of, answer.EncoderLayer, sizes, norm)(one_token)}


def test_second_call(answer, build, sizes, x, padding, longer, norm):
    """A call does not depend on earlier calls, with the same or different sizes."""
    layer = build(layer_of, answer.EncoderLayer, sizes, norm)
    return {"first": layer(x, padding), "second": layer(**longer), "without a mask": layer(x)}


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_of_everything(answer, build, sizes, x, norm):
    """If dropout drops every sublayer's output, the residuals and the norms remain."""
    return {"output": build(layer_of, answer.EncoderLayer, sizes, norm, dropout=1.0)(x)}


@pytest.mark.parametrize("norm", NORMS)
def test_evaluation(answer, build, sizes, x, norm):
    """In evaluation mode, dropout is inactive."""
    return {"output": build(layer_of, answer.EncoderLayer, sizes, norm, dropout=0.5).eval()(x)}


def test_share_that_is_dropped(answer, build, many, share):
    """Dropout is applied once to each part's output, and the remaining values are scaled up."""

    def seen(attends, thinks):
        attention = Attention(lambda seen: None, lambda query, value: attends * value.abs().sign())
        network = Network(lambda seen: None, lambda x: thinks * x.abs().sign())
        layer = build(answer.EncoderLayer, many.size(-1), attention, network, share, "pre")
        added = layer(many) - many
        gone = (added.abs() < 0.5).double().mean().item()
        return {"share dropped": round(gone, 1), "largest": added.max()}

    return {"attention": seen(1.0, 0.0), "feed_forward": seen(0.0, 1.0)}


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_of_a_layer(answer, build, sizes, x, padding, norm):
    """Gradients reach the tokens and every weight."""
    layer = build(layer_of, answer.EncoderLayer, sizes, norm)
    inputs = wanting_gradients({"x": x})
    backward(layer(inputs["x"], padding))
    return {"gradients": reached(inputs, layer)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_a_layer(answer, build, sizes, of_dtype, dtype):
    """The output has the dtype of the weights and the tokens."""
    post = build(layer_of, answer.EncoderLayer, sizes, "post", dtype=dtype)
    pre = build(layer_of, answer.EncoderLayer, sizes, "pre", dtype=dtype)
    return {"post-norm": post(**of_dtype), "pre-norm": pre(**of_dtype)}


# --- Encoder --------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_parameters_of_the_stack(answer, build, sizes, norm):
    """`layers` holds n layers with separate weights; there is a `norm` only in pre-norm."""
    return shapes(build(stack_of_stand_ins, answer.Encoder, sizes, norm))


@pytest.mark.parametrize("norm", NORMS)
def test_layers_in_turn(answer, build, sizes, x, norm):
    """Each layer gets the output of the previous layer; in pre-norm, the last sum is normalized."""
    return {"output": build(stack_of_stand_ins, answer.Encoder, sizes, norm)(x)}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", ["B 1 S", "B S S"])
def test_every_layer_gets_the_mask(answer, build, sizes, x, mask, shape, norm):
    """Every layer gets the mask of the stack."""
    masks = []
    stack = build(stack_of_stand_ins, answer.Encoder, sizes, norm, note=masks.append)
    output = stack(x, mask)
    return {"masks": masks, "output": output}


@pytest.mark.watertight(SINGLE)
def test_stack_of_one(answer, build, sizes, x, padding, norm):
    """A stack can have a single layer."""
    return {"output": build(stack_of_stand_ins, answer.Encoder, sizes, norm, n=1)(x, padding)}


@pytest.mark.constant("copies are the layer itself", "never, whatever the sizes")
def test_copies(answer, build, sizes, x):
    """The layers are copies of the given layer, and later changes of that layer do not affect them."""
    layer = build(stand_in_for, answer.Encoder, sizes["d_model"], "post")
    stack = answer.Encoder(layer, 3)
    with torch.no_grad():
        layer.gain *= 3.0
    return {
        "copies are the layer itself": any(copy is layer for copy in stack.layers),
        "output": stack(x),
    }


@pytest.mark.parametrize("norm", NORMS)
def test_encoder(answer, build, sizes, x, padding, norm):
    """Your stack of your own layers gives the right result."""
    return {"output": build(stack_of, answer.Encoder, answer.EncoderLayer, sizes, norm)(x, padding)}


def test_padding_is_invisible(answer, build, sizes, x, other_padding, padding, norm):
    """The real tokens' outputs do not depend on the contents of padded positions, through all layers."""
    encoder = build(stack_of, answer.Encoder, answer.EncoderLayer, sizes, norm)
    real = padding.squeeze(1)
    return {
        "real tokens": encoder(x, padding)[real],
        "with another padding": encoder(other_padding, padding)[real],
    }


def test_evaluation_of_the_stack(answer, build, sizes, x, norm):
    """`eval()` on the stack reaches every layer, so dropout is inactive."""
    encoder = build(stack_of, answer.Encoder, answer.EncoderLayer, sizes, norm, dropout=0.5)
    return {"output": encoder.eval()(x)}


def test_gradients(answer, build, sizes, x, padding, norm):
    """Gradients reach the tokens and every weight of every layer."""
    encoder = build(stack_of, answer.Encoder, answer.EncoderLayer, sizes, norm)
    inputs = wanting_gradients({"x": x})
    backward(encoder(inputs["x"], padding))
    return {"gradients": reached(inputs, encoder)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, sizes, of_dtype, dtype):
    """The output has the dtype of the weights and the tokens, even after the final norm."""
    stack = build(stack_of_stand_ins, answer.Encoder, sizes, "pre", n=1, dtype=dtype)
    return {"output": stack(**of_dtype)}
