"""Comparison, tolerances, diagnosis and messages, on small checks made for the purpose."""

import functools
import math
import re
import textwrap
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from course.checks.draw import Draw
from course.checks.loading import Check
from course.checks.seeing import see
from course.checks.tensors import OperationRecorder
from course.judging.comparison import compare, matches
from course.judging.expected import expect
from course.judging.meanings import meaning_of_numbers
from course.judging.messages import describe


def check_of(function, **fixtures):
    """A check of one function, with fixtures given as functions of `draw`."""
    module = ModuleType("checks")
    for name, fixture in fixtures.items():
        setattr(module, name, fixture)
    uses = frozenset({"it"})
    return Check("test_it", "it", uses, function=function, parameters={}, module=module)


def it_is_right(answer, x):
    """The result is right."""
    return {"y": answer.it(x)}


def numbers(draw):
    return draw.normal(3, 3)


def told(answer, reference=lambda x: x * 2.0, inputs=numbers, seed=0):
    """The stage and the message of the first difference, if there is one."""
    check = check_of(it_is_right, x=inputs)
    expected = expect(check, SimpleNamespace(it=reference), seed)
    run = see(check, SimpleNamespace(it=answer), seed)
    assert run.raised is None, run.raised
    difference = compare(run.observation, expected)
    if difference is None:
        return None
    return difference.stage, describe(
        difference, expected.tolerance.get(difference.path, 0.0), expected.inputs
    )


@pytest.mark.parametrize(
    ("answer", "stage", "words"),
    [
        (lambda x: (x * 2).tolist(), "type", "list of 3; it should be a numpy.ndarray"),
        (lambda x: None, "type", "Is a `return` missing,"),
        (lambda x: x[:, :2] * 2, "shape", "shape (3, 2); it should be (3, 3)"),
        (lambda x: (x * 2)[..., None], "shape", "axes of length 1"),
        (lambda x: (x * 2).ravel(), "shape", "number of axes"),
        (lambda x: (x * 2).astype("float32"), "dtype", "dtype float32; it should be float64"),
        (lambda x: np.where(x > 0, x * 2, np.nan), "nan", "is NaN"),
        (lambda x: x * 2 + np.where(x > 0, np.inf, 0), "values", "overflow"),
        (lambda x: x * 6, "values", "3 times what it should be"),
        (lambda x: -x * 2, "values", "-1 times what it should be"),
        (lambda x: x * 2 + 1, "values", "off by the same amount"),
        (lambda x: x.T * 2, "values", "transposed"),
        (lambda x: x[[1, 2, 0]] * 2, "values", "in a different order"),
        (lambda x: x * 0, "values", "Every entry is 0"),
        (lambda x: x * 2 + 1e-5 * x**2, "values", "nearly right"),
        (
            lambda x: np.concatenate([x[:1] * 2, x[1:]]),
            "values",
            "Along axis 0 it is right up to index 0",
        ),
    ],
)
def test_first_difference(answer, stage, words):
    """Each stage is reached in its order, with words that say what that kind of difference means."""
    actual, message = told(answer)
    assert actual == stage
    assert words in message
    assert "Inputs: x (3, 3) float64." in message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            lambda x: {"a": x, "b": x},
            "`y` is a dict of 2; it should be a dict of 3. `c` and `d` are missing. `b` is not asked for.",
        ),
        (
            lambda x: {"a": x, "c": x, "d": x, "e": x, "f": {"g": x}},
            "a dict of 3. `e` and `f` are not asked for.",
        ),
        (lambda x: {"a": x, "c": x, "e": x}, "In `y`, `d` is missing. `e` is not asked for."),
        (lambda x: {"a": x, "d": x, "c": x, "b": x} and {"a": x, "c": x}, "`d` is missing."),
    ],
)
def test_keys_that_differ_are_named(answer, words):
    """Of a dict: what is missing, and what is too much."""
    assert words in told(answer, lambda x: {"a": x, "c": x, "d": x})[1]


def test_a_value_is_told_beside_the_expected_one():
    """With as many digits as show that the two differ."""
    right = lambda x: x * 0 + 0.25  # noqa: E731
    assert (
        "is 0.75; it should be 0.25 (9 of 9 entries differ)"
        in told(lambda x: x * 0 + 0.75, right)[1]
    )
    assert "is 0.25000001; it should be 0.25 (" in told(lambda x: x * 0 + 0.25 + 1e-8, right)[1]
    assert "is NaN; it should be 0.25 (" in told(lambda x: x * np.nan, right)[1]


def test_only_the_inputs_that_a_check_reads_are_named():
    """Of a dict that several checks share, what this one passes on."""

    def reads_one(answer, arguments):
        return {"y": answer.it(arguments["x"])}

    inputs = lambda draw: {"x": draw.normal(3, 3), "unread": draw.normal(2)}  # noqa: E731
    check = check_of(reads_one, arguments=inputs)
    expected = expect(check, SimpleNamespace(it=lambda x: x * 2.0), 0)
    assert expected.inputs == "Inputs: x (3, 3) float64."
    assert expected.names == ("x", "unread")


def test_long_words_are_told_from_where_they_differ():
    """Two hundred characters of each, and some that are still the same."""
    right = lambda x: "same " * 100 + "old " * 100  # noqa: E731
    stage, message = told(lambda x: "same " * 100 + "new " * 100, right)
    assert stage == "values"
    assert re.search(r"is …(same ){8}(new )+.*…; it should be …(same ){8}(old )+", message)
    assert len(message.splitlines()[0]) < 450


def test_amounts_that_differ_as_printed_are_not_the_same():
    """Even where the tolerance would allow it."""
    right = np.arange(9.0).reshape(3, 3)
    same, alike = right + 4.24, right + np.linspace(4.232, 4.253, 9).reshape(3, 3)
    assert "off by the same amount" in meaning_of_numbers(same, right, 0.024)
    assert "off by the same amount" not in meaning_of_numbers(alike, right, 0.024)


@pytest.mark.parametrize(("error", "much"), [(1.2e-6, "a little more than"), (3e-6, "3 times")])
def test_how_much_more_than_rounding(error, much):
    """An error is told in multiples of the tolerance, and never as once that."""
    right = np.full((2, 2), 5.0)
    words = meaning_of_numbers(right + np.diag([error, 0]), right, 1e-6)
    assert f"{much} the allowed rounding error" in words


def test_flags_are_described():
    """Boolean results: every entry opposite, transposed, or where the first wrong one is."""
    reference = lambda x: np.tril(np.ones((3, 3), bool)) & (x < 9)  # noqa: E731
    assert "opposite" in told(lambda x: ~reference(x), reference)[1]
    assert "transposed" in told(lambda x: reference(x).T, reference)[1]
    stage, message = told(lambda x: np.tril(np.ones((3, 3), bool), -1), reference)
    assert stage == "values"
    assert "`y[0, 0]` is False; it should be True (3 of 9 entries differ)" in message


def test_inputs_are_named_in_short():
    """Lists of numbers as they are, and of very many inputs only as many as fill two lines."""
    pairs = [([4, 5], [n]) for n in range(30)]
    count = lambda x: np.float64(len(x))  # noqa: E731
    _, message = told(lambda x: count(x) + 1, count, lambda draw: pairs)
    assert "Inputs: x[0][0] = [4, 5], x[0][1] = [0], x[1][0] = [4, 5]" in message
    assert message.endswith("x[2][1] = [2], and 54 more.")
    told_in_short = message.splitlines()[-1]
    assert len(textwrap.wrap(told_in_short, 80 - 6)) == 2


def test_right_answers_of_any_form_pass():
    """Rounding is forgiven: two right forms of log-softmax at an offset of 100, in float32."""

    def inputs(draw):
        return draw.normal(4, 8, dtype="float32") + np.float32(100)

    def reference(x):
        shifted = x - x.max(-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))

    def other(x):
        largest = x.max(-1, keepdims=True)
        return x - (largest + np.log(np.exp(x - largest).sum(-1, keepdims=True)))

    for seed in range(20):
        assert told(other, reference, inputs, seed) is None
        assert told(lambda x: other(x) + np.float32(1e-2), reference, inputs, seed) is not None


def test_tolerance_follows_the_dtype():
    """What is rounding in float32 is a mistake in float64."""
    wrong = lambda x: x * x.dtype.type(2 + 1e-5)  # noqa: E731
    assert told(wrong) is not None
    assert told(wrong, inputs=lambda draw: draw.normal(3, 3, dtype="float32")) is not None
    slight = lambda x: x * x.dtype.type(2 + 2e-7)  # noqa: E731
    assert told(slight, inputs=lambda draw: draw.normal(3, 3, dtype="float32")) is None
    assert told(slight) is not None


def test_tolerance_follows_the_condition():
    """Where an ulp of the input changes the result a lot, a right answer may differ a lot."""

    def inputs(draw):
        return draw.normal(4, 16, mean=1000.0, scale=0.1, dtype="float32")

    def reference(x):
        centered = x - x.mean(-1, keepdims=True)
        return centered / np.sqrt((centered**2).mean(-1, keepdims=True))

    def canceling(x):
        variance = (x**2).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(np.abs(variance) + 1e-12)

    twice_centered = lambda x: reference(reference(x))  # noqa: E731
    for seed in range(10):
        assert told(twice_centered, reference, inputs, seed) is None
        assert told(canceling, reference, inputs, seed) is not None


@pytest.mark.parametrize("seed", [174, 217, 232, 287])
def test_the_reference_may_be_right_by_chance(seed):
    """Where roundings grow on the way, its error on these very inputs may be far less than another's."""

    def repeated(step):
        return lambda x: functools.reduce(lambda y, _: step(y), range(20), x)

    inputs = lambda draw: draw.uniform(0.1, 0.9, 4, dtype="float32")  # noqa: E731
    reference = repeated(lambda x: x.dtype.type(3.5) * x * (1 - x))
    other = repeated(lambda x: x.dtype.type(3.5) * (x - x * x))
    assert told(other, reference, inputs, seed) is None
    assert told(lambda x: other(x) + np.float32(1e-3), reference, inputs, seed) is not None


def test_what_cancels_whole_may_leave_roundings():
    """A leaf of nothing but 0 is judged by the size of what it was seen with."""

    def it_is_right_and_centered(answer, x):
        """Results are right."""
        return dict(zip(("scaled", "left"), answer.it(x), strict=True))

    check = check_of(it_is_right_and_centered, x=numbers)
    expected = expect(check, SimpleNamespace(it=lambda x: (x * 2, x - x)), 0)

    def passes(value):
        run = see(check, SimpleNamespace(it=lambda x: (x * 2, np.full_like(x, value))), 0)
        return matches(run, expected)

    assert passes(4e-16)
    assert not passes(1e-13)


def test_exceptions_match_by_what_they_say():
    """A wrong answer that raises is recognized by the exception's kind and words together."""
    check = check_of(it_is_right, x=numbers)

    def raising(error):
        def it(x):
            raise error

        return SimpleNamespace(it=it)

    expected = expect(check, raising(ValueError("one")), 0)
    assert matches(see(check, raising(ValueError("one")), 0), expected)
    assert not matches(see(check, raising(ValueError("two")), 0), expected)
    assert not matches(see(check, raising(TypeError("one")), 0), expected)
    assert not matches(see(check, SimpleNamespace(it=lambda x: x), 0), expected)


def test_damage_is_seen():
    """Inputs changed in place are named, even when the result is right."""

    def it(x):
        x *= 2
        return x

    run = see(
        check_of(it_is_right, x=lambda draw: draw.normal(2)),
        SimpleNamespace(it=it),
        0,
    )
    assert run.damaged == ("x",)


def test_draw_depends_on_seed_and_name_alone():
    """The same seed and name draw the same, in any process; another of either does not."""
    draws = Draw(3, "a").normal(5)
    assert (draws == Draw(3, "a").normal(5)).all()
    assert not np.allclose(draws, Draw(4, "a").normal(5))
    assert not np.allclose(draws, Draw(3, "b").normal(5))


def test_drawn_masks_keep_and_lose_something_in_each_row():
    """No row of a drawn mask is all True or all False where there is a choice."""
    for seed in range(50):
        mask = Draw(seed, "mask").mask(4, 5, 3)
        assert mask.any(-1).all()
        assert not mask.all(-1).any()
    assert Draw(0, "mask").mask(2, 1).all()


def test_drawn_sizes_differ():
    """Sizes drawn together are all different and within their bounds."""
    for seed in range(50):
        sizes = Draw(seed, "sizes").sizes(2, 6, 5)
        assert sorted(sizes) == [2, 3, 4, 5, 6]
        assert math.prod(Draw(seed, "weights").weights(3, 4).sum(-1).round(9)) == 1


def test_a_wrong_answer_that_raises_in_float64_only():
    """What stands beside a known wrong answer is compared, though that one fails on other dtypes."""

    def touchy(x):
        if x.dtype != np.float32:
            raise TypeError("only float32")
        return x * 2

    assert told(touchy, touchy, lambda draw: draw.normal(3, dtype="float32")) is None
    assert told(lambda x: x * 3, touchy, lambda draw: draw.normal(3, dtype="float32")) is not None


# --- Sentences that hold of every entry, or are not said -------------------------------------------


def of_sizes(*shape):
    return lambda draw: draw.normal(*shape)


@pytest.mark.parametrize(
    ("answer", "inputs", "untrue"),
    [
        (lambda x: x * 2 + np.where(x > 0, 0.5, 0), numbers, "Every entry is off"),
        (lambda x: x * 2 + 0.5, of_sizes(3), "Every entry is off"),
        (lambda x: (x * 2)[::-1].copy(), of_sizes(3), "in a different order"),
        (lambda x: (x * 2)[[0, 2, 1, 3]], of_sizes(4, 3), "in a different order"),
        (lambda x: x * 2.004, numbers, "1 times"),
        (lambda x: x * 2e-9, numbers, " 0 times"),
        (lambda x: np.where(x > 0, x * 2, x * 2 + 1), of_sizes(5), "Along axis"),
    ],
)
def test_a_sentence_that_is_not_true_is_not_said(answer, inputs, untrue):
    """What holds of some entries, of three numbers, or does not show as printed, is not claimed."""
    for seed in range(10):
        _, message = told(answer, inputs=inputs, seed=seed)
        assert untrue not in message


def test_a_sum_is_told_where_it_shows():
    """Rows that sum to 1 as printed are not said not to; the row that is told of is one that does not."""

    def weights(draw):
        return draw.weights(3, 4)

    def half_right(x):
        return np.vstack([x[:1], 0.5 * x[1:]])

    _, message = told(half_right, reference=lambda x: x * 1.0, inputs=weights)
    assert "a row of yours sums to 0.5." in message

    def hardly_wrong(x):
        return x + np.array([3e-3, -3e-3, 2e-3, -1e-3])

    _, message = told(hardly_wrong, reference=lambda x: x * 1.0, inputs=weights)
    assert "sums to" not in message


def test_to_watch_tensors_takes_no_compiler():
    """Torch would import its own, for more than a second, to keep out of what watches."""
    assert not hasattr(OperationRecorder.__torch_dispatch__, "__wrapped__")
