"""Day 3 · padding_mask(tokens, pad=0), subsequent_mask(size) and target_mask(tokens, pad=0)."""

import numpy as np
import pytest


def real_tokens(draw, batch, time, pad):
    """Token ids from 0 to 9, every one but `pad`; the lowest and the highest are among them."""
    tokens = draw.integers(0, 8, batch, time)
    tokens += tokens >= pad
    tokens[0, 0], tokens[1, 0] = int(pad == 0), 9 - int(pad == 9)
    return tokens


def padded_at_the_end(draw, batch, time, pad):
    """Sequences of different lengths, 1 or more, filled up with padding."""
    tokens = real_tokens(draw, batch, time, pad)
    lengths = np.array(draw.sizes(1, time, batch))
    tokens[np.arange(time) >= lengths[:, np.newaxis]] = pad
    return tokens


def batch_and_time(draw):
    """A batch and a longer time."""
    batch = draw.size(2, 4)
    return batch, batch + draw.size(2, 4)


@pytest.fixture
def tokens(draw):
    """Sequences that padding fills up, with the id that is padding by default."""
    return padded_at_the_end(draw, *batch_and_time(draw), 0)


@pytest.fixture
def another_pad(draw):
    """Padding is an id in the middle; 0 is a token like any other, and so are larger ids."""
    pad = draw.size(2, 7)
    return {"tokens": padded_at_the_end(draw, *batch_and_time(draw), pad), "pad": pad}


@pytest.fixture
def pad_anywhere(draw):
    """Padding at the front, in the middle and at the end."""
    pad = draw.size(2, 7)
    batch, time = batch_and_time(draw)
    tokens = real_tokens(draw, batch, time, pad)
    tokens[draw.mask(batch, time, keep=0.3)] = pad
    tokens[0, :2] = pad
    tokens[0, 2] = 9
    tokens[1, 0] = 0
    tokens[1, 1] = pad
    tokens[1, 2] = 9
    return {"tokens": tokens, "pad": pad}


@pytest.fixture
def nothing_but_padding(draw):
    """A batch in which one sequence is empty."""
    batch, time = batch_and_time(draw)
    tokens = padded_at_the_end(draw, batch, time, 0)
    tokens[draw.size(0, batch - 1)] = 0
    return tokens


@pytest.fixture
def no_padding(draw):
    """A batch of sequences that are all of full length."""
    return draw.integers(1, 9, *batch_and_time(draw))


@pytest.fixture
def one_sequence(draw):
    """A batch of one."""
    tokens = draw.integers(1, 9, 1, draw.size(4, 8))
    tokens[0, -draw.size(1, 2) :] = 0
    return tokens


@pytest.fixture
def size(draw):
    """The length of a sequence."""
    return draw.size(4, 9)


# --- padding_mask ----------------------------------------------------------------------------------


def test_padding(answer, tokens):
    """The padding mask is True at real tokens and False at padding, which has the id 0 by default."""
    return {"mask": answer.padding_mask(tokens)}


def test_padding_given(answer, another_pad):
    """With a different `pad`, that id is hidden, and id 0 is a token like any other."""
    return {"mask": answer.padding_mask(**another_pad)}


def test_padding_anywhere(answer, pad_anywhere):
    """Padding is hidden at every position, and real tokens after it are visible."""
    return {"mask": answer.padding_mask(**pad_anywhere)}


def test_padding_of_an_empty_sequence(answer, nothing_but_padding):
    """The mask of a sequence that is all padding has no True at all."""
    return {"mask": answer.padding_mask(nothing_but_padding)}


@pytest.mark.constant("all_visible", "where there is no padding, everything is visible")
def test_no_padding(answer, no_padding):
    """Without padding every token is visible, and the function still returns a mask."""
    mask = answer.padding_mask(no_padding)
    return {"mask": mask, "all_visible": bool(np.all(mask))}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
def test_padding_of_one_sequence(answer, one_sequence):
    """A batch of one sequence keeps its batch axis."""
    return {"mask": answer.padding_mask(one_sequence)}


# --- subsequent_mask -------------------------------------------------------------------------------


def test_subsequent(answer, size):
    """Row i (a query) is True in its first i + 1 columns: the past and the position itself."""
    return {"mask": answer.subsequent_mask(size)}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
@pytest.mark.constant("of_one", "a single position sees itself")
@pytest.mark.constant("of_two", "the mask of a size depends on nothing else")
def test_subsequent_of_small_sizes(answer, size):
    """A single position sees itself; the first of two positions does not see the second."""
    return {
        "of_one": answer.subsequent_mask(1),
        "of_two": answer.subsequent_mask(2),
        "of_more": answer.subsequent_mask(size),
    }


# --- target_mask -----------------------------------------------------------------------------------


def test_target(answer, tokens):
    """A key is visible if it is a real token and not in the future."""
    return {"mask": answer.target_mask(tokens)}


def test_target_given(answer, another_pad):
    """With a different `pad`, that id is hidden, and id 0 is a token like any other."""
    return {"mask": answer.target_mask(**another_pad)}


def test_target_anywhere(answer, pad_anywhere):
    """Padding is hidden as a key at every position; a padded query still sees the real tokens before it."""
    return {"mask": answer.target_mask(**pad_anywhere)}


def test_target_of_an_empty_sequence(answer, nothing_but_padding):
    """The mask of a sequence that is all padding has no True at all, not even on the diagonal."""
    return {"mask": answer.target_mask(nothing_but_padding)}


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
def test_target_of_one_sequence(answer, one_sequence):
    """A batch of one sequence keeps its batch axis."""
    return {"mask": answer.target_mask(one_sequence)}
