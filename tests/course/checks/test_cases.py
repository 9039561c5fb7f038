"""One check's inputs, drawn again: the printed lines give what the check is given."""

import numpy as np
import pytest
import torch

from course import case
from course.checks.arrays import as_numpy, dtype_of, is_array
from course.checks.cases import names_like, snippet, steps
from course.checks.loading import load_checks
from course.checks.reading import noting_reads, only_read
from course.checks.seeing import check_inputs
from course.checks.tensors import missing_device
from course.curriculum import DAYS, find_day
from tests.conftest import FIRST_SEED

READY = [day for day in DAYS if day.ready]


needs_practice = pytest.mark.skipif(
    missing_device("practice") is not None, reason=str(missing_device("practice"))
)


def drawn(lines):
    names = {}
    exec(lines, names)
    return names


def same(value, other):
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(same(value[key], other[key]) for key in value)
    if isinstance(value, tuple | list):
        return len(value) == len(other) and all(map(same, value, other))
    if is_array(value):
        a, b = as_numpy(value), as_numpy(other)
        return dtype_of(value) == dtype_of(other) and np.array_equal(
            a, b, equal_nan=a.dtype.kind == "f"
        )
    return value == other if isinstance(value, bool | int | float | str | None) else True


@pytest.mark.parametrize("day", READY, ids=lambda day: day.stem)
@pytest.mark.parametrize("seed", [0, FIRST_SEED])
def test_the_snippet_draws_the_inputs_of_the_check(day, seed):
    """Every check of every day, under the names that its own lines use."""
    for check in load_checks(day):
        names = drawn(snippet(day, check.name, seed))
        for name, value in check_inputs(check, seed).items():
            assert same(value, names[name]), f"{check.name}: {name}"


def test_the_build_fixture_gives_the_weights_of_the_check():
    """A module built with it in a notebook is the one that the check builds."""
    from implementation import MultiHeadedAttention

    day = find_day("9")
    [check] = [check for check in load_checks(day) if check.name == "test_gradients"]
    builds = drawn(snippet(day, check.name))["build"], check_inputs(check, 0)["build"]
    weight, other = (build(MultiHeadedAttention, 2, 4, 0.0).w_q.weight for build in builds)
    assert weight.equal(other)


@needs_practice
def test_the_snippet_draws_on_the_practice_gpu():
    """Within its lines an answer can be called as the check calls it."""
    from course.checks import practice

    day = find_day("8")
    on_practice = drawn(snippet(day, "test_attention", device="practice"))["inputs"]
    for name, value in case(8, "attention")["inputs"].items():
        assert on_practice[name].device.type == "practice"
        assert same(value, on_practice[name].cpu())
    with practice.running():
        case(8, "attention", device="practice")
        assert torch.Generator("practice").device.type == "practice"


def test_what_a_check_does_is_shown_without_its_docstring():
    lines = steps(find_day("2"), "test_output_and_weights")
    assert "answer.attention(" in lines
    assert '"""' not in lines and "def " not in lines


@pytest.mark.parametrize(
    ("check_name", "first"),
    [
        ("test_scale", "test_scale"),
        ("scale", "test_scale"),
        ("test_mask_broadcasts", "test_mask_broadcasts["),
    ],
)
def test_a_check_is_found_by_its_name(check_name, first):
    """With or without `test_`, and without its parameter."""
    names = [check.name for check in load_checks(find_day("2"))]
    assert names_like(check_name, find_day("2"), names)[0].startswith(first)


def test_a_nearly_right_name_suggests_the_nearest():
    names = [check.name for check in load_checks(find_day("2"))]
    with pytest.raises(LookupError, match="no check 'scales'; the nearest is 'test_scale'"):
        names_like("scales", find_day("2"), names)


def test_only_what_is_read_is_named():
    """Entries by their key; all of them where a dict is handed on."""
    inputs = {"x": 1, "y": 2, "inner": {"a": 3, "b": 4}, "pair": ({"c": 5, "d": 6}, 7)}
    noted = noting_reads(inputs)
    assert noted["x"] + noted["inner"]["a"] + noted["pair"][0].get("c") == 9
    assert only_read(inputs, noted) == {"x": 1, "inner": {"a": 3}, "pair": ({"c": 5}, 7)}
    for use in (
        lambda d: dict(**d),
        lambda d: {**d},
        lambda d: d | {},
        lambda d: {} | d,
        list,
        dict.copy,
    ):
        noted = noting_reads({"x": 1, "y": 2})
        use(noted) if use is not dict.copy else noted.copy()
        assert noted.read == {"x", "y"}
