"""`numpy_reference.py` against SciPy, PyTorch and plain loops, never against itself.

Float64 has to agree to 1e-10, float32 to what its rounding allows. Inputs are read-only, and every
test runs with overflow, division by zero and invalid operations as errors: a reference that writes
into its inputs, or that warns on the way to a right answer, fails here.
"""

import itertools
import math
from types import MappingProxyType

import numpy as np
import pytest
import scipy.special
import torch
import torch.nn.functional as F

import numpy_reference as ref

TOLERANCE = {np.float64: 1e-10, np.float32: 2e-5}
DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
BATCHES = pytest.mark.parametrize(
    "batch", [(), (2,), (2, 3), (2, 3, 2)], ids=["0d", "1d", "2d", "3d"]
)


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(2017)


def read_only(array):
    array.flags.writeable = False
    return array


def normal(rng, *shape, dtype=np.float64):
    return read_only(rng.normal(size=shape).astype(dtype))


def tensor(array):
    """A float64 copy for the oracle, so that float32 answers are held against the exact truth."""
    return torch.tensor(array, dtype=torch.float64)


def assert_close(actual, expected, dtype=np.float64, tolerance=None):
    """The dtype and shape are those expected, and the values agree to the dtype's tolerance."""
    expected = np.asarray(expected)
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    tolerance = tolerance or TOLERANCE[dtype]
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# --- Day 1 · Softmax -----------------------------------------------------------------------------

EVERY_AXIS = [
    (shape, axis)
    for shape in [(1,), (6,), (3, 5), (4, 1, 3)]
    for axis in range(-len(shape), len(shape))
]
ORACLES = pytest.mark.parametrize("name", ["softmax", "log_softmax"])


@ORACLES
@DTYPES
@pytest.mark.parametrize(("shape", "axis"), EVERY_AXIS)
def test_softmax_along_every_axis(rng, name, shape, axis, dtype):
    """Softmax and log-softmax are SciPy's along every axis."""
    x = normal(rng, *shape, dtype=dtype)
    assert_close(
        getattr(ref, name)(x, axis), getattr(scipy.special, name)(x.astype(np.float64), axis), dtype
    )


@ORACLES
def test_softmax_is_along_the_last_axis_by_default(rng, name):
    """Without an axis the last one is meant."""
    x = normal(rng, 3, 4)
    assert_close(getattr(ref, name)(x), getattr(torch, name)(tensor(x), dim=-1))


@DTYPES
@pytest.mark.parametrize("offset", [-1e4, 1e4])
def test_softmax_far_from_zero(offset, dtype):
    """An offset of ±1e4 changes nothing: the gaps of 0, 1 and 2 give the weights of math.exp."""
    x = read_only(np.array([0, 1, 2], dtype) + dtype(offset))
    total = sum(math.exp(i) for i in range(3))
    assert_close(ref.softmax(x), [math.exp(i) / total for i in range(3)], dtype)
    assert_close(ref.log_softmax(x), [i - math.log(total) for i in range(3)], dtype)


def test_softmax_at_the_end_of_float64():
    """Scores of 1e308 neither overflow nor give NaN."""
    assert ref.softmax(np.array([1e308, 1e308, 0.0])).tolist() == [0.5, 0.5, 0.0]
    assert_close(ref.log_softmax(np.array([1e308, 1e308])), [-math.log(2)] * 2)
    with np.errstate(over="ignore"):  # The gap itself, 2e308, is not a float64.
        assert ref.softmax(np.array([1e308, -1e308])).tolist() == [1.0, 0.0]


@DTYPES
def test_log_softmax_stays_finite_where_softmax_is_zero(dtype):
    """A score far below the largest has a log-weight of about that gap, not −∞."""
    x = read_only(np.array([0, -1e4, 1e4], dtype))
    assert ref.softmax(x).tolist() == [0, 0, 1]
    assert ref.log_softmax(x).tolist() == [-1e4, -2e4, 0]


@ORACLES
@pytest.mark.parametrize("axis", [2, -3])
def test_softmax_refuses_an_axis_that_is_not_there(name, axis):
    """A missing axis is a ValueError that names the axis."""
    with pytest.raises(ValueError, match="axis"):
        getattr(ref, name)(np.zeros((2, 3)), axis)


# --- Day 2 · Attention ---------------------------------------------------------------------------

T_Q, T_K, D_K, D_V = 5, 7, 4, 3
MASKS = pytest.mark.parametrize(
    "mask_shape", [None, (T_K,), (1, T_K), (T_Q, 1), (T_Q, T_K), "full"], ids=str
)


def draw_mask(rng, shape, batch=()):
    """A boolean mask; `full` has the batch's dimensions too, and its last query may attend to nothing."""
    if shape is None:
        return None
    mask = rng.random((*batch, T_Q, T_K) if shape == "full" else shape) < 0.6
    if shape == "full":
        mask[..., -1, :] = False
    return read_only(mask)


def draw_attention(rng, batch=(), dtype=np.float64):
    return [
        normal(rng, *batch, *shape, dtype=dtype) for shape in [(T_Q, D_K), (T_K, D_K), (T_K, D_V)]
    ]


def torch_attention(query, key, value, mask):
    """Torch's output and weights: the weights are what it makes of one-hot values."""
    if mask is not None:
        mask = torch.tensor(np.broadcast_to(mask, (*query.shape[:-1], key.size(-2))))
    one_hot = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:-1], -1)
    return tuple(
        F.scaled_dot_product_attention(query, key, v, attn_mask=mask) for v in (value, one_hot)
    )


@DTYPES
@MASKS
@BATCHES
def test_attention_is_torchs(rng, batch, mask_shape, dtype):
    """Output and weights are torch's, with d_v ≠ d_k, T_q ≠ T_k, any batch and any mask that broadcasts."""
    inputs, mask = draw_attention(rng, batch, dtype), draw_mask(rng, mask_shape, batch)
    output, weights = torch_attention(*map(tensor, inputs), mask)
    actual_output, actual_weights = ref.attention(*inputs, mask)
    assert_close(actual_output, output, dtype)
    assert_close(actual_weights, weights, dtype)


@DTYPES
def test_attention_with_scores_of_ten_thousand(dtype):
    """Scores of ±1e4 neither overflow nor give NaN, with the best key hidden as well."""
    query = read_only(np.array([[200, 0, 0, 0], [-200, 0, 0, 0]], dtype))
    key = read_only(np.array([[100, 0, 0, 0], [100, 0, 0, 0], [-100, 0, 0, 0]], dtype))
    value = read_only(np.array([[1, 2], [3, 4], [5, 6]], dtype))
    output, weights = ref.attention(query, key, value)  # scores 1e4, 1e4, −1e4 and their negatives
    assert weights.tolist() == [[0.5, 0.5, 0], [0, 0, 1]]
    assert output.tolist() == [[2, 3], [5, 6]]
    output, weights = ref.attention(query, key, value, np.array([True, False, False]))
    assert weights.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert output.tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    "dtype", [np.float64, np.int64, np.uint8], ids=lambda dtype: dtype.__name__
)
@pytest.mark.parametrize("name", ["attention", "multi_head_attention", "encoder_layer"])
def test_a_mask_that_is_not_boolean_is_refused(rng, name, dtype):
    """Zeros and ones are no mask: a ValueError names the mask and the dtype it came in."""
    arguments = every_call(rng, np.float64)[name]
    arguments[-1] = arguments[-1].astype(dtype)
    with pytest.raises(ValueError, match=f"mask.*{np.dtype(dtype).name}"):
        getattr(ref, name)(*arguments)


@pytest.mark.parametrize(
    ("query", "key", "value", "mask"),
    [
        ((5, 4), (7, 3), (7, 4), None),
        ((5, 4), (7, 4), (6, 4), None),
        ((2, 5, 4), (3, 7, 4), (3, 7, 4), None),
        ((5, 4), (7, 4), (7, 4), (5, 6)),
        ((5, 4), (7, 4), (7, 4), (4, 7)),
    ],
    ids=["d_k", "T_k", "batch", "mask's T_k", "mask's T_q"],
)
def test_attention_refuses_shapes_that_do_not_fit(query, key, value, mask):
    """Widths, lengths, batches or masks that do not fit each other are a ValueError."""
    with pytest.raises(ValueError, match=r"mismatch|broadcast"):
        ref.attention(
            *map(np.zeros, (query, key, value)), None if mask is None else np.ones(mask, bool)
        )


# --- Day 3 · Masks -------------------------------------------------------------------------------

TOKENS = read_only(np.array([[5, 0, 3, 0], [1, 2, 3, 4], [0, 0, 0, 0], [9, 1, -1, 0]]))


@pytest.mark.parametrize("pad", [0, 1, -1, 7])
def test_padding_mask_is_a_loop(pad):
    """Boolean (B, 1, T), True where a token is not the padding."""
    mask = ref.padding_mask(TOKENS, pad)
    assert mask.dtype == bool
    assert mask.tolist() == [[[token != pad for token in row]] for row in TOKENS.tolist()]


@pytest.mark.parametrize("size", [0, 1, 2, 6])
def test_subsequent_mask_is_torchs_lower_triangle(size):
    """Boolean (1, T, T): every position sees itself and its past."""
    mask = ref.subsequent_mask(size)
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, torch.tril(torch.ones(1, size, size)).bool())


@pytest.mark.parametrize("pad", [0, 1, -1, 7])
def test_target_mask_is_a_loop(pad):
    """Boolean (B, T, T): a key is seen if it is no padding and not in the future."""
    mask, time = ref.target_mask(TOKENS, pad), range(4)
    assert mask.dtype == bool
    assert mask.tolist() == [
        [[row[k] != pad and k <= q for k in time] for q in time] for row in TOKENS.tolist()
    ]


def test_the_padding_is_zero_by_default():
    """Without `pad`, 0 is the padding."""
    np.testing.assert_array_equal(ref.padding_mask(TOKENS)[:, 0], TOKENS != 0)
    np.testing.assert_array_equal(ref.target_mask(TOKENS)[:, -1], TOKENS != 0)


# --- Day 4 · Multi-head attention ----------------------------------------------------------------


def draw_params(rng, d_model, d_ff=None, dtype=np.float64):
    """The parameters of multi-head attention, and with `d_ff` of a whole encoder layer."""
    shapes = {f"w_{name}": (d_model, d_model) for name in "qkvo"}
    shapes |= {f"b_{name}": (d_model,) for name in "qkvo"}
    if d_ff:
        shapes |= {
            "w_1": (d_model, d_ff),
            "b_1": (d_ff,),
            "w_2": (d_ff, d_model),
            "b_2": (d_model,),
        }
        shapes |= {f"{name}_{i}": (d_model,) for name in ("gain", "bias") for i in (1, 2)}
    return MappingProxyType(
        {name: normal(rng, *shape, dtype=dtype) for name, shape in shapes.items()}
    )


def copy_attention(params, layer):
    """Write `params` into torch's nn.MultiheadAttention, whose weights stand transposed in one block."""
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.cat([tensor(params[f"w_{name}"]).T for name in "qkv"]))
        layer.in_proj_bias.copy_(torch.cat([tensor(params[f"b_{name}"]) for name in "qkv"]))
        layer.out_proj.weight.copy_(tensor(params["w_o"]).T)
        layer.out_proj.bias.copy_(tensor(params["b_o"]))
    return layer


def torch_mask(mask, batch, h, t_q, t_k):
    """Torch's attn_mask: (B · h, T_q, T_k), where True means *hidden*."""
    if mask is None:
        return None
    return ~torch.tensor(np.broadcast_to(mask[:, None], (batch, h, t_q, t_k)).reshape(-1, t_q, t_k))


@pytest.mark.parametrize("h", [1, 2, 3, 6])
def test_heads_are_torchs_chunks(rng, h):
    """Head i holds the i-th chunk of the features of every token, and joining is concatenation."""
    x = normal(rng, 2, 5, 6)
    expected = torch.stack(tensor(x).chunk(h, dim=-1), dim=1)
    assert_close(ref.split_heads(x, h), expected)
    y = normal(rng, 2, h, 5, 3)
    assert_close(ref.join_heads(y), torch.cat(tensor(y).unbind(1), dim=-1))


@DTYPES
@pytest.mark.parametrize("h", [1, 2, 4])
@pytest.mark.parametrize("mask_shape", [None, (1, 1, 5), (3, 1, 5), (1, 4, 5), (3, 4, 5)], ids=str)
def test_multi_head_attention_is_torchs(rng, mask_shape, h, dtype):
    """The output is nn.MultiheadAttention's with the weights copied over, T_q ≠ T_k, for every mask shape."""
    query, key, value = (normal(rng, 3, t, 8, dtype=dtype) for t in (4, 5, 5))
    params = draw_params(rng, 8, dtype=dtype)
    mask = None if mask_shape is None else rng.random(mask_shape) < 0.6
    if mask is not None:
        mask[-1, -1] = False  # a query that may attend to nothing
    layer = copy_attention(params, torch.nn.MultiheadAttention(8, h, batch_first=True).double())
    hidden = torch_mask(mask, 3, h, 4, 5)
    expected, _ = layer(*map(tensor, (query, key, value)), need_weights=False, attn_mask=hidden)
    output = ref.multi_head_attention(query, key, value, params, h, mask)
    assert_close(output, expected.detach(), dtype)


@pytest.mark.parametrize("h", [4, 5, 12])
@pytest.mark.parametrize("name", ["split_heads", "multi_head_attention", "encoder_layer"])
def test_a_number_of_heads_that_does_not_divide_is_refused(rng, name, h):
    """h has to divide d_model: a ValueError names h and both numbers."""
    x, params = normal(rng, 1, 2, 6), draw_params(rng, 6, 8)
    arguments = {
        "split_heads": (x, h),
        "multi_head_attention": (x, x, x, params, h),
        "encoder_layer": (x, params, h),
    }
    with pytest.raises(ValueError, match=rf"\bh\b.*{h}.*6"):
        getattr(ref, name)(*arguments[name])


# --- Day 5 · Positional encoding -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_len", "d_model"), [(1, 1), (4, 1), (3, 2), (5, 7), (9, 8), (20, 33), (5000, 6)]
)
def test_positional_encoding_is_a_scalar_loop(max_len, d_model):
    """Every entry is math.sin or math.cos of the paper's angle, for odd widths too, in float64."""
    expected = np.empty((max_len, d_model))
    for position, column in itertools.product(range(max_len), range(d_model)):
        wave = math.sin if column % 2 == 0 else math.cos
        expected[position, column] = wave(
            position / math.pow(10000, (column - column % 2) / d_model)
        )
    assert_close(ref.positional_encoding(max_len, d_model), expected)


# --- Day 6 · Encoder layer -----------------------------------------------------------------------


@DTYPES
@BATCHES
@pytest.mark.parametrize("scale", [1, 3e-3, 100])
@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_layer_norm_is_torchs(rng, batch, eps, scale, dtype):
    """Layer norm is torch's for any leading dimensions, with a variance near eps, far below and above it."""
    x = read_only(normal(rng, *batch, 6, dtype=dtype) * dtype(scale))
    gain, bias = normal(rng, 6, dtype=dtype), normal(rng, 6, dtype=dtype)
    expected = F.layer_norm(tensor(x), (6,), tensor(gain), tensor(bias), eps)
    assert_close(ref.layer_norm(x, gain, bias, eps), expected, dtype)


def test_layer_norm_has_torchs_default_eps(rng):
    """Without `eps` it is 1e-5: seen best where the variance is about that."""
    x, gain, bias = normal(rng, 3, 6) * 3e-3, normal(rng, 6), normal(rng, 6)
    assert_close(
        ref.layer_norm(x, gain, bias), F.layer_norm(tensor(x), (6,), tensor(gain), tensor(bias))
    )


def test_layer_norm_survives_a_mean_that_dwarfs_the_deviation(rng):
    """Mean 1000 and deviation 0.1 in float32: only the rounding of the mean, an ulp or two of 1000, shows."""
    x = read_only((1000 + 0.1 * rng.normal(size=(8, 512))).astype(np.float32))
    output = ref.layer_norm(x, np.ones(512, np.float32), np.zeros(512, np.float32))
    tolerance = 2 * np.spacing(np.float32(1000)) / 0.1
    assert_close(output, F.layer_norm(tensor(x), (512,)), np.float32, tolerance)


@pytest.mark.parametrize("shape", [(3, 1), (2, 5)])
def test_layer_norm_of_a_constant_vector_is_the_bias(rng, shape):
    """No deviation at all gives the bias, not NaN."""
    gain, bias = normal(rng, shape[-1]), normal(rng, shape[-1])
    output = ref.layer_norm(read_only(np.full(shape, 7.0)), gain, bias)
    np.testing.assert_array_equal(output, np.broadcast_to(bias, shape))


@DTYPES
@BATCHES
def test_feed_forward_is_torchs(rng, batch, dtype):
    """Two torch linears with a ReLU between them, for any leading dimensions."""
    x, w_1, b_1, w_2, b_2 = (
        normal(rng, *shape, dtype=dtype) for shape in [(*batch, 4), (4, 9), (9,), (9, 4), (4,)]
    )
    hidden = F.relu(F.linear(tensor(x), tensor(w_1).T, tensor(b_1)))
    assert_close(
        ref.feed_forward(x, w_1, b_1, w_2, b_2), F.linear(hidden, tensor(w_2).T, tensor(b_2)), dtype
    )


@DTYPES
@pytest.mark.parametrize("h", [1, 2, 4])
@pytest.mark.parametrize("mask_name", [None, "padding_mask", "subsequent_mask", "target_mask"])
def test_encoder_layer_is_torchs(rng, mask_name, h, dtype):
    """A post-norm nn.TransformerEncoderLayer with the weights copied over, with and without masks."""
    x, params = normal(rng, 4, 4, 8, dtype=dtype), draw_params(rng, 8, 10, dtype=dtype)
    argument = (
        4 if mask_name == "subsequent_mask" else TOKENS
    )  # one sequence of TOKENS is only padding
    mask = getattr(ref, mask_name)(argument) if mask_name else None
    layer = torch.nn.TransformerEncoderLayer(
        8, h, 10, dropout=0, activation="relu", batch_first=True
    ).double()
    copy_attention(params, layer.self_attn)
    with torch.no_grad():
        for i in (1, 2):
            linear, norm = getattr(layer, f"linear{i}"), getattr(layer, f"norm{i}")
            linear.weight.copy_(tensor(params[f"w_{i}"]).T)
            linear.bias.copy_(tensor(params[f"b_{i}"]))
            norm.weight.copy_(tensor(params[f"gain_{i}"]))
            norm.bias.copy_(tensor(params[f"bias_{i}"]))
    expected = layer(tensor(x), src_mask=torch_mask(mask, 4, h, 4, 4)).detach()
    assert_close(ref.encoder_layer(x, params, h, mask), expected, dtype)


# --- Day 7 · Backward ----------------------------------------------------------------------------


@DTYPES
@BATCHES
def test_softmax_backward_is_autograds(rng, batch, dtype):
    """The gradient that torch's autograd sends back through its own softmax."""
    scores, grad_weights = normal(rng, *batch, 6), normal(rng, *batch, 6, dtype=dtype)
    inputs = tensor(scores).requires_grad_()
    weights = inputs.softmax(-1)
    (expected,) = torch.autograd.grad(weights, inputs, tensor(grad_weights))
    weights = read_only(weights.detach().numpy().astype(dtype))
    assert_close(ref.softmax_backward(grad_weights, weights), expected, dtype)


@DTYPES
@MASKS
@BATCHES
def test_attention_backward_is_autograds(rng, batch, mask_shape, dtype):
    """The three gradients that autograd finds through torch's attention, masks and empty rows included."""
    inputs, mask = draw_attention(rng, batch, dtype), draw_mask(rng, mask_shape, batch)
    grad_output = normal(rng, *batch, T_Q, D_V, dtype=dtype)
    tensors = [tensor(array).requires_grad_() for array in inputs]
    output, weights = torch_attention(*tensors, mask)
    expected = torch.autograd.grad(output, tensors, tensor(grad_output))
    weights = read_only(weights.detach().numpy().astype(dtype))
    for actual, gradient in zip(
        ref.attention_backward(grad_output, *inputs, weights), expected, strict=True
    ):
        assert_close(actual, gradient, dtype)


# --- Every function ------------------------------------------------------------------------------


def every_call(rng, dtype):
    """Arguments for each public function that takes floats."""
    x, w = normal(rng, 2, 4, 6, dtype=dtype), normal(rng, 2, 4, 4, dtype=dtype)
    mask, params = rng.random((2, 4, 4)) < 0.7, draw_params(rng, 6, 8, dtype)
    return {
        "softmax": [x, 1],
        "log_softmax": [x, 1],
        "attention": [x, x, x, mask],
        "split_heads": [x, 2],
        "join_heads": [normal(rng, 2, 3, 4, 2, dtype=dtype)],
        "multi_head_attention": [x, x, x, params, 2, mask],
        "layer_norm": [x, params["gain_1"], params["bias_1"]],
        "feed_forward": [x, *(params[name] for name in ("w_1", "b_1", "w_2", "b_2"))],
        "encoder_layer": [x, params, 2, mask],
        "softmax_backward": [w, w],
        "attention_backward": [x, x, x, x, w],
    }


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16], ids=lambda dtype: dtype.__name__
)
@pytest.mark.parametrize("name", every_call(np.random.default_rng(0), np.float64))
def test_the_result_has_the_inputs_dtype(rng, name, dtype):
    """What goes in as float16, float32 or float64 comes out as it."""
    results = getattr(ref, name)(*every_call(rng, dtype)[name])
    results = results if isinstance(results, tuple) else (results,)
    assert [result.dtype for result in results] == [dtype] * len(results)


@pytest.mark.parametrize("name", every_call(np.random.default_rng(0), np.float64))
def test_inputs_stay_as_they_were(rng, name):
    """Arrays that may be written to are the same to the bit after the call, those in `params` too."""
    arguments = [
        dict(a) if isinstance(a, MappingProxyType) else a for a in every_call(rng, np.float64)[name]
    ]
    params = next((a for a in arguments if isinstance(a, dict)), {})
    all_of_them = {**params, **{i: a for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}}
    for array in all_of_them.values():
        array.flags.writeable = True
    before = {key: array.copy() for key, array in all_of_them.items()}
    getattr(ref, name)(*arguments)
    assert all(params[key] is all_of_them[key] for key in params)
    for key, array in all_of_them.items():
        np.testing.assert_array_equal(array, before[key])


def test_every_function_is_tested():
    """A function added to the reference has to be added here."""
    public = {
        name
        for name, value in vars(ref).items()
        if getattr(value, "__module__", "") == ref.__name__
    }
    others = {"padding_mask", "subsequent_mask", "target_mask", "positional_encoding"}
    assert public == {*every_call(np.random.default_rng(0), np.float64), *others}
