"""The distribution of day 24 against transformers' logits warpers, to 1e-10 in float64."""

import pytest
import torch

from tests.reference.oracles import assert_agree
from variants.sampling import distribution

pytestmark = pytest.mark.usefixtures("float64")

V = 11


def logits(*shape, spread=2.0):
    return spread * torch.randn(*shape, V)


def warped(scores, temperature, top_k, top_p):
    """transformers' distribution for the same scores, with its warpers in its order."""
    process = pytest.importorskip("transformers.generation.logits_process")
    chain = [process.TemperatureLogitsWarper(temperature)]
    if top_k is not None:
        chain.append(process.TopKLogitsWarper(top_k))
    if top_p is not None:
        chain.append(process.TopPLogitsWarper(top_p))
    for warper in chain:
        scores = warper(None, scores)
    return scores.softmax(dim=-1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [None, 1, 4, V, V + 5])
@pytest.mark.parametrize("top_p", [None, 0.0, 0.3, 0.8, 0.97, 1.0])
def test_distribution_is_that_of_transformers(temperature, top_k, top_p):
    """In every combination, so that the order shows: top-p after top-k has fewer to choose from."""
    scores = logits(40)
    expected = warped(scores, temperature, top_k, top_p)
    assert_agree(distribution(scores, temperature, top_k, top_p), expected)
