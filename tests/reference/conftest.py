"""What every test of the references starts from: a fixed seed, and float64 where it is asked for."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(2017)


@pytest.fixture
def float64():
    """Modules made in the test have float64 parameters and tables, so that they are exact to 1e-10."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(default)
