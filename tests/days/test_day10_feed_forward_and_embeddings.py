"""Day 10 · PositionwiseFeedForward(d_model, d_ff, dropout=0.1), Embeddings(d_model, vocab) and
PositionalEncoding(d_model, dropout, max_len=5000)."""

import pytest
import torch

from course.checks.authoring import DTYPES, backward, gradients, shapes, wanting_gradients


def without_gaps(dropped, whole, p):
    """Dropout's result with each gap filled by what would have stood there. Where the gaps are is a
    matter of luck; that they lie in many vectors, and fill none of them, is not."""
    gaps = (dropped == 0) & (whole != 0)
    kept = (dropped != 0) & (whole != 0)
    mixed = (gaps.any(-1) & kept.any(-1)).float().mean()
    return {
        "kept": torch.where(gaps, whole / (1 - p), dropped),
        "some_of_a_vector_dropped": bool(mixed > 0.2),
    }


def called(deviation, d_model, vocab):
    """The standard deviation of a table by the name of what it is about equal to."""
    names = {
        "1/√d_model": d_model**-0.5,
        "1/d_model": 1 / d_model,
        "1": 1.0,
        "√d_model": d_model**0.5,
        "0.02": 0.02,
        "√(2/(vocab + d_model))": (2 / (vocab + d_model)) ** 0.5,
    }
    near = (name for name, value in names.items() if abs(deviation / value - 1) < 0.1)
    return next(near, "something else")


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def widths(draw):
    """d_model and d_ff; either may be the larger."""
    return dict(zip(["d_model", "d_ff"], draw.sizes(3, 9, 2), strict=True))


@pytest.fixture
def x(draw, widths):
    """Tokens in a batch of sequences."""
    return draw.normal(*draw.sizes(2, 6, 2), widths["d_model"])


@pytest.fixture
def x_of_rank(draw, widths, leading):
    """One vector, a list of them, or more leading dimensions."""
    return draw.normal(*draw.sizes(2, 4, leading), widths["d_model"])


@pytest.fixture
def x_of_dtype(draw, widths, dtype):
    """The same in other dtypes."""
    return draw.normal(*draw.sizes(2, 6, 2), widths["d_model"], dtype=dtype)


@pytest.fixture
def many(draw):
    """Enough numbers that a share of them says something."""
    width = draw.size(12, 16)
    return draw.normal(draw.size(20, 25), draw.size(9, 11), width, mean=0.5)


@pytest.fixture
def table(draw):
    """d_model and vocab of a table of embeddings."""
    return dict(zip(["d_model", "vocab"], draw.sizes(3, 9, 2), strict=True))


@pytest.fixture
def tokens(draw, table):
    """Ids in a batch of sequences."""
    return draw.integers(0, table["vocab"] - 1, *draw.sizes(2, 6, 2))


@pytest.fixture
def tokens_of_rank(draw, table, leading):
    """One sequence, a batch, or more leading dimensions."""
    return draw.integers(0, table["vocab"] - 1, *draw.sizes(2, 5, leading + 1))


@pytest.fixture
def every_token(table):
    """Every id there is, and some twice."""
    ids = torch.arange(table["vocab"])
    return torch.stack([ids, ids // 2])


@pytest.fixture
def large_table(draw):
    """d_model and vocab of a table large enough to tell how it was filled."""
    return {"d_model": draw.size(9, 14), "vocab": draw.size(800, 1200)}


@pytest.fixture
def even(draw):
    """Any even d_model, and a max_len unlike it."""
    half, max_len = draw.sizes(2, 8, 2)
    return {"d_model": 2 * half, "max_len": max_len + 8}


@pytest.fixture
def odd(draw):
    """Any odd d_model, and a max_len unlike it."""
    half, max_len = draw.sizes(1, 6, 2)
    return {"d_model": 2 * half + 1, "max_len": max_len + 8}


@pytest.fixture
def embedded(draw, even):
    """Tokens in a batch of sequences shorter than max_len."""
    return draw.normal(*draw.sizes(2, 7, 2), even["d_model"])


@pytest.fixture
def two_lengths(draw, even):
    """A short batch, then a longer one, then the longest there can be."""
    longest = even["max_len"]
    return [
        draw.normal(draw.size(2, 4), length, even["d_model"])
        for length in (1, longest - 1, longest)
    ]


@pytest.fixture
def embedded_of_dtype(draw, even, dtype):
    """The same in other dtypes."""
    return draw.normal(*draw.sizes(2, 7, 2), even["d_model"], dtype=dtype)


@pytest.fixture
def many_embedded(draw, even):
    """Enough numbers that a share of them says something."""
    return draw.normal(draw.size(20, 30), even["max_len"], even["d_model"], mean=3.0)


@pytest.fixture
def p(draw):
    """How much is dropped: from about a third to about two thirds."""
    return draw.size(3, 6) / 9


# --- PositionwiseFeedForward ----------------------------------------------------------------------


def test_feed_forward_parameters(answer, build, widths):
    """The parameters are two linear layers with biases, `w_1` to d_ff and `w_2` back to d_model."""
    return {"parameters": shapes(build(answer.PositionwiseFeedForward, **widths, dropout=0.0))}


def test_feed_forward(answer, build, widths, x):
    """Every position goes through the first layer, a ReLU, and the second layer."""
    return {"output": build(answer.PositionwiseFeedForward, **widths, dropout=0.0)(x)}


@pytest.mark.watertight("leading axes other than batch and time, which change nothing")
@pytest.mark.parametrize("leading", [0, 1, 3])
def test_feed_forward_leading_dimensions(answer, build, widths, x_of_rank, leading):
    """The input may be one vector, or have any number of leading axes."""
    return {"output": build(answer.PositionwiseFeedForward, **widths, dropout=0.0)(x_of_rank)}


def test_feed_forward_gradients(answer, build, widths, x):
    """Gradients reach x and every weight."""
    module = build(answer.PositionwiseFeedForward, **widths, dropout=0.0)
    inputs = wanting_gradients({"x": x})
    backward(module(**inputs))
    return {"gradients": gradients(inputs) | gradients(module)}


def test_feed_forward_drops_hidden_values(answer, build, widths, x):
    """If every hidden value is dropped, the output is the bias of `w_2`."""
    return {"output": build(answer.PositionwiseFeedForward, **widths, dropout=1.0)(x)}


def test_feed_forward_in_evaluation(answer, build, widths, x):
    """In evaluation mode, dropout is inactive."""
    return {"output": build(answer.PositionwiseFeedForward, **widths, dropout=1.0).eval()(x)}


@pytest.mark.constant("some_of_a_vector_dropped", "it holds whatever is drawn")
def test_feed_forward_usual_dropout(answer, build, many):
    """By default, a tenth of the values is dropped, and the rest is divided by 0.9."""
    module = build(answer.PositionwiseFeedForward, many.size(-1), many.size(-1))
    torch.nn.init.eye_(module.w_2.weight)
    torch.nn.init.zeros_(module.w_2.bias)
    dropped = module(many)
    return without_gaps(dropped, module.eval()(many), 0.1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_feed_forward_dtype(answer, build, widths, x_of_dtype, dtype):
    """The output has the dtype of the weights and the inputs."""
    return {
        "output": build(answer.PositionwiseFeedForward, **widths, dropout=0.0, dtype=dtype)(
            x_of_dtype
        )
    }


# --- Embeddings -----------------------------------------------------------------------------------


def test_embeddings_parameters(answer, build, table):
    """The only parameter is an embedding matrix, `lut`, with a row of d_model numbers for each token."""
    return {"parameters": shapes(build(answer.Embeddings, **table))}


def test_embeddings(answer, build, table, tokens):
    """Each token becomes its row of the embedding matrix, times √d_model."""
    return {"output": build(answer.Embeddings, **table)(tokens)}


@pytest.mark.watertight(
    "ids that are not a batch of sequences, although each id is looked up separately"
)
@pytest.mark.parametrize("leading", [0, 2])
def test_embeddings_leading_dimensions(answer, build, table, tokens_of_rank, leading):
    """The ids may be one sequence, or have any number of leading axes."""
    return {"output": build(answer.Embeddings, **table)(tokens_of_rank)}


def test_embeddings_gradients(answer, build, table, every_token):
    """Each row gets a gradient from every place where its token occurs, including row 0."""
    module = build(answer.Embeddings, **table)
    output = module(every_token)
    backward(output)
    return {"output": output, "gradients": gradients(module)}


@pytest.mark.watertight(
    "an embedding that is initialized too wide drowns the positions that are added to it"
)
@pytest.mark.constant("mean", "it holds whatever is drawn")
@pytest.mark.constant("deviation", "it holds whatever is drawn")
@pytest.mark.constant("normal", "it holds whatever is drawn")
@pytest.mark.constant("rows", "it holds whatever is drawn")
def test_embeddings_at_the_start(answer, large_table):
    """The embedding matrix, including row 0, is drawn from N(0, 1/d_model)."""
    weight = answer.Embeddings(**large_table).lut.weight.detach()
    deviation = weight.std()
    return {
        "shape": list(weight.shape),
        "deviation": called(deviation, **large_table),
        "mean": "0" if weight.mean().abs() < 0.1 * deviation else "not 0",
        "normal": bool(0.02 < (weight.abs() > 2 * deviation).float().mean() < 0.08),
        "rows": "all filled" if bool((weight != 0).any(-1).all()) else "some are 0",
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_embeddings_dtype(answer, build, table, tokens, dtype):
    """The output has the dtype of the embedding matrix."""
    return {"output": build(answer.Embeddings, **table, dtype=dtype)(tokens)}


# --- PositionalEncoding ---------------------------------------------------------------------------


@pytest.mark.constant("a_buffer", "every answer has one")
@pytest.mark.constant("shape[0]", "one table serves every sequence of a batch")
def test_positional_encoding_is_not_learnt(answer, build, even):
    """The table `pe` is a buffer, `(1, max_len, d_model)`, and there are no parameters."""
    module = build(answer.PositionalEncoding, dropout=0.0, **even)
    return {
        "parameters": shapes(module),
        "shape": list(module.pe.shape),
        "a_buffer": "pe" in dict(module.named_buffers()),
    }


def test_positional_encoding_table(answer, build, even):
    """The even columns are sines and the odd columns cosines, and each pair has its own wavelength."""
    return {"pe": build(answer.PositionalEncoding, dropout=0.0, **even).pe}


@pytest.mark.watertight(
    "a width that is odd leaves the last sine without a cosine, and much code raises"
)
def test_positional_encoding_odd_width(answer, build, odd):
    """With an odd d_model, the last column is a sine without its cosine."""
    return {"pe": build(answer.PositionalEncoding, dropout=0.0, **odd).pe}


@pytest.mark.constant("positions", "it is the default of max_len")
def test_positional_encoding_far_positions(answer, build, even):
    """By default, the table has 5000 positions, and the last positions are right as well."""
    pe = build(answer.PositionalEncoding, even["d_model"], 0.0).pe
    return {"positions": pe.size(1), "last": pe[:, -10:]}


@pytest.mark.on_devices
def test_positional_encoding(answer, build, even, embedded):
    """The first T rows of the table are added to every sequence, and the table does not change."""
    module = build(answer.PositionalEncoding, dropout=0.0, **even)
    return {"output": module(embedded), "pe": module.pe}


def test_positional_encoding_as_made(answer, even, embedded):
    """A newly created module keeps float32 inputs in float32."""
    module = answer.PositionalEncoding(dropout=0.0, **even).to(embedded.device)
    output = module(embedded.float())
    return {"pe": module.pe, "output": output}


def test_positional_encoding_lengths(answer, build, even, two_lengths):
    """A module works for sequences of every length up to max_len, one after the other."""
    module = build(answer.PositionalEncoding, dropout=0.0, **even)
    return {"outputs": [module(x) for x in two_lengths]}


def test_positional_encoding_gradients(answer, build, even, embedded):
    """The gradient passes through unchanged."""
    module = build(answer.PositionalEncoding, dropout=0.0, **even)
    inputs = wanting_gradients({"x": embedded})
    backward(module(**inputs))
    return {"gradients": gradients(inputs)}


def test_positional_encoding_in_evaluation(answer, build, even, embedded):
    """In evaluation mode, dropout is inactive."""
    module = build(answer.PositionalEncoding, dropout=1.0, **even)
    return {"output": module.eval()(embedded)}


@pytest.mark.constant("some_of_a_vector_dropped", "it holds whatever is drawn")
def test_positional_encoding_dropout(answer, build, even, many_embedded, p):
    """Each number is dropped with the given probability, and otherwise divided by 1 − p."""
    module = build(answer.PositionalEncoding, dropout=p, **even)
    dropped = module(many_embedded)
    return without_gaps(dropped, module.eval()(many_embedded), p)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.constant("dtype", "it is that of the inputs")
def test_positional_encoding_dtype(answer, build, even, embedded_of_dtype, dtype):
    """The output has the dtype to which the module was moved; the table is accurate to float32."""
    output = build(answer.PositionalEncoding, dropout=0.0, **even, dtype=dtype)(embedded_of_dtype)
    narrow = output if dtype in ("float16", "bfloat16") else output.to(torch.float32)
    return {"dtype": str(output.dtype), "output": narrow}
