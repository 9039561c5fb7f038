"""How many tokens a mixture of depths chooses."""

import math
from fractions import Fraction

import pytest
import torch
from torch import nn

from variants.depths import MixtureOfDepths

pytestmark = pytest.mark.usefixtures("float64")


def number_chosen(capacity, t):
    """How many tokens are chosen of t."""
    layer = MixtureOfDepths(nn.Identity(), 2, capacity)
    weights, places = layer.choose(torch.randn(1, t, 2))
    assert weights.shape == places.shape
    return places.size(1)


def test_the_share_is_rounded_down_as_though_decimals_were_exact():
    """Every hundredth of every length up to 120, against rational numbers."""
    for hundredths in range(1, 101):
        for t in range(1, 121, 7 if hundredths % 10 else 1):
            exact = math.floor(Fraction(hundredths, 100) * t)
            assert number_chosen(hundredths / 100, t) == max(1, exact), (hundredths, t)
    assert 0.29 * 100 < 29 and number_chosen(0.29, 100) == 29  # the example of the docstring


def test_a_third_of_a_long_text_and_a_very_small_share():
    assert number_chosen(1 / 3, 3 * 2**12) == 2**12
    assert number_chosen(1e-7, 4096) == 1
    assert number_chosen(1 - 1e-6, 1000) == 999
