"""What `numpy_reference.py` promises beyond the days' checks, which compare it with SciPy and PyTorch
(`tests/days/accepted/*/published.py`).

Every test runs with overflow, division by zero and invalid operations as errors, and on read-only inputs: a
reference that writes into its inputs, or that warns on the way to a right result, fails here.
"""

import itertools
import math
from types import MappingProxyType

import numpy as np
import pytest

import numpy_reference as ref


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        yield


def read_only(array):
    array.flags.writeable = False
    return array


def test_softmax_at_the_end_of_float64():
    """Scores of 1e308 neither overflow nor give NaN."""
    assert ref.softmax(np.array([1e308, 1e308, 0.0])).tolist() == [0.5, 0.5, 0.0]
    assert ref.log_softmax(np.array([1e308, 1e308])).tolist() == [-math.log(2)] * 2
    with np.errstate(over="ignore"):  # The gap itself, 2e308, is not a float64.
        assert ref.softmax(np.array([1e308, -1e308])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extremes_warn_of_nothing(dtype):
    """Scores of ±1e4, with the best key hidden as well, a query without keys, and a constant vector."""
    scores = read_only(np.array([0, -1e4, 1e4], dtype))
    assert ref.softmax(scores).tolist() == [0, 0, 1]
    assert ref.log_softmax(scores).tolist() == [-1e4, -2e4, 0]
    query = read_only(np.array([[200, 0, 0, 0], [-200, 0, 0, 0]], dtype))
    key = read_only(np.array([[100, 0, 0, 0], [100, 0, 0, 0], [-100, 0, 0, 0]], dtype))
    value = read_only(np.array([[1, 2], [3, 4], [5, 6]], dtype))
    for mask, expected in [
        ([True, True, True], [[2, 3], [5, 6]]),
        ([True, False, False], [[1, 2], [1, 2]]),
        ([False, False, False], [[0, 0], [0, 0]]),
    ]:
        assert ref.attention(query, key, value, np.array(mask))[0].tolist() == expected
    constant, bias = read_only(np.full((2, 5), 7, dtype)), read_only(np.arange(5).astype(dtype))
    assert ref.layer_norm(constant, bias, bias).tolist() == [bias.tolist()] * 2


@pytest.mark.parametrize(
    ("max_len", "d_model"), [(1, 1), (4, 1), (3, 2), (5, 7), (9, 8), (20, 33), (5000, 6)]
)
def test_positional_encoding_is_a_scalar_loop(max_len, d_model):
    """Every entry is math.sin or math.cos of the paper's angle, for odd widths too, in float64."""
    expected = np.empty((max_len, d_model))
    for position, column in itertools.product(range(max_len), range(d_model)):
        wave = math.sin if column % 2 == 0 else math.cos
        angle = position / math.pow(10000, (column - column % 2) / d_model)
        expected[position, column] = wave(angle)
    table = ref.positional_encoding(max_len, d_model)
    assert table.dtype == np.float64
    np.testing.assert_allclose(table, expected, rtol=1e-10, atol=1e-10)


# --- Every function ------------------------------------------------------------------------------


def draw_params(rng, d_model, d_ff, dtype):
    """The parameters of an encoder layer."""
    shapes = {f"w_{name}": (d_model, d_model) for name in "qkvo"}
    shapes |= {f"b_{name}": (d_model,) for name in "qkvo"}
    shapes |= {"w_1": (d_model, d_ff), "b_1": (d_ff,), "w_2": (d_ff, d_model), "b_2": (d_model,)}
    shapes |= {f"{name}_{i}": (d_model,) for name in ("gain", "bias") for i in (1, 2)}
    arrays = {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    return MappingProxyType({name: read_only(array) for name, array in arrays.items()})


def every_call(dtype=np.float64):
    """Arguments for each public function that takes floats, all of them read-only."""
    rng = np.random.default_rng(2017)
    x, w, heads = (
        read_only(rng.normal(size=s).astype(dtype)) for s in ((2, 4, 6), (2, 4, 4), (2, 3, 4, 2))
    )
    mask, params = read_only(rng.random((2, 4, 4)) < 0.7), draw_params(rng, 6, 8, dtype)
    return {
        "softmax": [x, 1],
        "log_softmax": [x, 1],
        "attention": [x, x, x, mask],
        "split_heads": [x, 2],
        "join_heads": [heads],
        "multi_head_attention": [x, x, x, params, 2, mask],
        "layer_norm": [x, params["gain_1"], params["bias_1"]],
        "feed_forward": [x, *(params[name] for name in ("w_1", "b_1", "w_2", "b_2"))],
        "encoder_layer": [x, params, 2, mask],
        "softmax_backward": [w, w],
        "attention_backward": [x, x, x, x, w],
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", every_call())
def test_the_result_has_the_inputs_dtype(name, dtype):
    """float16, float32 and float64 are kept, and no input is written to."""
    results = getattr(ref, name)(*every_call(dtype)[name])
    results = results if isinstance(results, tuple) else (results,)
    assert [result.dtype for result in results] == [dtype] * len(results)


def test_every_function_is_tested():
    """A function added to the reference has to be added here."""
    public = {n for n, v in vars(ref).items() if getattr(v, "__module__", "") == ref.__name__}
    exact = {"padding_mask", "subsequent_mask", "target_mask", "positional_encoding"}
    assert public == {*every_call(), *exact}


# --- Bad arguments -------------------------------------------------------------------------------


def zeros(*shapes):
    return [np.zeros(shape) for shape in shapes]


def with_mask(name, dtype):
    *arguments, mask = every_call()[name]
    return name, [*arguments, mask.astype(dtype)], rf"mask.*{np.dtype(dtype).name}"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        *(
            (name, [np.zeros((2, 3)), axis], "axis")
            for name in ("softmax", "log_softmax")
            for axis in (2, -3)
        ),
        *(
            with_mask(name, dtype)  # zeros and ones are no mask
            for name in ("attention", "multi_head_attention", "encoder_layer")
            for dtype in (np.float64, np.int64, np.uint8)
        ),
        ("attention", zeros((5, 4), (7, 3), (7, 4)), "mismatch"),
        ("attention", zeros((5, 4), (7, 4), (6, 4)), "mismatch"),
        ("attention", zeros((2, 5, 4), (3, 7, 4), (3, 7, 4)), "mismatch|broadcast"),
        ("attention", [*zeros((5, 4), (7, 4), (7, 4)), np.ones((5, 6), bool)], "broadcast"),
        ("attention", [*zeros((5, 4), (7, 4), (7, 4)), np.ones((4, 7), bool)], "broadcast"),
        *(
            call
            for h in (4, 5, 12)
            for call in (
                ("split_heads", [np.zeros((1, 2, 6)), h], rf"\bh\b.*{h}.*6"),
                (
                    "multi_head_attention",
                    [*every_call()["multi_head_attention"][:4], h],
                    rf"{h}.*6",
                ),
                ("encoder_layer", [*every_call()["encoder_layer"][:2], h], rf"\bh\b.*{h}.*6"),
            )
        ),
    ],
)
def test_bad_arguments_are_refused(name, arguments, message):
    """By a ValueError that names the argument and what was given."""
    with pytest.raises(ValueError, match=message):
        getattr(ref, name)(*arguments)
