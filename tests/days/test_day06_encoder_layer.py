"""Day 6 · layer_norm(x, gain, bias, eps=1e-5), feed_forward(x, w_1, b_1, w_2, b_2) and
encoder_layer(x, params, h, mask=None)."""

import numpy as np
import pytest


def shift_and_scale(draw, features, **how):
    """A gain away from 1 and a bias away from 0, of either sign."""
    return {
        "gain": draw.normal(features, scale=2.0, **how),
        "bias": draw.normal(features, mean=1.0, **how),
    }


def vectors(draw, *shape, dtype="float64", **how):
    """Vectors of many means and standard deviations, and what else layer_norm takes."""
    offset = draw.normal(*shape[:-1], 1, scale=3.0)
    spread = draw.uniform(0.5, 4.0, *shape[:-1], 1)
    x = offset + spread * draw.normal(*shape)
    return {"x": x.astype(dtype)} | shift_and_scale(draw, shape[-1], dtype=dtype)


def two_layers(draw, d_model, d_ff, **how):
    """Both layers of a feed-forward network, with biases that matter."""
    return {
        "w_1": draw.normal(d_model, d_ff, scale=d_model**-0.5, **how),
        "b_1": draw.normal(d_ff, **how),
        "w_2": draw.normal(d_ff, d_model, scale=d_ff**-0.5, **how),
        "b_2": draw.normal(d_model, **how),
    }


def layer_arguments(draw, batch, time, h, d_k, **how):
    """What encoder_layer takes: a gain and a bias of its own for each norm, d_ff unlike d_model."""
    d_model = h * d_k
    params = {
        name: draw.normal(d_model, d_model, scale=d_model**-0.5, **how)
        for name in ("w_q", "w_k", "w_v", "w_o")
    }
    params |= {name: draw.normal(d_model, **how) for name in ("b_q", "b_k", "b_v", "b_o")}
    params |= two_layers(draw, d_model, d_model + draw.size(1, 5), **how)
    for number in (1, 2):
        norm = shift_and_scale(draw, d_model, **how)
        params |= {f"gain_{number}": norm["gain"], f"bias_{number}": norm["bias"]}
    return {
        "x": draw.normal(batch, time, d_model, scale=1.5, mean=0.5, **how),
        "params": params,
        "h": h,
    }


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def norm_inputs(draw):
    """Vectors in a batch of sequences."""
    return vectors(draw, *draw.sizes(3, 8, 3))


@pytest.fixture
def norm_of_rank(draw, axes):
    """One vector, a list of them, or more leading dimensions."""
    return vectors(draw, *draw.sizes(3, 8, axes))


@pytest.fixture
def nearly_constant(draw):
    """A variance about as small as the default ε."""
    batch, time, features = draw.sizes(3, 8, 3)
    x = draw.normal(batch, time, features, scale=0.003, mean=0.5)
    return {"x": x} | shift_and_scale(draw, features)


@pytest.fixture
def with_eps(draw):
    """An ε about as large as the variance."""
    batch, time, features = draw.sizes(3, 8, 3)
    eps = float(draw.uniform(0.3, 0.9))
    return (
        {"x": draw.normal(batch, time, features, mean=0.5)}
        | shift_and_scale(draw, features)
        | {"eps": eps}
    )


@pytest.fixture
def constant_vectors(draw):
    """Vectors of one number each, a whole one, so that their mean is exact."""
    batch, time, features = draw.sizes(3, 8, 3)
    x = np.repeat(draw.integers(-9, 9, batch, time, 1).astype("float64"), features, axis=-1)
    return {"x": x} | shift_and_scale(draw, features)


@pytest.fixture
def far_from_zero(draw):
    """A mean of 1000 and a standard deviation of 0.1, in float32."""
    features = draw.size(12, 20)
    x = draw.normal(*draw.sizes(2, 5, 2), features, scale=0.1, mean=1000.0, dtype="float32")
    return {"x": x} | shift_and_scale(draw, features, dtype="float32")


@pytest.fixture
def norm_of_dtype(draw, dtype):
    """Everything of one dtype."""
    return vectors(draw, *draw.sizes(3, 8, 3), dtype=dtype)


@pytest.fixture
def network(draw):
    """A feed-forward network that widens."""
    batch, time, d_model = draw.sizes(2, 6, 3)
    return {"x": draw.normal(batch, time, d_model)} | two_layers(draw, d_model, draw.size(7, 12))


@pytest.fixture
def network_of_rank(draw, axes):
    """The same for one vector, a list of them, or more leading dimensions."""
    *leading, d_model = draw.sizes(2, 6, axes)
    return {"x": draw.normal(*leading, d_model)} | two_layers(draw, d_model, draw.size(7, 12))


@pytest.fixture
def network_of_dtype(draw, dtype):
    """Everything of one dtype."""
    batch, time, d_model = draw.sizes(2, 6, 3)
    return {"x": draw.normal(batch, time, d_model, dtype=dtype)} | two_layers(
        draw, d_model, draw.size(7, 12), dtype=dtype
    )


def silenced(inputs, *names):
    """The same layer with 0 in place of these parameters."""
    return inputs | {
        "params": inputs["params"] | {name: np.zeros_like(inputs["params"][name]) for name in names}
    }


@pytest.fixture
def shortcuts_alone(draw):
    """Attention and network give 0 whatever goes in."""
    return silenced(layer_arguments(draw, *draw.sizes(2, 6, 4)), "w_o", "b_o", "w_2", "b_2")


@pytest.fixture
def silent_network(draw):
    """The feed-forward network gives 0 whatever goes in."""
    return silenced(layer_arguments(draw, *draw.sizes(2, 6, 4)), "w_2", "b_2")


@pytest.fixture
def silent_attention(draw):
    """Attention gives 0 whatever goes in."""
    return silenced(layer_arguments(draw, *draw.sizes(2, 6, 4)), "w_o", "b_o")


@pytest.fixture
def layer(draw):
    """Tokens and the parameters of a layer."""
    return layer_arguments(draw, *draw.sizes(2, 6, 4))


@pytest.fixture
def quiet_layer(draw):
    """Both sums that are normalized have a variance about as small as the default ε."""
    inputs = layer_arguments(draw, *draw.sizes(2, 6, 4))
    quiet = ("w_o", "b_o", "gain_1", "bias_1", "w_2", "b_2")
    params = {
        name: array * 0.001 if name in quiet else array for name, array in inputs["params"].items()
    }
    return inputs | {"x": inputs["x"] * 0.001, "params": params}


@pytest.fixture
def layer_at_the_edge(draw, edge):
    """One size is 1; a mask of its own for every query."""
    sizes = dict(zip(["B", "T", "h", "d_k"], draw.sizes(2, 6, 4), strict=True)) | {
        edge.split("=")[0]: 1
    }
    inputs = layer_arguments(draw, *sizes.values())
    return inputs | {"mask": draw.mask(sizes["B"], sizes["T"], sizes["T"])}


@pytest.fixture
def masked_layer(draw, batch, queries):
    """A mask with or without an axis of its own for the batch and for the queries."""
    all_batches, time, h, d_k = draw.sizes(2, 6, 4)
    inputs = layer_arguments(draw, all_batches, time, h, d_k)
    return inputs | {
        "mask": draw.mask(all_batches if batch == "B" else 1, time if queries == "T" else 1, time)
    }


@pytest.fixture
def nothing_to_attend_to(draw):
    """Tokens that may attend to nothing."""
    batch, time, h, d_k = draw.sizes(2, 6, 4)
    mask = draw.mask(batch, time, time)
    mask[0, draw.size(0, time - 1)] = False
    mask[1] = False
    return layer_arguments(draw, batch, time, h, d_k) | {"mask": mask}


@pytest.fixture
def layer_of_dtype(draw, dtype):
    """Everything of one dtype, masked."""
    batch, time, h, d_k = draw.sizes(2, 6, 4)
    return layer_arguments(draw, batch, time, h, d_k, dtype=dtype) | {
        "mask": draw.mask(batch, time, time)
    }


# --- layer_norm -----------------------------------------------------------------------------------


def test_layer_norm(answer, norm_inputs):
    """Each vector is centered and divided by its standard deviation; then gain and bias are applied."""
    return {"normed": answer.layer_norm(**norm_inputs)}


@pytest.mark.parametrize("axes", [1, 2, 4])
def test_layer_norm_leading_dimensions(answer, norm_of_rank, axes):
    """With any number of leading axes, the last axis holds the features."""
    return {"normed": answer.layer_norm(**norm_of_rank)}


@pytest.mark.watertight(
    "a mean far larger than the deviation, where a difference of squares loses everything"
)
def test_layer_norm_far_from_zero(answer, far_from_zero):
    """In float32, a mean of 1000 and a standard deviation of 0.1 cause no loss of accuracy."""
    return {"normed": answer.layer_norm(**far_from_zero)}


@pytest.mark.watertight("a variance as small as ε, where it shows how ε is added")
def test_layer_norm_small_variance(answer, nearly_constant):
    """ε is added to the variance, under the root, which matters for a variance as small as ε = 1e-5."""
    return {"normed": answer.layer_norm(**nearly_constant)}


def test_layer_norm_eps(answer, with_eps):
    """The argument `eps` is used."""
    return {"normed": answer.layer_norm(**with_eps)}


@pytest.mark.watertight("vectors without variance, for which only ε prevents NaN")
def test_layer_norm_constant_vectors(answer, constant_vectors):
    """For a vector of equal numbers the result is the bias, not NaN."""
    return {"normed": answer.layer_norm(**constant_vectors)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layer_norm_dtype(answer, norm_of_dtype, dtype):
    """The result has the dtype of the inputs."""
    return {"normed": answer.layer_norm(**norm_of_dtype)}


# --- feed_forward ---------------------------------------------------------------------------------


def test_feed_forward(answer, network):
    """The network has two layers with a ReLU between them, and computes each position in the same way."""
    return {"output": answer.feed_forward(**network)}


@pytest.mark.parametrize("axes", [1, 2, 4])
def test_feed_forward_leading_dimensions(answer, network_of_rank, axes):
    """Any number of leading axes works."""
    return {"output": answer.feed_forward(**network_of_rank)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_feed_forward_dtype(answer, network_of_dtype, dtype):
    """The result has the dtype of the inputs."""
    return {"output": answer.feed_forward(**network_of_dtype)}


# --- encoder_layer --------------------------------------------------------------------------------


def test_shortcuts_and_norms(answer, shortcuts_alone):
    """If both sublayers return 0, the result is x after two norms, each with its own gain and bias."""
    return {"output": answer.encoder_layer(**shortcuts_alone)}


def test_attention_half(answer, silent_network):
    """If the feed-forward network returns 0, attention's output plus x passes through both norms."""
    return {"output": answer.encoder_layer(**silent_network)}


def test_network_half(answer, silent_attention):
    """If attention returns 0, the feed-forward network's input is the normalized x."""
    return {"output": answer.encoder_layer(**silent_attention)}


def test_encoder_layer(answer, layer):
    """After attention and after the feed-forward network, the input is added and the sum is normalized."""
    return {"output": answer.encoder_layer(**layer)}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
@pytest.mark.parametrize("edge", ["B=1", "T=1", "h=1", "d_k=1"])
def test_encoder_layer_at_the_edge(answer, layer_at_the_edge, edge):
    """The result is right for one sequence, one token, one head, or heads of width 1, with a mask."""
    return {"output": answer.encoder_layer(**layer_at_the_edge)}


@pytest.mark.parametrize("queries", ["T", "1"])
@pytest.mark.parametrize("batch", ["B", "1"])
def test_encoder_layer_mask(answer, masked_layer, batch, queries):
    """The mask reaches the attention."""
    return {"output": answer.encoder_layer(**masked_layer)}


@pytest.mark.watertight(
    "rows with nothing to attend to, as in a batch of sequences of different lengths"
)
def test_encoder_layer_nothing_to_attend_to(answer, nothing_to_attend_to):
    """For a token with no visible key, attention adds only its output bias."""
    return {"output": answer.encoder_layer(**nothing_to_attend_to)}


@pytest.mark.watertight("sums as small as ε, which show whose ε the layer uses")
def test_encoder_layer_quiet(answer, quiet_layer):
    """For a sum with a standard deviation near √ε, the layer's norms add ε as `layer_norm` does."""
    return {"output": answer.encoder_layer(**quiet_layer)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_encoder_layer_dtype(answer, layer_of_dtype, dtype):
    """The output has the dtype of the inputs."""
    return {"output": answer.encoder_layer(**layer_of_dtype)}
