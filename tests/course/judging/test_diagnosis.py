"""What is claimed and what is not: two mistakes at once are named, and none is named without evidence."""

import functools

import pytest

from course.checks.seeing import see
from course.curriculum import find_day
from course.judging.judge import Judge, Outcome
from course.judging.misconceptions import load_misconceptions, module_of
from course.references.changed import reference_module
from course.references.text import definition_text

judge_of = functools.cache(Judge)

SCORES = "scores = query @ np.swapaxes(key, -2, -1) / math.sqrt(query.shape[-1])"
OUTPUT = "return weights @ value, weights"


def results_of(day, module):
    judge = judge_of(day)
    return judge.results({check.name: Outcome(see(check, module, 0)) for check in judge.checks})


def failures(day, definition, *edits):
    """The failed checks of a day's reference in which some text was replaced."""
    text = definition_text(day, definition)
    for find, put in edits:
        assert text.count(find) == 1
        text = text.replace(find, put)
    results = results_of(day, reference_module(day, {definition: text}))
    return [result for result in results if result.status in ("failed", "error")]


@pytest.mark.parametrize(
    "edit",
    [
        (SCORES, SCORES.replace("query @ np.swapaxes(key, -2, -1)", "query * key")),
        (SCORES, f"T_q, d_k = query.shape\n    {SCORES}"),
        (SCORES, f'raise ValueError("hmm")\n    {SCORES}'),
        (SCORES, f"{SCORES}\n    scores = scores.reshape(3, 5)"),
        (SCORES, f"{SCORES} + 1e-3 * np.swapaxes(key, -2, -1)[..., :1, :]"),
        (OUTPUT, "return np.swapaxes(weights, -1, -2) @ value, weights"),
        (OUTPUT, "return value @ weights, weights"),
        (OUTPUT, "return weights @ value + 1e-3, weights"),
        (OUTPUT, "return weights @ value, weights**2"),
    ],
    ids=range(9),
)
def test_no_mistake_is_claimed_that_was_not_made(edit):
    """Many mistakes end in a ValueError, or in wrong numbers: only the same one is named."""
    failed = failures(find_day("2"), "attention", edit)
    assert failed
    assert {result.misconception for result in failed} == {None}


@pytest.mark.parametrize(
    ("number", "pair"),
    [
        ("2", ("not_scaled", "mask_ignored")),
        ("2", ("scaled_by_d_k", "empty_row_nan")),
        ("2", ("softmax_over_queries", "mask_inverted")),
        ("2", ("promoted_to_float64", "empty_row_uniform")),
        ("6", ("gain_forgotten", "eps_squared")),
        ("6", ("no_last_norm", "network_sees_the_input")),
    ],
)
def test_two_mistakes_at_once(number, pair):
    """Whoever has not come to the mask yet is still told of the scale."""
    day = find_day(number)
    known = {wrong.id: wrong for wrong in load_misconceptions(day)}
    mistakes = [known[name] for name in pair]
    failed = [
        r for r in results_of(day, module_of(mistakes, day)) if r.exercise == mistakes[0].definition
    ]
    told = next(result.message for result in failed if result.misconception)
    assert told.startswith("Two things at once. ")
    assert all(mistake.tell in told for mistake in mistakes)
    assert {r.misconception for r in failed if r.status != "passed"} <= set(pair)


def test_a_mistake_in_each_of_two_exercises():
    """Each is named where it was made; what stands on both says where it comes from."""
    day = find_day("4")
    known = {wrong.id: wrong for wrong in load_misconceptions(day)}
    pair = [known["split_reshaped_in_one_go"], known["join_not_swapped"]]
    named = {r.exercise: r for r in results_of(day, module_of(pair, day)) if r.misconception}
    assert named["split_heads"].message.startswith(pair[0].tell)
    assert named["join_heads"].message.startswith(pair[1].tell)
    last = named["multi_head_attention"].message
    assert last.startswith("Two things at once. This comes from `split_heads`.")
    assert pair[1].tell in last


def test_a_right_part_is_not_blamed():
    """A mistake in an exercise that passes is not claimed for one that stands on it."""
    day = find_day("4")
    call = "heads, _ = attention(q, k, v, mask)"
    failed = failures(day, "multi_head_attention", (call, f"{call}\n    heads = heads[:, ::-1]"))
    assert {result.exercise for result in failed} == {"multi_head_attention"}
    assert all("This comes from" not in result.message for result in failed)


def test_what_stands_on_an_unknown_mistake_is_not_blamed():
    """A wrong part that nobody knows: no box for what uses it, but where to begin."""
    day = find_day("7")
    edit = (
        "return weights * (grad_weights - mean)",
        "return weights * (grad_weights - mean) * 1.1 + mean",
    )
    failed = failures(day, "softmax_backward", edit)
    assert {result.exercise for result in failed} == {"softmax_backward", "attention_backward"}
    assert {result.misconception for result in failed} == {None}
    advice = "If it uses your `softmax_backward`, mend that first: its checks fail."
    assert all((advice in r.message) == (r.exercise == "attention_backward") for r in failed)
