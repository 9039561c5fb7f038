"""What every test of the variants starts from: a fixed seed, and float64 where it is asked for."""

from tests.reference.conftest import _seed, float64

__all__ = ["_seed", "float64"]
