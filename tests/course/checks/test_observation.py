"""Observations as data: what goes in comes out, and bytes from anyone do no harm."""

import json
import os

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from course.checks.frames import MAX_HEADER_BYTES, BadFrame, from_bytes, to_bytes
from course.checks.observation import MAX_LEAVES, Leaf, flatten, named

DTYPES = ["bool", "int8", "int64", "uint16", "float16", "float32", "float64"]
plain = (
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=20)
)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, min_side=0))
)


def nested(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)


values = st.recursive(plain | arrays, nested)


def same(leaf: Leaf, other: Leaf) -> bool:
    """Equal in all, NaNs included."""
    if leaf.is_array and leaf.value is not None:
        return (leaf.type, leaf.shape, leaf.dtype) == (other.type, other.shape, other.dtype) and (
            leaf.value.tobytes() == other.value.tobytes()
        )
    return repr(leaf) == repr(other)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(values)
def test_round_trip(value):
    """Whatever a check returns arrives as it was."""
    observation = flatten({"value": value})
    message, arrived = from_bytes(to_bytes({"n": 1}, observation))
    assert message == {"n": 1}
    assert list(arrived) == list(observation)
    assert all(same(observation[path], arrived[path]) for path in observation)


def test_awkward_values_are_named():
    """What cannot travel is named: object arrays, functions, huge numbers, deep nests, long double."""
    deep: list = []
    for _ in range(100):
        deep = [deep]
    leaves = flatten(
        {
            "object": np.array([1, "a"], dtype=object),
            "function": len,
            "huge": 10**400,
            "deep": deep,
            "long": np.ones(2, dtype=np.longdouble),
            "transposed": np.arange(6.0).reshape(2, 3).T,
            "number": np.float32(1.5),
        }
    )
    _, arrived = from_bytes(to_bytes({}, leaves))
    assert arrived["object"].dtype == "object"
    assert arrived["object"].value is None
    assert arrived["function"].type == "builtin_function_or_method"
    assert "bits" in arrived["huge"].value
    assert any(leaf.type == "something nested too deep" for leaf in arrived.values())
    assert arrived["long"].value is None
    assert (arrived["transposed"].value == np.arange(6.0).reshape(2, 3).T).all()
    assert arrived["number"].type == "a NumPy number"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "bool"])
def test_tensors(dtype):
    """A tensor keeps its type, dtype, device and values; bfloat16 travels as float32."""
    tensor = torch.arange(6).reshape(2, 3).t().to(getattr(torch, dtype)).clone()
    [leaf] = from_bytes(to_bytes({}, flatten({"x": tensor})))[1].values()
    assert (leaf.type, leaf.dtype, leaf.device, leaf.shape) == (
        "torch.Tensor",
        dtype,
        "cpu",
        (3, 2),
    )
    assert (torch.tensor(leaf.value).double() == tensor.double()).all()


def test_named_results():
    """A tuple of the right length is observed by names, anything else as it is."""
    good = flatten(named((np.ones(1), 2.0), "output", "weights", first="weights"))
    assert list(good) == ["result", "weights", "output"]
    assert good["result"].type == "tuple of 2"
    assert flatten(named(None, "output", "weights", first="weights"))["result"].type == "None"
    assert (
        flatten(named([1, 2], "output", "weights", first="weights"))["result"].type == "list of 2"
    )


def header(**metadata):
    text = json.dumps({"__metadata__": metadata}).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        b"\x00" * 100,
        (2**62).to_bytes(8, "little") + b"{}",
        header(),
        header(message="{}", leaves="7"),
        header(message="[1]", leaves="[]"),
        header(message="{}", leaves='[{"path": 1}]'),
        header(message="{}", leaves="[" * 5000 + "]" * 5000),
        header(
            message="{}", leaves='[{"path":"a","type":"x","value":[1],"dtype":null,"device":null}]'
        ),
        header(
            message="{}",
            leaves='[{"path":"a","type":"x","value":null,"dtype":"float32","device":null,"shape":["q"]}]',
        ),
        to_bytes({}, flatten({"x": np.ones(4)})).replace(b'"shape\\": [4]', b'"shape\\": [5]'),
        to_bytes({}, flatten({"x": np.ones(4)}))[:-5],
    ],
    ids=range(13),
)
def test_bad_frames_are_refused(data):
    """Every kind of gibberish gives the one exception that callers expect."""
    with pytest.raises(BadFrame):
        from_bytes(data)


def test_no_more_is_looked_at_than_any_answer_needs():
    """A result of very many parts is cut, and never equal to one that is not."""
    leaves = flatten({"output": [0.0] * 10**6})
    assert len(leaves) == MAX_LEAVES + 1
    assert leaves["output"].type == "list of 1000000"
    assert leaves["output[0]"].value == 0.0
    assert list(leaves)[-1] == "…"


def test_a_frame_of_words_is_refused():
    """A worker's frame may hold large arrays; what takes long to read may not be as large."""
    arrays = to_bytes({}, flatten({"output": np.zeros(10**6)}))
    assert from_bytes(arrays, MAX_HEADER_BYTES)[1]["output"].shape == (10**6,)
    leaves = {f"leaf {number}": Leaf("float", 1.0) for number in range(20_000)}
    for many in (to_bytes({}, leaves), to_bytes({"text": "x" * MAX_HEADER_BYTES})):
        assert from_bytes(many)
        with pytest.raises(BadFrame, match="too long"):
            from_bytes(many, MAX_HEADER_BYTES)


def test_only_our_own_messages_have_paths_in_no_encoding():
    """A request names its file as the file system does; what a worker says can always be written."""
    path = os.fsdecode(b"my cl\xf6ne/day02_attention.py")
    assert from_bytes(to_bytes({"answer": path}), trusted=True)[0] == {"answer": path}
    from_bytes(to_bytes({"answer": path}))[0]["answer"].encode()
