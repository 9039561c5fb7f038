"""Day 5 · positional_encoding(max_len, d_model) → table."""

import numpy as np
import pytest


def sizes_of(max_len, d_model):
    """Both sizes, by the names that the answer knows."""
    return {"max_len": max_len, "d_model": d_model}


def seven_digits(table):
    """A table in float32: what its angles were computed in makes no difference there."""
    return table.astype(np.float32) if isinstance(table, np.ndarray) else table


@pytest.fixture
def even(draw):
    """A table with as many sines as cosines, and more columns than rows or fewer."""
    max_len, half = draw.sizes(3, 8, 2)
    return sizes_of(max_len, 2 * half)


@pytest.fixture
def odd(draw):
    """A table with one sine more than cosines."""
    max_len, half = draw.sizes(3, 8, 2)
    return sizes_of(max_len, 2 * half + 1)


@pytest.fixture
def several(draw):
    """Tables of several sizes, asked for one after the other: wider, narrower, longer, shorter."""
    narrow, wide = 2 * draw.size(2, 4), 2 * draw.size(6, 9)
    short, long = draw.size(13, 15), draw.size(16, 19)
    return [
        sizes_of(max_len, d_model)
        for max_len, d_model in [(long, wide), (long, narrow), (short, wide), (short, narrow)]
    ]


@pytest.fixture
def one_position(draw):
    """The first position alone."""
    return sizes_of(1, 2 * draw.size(1, 6))


@pytest.fixture
def one_column(draw):
    """The narrowest table there is."""
    return sizes_of(draw.size(3, 12), 1)


@pytest.fixture
def two_columns(draw):
    """A single pair."""
    return sizes_of(draw.size(3, 12), 2)


@pytest.fixture
def long(draw):
    """Enough positions that every rounding of a frequency shows."""
    return sizes_of(draw.size(4000, 5000), 2 * draw.size(2, 3))


def test_two_columns(answer, two_columns):
    """With d_model 2 a row is the sine and the cosine of the position itself, counted from 0."""
    return {"table": seven_digits(answer.positional_encoding(**two_columns))}


def test_table(answer, even):
    """The even columns are sines and the odd ones cosines, and each pair has its own wavelength."""
    return {"table": seven_digits(answer.positional_encoding(**even))}


@pytest.mark.watertight("an odd width, which leaves one sine without its cosine")
def test_odd_width(answer, odd):
    """With an odd d_model the last column is a sine, and its cosine is left out."""
    return {"table": seven_digits(answer.positional_encoding(**odd))}


@pytest.mark.watertight("the narrowest table, which has no cosine at all")
def test_one_column(answer, one_column):
    """With d_model = 1 there is a single sine and no cosine."""
    return {"table": seven_digits(answer.positional_encoding(**one_column))}


@pytest.mark.watertight("a table of a single row, where an axis is easily lost")
def test_one_position(answer, one_position):
    """With max_len = 1 there is only position 0, and the table still has two axes."""
    return {"table": seven_digits(answer.positional_encoding(**one_position))}


def test_one_after_another(answer, several):
    """Each table is computed separately: a narrower table is not a slice of a wider one."""
    tables = [seven_digits(answer.positional_encoding(**sizes)) for sizes in several]
    return {f"table {number}": table for number, table in enumerate(tables, start=1)}


@pytest.mark.watertight("float64, whose digits are lost in a table of float32 angles")
def test_precision(answer, even):
    """The table is float64, and accurate to its last digits."""
    return {"table": answer.positional_encoding(**even)}


@pytest.mark.watertight("thousands of positions, which multiply the rounding of a frequency")
def test_long_table(answer, long):
    """Thousands of positions have the full precision of float64."""
    return {"table": answer.positional_encoding(**long)}
