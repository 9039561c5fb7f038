"""Linear biases against the paper's slopes, written down, and a loop over positions."""

import pytest
import torch

from variants.alibi import alibi_bias, alibi_slopes

EIGHT = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
ROOT = 2**-0.5
SIXTEEN = [
    *(ROOT, 1 / 2, ROOT / 2, 1 / 4, ROOT / 4, 1 / 8, ROOT / 8, 1 / 16),
    *(ROOT / 16, 1 / 32, ROOT / 32, 1 / 64, ROOT / 64, 1 / 128, ROOT / 128, 1 / 256),
]
PUBLISHED = {
    1: [1 / 256],
    2: [1 / 16, 1 / 256],
    3: [1 / 16, 1 / 256, 1 / 4],
    4: [1 / 4, 1 / 16, 1 / 64, 1 / 256],
    6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    8: EIGHT,
    12: [*EIGHT, ROOT, ROOT / 2, ROOT / 4, ROOT / 8],
    15: [*EIGHT, *(ROOT / 2**k for k in range(7))],
    16: SIXTEEN,
}


@pytest.mark.parametrize("n_heads", PUBLISHED)
def test_slopes_are_those_of_the_paper(n_heads):
    slopes = alibi_slopes(n_heads)
    assert slopes.dtype == torch.float32
    torch.testing.assert_close(slopes, torch.tensor(PUBLISHED[n_heads]), rtol=1e-7, atol=0)


def test_sixteen_heads_are_eight_and_the_geometric_means_between():
    means = (alibi_slopes(8)[1:] * alibi_slopes(8)[:-1]).sqrt()
    torch.testing.assert_close(alibi_slopes(16)[1::2], alibi_slopes(8))
    torch.testing.assert_close(alibi_slopes(16)[2::2], means)


@pytest.mark.parametrize("n_heads", range(1, 70))
def test_any_number_of_heads_has_slopes_that_differ(n_heads):
    slopes = alibi_slopes(n_heads).tolist()
    assert len(set(slopes)) == n_heads
    assert all(1 / 256 <= slope < 1 for slope in slopes)


@pytest.mark.parametrize(("t_q", "t_k"), [(1, 1), (5, 5), (1, 6), (3, 7), (0, 4), (0, 0)])
@pytest.mark.parametrize("n_heads", [1, 3, 8])
def test_the_bias_is_the_slope_times_the_distance(n_heads, t_q, t_k):
    bias = alibi_bias(n_heads, t_q, t_k)
    assert bias.shape == (n_heads, t_q, t_k)
    for head in range(n_heads):
        for i in range(t_q):
            for j in range(t_k):
                expected = -PUBLISHED[n_heads][head] * abs((t_k - t_q + i) - j)
                assert bias[head, i, j].item() == pytest.approx(expected, rel=1e-6)


def test_one_query_is_the_last_row():
    assert torch.equal(alibi_bias(6, 1, 9), alibi_bias(6, 9, 9)[:, -1:])


def test_the_dtype_is_torchs_default():
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        slopes, bias = alibi_slopes(12), alibi_bias(12, 2, 3)
    finally:
        torch.set_default_dtype(default)
    assert slopes.dtype == bias.dtype == torch.float64
    expected = torch.tensor(PUBLISHED[12], dtype=torch.float64)
    torch.testing.assert_close(slopes, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("n_heads", [0, -1])
def test_no_heads_are_refused(n_heads):
    with pytest.raises(ValueError, match="n_heads"):
        alibi_slopes(n_heads)
    with pytest.raises(ValueError, match="n_heads"):
        alibi_bias(n_heads, 2, 2)


@pytest.mark.parametrize(("t_q", "t_k"), [(3, 2), (-1, 2), (1, 0), (-2, -1)])
def test_more_queries_than_keys_are_refused(t_q, t_k):
    with pytest.raises(ValueError, match="t_q must lie in"):
        alibi_bias(4, t_q, t_k)
