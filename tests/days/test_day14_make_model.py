"""Day 14 · Generator(d_model, vocab), EncoderDecoder(encoder, decoder, src_embed, tgt_embed,
generator) and make_model(src_vocab, tgt_vocab, n=6, d_model=512, d_ff=2048, h=8, dropout=0.1,
norm="post", tie=False)."""

import inspect
import math

import pytest
import torch
from torch import nn

from course.checks.authoring import (
    DTYPES,
    backward,
    gradients,
    listed,
    named_parameters,
    wanting_gradients,
)
from implementation import Decoder, Encoder, attention

AXES = "leading axes other than batch and time, which change nothing"
DEFAULTS = ["n", "d_model", "d_ff", "h", "dropout", "norm", "tie"]


def small(draw, **more):
    """Sizes of a small model, all unlike: d_model 6 to 12, d_ff 7 to 17, vocabularies 18 to 25."""
    h, d_k = draw.sizes(2, 4, 2)
    src_vocab, tgt_vocab = draw.sizes(18, 25, 2)
    return {
        "src_vocab": src_vocab,
        "tgt_vocab": tgt_vocab,
        "n": 1,
        "d_model": h * d_k,
        "d_ff": h * d_k + draw.size(1, 5),
        "h": h,
    } | more


def pairs(draw, sizes, batch, s, t):
    """Source and target sequences, and a mask for either that hides something from every query that
    sees more than one key."""
    return {
        "src": draw.integers(0, sizes["src_vocab"] - 1, batch, s),
        "tgt": draw.integers(0, sizes["tgt_vocab"] - 1, batch, t),
        "src_mask": draw.mask(batch, 1, s),
        "tgt_mask": draw.mask(batch, t, t),
    }


class Table(nn.Module):
    """An embedding at its smallest."""

    def __init__(self, vocab, size):
        super().__init__()
        self.rows = nn.Parameter(torch.ones(vocab, size))

    def forward(self, tokens):
        return self.rows[tokens]


class Reader(nn.Module):
    """A layer of an encoder at its smallest: its tokens attend to each other, under its mask."""

    def __init__(self, size):
        super().__init__()
        self.size, self.norm = size, "post"
        self.w = nn.Parameter(torch.eye(size))

    def forward(self, x, mask=None):
        return x + attention(x @ self.w, x, x, mask)[0]


class Writer(nn.Module):
    """A layer of a decoder at its smallest: its tokens attend to each other, then to the memory."""

    def __init__(self, size):
        super().__init__()
        self.size, self.norm = size, "post"
        self.w = nn.Parameter(torch.eye(size))

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        x = x + attention(x @ self.w, x, x, tgt_mask)[0]
        return x + attention(x, memory, memory, src_mask)[0]


def whole(kind, src_vocab, tgt_vocab, d_model, **_):
    """Five parts, the smallest there are, given to what is checked."""
    return kind(
        Encoder(Reader(d_model), 1),
        Decoder(Writer(d_model), 1),
        Table(src_vocab, d_model),
        Table(tgt_vocab, d_model),
        nn.Linear(d_model, tgt_vocab),
    )


def parameters(module):
    """The shapes of the parameters by name, as text; a tied one has the first of its names."""
    return {name: str(tuple(p.shape)) for name, p in named_parameters(module)}


def shared(module):
    """The names under which one and the same parameter is found, where it has several."""
    names = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return listed(" = ".join(sorted(several)) for several in names.values() if len(several) > 1)


def telling(module):
    """The gradients by name, without those of the keys' biases: they are 0, and what is seen of them is
    rounding."""
    return {n: g for n, g in gradients(module).items() if not n.endswith("w_k.bias")}


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def states(draw):
    """States as a decoder leaves them, and a vocabulary of a different size."""
    batch, time, d_model, vocab = draw.sizes(2, 9, 4)
    return {"x": draw.normal(batch, time, d_model, scale=1.5), "vocab": vocab}


@pytest.fixture
def states_of_rank(draw, axes):
    """One state, the last state of each sequence, or more axes in front."""
    *leading, d_model, vocab = draw.sizes(2, 9, axes + 1)
    return {"x": draw.normal(*leading, d_model, scale=1.5), "vocab": vocab}


@pytest.fixture
def loud_states(draw):
    """Scores of several hundred, of either sign: their exponentials are 0 or ∞ in float32."""
    batch, time, d_model, vocab = draw.sizes(3, 9, 4)
    return {"x": draw.normal(batch, time, d_model, scale=400.0), "vocab": vocab}


@pytest.fixture
def states_of_dtype(draw, dtype):
    """States of one dtype."""
    batch, time, d_model, vocab = draw.sizes(2, 9, 4)
    return {"x": draw.normal(batch, time, d_model, scale=1.5, dtype=dtype), "vocab": vocab}


@pytest.fixture
def sizes(draw):
    """The sizes of a small model, with a single layer in each stack."""
    return small(draw)


@pytest.fixture
def two_layers(draw):
    """The same with two layers in each stack."""
    return small(draw, n=2)


@pytest.fixture
def one_vocabulary(draw):
    """The same with one joint vocabulary."""
    vocab = draw.size(18, 25)
    return small(draw, src_vocab=vocab, tgt_vocab=vocab)


@pytest.fixture
def sentences(draw, sizes):
    """Sequences of unlike lengths."""
    return pairs(draw, sizes, *draw.sizes(2, 6, 3))


@pytest.fixture
def sentences_of_one_vocabulary(draw, one_vocabulary):
    """The same for the joint vocabulary."""
    return pairs(draw, one_vocabulary, *draw.sizes(2, 6, 3))


@pytest.fixture
def equally_long(draw, sizes):
    """Source and target of equal length: either mask would fit in the other's place."""
    batch, time = draw.sizes(3, 6, 2)
    return pairs(draw, sizes, batch, time, time)


@pytest.fixture
def memory(draw, sizes, sentences):
    """What an encoder might have made of the source."""
    return draw.normal(*sentences["src"].shape, sizes["d_model"])


@pytest.fixture
def memory_of_dtype(draw, sizes, sentences, dtype):
    """The same in other dtypes."""
    return draw.normal(*sentences["src"].shape, sizes["d_model"], dtype=dtype)


@pytest.fixture
def by_default(draw):
    """What is given where all else is left as it is: the defaults' h = 8 divides the width."""
    src_vocab, tgt_vocab = draw.sizes(18, 25, 2)
    return {"src_vocab": src_vocab, "tgt_vocab": tgt_vocab, "n": 1, "d_model": 8 * draw.size(1, 2)}


@pytest.fixture
def sentences_by_default(draw, by_default):
    """Sequences for that."""
    return pairs(draw, by_default, *draw.sizes(2, 6, 3))


@pytest.fixture
def roomy(draw):
    """Matrices large enough that their largest number tells where they were drawn from."""
    h, d_k = 4, draw.size(5, 7)
    d_model = h * d_k
    return {
        "src_vocab": 3 * d_model,
        "tgt_vocab": 3 * d_model + draw.size(1, 4),
        "n": 2,
        "d_model": d_model,
        "d_ff": 2 * d_model - draw.size(0, 9),
        "h": h,
    }


@pytest.fixture
def vectors(draw, sizes):
    """Vectors for the inner parts."""
    return draw.normal(*draw.sizes(2, 5, 2), sizes["d_model"])


# --- Generator ------------------------------------------------------------------------------------


def test_generator_parameters(answer, states):
    """`proj` is a linear layer with a bias, from d_model to the vocabulary."""
    generator = answer.Generator(states["x"].size(-1), states["vocab"])
    return {"parameters": parameters(generator)}


def test_generator(answer, build, states):
    """A state becomes the log-probabilities of all tokens: their exponentials sum to 1."""
    generator = build(answer.Generator, states["x"].size(-1), states["vocab"])
    return {"log_probs": generator(states["x"])}


@pytest.mark.parametrize(
    "axes", [2, *(pytest.param(axes, marks=pytest.mark.watertight(AXES)) for axes in (1, 4))]
)
def test_generator_leading_dimensions(answer, build, states_of_rank, axes):
    """With any number of leading axes, the last axis holds the features."""
    x = states_of_rank["x"]
    generator = build(answer.Generator, x.size(-1), states_of_rank["vocab"])
    return {"log_probs": generator(x)}


def test_generator_large_scores(answer, build, loud_states):
    """For scores of several hundred, the log-probabilities are finite."""
    generator = build(answer.Generator, loud_states["x"].size(-1), loud_states["vocab"])
    return {"log_probs": generator(loud_states["x"])}


@pytest.mark.parametrize("dtype", DTYPES)
def test_generator_dtype(answer, build, states_of_dtype, dtype):
    """The log-probabilities have the dtype of the states and the weights."""
    x = states_of_dtype["x"]
    generator = build(answer.Generator, x.size(-1), states_of_dtype["vocab"], dtype=dtype)
    return {"log_probs": generator(x)}


def test_generator_gradients(answer, build, states):
    """Gradients reach the states, the matrix and the bias."""
    generator = build(answer.Generator, states["x"].size(-1), states["vocab"])
    inputs = wanting_gradients({"x": states["x"]})
    backward(generator(**inputs))
    return {"gradients": gradients(inputs) | gradients(generator)}


# --- EncoderDecoder -------------------------------------------------------------------------------


def test_five_parts(answer, build, sizes):
    """The five parts are attributes under their names, so that PyTorch finds their parameters."""
    model = build(whole, answer.EncoderDecoder, **sizes)
    return {"parameters": parameters(model)}


def test_encode(answer, build, sizes, sentences):
    """The source is embedded and goes through the encoder, with its mask."""
    model = build(whole, answer.EncoderDecoder, **sizes)
    return {"memory": model.encode(sentences["src"], sentences["src_mask"])}


def test_decode(answer, build, sizes, sentences, memory):
    """The target is embedded and goes through the decoder, with the memory and both masks."""
    model = build(whole, answer.EncoderDecoder, **sizes)
    return {
        "states": model.decode(
            memory, sentences["src_mask"], sentences["tgt"], sentences["tgt_mask"]
        )
    }


def test_forward(answer, build, sizes, sentences):
    """`forward` encodes, decodes, and returns the decoder's states, of width d_model."""
    model = build(whole, answer.EncoderDecoder, **sizes)
    return {"states": model(**sentences)}


def test_masks_of_equal_size(answer, build, sizes, equally_long):
    """If source and target have the same length, each mask still goes to its own attention."""
    model = build(whole, answer.EncoderDecoder, **sizes)
    memory = model.encode(equally_long["src"], equally_long["src_mask"])
    states = model.decode(
        memory, equally_long["src_mask"], equally_long["tgt"], equally_long["tgt_mask"]
    )
    return {"memory": memory, "decode": states, "forward": model(**equally_long)}


def test_no_masks(answer, build, sizes, sentences):
    """Without masks, every position may be attended to."""
    model = build(whole, answer.EncoderDecoder, **sizes)
    return {"states": model(sentences["src"], sentences["tgt"], None, None)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_and_states_dtype(answer, build, sizes, sentences, memory_of_dtype, dtype):
    """Memory and states have the dtype of the weights."""
    model = build(whole, answer.EncoderDecoder, **sizes, dtype=dtype)
    src_mask, tgt_mask = sentences["src_mask"], sentences["tgt_mask"]
    return {
        "memory": model.encode(sentences["src"], src_mask),
        "states": model.decode(memory_of_dtype, src_mask, sentences["tgt"], tgt_mask),
    }


def test_whole_gradients(answer, build, sizes, sentences):
    """Gradients of the states reach every parameter except the generator's, also through the memory."""
    model = build(whole, answer.EncoderDecoder, **sizes)
    backward(model(**sentences))
    return {"gradients": gradients(model)}


# --- make_model: the parts ------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.constant("shared", "no two parts of a model that is not tied share a parameter")
def test_parameters(answer, two_layers, norm):
    """Every part has its size and its own parameters; there are final norms only in pre-norm."""
    model = answer.make_model(**two_layers, norm=norm)
    return {"shared": shared(model), "parameters": parameters(model)}


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_model(answer, build, sizes, sentences, norm):
    """The model maps two sequences to states, and the generator maps these to log-probabilities."""
    model = build(answer.make_model, **sizes, dropout=0.5, norm=norm).eval()
    states = model(**sentences)
    return {"states": states, "log_probs": model.generator(states)}


@pytest.mark.constant(*(f"defaults.{name}" for name in DEFAULTS), "the paper's base model")
def test_defaults(answer, build, by_default, sentences_by_default):
    """The defaults are those of the paper's base model: 8 heads, d_ff = 2048, post-norm and so on."""
    parameters = inspect.signature(answer.make_model).parameters.values()
    model = build(answer.make_model, **by_default).eval()
    return {
        "defaults": {p.name: p.default for p in parameters if p.default is not p.empty},
        "states": model(**sentences_by_default),
    }


def test_model_gradients(answer, build, sizes, sentences):
    """Gradients of the log-probabilities reach every parameter of every part."""
    model = build(answer.make_model, **sizes).eval()
    backward(model.generator(model(**sentences)))
    return {"gradients": telling(model)}


# --- make_model: dropout --------------------------------------------------------------------------


@pytest.mark.constant("the same twice", "nothing is drawn at random")
def test_no_dropout(answer, build, sizes, sentences):
    """With dropout=0, two calls in training mode give the same result: no part has its own dropout."""
    model = build(answer.make_model, **sizes, dropout=0.0)
    once, again = (model.train()(**sentences) for _ in range(2))
    return {"the same twice": torch.equal(once, again), "states": model.eval()(**sentences)}


@pytest.mark.constant("not dropped", "with probability 1 every part drops what it can")
def test_dropout_everywhere(answer, build, sizes, sentences, vectors):
    """Dropout reaches every part: embeddings, attention weights, feed-forward networks, and residuals."""
    model = build(answer.make_model, **sizes, dropout=1.0).train()
    return {
        "not dropped": listed(name for name, dropped in _drops(model, vectors) if not dropped),
        "states": model.eval()(**sentences),
    }


def _drops(model, x):
    """Each part, and whether nothing but its last bias is left of it."""
    tokens = x[..., 0].long() * 0
    for name in ("src_embed", "tgt_embed"):
        yield name, not getattr(model, name)(tokens).any()
    for stack in ("encoder", "decoder"):
        for index, layer in enumerate(getattr(model, stack).layers):
            at = f"{stack}.layers.{index}"
            for name in ("self_attn", "src_attn"):
                if (attention := getattr(layer, name, None)) is not None:
                    yield f"{at}.{name}", torch.equal(attention(x, x, x), _only(attention.w_o, x))
            yield (
                f"{at}.feed_forward",
                torch.equal(layer.feed_forward(x), _only(layer.feed_forward.w_2, x)),
            )
            for number, connection in enumerate(layer.sublayer):
                output = connection(x, lambda y: y + 1)
                yield f"{at}.sublayer.{number}", torch.equal(output, connection.norm(x))


def _only(linear, x):
    """The bias of a linear layer at every position of x."""
    return linear.bias.expand(*x.shape[:-1], -1)


# --- make_model: the start ------------------------------------------------------------------------


@pytest.mark.constant("not Xavier uniform", "start equal", "what starts wrong: nothing")
def test_start(answer, roomy):
    """Each weight matrix is drawn uniformly within ±√(6 / (inputs + outputs))."""
    model = answer.make_model(**roomy)
    weights = {
        name: p.detach()
        for name, p in model.named_parameters()
        if p.dim() == 2 and "embed" not in name
    }
    return {
        "not Xavier uniform": listed(_faults(weights, _fault)),
        "start equal": listed(_equal_to_the_first_layer(weights)),
        "parameters": sum(p.numel() for p in weights.values()),
    }


@pytest.mark.watertight(
    "a table that starts too wide or too narrow hides its positions, or is hidden"
)
@pytest.mark.constant("not as Embeddings starts", "what starts wrong: nothing")
def test_start_of_the_tables(answer, roomy):
    """Embedding matrices keep the initialization of `Embeddings`, with standard deviation 1/√d_model."""
    model = answer.make_model(**roomy | {"n": 1})
    tables = {
        "src_embed": model.src_embed[0].lut.weight.detach(),
        "tgt_embed": model.tgt_embed[0].lut.weight.detach(),
    }
    return {
        "not as Embeddings starts": listed(_faults(tables, _fault_of_a_table)),
        "parameters": sum(p.numel() for p in tables.values()),
    }


def _faults(matrices, fault_of):
    """The names of those that start wrong, and what is wrong with them."""
    return [f"{n} ({fault})" for n, matrix in matrices.items() if (fault := fault_of(matrix))]


def _fault(weight):
    """What is not Xavier uniform in several hundred numbers: their largest says how wide they are, and
    beside their standard deviation, whether there is a bound at all."""
    bound = math.sqrt(6 / sum(weight.shape))
    largest, deviation = float(weight.abs().max()), float(weight.square().mean().sqrt())
    uniform = largest < 2 * deviation
    width = (largest if uniform else math.sqrt(3) * deviation) / bound
    high, low = (1 + 1e-6, 0.93) if uniform else (1.15, 0.85)
    words = [] if uniform else ["no bound"]
    words += ["too wide"] if width > high else ["too narrow"] if width < low else []
    return ", ".join(words)


def _fault_of_a_table(weight):
    """What is wrong with the standard deviation of over a thousand numbers; it should be 1/√d_model."""
    times = float(weight.std()) * math.sqrt(weight.size(-1))
    return "too wide" if times > 1.15 else "too narrow" if times < 0.85 else ""


def _equal_to_the_first_layer(weights):
    """The matrices of second layers that equal those of the first."""
    for name, weight in weights.items():
        first = weights.get(name.replace("layers.1.", "layers.0."))
        if "layers.1." in name and first is not None and torch.equal(weight, first):
            yield name


# --- make_model: tying ----------------------------------------------------------------------------


@pytest.mark.constant("shared", "the three matrices are one, and nothing else is")
def test_tied_parameters(answer, one_vocabulary):
    """If tied, both embeddings and the output projection are one Parameter; the generator keeps its
    bias."""
    model = answer.make_model(**one_vocabulary, tie=True)
    return {"shared": shared(model), "parameters": parameters(model)}


@pytest.mark.watertight(
    "a table that starts too wide or too narrow hides its positions, or is hidden"
)
@pytest.mark.constant("not as Embeddings starts", "the one matrix starts as an embedding")
def test_tied_start(answer, roomy):
    """The shared matrix of a tied model is initialized as an embedding."""
    model = answer.make_model(**roomy | {"tgt_vocab": roomy["src_vocab"], "n": 1}, tie=True)
    matrices = {
        "src_embed": model.src_embed[0].lut.weight.detach(),
        "tgt_embed": model.tgt_embed[0].lut.weight.detach(),
        "generator": model.generator.proj.weight.detach(),
    }
    return {
        "not as Embeddings starts": listed(_faults(matrices, _fault_of_a_table)),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def test_tied_model(answer, build, one_vocabulary, sentences_of_one_vocabulary):
    """The gradient of a tied matrix is the sum of the gradients from its three uses."""
    model = build(answer.make_model, **one_vocabulary, tie=True).eval()
    log_probs = model.generator(model(**sentences_of_one_vocabulary))
    backward(log_probs)
    return {"log_probs": log_probs, "gradients": telling(model)}
