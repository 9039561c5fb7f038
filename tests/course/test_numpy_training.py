"""The model of the lessons before PyTorch: its gradients, by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from course.numpy_training import OneLayer
from numpy_reference import subsequent_mask


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ("tokens", {"h": 2, "vocab": 3, "positions": 5, "residual": True}),
        ("vectors", {"positions": np.ones((5, 4))}),
    ],
)
def test_gradients(inputs, options):
    rng = np.random.default_rng(0)
    model = OneLayer(4, 6, rng, **options)
    x = rng.integers(3, size=(2, 5)) if inputs == "tokens" else rng.standard_normal((2, 5, 4))
    batch = x, rng.integers(3, size=(2, 5, 2)), subsequent_mask(5)  # two answers of three classes
    gradients = model.gradients(*batch)
    assert set(gradients) == set(model.params)
    for name, parameter in model.params.items():
        for place in np.ndindex(parameter.shape):
            losses = []
            for step in (1e-5, -2e-5):
                parameter[place] += step
                losses.append(model.loss(*batch))
            parameter[place] += 1e-5
            slope = (losses[0] - losses[1]) / 2e-5
            assert slope == pytest.approx(gradients[name][place], abs=1e-8), (name, place)
