"""The model of the lessons before PyTorch: its gradients, by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from course.numpy_training import OneLayer
from numpy_reference import attention_backward, subsequent_mask


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
        for index in np.ndindex(parameter.shape):
            losses = []
            for step in (1e-5, -2e-5):
                parameter[index] += step
                losses.append(model.loss(*batch))
            parameter[index] += 1e-5
            slope = (losses[0] - losses[1]) / 2e-5
            assert slope == pytest.approx(gradients[name][index], abs=1e-8), (name, index)


def test_parts():
    def forgets_the_value(*arrays):
        query, key, value = attention_backward(*arrays)
        return query, key, 0 * value

    own = OneLayer(4, 3, np.random.default_rng(0), attention_backward=forgets_the_value)
    x = np.random.default_rng(1).standard_normal((2, 5, 4))
    gradients = own.gradients(x, np.zeros((2, 5), dtype=int))
    assert not gradients["w_v"].any()
    assert gradients["w_q"].any()
    with pytest.raises(ValueError, match="softmax_backward"):
        OneLayer(4, 3, np.random.default_rng(0), softmax_backward=None)
