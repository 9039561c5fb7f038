"""Day 27 · relative_position_bucket(relative_position, bidirectional, num_buckets, max_distance) and
T5(config)."""

import dataclasses
import math

import pytest
import torch

from course.checks.authoring import DTYPES, backward, gradients, listed, named_parameters
from variants.t5 import T5Config

BOTH_WAYS = [True, False]
ODD = pytest.param("odd", marks=pytest.mark.watertight("sizes that cannot be halved evenly"))
NARROW = pytest.param("int32", marks=pytest.mark.watertight("positions may be int32"))
ROUNDED = "a logarithm that comes out as 2.9999999 for 3 puts a distance into the bucket below"
NOT_CAUSAL = "published code takes a mask with a row for each query as it is, future included"
KEPT = "a bias that is kept must be that of the table as it is now"
EMPTY = "a padded source of length 0 must not turn the whole batch into NaN, nor listen to padding"


# --- Buckets: inputs ------------------------------------------------------------------------------


def distances(draw, num_buckets, max_distance, reach):
    """All relative positions up to a reach, in any order, for these sizes."""
    order = draw.uniform(0, 1, 2 * reach + 1).argsort()
    return {
        "relative_position": order - reach,
        "num_buckets": num_buckets,
        "max_distance": max_distance,
    }


@pytest.fixture
def positions(draw, sizes):
    """All distances up to a reach for these numbers of buckets, and where they are no longer told apart."""
    n = 4 * draw.size(5, 9)
    num_buckets, max_distance, reach = {
        "near": (n, 8 * n, n // 2),  # distances that have a bucket each, and the first beyond them
        "published": (32, 128, draw.size(150, 200)),
        "far": (n, 3 * n, 18 * n),
        "other": (*draw.choice([(16, 128), (64, 512), (10, 37), (12, 20), (20, 45)]), 530),
        "odd": (draw.choice([7, 9, 11, 13, 14, 18, 33]), draw.size(36, 60), 90),
        "int32": (32, 64, 90),
    }[sizes]
    given = distances(draw, num_buckets, max_distance, reach)
    kind = torch.int32 if sizes == "int32" else torch.int64
    return given | {"relative_position": given["relative_position"].to(kind)}


@pytest.fixture
def on_an_edge(draw):
    """Sizes at which a bucket begins exactly at a whole distance, and rounding can miss it."""
    sizes = [(36, 32), (54, 64), (48, 81)]
    return {f"{n} buckets": distances(draw, n, D, D + draw.size(3, 20)) for n, D in sizes}


@pytest.fixture
def of_shape(draw, axes):
    """Relative positions of a different shape, not laid out by rows."""
    sizes = draw.sizes(2, 6, axes)
    positions = draw.integers(-40, 40, *sizes).permute(tuple(reversed(range(axes))))
    return {"relative_position": positions, "num_buckets": 16, "max_distance": 32}


# --- T5: inputs -----------------------------------------------------------------------------------


def small(draw):
    """A small T5: no two sizes alike, and h · d_k is not d_model."""
    n_heads, d_k = draw.sizes(2, 4, 2)
    d_model = n_heads * d_k + draw.choice([-1, 1])
    return T5Config(
        vocab=draw.size(17, 23),
        n_layers=2,
        n_heads=n_heads,
        d_model=d_model,
        d_k=d_k,
        d_ff=d_model + draw.size(2, 4),
        dropout=0.0,
        eps=float(draw.uniform(0.05, 0.2)),
        num_buckets=draw.choice([8, 10]),
        max_distance=draw.size(6, 8),
    )


def text(draw, vocab, batch, s, t):
    """Source and target tokens, and a mask for either that hides some keys from all, but never the first.

    A target begins with token 0, which T5 pads with and starts to decode from: its row learns, too.
    """
    src_mask, tgt_mask = draw.mask(batch, 1, s), draw.mask(batch, 1, t)
    src_mask[..., 0] = tgt_mask[..., 0] = True
    src, tgt = draw.integers(0, vocab - 1, batch, s), draw.integers(0, vocab - 1, batch, t)
    tgt[:, 0] = 0
    return {"src": src, "tgt": tgt, "src_mask": src_mask, "tgt_mask": tgt_mask}


@pytest.fixture
def config(draw):
    """The sizes of a small T5."""
    return small(draw)


@pytest.fixture
def config_of_either(config, gated):
    """The same, with ReLU or gated."""
    return dataclasses.replace(config, gated=gated)


@pytest.fixture
def pair(draw, config):
    """Two sequences of unlike lengths, both longer than the distances that are told apart."""
    s, t = draw.sizes(10, 13, 2)
    return text(draw, config.vocab, draw.size(2, 3), s, t)


@pytest.fixture
def equally_long(draw, config):
    """Source and target of equal length."""
    return text(draw, config.vocab, draw.size(2, 3), 9, 9)


@pytest.fixture
def source_mask(draw, pair, shape):
    """A mask for the source, for each sequence or for all."""
    if shape == "None":
        return None
    batch, s = pair["src"].shape
    return draw.mask(*({"B": batch, "S": s}.get(axis, 1) for axis in shape.split()))


@pytest.fixture
def target_mask(draw, pair, shape):
    """A mask for the target, for each sequence and for each query, or for all."""
    if shape == "None":
        return None
    batch, t = pair["tgt"].shape
    mask = draw.mask(*({"B": batch, "T": t}.get(axis, 1) for axis in shape.split()))
    mask[..., 0] = True
    return mask


@pytest.fixture
def memory(draw, config, pair):
    """What an encoder might have made of the source."""
    return draw.normal(*pair["src"].shape, config.d_model)


@pytest.fixture
def other_end(draw, config, pair):
    """Another token in the place of each, from some position on."""
    since = draw.size(3, 6)
    other = (pair["tgt"] + draw.size(1, config.vocab - 1)) % config.vocab
    return {"tgt": torch.cat([pair["tgt"][:, :since], other[:, since:]], dim=1), "since": since}


@pytest.fixture
def at_the_edge(draw, config, edge):
    """One size is 1, or a sequence has no token at all; and no masks."""
    name, size = edge.split("=")
    b, s, t = (dict(zip("BST", draw.sizes(2, 7, 3), strict=True)) | {name: int(size)}).values()
    vocab = config.vocab
    src, tgt = draw.integers(0, vocab - 1, b, s), draw.integers(0, vocab - 1, b, t)
    return {"src": src, "tgt": tgt, "src_mask": None, "tgt_mask": None}


@pytest.fixture
def padding_alone(draw, pair):
    """One sequence's source is nothing but padding, and some target positions see nothing."""
    src_mask, tgt_mask = pair["src_mask"].clone(), pair["tgt_mask"].clone()
    src_mask[draw.size(0, 1)] = False
    tgt_mask[0, 0, : draw.size(2, 4)] = False
    return pair | {"src_mask": src_mask, "tgt_mask": tgt_mask}


@pytest.fixture
def vectors(draw, config):
    """Vectors for the inner parts."""
    return draw.normal(*draw.sizes(2, 5, 2), config.d_model)


@pytest.fixture
def many(draw, config):
    """Very many tokens: a share of what was dropped is near its probability."""
    return {
        "src": draw.integers(0, config.vocab - 1, 40, 40),
        "tgt": draw.integers(0, config.vocab - 1, 40, 40),
    }


@pytest.fixture
def roomy(draw):
    """Matrices large enough that their standard deviation is that of what they were drawn from."""
    return T5Config(
        vocab=draw.size(60, 70),
        n_layers=2,
        n_heads=8,
        d_model=draw.size(22, 26),
        d_k=6,
        d_ff=draw.size(90, 110),
        num_buckets=128,
        max_distance=200,
        gated=True,
    )


# --- What is observed -----------------------------------------------------------------------------


def shapes(module):
    """The shapes of the parameters by name; a tied one has the first of its names."""
    return {name: str(tuple(p.shape)) for name, p in named_parameters(module)}


# --- relative_position_bucket ---------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize("sizes", ["near", "published", "far", "other", ODD, NARROW])
@pytest.mark.parametrize("bidirectional", BOTH_WAYS)
def test_bucket(answer, positions, bidirectional, sizes):
    """Each short distance has its own bucket, longer ones share buckets, and those of D or more share the
    last; later keys use the upper half of the buckets."""
    return {"buckets": answer.relative_position_bucket(bidirectional=bidirectional, **positions)}


@pytest.mark.watertight(ROUNDED)
def test_edges(answer, on_an_edge):
    """A distance at which a bucket begins exactly belongs to that bucket."""
    return {
        name: answer.relative_position_bucket(bidirectional=False, **given)
        for name, given in on_an_edge.items()
    }


@pytest.mark.watertight("distances may be a table, a row, or a single number")
@pytest.mark.parametrize("axes", [0, 1, 3])
def test_shape(answer, of_shape, axes):
    """The buckets have the shape of the relative positions, which may have any shape."""
    return {"buckets": answer.relative_position_bucket(bidirectional=True, **of_shape)}


# --- T5: what there is to learn -------------------------------------------------------------------


@pytest.mark.parametrize("gated", [False, True])
def test_parameters(answer, config_of_either, gated):
    """The parameters are the token embedding, a bias table for each stack, and the two stacks."""
    model = answer.T5(config_of_either)
    return {"parameters": shapes(model), "its config's d_model": model.config.d_model}


@pytest.mark.watertight("a saved model has to load into other people's code, key by key")
def test_state_dict(answer, config, pair, device):
    """The state dict holds the parameters and nothing else, before a call and after it."""
    model = answer.T5(config).to(device)
    model(**pair)
    return {name: str(tuple(tensor.shape)) for name, tensor in model.state_dict().items()}


# --- T5: the encoder ------------------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize("shape", ["None", "B 1 S", "1 1 S"])
def test_encode(answer, build, config, pair, source_mask, shape):
    """The source is embedded and goes through the encoder, whose heads add a bias for each distance."""
    model = build(answer.T5, config)
    return {"memory": model.encode(pair["src"], source_mask)}


# --- T5: the decoder ------------------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize(
    "shape",
    [
        "None",
        "B 1 T",
        "1 1 T",
        *(pytest.param(f"{b} T T", marks=pytest.mark.watertight(NOT_CAUSAL)) for b in "B1"),
    ],
)
def test_decode(answer, build, config, pair, memory, target_mask, shape):
    """The target is embedded and goes through the decoder: self-attention adds the bias,
    cross-attention does not."""
    model = build(answer.T5, config)
    return {"states": model.decode(memory, None, pair["tgt"], target_mask)}


def test_decode_with_a_padded_source(answer, build, config, pair, memory):
    """No target position attends to source tokens that the mask hides."""
    model = build(answer.T5, config)
    return {"states": model.decode(memory, pair["src_mask"], pair["tgt"], None)}


@pytest.mark.parametrize(
    "allowed",
    [
        "no mask",
        pytest.param("a mask that allows everything", marks=pytest.mark.watertight(NOT_CAUSAL)),
    ],
)
def test_later_tokens_are_invisible(answer, build, config, pair, memory, other_end, allowed):
    """States do not depend on later tokens, whatever the mask is."""
    model = build(answer.T5, config)
    t = pair["tgt"].size(1)
    mask = None if allowed == "no mask" else pair["src_mask"].new_ones(1, t, t)
    states = model.decode(memory, None, pair["tgt"], mask)
    changed = model.decode(memory, None, other_end["tgt"], mask)
    since = other_end["since"]
    return {
        "states before the change": states[:, :since],
        "the same with other tokens after them": changed[:, :since],
        "states from the change on": changed[:, since:],
    }


# --- T5: the whole --------------------------------------------------------------------------------


@pytest.mark.parametrize("gated", [False, True])
def test_logits(answer, build, config_of_either, pair, gated):
    """The model maps two sequences to logits at every target position."""
    model = build(answer.T5, config_of_either)
    return {"logits": model(**pair)}


def test_without_masks(answer, build, config, equally_long):
    """Without masks, only the future is hidden."""
    model = build(answer.T5, config)
    return {"logits": model(equally_long["src"], equally_long["tgt"], None, None)}


def test_gradients(answer, build, config, pair):
    """Gradients reach every parameter: E from its three uses, the bias tables from every layer."""
    model = build(answer.T5, config)
    backward(model(**pair))
    return {"gradients": gradients(model)}


@pytest.mark.watertight(KEPT)
def test_after_a_training_step(answer, build, config, pair):
    """After its weights have changed, the model computes with the new weights, forward and backward."""
    model = build(answer.T5, config)
    model(**pair)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    logits = model(**pair)
    backward(logits)
    return {"logits": logits, "gradients": gradients(model)}


@pytest.mark.watertight(
    "decoding begins with one sentence and one token; of none there is little to say"
)
@pytest.mark.parametrize("edge", ["B=1", "S=1", "T=1", "S=0", "T=0"])
def test_at_the_edge(answer, build, config, at_the_edge, edge):
    """The result is right for one pair of sequences, and for sequences of one token or none."""
    model = build(answer.T5, config)
    return {"logits": model(**at_the_edge)}


@pytest.mark.watertight(EMPTY)
def test_padding_alone(answer, build, config, padding_alone):
    """A query with no visible key gets 0, forward and backward."""
    model = build(answer.T5, config)
    logits = model(**padding_alone)
    backward(logits)
    return {"logits": logits, "gradients": gradients(model)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, config, pair, dtype):
    """The logits have the dtype of the weights."""
    model = build(answer.T5, config, dtype=dtype)
    return {"logits": model(**pair)}


# --- T5: dropout ----------------------------------------------------------------------------------


def dropping(config, p):
    """The same config with another probability of dropout."""
    return dataclasses.replace(config, dropout=p)


@pytest.mark.constant("the same twice", "nothing is drawn at random")
def test_no_dropout(answer, build, config, pair):
    """With p = 0, two calls in training mode give the same result; in evaluation mode, dropout is
    inactive."""
    model = build(answer.T5, config)
    once, again = (model.train()(**pair) for _ in range(2))
    other = build(answer.T5, dropping(config, 1.0)).eval()
    return {"the same twice": torch.equal(once, again), "logits in evaluation": other(**pair)}


@pytest.mark.constant("not dropped", "with probability 1 every part drops what it can")
def test_dropout_everywhere(answer, build, config, pair, vectors):
    """Dropout applies everywhere: attention weights, hidden layers, residuals, and inputs and outputs
    of a stack."""
    model = build(answer.T5, dropping(config, 1.0)).train()
    return {
        "not dropped": listed(name for name, output in _left(model, pair, vectors) if output.any()),
        "logits in evaluation": model.eval()(**pair),
    }


def _left(model, pair, x):
    """Each part, and what it gives beyond what passes it by."""
    memory = model.encode(pair["src"], pair["src_mask"])
    yield "memory", memory
    yield "states", model.decode(memory, pair["src_mask"], pair["tgt"], pair["tgt_mask"])
    free = x.new_zeros(1, 1, 1, x.size(1))
    for stack in ("encoder", "decoder"):
        for index, layer in enumerate(getattr(model, stack).layers):
            at = f"{stack}.layers.{index}"
            for name in ("self_attn", "src_attn"):
                if (attention := getattr(layer, name, None)) is not None:
                    yield f"{at}.{name}", attention(x, x, x, free)
            yield f"{at}.feed_forward", layer.feed_forward(x)
            for number, connection in enumerate(layer.sublayer):
                yield f"{at}.sublayer.{number}", connection(x, lambda y: y + 1) - x


@pytest.mark.constant(
    *(f"{what}.{name}" for what in ("zeros", "scale") for name in ("memory", "states")),
    "shares of very many numbers, rounded",
)
def test_dropout_at_both_ends_of_a_stack(answer, build, config, many):
    """With p = 0.3 and layers that add nothing, a number passes through a stack with probability 0.7²."""
    model = build(answer.T5, dropping(config, 0.3)).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("w_o.weight", "w_2.weight")):
                parameter.zero_()
            elif name.endswith("norm.weight"):
                parameter.fill_(1.0)
        model.embed.weight *= 1000.0  # beside it ε is nothing
        memory = model.encode(many["src"], None)
        states = model.decode(memory, None, many["tgt"], None)
        evaluated = model.eval().encode(many["src"][:2, :9], None)
    outputs = {"memory": memory, "states": states}
    return {
        "zeros": {name: round((x == 0).double().mean().item(), 1) for name, x in outputs.items()},
        "scale": {name: _scale(x) for name, x in outputs.items()},
        "memory in evaluation": evaluated,
    }


def _scale(x):
    """The mean square beside 1 / 0.7, which it is where normalized numbers were dropped: in halves."""
    return round(2 * 0.7 * x.double().square().mean().item()) / 2


# --- T5: the start --------------------------------------------------------------------------------


@pytest.mark.constant("start wrong", "start equal", "what starts wrong: nothing")
def test_start(answer, roomy):
    """Each matrix is initialized separately, with the given standard deviation."""
    named = dict(answer.T5(roomy).named_parameters())
    return {
        "start wrong": listed(f"{name} ({fault})" for name, fault in _faults(named, roomy)),
        "start equal": listed(_equal_to_the_first_layer(named)),
        "parameters": sum(p.numel() for p in named.values()),
    }


def _faults(named, config):
    """The names of those that start wrong, and what is wrong with them."""
    inputs = {"w_o": config.n_heads * config.d_k, "w_2": config.d_ff, "embed": 1}
    inputs["w_q"] = config.d_model * config.d_k
    for name, parameter in named.items():
        if parameter.dim() == 1:
            if not parameter.eq(1).all():
                yield name, "not 1"
            continue
        times = float(parameter.detach().std()) * math.sqrt(
            inputs.get(name.split(".")[-2], config.d_model)
        )
        if not 0.8 < times < 1.2:
            yield name, "too wide" if times > 1 else "too narrow"


def _equal_to_the_first_layer(named):
    """The matrices of second layers that equal those of the first."""
    for name, parameter in named.items():
        first = named.get(name.replace("layers.1.", "layers.0."), parameter)
        matrix = parameter.dim() == 2 and parameter is not first
        if matrix and torch.equal(parameter, first):
            yield name
