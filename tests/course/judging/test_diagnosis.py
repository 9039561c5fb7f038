"""What is claimed and what is not: two mistakes at once are named, and none is named without evidence."""

import ast
import functools
import linecache
import re

import pytest

from course.checks.loading import CORE
from course.checks.observation import Raised
from course.checks.seeing import CheckRun
from course.curriculum import DAYS, RAISE, find_day
from course.judging import diagnosis
from course.judging.judge import Judge, Outcome
from course.judging.messages import beside_others, contradict
from course.judging.misconceptions import load_misconceptions, module_with
from course.references.patched import reference_module
from course.references.text import definition_text

judge_of = functools.cache(Judge)

SCORES = "scores = query @ np.swapaxes(key, -2, -1) / math.sqrt(query.shape[-1])"
OUTPUT = "return weights @ value, weights"


def results_of(day, module):
    judge = judge_of(day)
    return judge.results(judge.outcomes(module))


def known(day):
    """The known wrong answers by their ids, each in its first alternative."""
    return {wrong.id: wrong for wrong in reversed(load_misconceptions(day))}


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
        ("2", ("softmax_over_queries", "mask_inverted")),
        ("2", ("promoted_to_float64", "empty_row_uniform")),
        ("5", ("cosine_with_its_own_exponent", "base_1000")),
        ("5", ("exponent_doubled", "positions_from_one")),
        ("6", ("gain_forgotten", "eps_squared")),
        ("6", ("no_last_norm", "network_sees_the_input")),
    ],
)
def test_two_mistakes_at_once(number, pair):
    """Whoever has not come to the mask yet is still told of the scale."""
    day = find_day(number)
    by_id = known(day)
    mistakes = [by_id[name] for name in pair]
    failed = [
        r
        for r in results_of(day, module_with(mistakes, day))
        if r.exercise == mistakes[0].definition
    ]
    message = next(result.message for result in failed if result.misconception)
    assert message.startswith("Two things at once. ")
    assert all(f"• {mistake.id}: {beside_others(mistake.tell)}" in message for mistake in mistakes)
    assert {r.misconception for r in failed if r.status != "passed"} <= set(pair)


@pytest.mark.parametrize(
    ("number", "three"),
    [
        ("2", ("scaled_up", "mask_after_softmax", "scaled_by_axis_one")),
        (
            "9",
            ("mask_axis_in_front", "query_and_key_projections_swapped", "output_projection_unused"),
        ),
    ],
)
def test_three_mistakes_at_once(number, three):
    """Of three mistakes two of which show alone in some check, all are told."""
    day = find_day(number)
    by_id = known(day)
    results = results_of(day, module_with([by_id[name] for name in three], day))
    failed = [r for r in results if r.exercise == by_id[three[0]].definition and r.misconception]
    assert failed
    assert failed[0].message.startswith("Three things at once. ")
    assert all(
        f"• {name}: {beside_others(by_id[name].tell)}" in failed[0].message for name in three
    )


def test_what_is_beyond_the_core_waits_until_that_passes():
    """Of a mistake in the core and one beyond it, the first is told alone, where it shows."""
    day = find_day("2")
    by_id = known(day)
    mistakes = [by_id["scaled_by_d_k"], by_id["empty_row_nan"]]
    failed = [r for r in results_of(day, module_with(mistakes, day)) if r.went_wrong]
    core = [result for result in failed if result.tier == CORE]
    assert core and all(result.message.startswith(mistakes[0].tell) for result in core)
    assert {result.misconception for result in failed} == {"scaled_by_d_k", None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "mistake", "stub", "named"),
    [
        ("14", "target_embedded_as_source", "forward", "target_embedded_as_source"),
        ("13", "layers_in_a_list", "forward", "layers_in_a_list"),
        ("25", "only_the_chunk", "reorder", "only_the_chunk"),
        ("31", "kv_heads_tiled", "forward", "kv_heads_tiled"),
        ("31", "kv_heads_tiled", "project", "kv_heads_tiled"),
        # A different mistake sees the same, and is in the method that is still to be written:
        ("10", "starts_at_deviation_1", "forward", "starts_at_deviation_1"),
        # Only what ends in the stub would tell rounding up from rounding to the nearest:
        ("36", "rounded_up", "forward", None),
    ],
)
def test_what_is_written_is_diagnosed_beside_a_stub(number, mistake, stub, named, monkeypatch):
    """A class of which one method is still to be written: the mistake in a different one is named."""
    day = find_day(number)
    [wrong] = [wrong for wrong in load_misconceptions(day) if wrong.id == mistake]
    tree = wrong.applied(day).tree
    [method] = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == stub]
    method.body = ast.parse(RAISE).body
    text, file = ast.unparse(tree), f"<{wrong.definition} of the reference>"
    lines = text.splitlines(keepends=True)  # by which a stub's line is known
    monkeypatch.setitem(linecache.cache, file, (len(text), None, lines, file))
    judge = judge_of(day)
    outcomes = judge.outcomes(reference_module(day, {wrong.definition: text}), file)
    assert {result.misconception for result in judge.results(outcomes) if result.went_wrong} == {
        named
    }


def test_a_mistake_in_each_of_two_exercises():
    """Each is named where it was made; what stands on both says where it comes from."""
    day = find_day("4")
    by_id = known(day)
    pair = [by_id["split_reshaped_in_one_go"], by_id["join_interleaved"]]
    named = {r.exercise: r for r in results_of(day, module_with(pair, day)) if r.misconception}
    assert named["split_heads"].message.startswith(pair[0].tell)
    assert named["join_heads"].message.startswith(pair[1].tell)
    last = named["multi_head_attention"].message
    assert last.startswith("Two things at once. • ")
    for mistake in pair:
        assert f"• {mistake.id}: This comes from `{mistake.definition}`. {mistake.tell}" in last


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
    advice = "If it uses your `softmax_backward`, fix that first: its core checks fail."
    assert all((advice in r.message) == (r.exercise == "attention_backward") for r in failed)


def test_the_first_of_two_is_the_one_that_shows():
    """In a check that only one of two mistakes fails, that one is named first."""
    day = find_day("2")
    by_id = known(day)
    pair = [by_id["not_scaled"], by_id["mask_ignored"]]
    named = {r.name: r for r in results_of(day, module_with(pair, day)) if r.misconception}
    assert named["test_scale"].message.startswith("Two things at once. • not_scaled: ")
    assert named["test_mask_hides_the_highest_score"].misconception == "mask_ignored"


def test_what_is_known_is_named_beside_what_is_not():
    """A known mistake and an unknown one: the known is told where it alone shows, and that it is not all."""
    day = find_day("2")
    unknown = "return (weights if mask is None else weights * 1.07) @ value, weights"
    failed = failures(
        day,
        "attention",
        (SCORES, SCORES.partition(" / ")[0]),
        (OUTPUT, unknown),
    )
    named = {result.name: result for result in failed if result.misconception}
    assert {result.misconception for result in named.values()} == {"not_scaled"}
    assert {"test_output_and_weights", "test_scale"} <= named.keys()
    assert "test_mask" not in named
    note = "Something else is wrong as well: this does not explain `test_mask`"
    assert all(note in r.message for r in named.values())


def test_what_is_beyond_the_core_is_not_something_else_wrong():
    """Where a known mistake explains every failing core check, nothing else is said to be wrong."""
    rounded = "np.where(mask, scores, np.finfo(scores.dtype).min)"
    failed = failures(
        find_day("2"),
        "attention",
        (SCORES, SCORES.partition(" / ")[0]),
        (
            "weights = np.where(mask, weights, 0)",
            "weights = weights * 1.0 if mask.any() else weights",
        ),
        (rounded, f"{rounded} * 1.0 if mask.any(axis=-1).all() else np.where(mask, scores, 1.5)"),
    )
    core = [result for result in failed if result.tier == "core"]
    assert core and {result.misconception for result in core} == {"not_scaled"}
    assert not [result for result in failed if "Something else" in result.message]


def test_another_axis_is_named_as_itself():
    """√ of the number of queries is neither √ of `shape[1]` nor something else beside it."""
    [wrong] = [
        candidate
        for candidate in load_misconceptions(find_day("2"))
        if candidate.id == "scaled_by_query_length"
    ]
    failed = failures(find_day("2"), "attention", ("query.shape[-1]", "query.shape[-2]"))
    assert {result.misconception for result in failed} == {"scaled_by_query_length"}
    assert all(result.message.startswith(f"{wrong.tell}\n") for result in failed)


@pytest.mark.parametrize("fill", ["np.finfo(scores.dtype).min", "-np.inf", "-1e9"])
def test_an_inverted_mask_is_named_whatever_it_fills_with(fill):
    """As most people write it: filled where the mask is True, and no weight set to 0 afterwards."""
    hidden = "scores = np.where(mask, scores, np.finfo(scores.dtype).min)"
    zeroed = "weights = np.where(mask, weights, 0)"
    edits = (hidden, f"scores = np.where(mask, {fill}, scores)"), (zeroed, "weights = weights")
    named = {result.misconception for result in failures(find_day("2"), "attention", *edits)}
    assert len(named) == 1 and "mask_inverted" in (named.pop() or "")


# --- Sentences beside each other -------------------------------------------------------------------


def test_a_watertight_failure_of_a_part_is_no_reason_to_mend_it_first():
    """Day 7's attention_backward is wrong; softmax_backward fails beyond its core alone."""
    day = find_day("7")
    texts = {name: definition_text(day, name) for name in day.exercises}
    for name, find, put in (
        (
            "softmax_backward",
            "(grad_weights - mean)",
            "(grad_weights - mean) + (weights == 0).astype(weights.dtype)",
        ),
        (
            "attention_backward",
            "np.swapaxes(weights, -2, -1)",
            "1.1 * np.swapaxes(weights, -2, -1)",
        ),
    ):
        assert texts[name].count(find) == 1
        texts[name] = texts[name].replace(find, put)
    results = results_of(day, reference_module(day, texts))
    failed = {(result.exercise, result.tier) for result in results if result.went_wrong}
    assert ("softmax_backward", "watertight") in failed and (
        "softmax_backward",
        "core",
    ) not in failed
    assert not [result for result in results if "fix that first" in result.message]


def test_a_part_that_only_the_check_calls_is_hinted_at():
    """`dequantize` is right, and fails where its check calls a wrong `quantize_int8`."""
    day = find_day("40")
    edit = ("wide.abs()", "(wide.abs() + 0.01 * wide.square())")
    failed = failures(day, "quantize_int8", edit)
    results = [result for result in failed if result.exercise == "dequantize"]
    assert results and {result.misconception for result in results} == {None}
    hint = "This check also calls your `quantize_int8`, whose core checks fail: fix that first."
    assert all(hint in result.message for result in results)


DAYS_WITH_MISTAKES = [day for day in DAYS if day.ready]


@pytest.mark.parametrize("day", DAYS_WITH_MISTAKES, ids=lambda day: day.stem)
def test_no_sentence_says_that_the_rest_is_right_beside_another(day):
    """ "Your results are right, but …" is not said where something else is wrong."""
    for mistake in load_misconceptions(day):
        sentence = beside_others(mistake.tell)
        assert not re.match(r"(Your|The) [^.,:]* (is|are) right, ", sentence), mistake.id
        assert sentence == mistake.tell or not sentence[0].islower(), mistake.id


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "definition", "find", "put", "never"),
    [
        ("37", "Mamba", "rates.log()", "(0 * rates + 0.7)", "at random"),
        (
            "40",
            "QuantizedLinear",
            'self.register_buffer("scale", scale)',
            'self.register_buffer("scale", scale, persistent=False)',
            "Your scale is a plain attribute",
        ),
        (
            "40",
            "quantize_int8",
            "scale.masked_fill(",
            "scale.masked_fill(scale == 0, 0.0) if True else scale.masked_fill(",
            "is divided by it",
        ),
        (
            "39",
            "average_gradients",
            "parameter.grad = ",
            "parameter.grad = None\n        ",
            "`return`",
        ),
    ],
)
def test_no_cause_is_named_that_another_may_have(number, definition, find, put, never):
    """Where several causes give the same observations, the sentence is true of each."""
    day = find_day(number)
    text = definition_text(day, definition)
    assert find in text
    results = results_of(day, reference_module(day, {definition: text.replace(find, put)}))
    failed = [result for result in results if result.went_wrong]
    assert failed
    assert not [result for result in failed if never in result.message]


def test_what_one_sentence_denies_another_does_not_say():
    """Two mistakes whose sentences contradict each other are never told of together."""
    by_id = {mistake.id: mistake.tell for mistake in load_misconceptions(find_day("37"))}
    assert contradict(by_id["window_not_kept"], "You keep the convolution's last inputs. Why?")
    assert contradict("You never clip: the norm is measured.", "You clip after each batch.")
    assert not contradict(by_id["window_not_kept"], by_id["gate_without_silu"])


def test_a_contradictory_pair_is_not_claimed(monkeypatch):
    """Two mistakes at once, of which the sentences deny each other, are left without a name."""
    day = find_day("2")
    by_id = known(day)
    module = module_with([by_id["not_scaled"], by_id["mask_ignored"]], day)
    monkeypatch.setattr(diagnosis, "contradict", lambda first, other: True)
    assert not [r for r in results_of(day, module) if "Two things" in r.message]


def test_what_is_no_number_names_nothing_beside_the_unknown():
    """Two mistakes may give the same tokens, types or missing gradients by accident."""
    words = "return str(weights @ value), str(weights)"
    failed = failures(find_day("8"), "attention", ("return weights @ value, weights", words))
    assert {result.misconception for result in failed} == {None}


# --- How long is looked ----------------------------------------------------------------------------


@pytest.fixture
def search():
    """The search for two mistakes at once, not begun."""
    day = find_day("2")
    judge = Judge(day)
    by_id = {wrong.id: wrong for wrong in judge.truth.misconceptions}
    module = module_with([by_id["not_scaled"], by_id["mask_ignored"]], day)
    outcomes = judge.outcomes(module)
    return judge.search(outcomes, judge.verdicts(outcomes))


def test_a_search_can_be_left_and_gone_on_with(search, monkeypatch):
    """When patience is at its end nothing is told; whoever goes on finds what there is to find."""
    monkeypatch.setattr(diagnosis, "PATIENCE", 0.0)
    assert not search.run()
    assert search.diagnoses == {}
    monkeypatch.setattr(diagnosis, "PATIENCE", float("inf"))
    assert search.run()
    assert {mistake.id for mistake in search.diagnoses["attention"]} == {
        "not_scaled",
        "mask_ignored",
    }


@pytest.mark.parametrize("kind", [*diagnosis.NAMELESS, *diagnosis.SLIPS])
def test_a_line_that_cannot_run_is_not_searched(kind):
    """A name that is not there needs no search; of what is called wrongly no two mistakes are tried."""
    judge = Judge(find_day("2"))
    slip = Raised(kind, "name 'quary' is not defined", [(3, "attention", "quary")])
    outcomes = {check.name: Outcome(CheckRun({}, slip)) for check in judge.checks}
    search = judge.search(outcomes, judge.verdicts(outcomes))
    assert search.needed == (kind in diagnosis.SLIPS)
    search.run_in_batch()
    assert search.runs == 0
    assert search.done


def test_a_batch_looks_as_long_on_every_machine(search, monkeypatch):
    """Its measure is runs, and no clock: the fewer are allowed, the less is found."""
    monkeypatch.setattr(diagnosis.time, "thread_time", lambda: float("inf"))
    monkeypatch.setattr(diagnosis, "MAX_RUNS", 1)
    search.run_in_batch()
    assert not search.done
    monkeypatch.setattr(diagnosis, "MAX_RUNS", 300)
    search.run_in_batch()
    assert {mistake.id for mistake in search.diagnoses["attention"]} == {
        "not_scaled",
        "mask_ignored",
    }


def test_a_batch_has_no_more_runs_than_are_left(search, monkeypatch):
    """Who grades a submission can give all of its days together a number of runs."""
    monkeypatch.setattr(diagnosis, "MAX_RUNS", 300)
    assert search.run_in_batch(1) == 1
    assert not search.done
    assert search.run_in_batch(200) == search.runs - 1 < 200
    assert search.done


def test_an_answer_that_is_right_is_not_searched():
    """Nothing is wrong, so there is nothing to look for."""
    day = find_day("2")
    judge = judge_of(day)
    outcomes = judge.outcomes(reference_module(day))
    assert judge.search(outcomes, judge.verdicts(outcomes)).done
