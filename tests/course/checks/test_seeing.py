"""A check observed: at which seed its inputs are drawn."""

from types import SimpleNamespace

import pytest

from course.checks.loading import Check
from course.checks.seeing import NEAR, check_inputs, drawn, see


def check_with(size):
    """A check whose only fixture is `size`."""
    module = SimpleNamespace(size=size, __file__="test_day00.py")
    function = lambda answer, size: {"output": answer(size)}  # noqa: E731
    return Check("test_x", "f", frozenset("f"), function=function, parameters={}, module=module)


def size_that_raises_at_5(draw, seed):
    if seed == 5:
        raise IndexError("33")
    return draw.size(1, 10**9)


def test_a_fixture_that_raises_is_drawn_at_a_neighboring_seed():
    """The reference and an answer get the same inputs there, and it is said; other seeds are as they were."""
    check = check_with(size_that_raises_at_5)
    with pytest.raises(IndexError, match="33"):
        drawn(check, 5)
    assert check_inputs(check, 5) == check_inputs(check, 6) != check_inputs(check, 7)
    runs = [see(check, lambda size: size, seed) for seed in (5, 6)]
    assert [run.drawn_at for run in runs] == [6, None]
    assert runs[0].observation == runs[1].observation


def test_a_fixture_that_always_raises_says_why():
    """After a few seeds: that is a mistake of the day's file."""
    tried = []

    def size(seed):
        tried.append(seed)
        raise IndexError("33")

    with pytest.raises(IndexError, match="33"):
        check_inputs(check_with(size), 5)
    assert tried == list(range(5, 5 + NEAR))
