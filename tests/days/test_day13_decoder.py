"""Day 13 · subsequent_mask(size), DecoderLayer(size, self_attn, src_attn, …), Decoder(layer, n)."""

import pytest
import torch
from torch import nn

from course.checks.authoring import DTYPES, backward, gradients, shapes, wanting_gradients
from implementation import attention

NORMS = ["post", "pre"]


def layer_of(kind, sizes, norm, dropout=0.0):
    """A layer of this kind, around the smallest parts there are."""
    width = sizes["d_model"]
    return kind(width, OneHead(width), OneHead(width), OneMatrix(width), dropout, norm)


def stack_of(kind, layer_kind, sizes, norm, dropout=0.0):
    """A stack of two such layers."""
    return kind(layer_of(layer_kind, sizes, norm, dropout), 2)


def stack_of_stand_ins(kind, sizes, norm, n=3, note=None):
    """A stack around layers of the check's own."""
    return kind(stand_in_for(kind, sizes["d_model"], norm, note), n)


def stand_in_for(kind, *given):
    """A stand-in that is a `DecoderLayer` of the stack's own module, as the annotation says."""
    definition = getattr(kind.__init__, "__globals__", {}).get("DecoderLayer")
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


class Attention(nn.Module):
    """Stands for attention: notes what it is called on, and gives something simple back."""

    def __init__(self, note, give):
        super().__init__()
        self.note = note
        self.give = give

    def forward(self, query, key, value, mask=None):
        mask = whole(mask, query, key)
        self.note({"query": query, "key": key, "value": value, "mask": mask})
        return self.give(query, value)


class Network(nn.Module):
    """Stands for the network, likewise."""

    def __init__(self, note, give):
        super().__init__()
        self.note = note
        self.give = give

    def forward(self, x):
        self.note(x)
        return self.give(x)


class StandIn(nn.Module):
    """Stands for a decoder layer: it turns, scales and shifts, so that order shows, and adds what memory
    and masks let through."""

    def __init__(self, size, norm, note=None):
        nn.Module.__init__(self)
        self.size = size
        self.norm = norm
        self.gain = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.ones(size))
        self.note = note or (lambda given: None)

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        masks = {"src_mask": whole(src_mask, x, memory), "tgt_mask": whole(tgt_mask, x, x)}
        self.note({"memory": memory} | masks)
        if tgt_mask is not None:
            x = x + tgt_mask.to(x.dtype) @ x
        if src_mask is not None:
            x = x + src_mask.to(x.dtype) @ memory
        return x.roll(1, dims=-1) * self.gain + self.bias + memory.mean(dim=1, keepdim=True)


def reached(inputs, module):
    """The gradients of inputs and weights."""
    return gradients(inputs) | gradients(module)


def translation(draw, b, t, s, d_model, dtype="float32"):
    """A target, the memory of its source, and the masks of both: each target token sees itself and what
    comes before, some of it padding."""
    own = draw.mask(b, t, t, keep=0.8).tril()
    own.diagonal(dim1=1, dim2=2).fill_(True)
    return {
        "x": draw.normal(b, t, d_model, mean=0.3, dtype=dtype),
        "memory": draw.normal(b, s, d_model, mean=-0.2, scale=1.5, dtype=dtype),
        "src_mask": draw.mask(b, 1, s),
        "tgt_mask": own,
    }


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def length(draw):
    """The number of positions."""
    return draw.size(3, 9)


@pytest.fixture
def another_length(draw, length):
    """Another one, shorter or longer."""
    return length + draw.choice([-2, -1, 1, 2, 3])


@pytest.fixture
def padded(draw, length):
    """Which tokens of a batch are real, `(B, 1, T)`."""
    return draw.mask(3, 1, length)


@pytest.fixture
def sizes(draw):
    """Sizes that are all different, of a batch and of a model."""
    t, s = draw.sizes(3, 5, 2)
    return {"B": 2, "T": t, "S": s, "d_model": draw.size(6, 9)}


@pytest.fixture
def norm(draw):
    """One of the two."""
    return draw.choice(NORMS)


@pytest.fixture
def inputs(draw, sizes):
    """Target and memory of different lengths, and their masks."""
    return translation(draw, sizes["B"], sizes["T"], sizes["S"], sizes["d_model"])


@pytest.fixture
def unmasked(inputs):
    """The same without masks."""
    return {"x": inputs["x"], "memory": inputs["memory"]}


@pytest.fixture
def square(draw, sizes):
    """As many sentences as tokens, in target and source: every mask fits everywhere."""
    return translation(draw, sizes["T"], sizes["T"], sizes["T"], sizes["d_model"])


@pytest.fixture
def longer(draw, sizes):
    """Another batch, of other lengths."""
    return translation(
        draw, sizes["B"] + 1, sizes["T"] + 2, max(1, sizes["S"] - 2), sizes["d_model"]
    )


@pytest.fixture
def causal(draw, inputs):
    """A mask in which every token sees itself and all before, `(1, T, T)`."""
    t = inputs["x"].size(1)
    return draw.integers(1, 1, 1, t, t).bool().tril()


@pytest.fixture
def position(draw, sizes):
    """A position of the target with one before it."""
    return draw.size(1, sizes["T"] - 1)


@pytest.fixture
def other_future(draw, sizes, inputs, position):
    """The same target with other tokens from a position on."""
    other = draw.normal(sizes["B"], sizes["T"], sizes["d_model"], scale=3.0)
    return torch.cat([inputs["x"][:, :position], other[:, position:]], dim=1)


@pytest.fixture
def other_padding(draw, inputs):
    """The same memory with something else at the padded places of the source."""
    memory = inputs["memory"]
    other = draw.normal(*memory.shape, scale=3.0)
    return torch.where(inputs["src_mask"].transpose(1, 2), memory, other)


@pytest.fixture
def of_dtype(draw, sizes, dtype):
    """Everything in this dtype."""
    return translation(draw, sizes["B"], sizes["T"], sizes["S"], sizes["d_model"], dtype)


@pytest.fixture
def many(draw):
    """Many tokens, so that shares can be counted, and a memory."""
    return {"x": draw.normal(20, 20, 10), "memory": draw.normal(20, 3, 10)}


@pytest.fixture
def share(draw):
    """The share that dropout takes."""
    return draw.choice([0.2, 0.4, 0.6, 0.8])


# --- subsequent_mask ------------------------------------------------------------------------------


def test_subsequent_mask(answer, length):
    """Each position may attend to itself and to earlier positions."""
    return {"mask": answer.subsequent_mask(length)}


def test_masks_of_two_lengths(answer, length, another_length):
    """A second mask, of a different length, does not depend on the first."""
    return {
        "first": answer.subsequent_mask(length),
        "second": answer.subsequent_mask(another_length),
    }


def test_mask_joins_a_padding_mask(answer, length, padded):
    """`&` combines the mask with a padding mask `(B, 1, T)`."""
    return {"padding & subsequent": padded & answer.subsequent_mask(length).to(padded.device)}


# --- DecoderLayer ---------------------------------------------------------------------------------


def test_parameters_of_a_layer(answer, build, sizes):
    """The layer holds its three parts, and three connections as `sublayer`; there are no other
    parameters."""
    return shapes(build(layer_of, answer.DecoderLayer, sizes, "post"))


@pytest.mark.constant("the usual norm", "it is the paper's")
@pytest.mark.constant("the parts are those given", "they are, whatever the sizes")
def test_what_a_layer_keeps(answer, sizes, norm):
    """The layer stores its parts as given, and `size` and `norm` for the stack; post-norm is the
    default."""
    own, source, network = nn.Identity(), nn.Identity(), nn.Identity()
    layer = answer.DecoderLayer(sizes["d_model"], own, source, network, 0.0, norm)
    usual = answer.DecoderLayer(sizes["d_model"], own, source, network, 0.0)
    return {
        "size": layer.size,
        "norm": layer.norm,
        "the usual norm": usual.norm,
        "the parts are those given": layer.self_attn is own
        and layer.src_attn is source
        and layer.feed_forward is network,
    }


@pytest.mark.parametrize("norm", NORMS)
def test_layer(answer, build, sizes, unmasked, norm):
    """Self-attention, cross-attention and the feed-forward network follow in this order, each in its
    connection."""
    return {"output": build(layer_of, answer.DecoderLayer, sizes, norm)(**unmasked)}


@pytest.mark.constant("order", "it is the same whatever the sizes")
@pytest.mark.parametrize("norm", NORMS)
def test_what_the_parts_are_given(answer, build, sizes, inputs, norm):
    """The target attends to itself, then to the unchanged memory; the feed-forward network comes last."""
    order, own, source, network = [], {}, {}, {}

    def noting(name, seen):
        return lambda given: (order.append(name), seen.update(given))

    layer = build(
        answer.DecoderLayer,
        sizes["d_model"],
        Attention(noting("own past", own), lambda query, value: 0.5 * query + value.mean(1, True)),
        Attention(noting("source", source), lambda query, value: query - 2 * value.mean(1, True)),
        Network(lambda x: noting("network", network)({"x": x}), lambda x: -2.0 * x),
        0.0,
        norm,
    )
    output = layer(inputs["x"], inputs["memory"], inputs["src_mask"], inputs["tgt_mask"])
    return {
        "order": ", ".join(order),
        "self_attn": own,
        "src_attn": source,
        "feed_forward": network,
        "output": output,
    }


@pytest.mark.parametrize("norm", NORMS)
def test_masks_of_a_layer(answer, build, sizes, inputs, norm):
    """`tgt_mask` applies to self-attention, and `src_mask` to cross-attention."""
    return {"output": build(layer_of, answer.DecoderLayer, sizes, norm)(**inputs)}


@pytest.mark.parametrize("norm", NORMS)
def test_masks_that_fit_everywhere(answer, build, sizes, square, norm):
    """If target and source have the same length, the masks are still not swapped."""
    layer = build(layer_of, answer.DecoderLayer, sizes, norm)
    x, memory, src_mask, tgt_mask = square.values()
    return {
        "both masks": layer(x, memory, src_mask, tgt_mask),
        "only src_mask": layer(x, memory, src_mask=src_mask),
        "only tgt_mask": layer(x, memory, tgt_mask=tgt_mask),
    }


@pytest.mark.parametrize("norm", NORMS)
def test_padding_of_the_source_is_invisible(answer, build, sizes, inputs, other_padding, norm):
    """The outputs do not depend on the contents of the source's padded positions."""
    layer = build(layer_of, answer.DecoderLayer, sizes, norm)
    return {"output": layer(**inputs), "other": layer(**inputs | {"memory": other_padding})}


def test_second_call(answer, build, sizes, inputs, longer, unmasked, norm):
    """A call does not depend on earlier calls, with different lengths or without masks."""
    layer = build(layer_of, answer.DecoderLayer, sizes, norm)
    return {"first": layer(**inputs), "second": layer(**longer), "without masks": layer(**unmasked)}


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_of_everything(answer, build, sizes, inputs, norm):
    """If dropout drops every sublayer's output, the residuals and the norms remain."""
    layer = build(layer_of, answer.DecoderLayer, sizes, norm, dropout=1.0)
    return {"output": layer(**inputs)}


def test_evaluation(answer, build, sizes, inputs, norm):
    """In evaluation mode, dropout is inactive."""
    layer = build(layer_of, answer.DecoderLayer, sizes, norm, dropout=0.5)
    return {"output": layer.eval()(**inputs)}


def test_share_that_is_dropped(answer, build, many, share):
    """Dropout is applied once to each part's output, and the remaining values are scaled up."""

    def seen(*says):
        own, source = (
            Attention(lambda given: None, lambda query, value, say=say: say * query.abs().sign())
            for say in says[:2]
        )
        network = Network(lambda given: None, lambda x: says[2] * x.abs().sign())
        width = many["x"].size(-1)
        layer = build(answer.DecoderLayer, width, own, source, network, share, "pre")
        added = layer(**many) - many["x"]
        gone = (added.abs() < 0.5).double().mean().item()
        return {"share dropped": round(gone, 1), "largest": added.max()}

    return {
        "self_attn": seen(1.0, 0.0, 0.0),
        "src_attn": seen(0.0, 1.0, 0.0),
        "feed_forward": seen(0.0, 0.0, 1.0),
    }


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_of_a_layer(answer, build, sizes, inputs, norm):
    """Gradients reach the target, the memory and every weight."""
    layer = build(layer_of, answer.DecoderLayer, sizes, norm)
    inputs = wanting_gradients(inputs)
    backward(layer(**inputs))
    return {"gradients": reached(inputs, layer)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_a_layer(answer, build, sizes, of_dtype, dtype):
    """The output has the dtype of the weights and the tokens."""
    post = build(layer_of, answer.DecoderLayer, sizes, "post", dtype=dtype)
    pre = build(layer_of, answer.DecoderLayer, sizes, "pre", dtype=dtype)
    return {"post-norm": post(**of_dtype), "pre-norm": pre(**of_dtype)}


# --- Decoder --------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_parameters_of_the_stack(answer, build, sizes, norm):
    """`layers` holds n layers with separate weights; there is a `norm` only in pre-norm."""
    return shapes(build(stack_of_stand_ins, answer.Decoder, sizes, norm))


@pytest.mark.parametrize("norm", NORMS)
def test_layers_in_turn(answer, build, sizes, unmasked, norm):
    """Each layer gets the output of the previous layer; in pre-norm, the last sum is normalized."""
    return {"output": build(stack_of_stand_ins, answer.Decoder, sizes, norm)(**unmasked)}


@pytest.mark.parametrize("norm", NORMS)
def test_what_every_layer_is_given(answer, build, sizes, inputs, norm):
    """Every layer gets the unchanged memory and both masks, each at its place."""
    arguments = []
    stack = build(stack_of_stand_ins, answer.Decoder, sizes, norm, note=arguments.append)
    output = stack(inputs["x"], inputs["memory"], inputs["src_mask"], inputs["tgt_mask"])
    return {"given": arguments, "output": output}


@pytest.mark.constant("copies are the layer itself", "never, whatever the sizes")
def test_copies(answer, build, sizes, inputs):
    """The layers are copies of the given layer, and later changes of that layer do not affect them."""
    layer = build(stand_in_for, answer.Decoder, sizes["d_model"], "post")
    stack = answer.Decoder(layer, 3)
    with torch.no_grad():
        layer.gain *= 3.0
    return {
        "copies are the layer itself": any(copy is layer for copy in stack.layers),
        "output": stack(**inputs),
    }


@pytest.mark.parametrize("norm", NORMS)
def test_decoder(answer, build, sizes, inputs, norm):
    """Your stack of your own layers gives the right result."""
    decoder = build(stack_of, answer.Decoder, answer.DecoderLayer, sizes, norm)
    return {"output": decoder(**inputs)}


def test_later_tokens_are_invisible(
    answer, build, sizes, inputs, other_future, causal, position, norm
):
    """Outputs do not depend on later target tokens, through all layers."""
    decoder = build(stack_of, answer.Decoder, answer.DecoderLayer, sizes, norm)
    memory, src_mask = inputs["memory"], inputs["src_mask"]
    return {
        "before": decoder(inputs["x"], memory, src_mask, causal)[:, :position],
        "before another future": decoder(other_future, memory, src_mask, causal)[:, :position],
    }


def test_your_own_mask(answer, build, sizes, inputs, norm):
    """Your decoder with your own `subsequent_mask` gives the right result."""
    decoder = build(stack_of, answer.Decoder, answer.DecoderLayer, sizes, norm)
    x = inputs["x"]
    own = answer.subsequent_mask(x.size(1)).to(x.device)
    return {"output": decoder(x, inputs["memory"], inputs["src_mask"], own)}


def test_gradients(answer, build, sizes, inputs, norm):
    """Gradients reach the target, the memory and every weight of every layer."""
    decoder = build(stack_of, answer.Decoder, answer.DecoderLayer, sizes, norm)
    inputs = wanting_gradients(inputs)
    backward(decoder(**inputs))
    return {"gradients": reached(inputs, decoder)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, sizes, of_dtype, dtype):
    """The output has the dtype of the weights and the tokens, even after the final norm."""
    stack = build(stack_of_stand_ins, answer.Decoder, sizes, "pre", n=1, dtype=dtype)
    return {"output": stack(**of_dtype)}
