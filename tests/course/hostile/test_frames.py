"""What comes from a worker may come from anyone: it is an observation or a `BadFrame`, and judged."""

import functools
import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis.extra import numpy as hnp

from course.checks.frames import BadFrame, from_bytes, raised_from, to_bytes
from course.checks.observation import CARRIED, Leaf, Raised, flatten
from course.checks.seeing import CheckRun
from course.curriculum import BY_NUMBER
from course.judging.judge import Judge, Outcome
from course.judging.messages import Feedback

REPEATABLE = settings(derandomize=True, database=None, deadline=None)

RAISED = {"kind": "E", "message": "m", "frames": [[1, "f", "t"]], "not_started": False}
MESSAGE = {"check": "test_vector", "damaged": ["x"], "raised": RAISED}
FRAME = to_bytes(
    MESSAGE,
    flatten({"weights": np.eye(3, dtype="f"), "mask": np.zeros(4, bool), "rest": [0.5, "a", None]}),
)
LENGTH = int.from_bytes(FRAME[:8], "little")
HEADER, ARRAYS = json.loads(FRAME[8 : 8 + LENGTH]), FRAME[8 + LENGTH :]

NUMBERS = [0, True, -1, 2**40, 2**63, 10**400, 0.5, 1e308, float("nan"), float("inf")]
WORDS = ["", "\ud800", "x" * 10_001, "0", "F64", "float32", "bfloat16", "None", "torch.Tensor"]
DEEP = functools.reduce(lambda inner, _: [inner], range(300), [])
odd = st.sampled_from([*NUMBERS, *WORDS, None, {}, DEEP]) | st.lists(st.sampled_from(NUMBERS))


@st.composite
def altered(draw, value):
    """A nested value with one thing in it replaced or left out."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw(st.sampled_from(keys))
    inner = value[key]
    if isinstance(inner, dict | list) and inner and draw(st.booleans()):
        put = draw(altered(inner))
    else:
        put = draw(odd)
    if draw(st.integers(0, 9)) == 0:
        remaining = [other for other in keys if other != key]
        return (
            {k: value[k] for k in remaining}
            if isinstance(value, dict)
            else [value[k] for k in remaining]
        )
    changed = value.copy()
    changed[key] = put
    return changed


def framed(header, arrays=ARRAYS):
    """A frame with that header."""
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + arrays


def read(data):
    """Read a frame as the grader does; what is read can be written down."""
    try:
        message, observation = from_bytes(data)
    except BadFrame:
        return
    assert isinstance(message, dict)
    assert all(isinstance(leaf, Leaf) for leaf in observation.values())
    json.dumps([message, *observation], ensure_ascii=False).encode("utf-8")


@REPEATABLE
@given(
    st.lists(st.tuples(st.integers(0, len(FRAME) - 1), st.integers(0, 255)), max_size=8),
    st.integers(0, len(FRAME)),
    st.binary(max_size=20),
)
def test_broken_bytes(changes, end, more):
    """A frame with bytes changed, cut off and added."""
    data = bytearray(FRAME)
    for position, byte in changes:
        data[position] = byte
    read(bytes(data[:end]) + more)
    read(bytes(data))


@REPEATABLE
@given(altered(HEADER))
def test_broken_headers(header):
    """Tensors that claim other shapes, kinds and places, and metadata that is none."""
    read(framed(header))


@REPEATABLE
@given(altered(MESSAGE), altered(json.loads(HEADER["__metadata__"]["leaves"])))
def test_broken_contents(message, leaves):
    """Messages and leaves whose parts are of other kinds, out of range, or not there."""
    metadata = {"message": json.dumps(message), "leaves": json.dumps(leaves)}
    read(framed(HEADER | {"__metadata__": metadata}))


@REPEATABLE
@example(RAISED | {"frames": [[float("inf"), "f", "t"]]})
@given(altered(RAISED) | odd)
def test_broken_exceptions(entry):
    """An exception as anyone may tell it."""
    try:
        raised = raised_from(entry)
    except BadFrame:
        return
    assert isinstance(raised, Raised)


F32 = {"dtype": "F32", "shape": [4]}
OVERLAPPING = {"0": F32 | {"data_offsets": [0, 16]}, "1": F32 | {"data_offsets": [8, 24]}}
WIDE = {"dtype": "F64", "shape": [2, 2**40], "data_offsets": [0, 2**44]}
LEAF = (
    '{"path": "x", "type": "T", "value": null, "shape": [2], "dtype": "float32", "device": "cpu"}'
)
READABLE = ({}, r'{"check": "\ud800"}', f"[{LEAF}]")
UNREADABLE = {
    "overlapping tensors": (OVERLAPPING, "{}", "[]"),
    "a tensor beyond the end": ({"0": WIDE}, "{}", "[]"),
    "nested ten thousand deep": ({}, '{"check": ' + "[" * 10**4 + "]" * 10**4 + "}", "[]"),
    "a number without an end": ({}, '{"check": ' + "9" * 10**6 + "}", "[]"),
    "a shape of no numbers": ({}, "{}", f"[{LEAF.replace('[2]', '[NaN, -Infinity]')}]"),
    "a shape of letters": ({}, "{}", f"[{LEAF.replace('[2]', json.dumps('abc'))}]"),
    "a list for a name": ({}, "{}", f"[{LEAF.replace(json.dumps('x'), '[1]')}]"),
    "no leaves": ({}, "{}", "[null, 3]"),
}


def from_parts(tensors, message, leaves):
    header = tensors | {"__metadata__": {"message": message, "leaves": leaves}}
    return from_bytes(framed(header, bytes(24 if tensors else 0)))


@pytest.mark.parametrize("parts", UNREADABLE.values(), ids=UNREADABLE)
def test_no_frame(parts):
    """What claims too much, or is of another kind, is refused in time."""
    with pytest.raises(BadFrame):
        from_parts(*parts)


def test_half_a_character():
    """No string comes in that cannot be written down."""
    message, observation = from_parts(*READABLE)
    assert (message, list(observation)) == ({"check": "?"}, ["x"])


# --- Well-formed, and odd ----------------------------------------------------------------------------

STATUSES = {"passed", "failed", "error", "out_of_memory", "not_started"}
KINDS = ["numpy.ndarray", "torch.Tensor", "a NumPy number", "float", "tuple of 2", "generator"]
small = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@functools.cache
def judge_of(number, feedback):
    return Judge(BY_NUMBER[number], seed=7, feedback=feedback)


def arrays(dtype, shape):
    """Arrays of any values, the odd ones included."""
    return hnp.arrays(dtype, shape)


any_array = st.builds(
    lambda kind, value, keep, device: Leaf(
        kind, value if keep else None, value.shape, value.dtype.name, device
    ),
    st.sampled_from(KINDS),
    st.sampled_from(sorted(CARRIED)).flatmap(lambda dtype: arrays(dtype, small)),
    st.booleans(),
    st.sampled_from([None, "cpu", "cuda", "meta"]),
)
any_word = st.sampled_from(
    [Leaf("None"), Leaf("float"), Leaf("int", "an integer of 99 bits"), Leaf("list", [0])]
    + [Leaf("dict", {}), Leaf("x" * 9_000), Leaf("torch.Tensor", None, (-1,) * 60, "complex64")]
    + [Leaf(type(value).__name__, value) for value in (True, 0, -(2**62), 1e-300, "", "a" * 9_000)]
    + [Leaf("float", value) for value in (float("nan"), float("inf"), -0.0, 1e308)]
)


def like(leaf):
    """What looks like a leaf but for its values."""
    if leaf.is_array and leaf.value is not None:
        value = arrays(leaf.value.dtype, leaf.value.shape) | st.none()
        return value.map(lambda v: Leaf(leaf.type, v, leaf.shape, leaf.dtype, leaf.device))
    return any_word


@st.composite
def cases(draw):
    """A check of some day, and an observation that is its reference's but for a leaf or two."""
    number = draw(st.sampled_from([1, 2, 3, 8, 17, 21, 22]))
    judge = judge_of(number, draw(st.sampled_from(Feedback)))
    check = draw(st.sampled_from(judge.checks[:6]))
    observation = dict(judge.truth.right(check).run.observation)
    for path in draw(st.lists(st.sampled_from(sorted(observation)), min_size=1, max_size=2)):
        observation[path] = draw(like(observation[path]) | any_array | any_word)
    if draw(st.integers(0, 4)) == 0:
        observation[draw(st.text())] = draw(any_word)
    return judge, check, observation


def kind_of(leaf):
    return leaf.type, leaf.shape, leaf.dtype, leaf.device


@pytest.mark.slow
@settings(REPEATABLE, suppress_health_check=[HealthCheck.too_slow])
@given(
    cases(), st.lists(st.text(), max_size=2), st.none() | st.builds(Raised, st.text(), st.text())
)
def test_odd_observations_are_judged(case, damaged, raised):
    """Whatever was seen, there is a verdict; and what is not even alike never passes."""
    judge, check, observation = case
    _, arrived = from_bytes(to_bytes({}, observation))
    outcome = Outcome(CheckRun(arrived, raised, tuple(damaged)))
    outcomes = {check.name: outcome}
    verdicts = judge.verdicts(outcomes)
    search = judge.search(outcomes, verdicts)
    search.run_in_batch(max_runs=1)  # the 300 runs of a batch would take minutes in all
    [result] = search.diagnosed(verdicts)
    assert result.status in STATUSES
    assert len(result.message) < 50_000
    expected = judge.truth.right(check).run.observation
    if result.status == "passed":
        assert raised is None and not damaged
        assert {path: kind_of(leaf) for path, leaf in arrived.items()} == {
            path: kind_of(leaf) for path, leaf in expected.items()
        }
