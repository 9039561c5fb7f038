"""The distribution of day 24 against transformers' logits warpers, and brute force over all nuclei.

Float64 has to agree to 1e-10.
"""

import itertools

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


def test_top_p_is_the_smallest_set_that_reaches_p():
    """Of all 2⁶ sets: none smaller reaches p, and none of its size weighs more."""
    for _ in range(20):
        scores = 1.5 * torch.randn(6)
        p = float(torch.rand(()))
        probs = scores.softmax(dim=-1)
        sets = [
            (len(ids), -float(probs[list(ids)].sum()), ids)
            for size in range(1, 7)
            for ids in itertools.combinations(range(6), size)
            if float(probs[list(ids)].sum()) >= p
        ]
        ids = list(min(sets)[2])
        expected = torch.zeros(6)
        expected[ids] = probs[ids] / probs[ids].sum()
        assert_agree(distribution(scores, top_p=p), expected)
