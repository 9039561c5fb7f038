"""Linear biases against the paper's slopes."""

import pytest
import torch

from variants.alibi import alibi_slopes

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
