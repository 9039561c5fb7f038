"""Day 1 · softmax(x, axis=-1) and log_softmax(x, axis=-1)."""

import numpy as np
import pytest

FAR = 10_000.0  # e^10 000 is no float64, nor is e^−10 000
VERY_FAR = 1e6  # about as large as scores become in training that goes wrong


@pytest.fixture
def vector(draw):
    """A single row."""
    return {"x": draw.normal(draw.size(4, 7))}


@pytest.fixture
def rows(draw):
    """More than one row, not as many as columns."""
    return {"x": draw.normal(*draw.sizes(3, 7, 2))}


@pytest.fixture
def three_axes(draw, axis):
    """Three axes, all of different length."""
    return {"x": draw.normal(*draw.sizes(2, 6, 3)), "axis": axis}


@pytest.fixture
def four_axes(draw):
    """Four axes, all of different length, as the scores of several heads have them."""
    return {"x": draw.normal(*draw.sizes(2, 6, 4))}


@pytest.fixture
def square(draw):
    """As many rows as columns: what broadcasts wrongly raises no error here."""
    size = draw.size(3, 5)
    return {"x": draw.normal(size, size)}


@pytest.fixture
def column(draw):
    """A matrix with a single column."""
    return draw.normal(draw.size(3, 6), 1)


@pytest.fixture
def shifted(draw, offset):
    """Ordinary rows, moved far away from 0 as a whole."""
    return {"x": draw.normal(*draw.sizes(3, 6, 2), mean=offset)}


@pytest.fixture
def spread_out(draw):
    """Columns of scores that lie thousands apart, along an axis that is not the last."""
    return {"x": draw.normal(*draw.sizes(3, 6, 2), scale=FAR), "axis": 0}


@pytest.fixture
def rows_far_apart(draw):
    """One row near +10 000, one near 0, one near −10 000; within a row the scores are ordinary."""
    return {"x": draw.normal(3, draw.size(4, 7)) + np.array([[FAR], [0.0], [-FAR]])}


@pytest.fixture
def very_far(draw, dtype):
    """Scores of up to a million, both signs in every row."""
    x = draw.uniform(0.1, 1.0, *draw.sizes(3, 6, 2)) * VERY_FAR
    x[:, 0] *= -1
    return {"x": x.astype(dtype)}


@pytest.fixture
def turned(draw):
    """Rows that are not contiguous in memory."""
    return {"x": np.asfortranarray(draw.normal(*draw.sizes(3, 7, 2)))}


@pytest.fixture
def of_dtype(draw, dtype):
    """Scores of one dtype, large enough to overflow in float32 if nothing is subtracted."""
    return {"x": draw.normal(*draw.sizes(3, 6, 2), scale=50.0, mean=200.0, dtype=dtype)}


# --- softmax ---------------------------------------------------------------------------------------


def test_vector(answer, vector):
    """A row of scores becomes positive weights that sum to 1."""
    return {"weights": answer.softmax(**vector)}


def test_rows(answer, rows):
    """By default the softmax runs along the last axis: each row of a matrix sums to 1."""
    return {"weights": answer.softmax(**rows)}


def test_square(answer, square):
    """With as many rows as columns, each row is still divided by its own sum."""
    return {"weights": answer.softmax(**square)}


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_axis(answer, three_axes, axis):
    """The weights sum to 1 along `axis`, which may be negative."""
    return {"weights": answer.softmax(**three_axes)}


def test_four_axes(answer, four_axes):
    """With any number of leading axes, the weights sum to 1 along the last one."""
    return {"weights": answer.softmax(**four_axes)}


@pytest.mark.watertight("an axis of length 1, which is easily lost")
def test_single_score(answer, column):
    """A single score has the weight 1; an axis of length 1 elsewhere changes nothing."""
    return {"down": answer.softmax(column, axis=0), "across": answer.softmax(column, axis=1)}


@pytest.mark.parametrize("offset", [FAR, -FAR])
def test_offset(answer, shifted, offset):
    """Adding 10,000 to all scores, or −10,000, does not change the weights."""
    return {"weights": answer.softmax(**shifted)}


def test_large_scores(answer, spread_out):
    """Scores that are thousands apart have weights near 1 and 0 and do not overflow."""
    return {"weights": answer.softmax(**spread_out)}


def test_rows_far_apart(answer, rows_far_apart):
    """A row far below the others has weights like any other row."""
    return {"weights": answer.softmax(**rows_far_apart)}


@pytest.mark.watertight("scores of up to a million, as in training that goes wrong")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_very_large_scores(answer, very_far, dtype):
    """Scores of up to a million, positive and negative, are scores like any other."""
    return {"weights": answer.softmax(**very_far)}


@pytest.mark.watertight("arrays with a different memory layout, as after a transposition")
def test_memory_layout(answer, turned):
    """An array that is stored by columns gives the same result as one stored by rows."""
    return {"weights": answer.softmax(**turned)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype(answer, of_dtype, dtype):
    """The weights have the dtype of the scores."""
    return {"weights": answer.softmax(**of_dtype)}


# --- log_softmax -----------------------------------------------------------------------------------


def test_log_vector(answer, vector):
    """A row of scores becomes the logarithms of its weights."""
    return {"log_weights": answer.log_softmax(**vector)}


def test_log_rows(answer, rows):
    """By default the log-softmax runs along the last axis."""
    return {"log_weights": answer.log_softmax(**rows)}


def test_log_square(answer, square):
    """With as many rows as columns, each row still has its own sum."""
    return {"log_weights": answer.log_softmax(**square)}


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_log_axis(answer, three_axes, axis):
    """The sum runs along `axis`, which may be negative."""
    return {"log_weights": answer.log_softmax(**three_axes)}


def test_log_four_axes(answer, four_axes):
    """With any number of leading axes, the sum runs over the last one."""
    return {"log_weights": answer.log_softmax(**four_axes)}


@pytest.mark.parametrize("offset", [FAR, -FAR])
def test_log_offset(answer, shifted, offset):
    """Adding 10,000 to all scores, or −10,000, does not change the log-weights."""
    return {"log_weights": answer.log_softmax(**shifted)}


def test_log_large_scores(answer, spread_out):
    """A score thousands below the largest has a log-weight of minus several thousand, not −∞."""
    return {"log_weights": answer.log_softmax(**spread_out)}


def test_log_rows_far_apart(answer, rows_far_apart):
    """A row far below the others has log-weights like any other row."""
    return {"log_weights": answer.log_softmax(**rows_far_apart)}


@pytest.mark.watertight("an axis of length 1, which is easily lost")
def test_log_single_score(answer, column):
    """A single score has the log-weight 0; an axis of length 1 elsewhere changes nothing."""
    return {
        "down": answer.log_softmax(column, axis=0),
        "across": answer.log_softmax(column, axis=1),
    }


@pytest.mark.watertight("scores of up to a million, as in training that goes wrong")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_very_large_scores(answer, very_far, dtype):
    """Scores of up to a million, positive and negative, are scores like any other."""
    return {"log_weights": answer.log_softmax(**very_far)}


@pytest.mark.watertight("arrays with a different memory layout, as after a transposition")
def test_log_memory_layout(answer, turned):
    """An array that is stored by columns gives the same result as one stored by rows."""
    return {"log_weights": answer.log_softmax(**turned)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_dtype(answer, of_dtype, dtype):
    """The log-weights have the dtype of the scores."""
    return {"log_weights": answer.log_softmax(**of_dtype)}
