"""What published implementations do, and what trains well with them, is no failure of a day's core."""

from pathlib import Path

import pytest

from course.checks.answer_files import build_answer, read_answer
from course.checks.loading import CORE
from course.curriculum import find_day
from course.judging.judge import Judge
from course.references.patched import reference_module
from course.references.text import definition_text

CASES = Path(__file__).with_name("cases")

PUBLISHED = [
    ("5", "float32_angles"),  # d2l and PyTorch's habit
    ("10", "two_axes_only"),  # gordicaleksa's embeddings
    ("10", "three_axes_only"),
    ("20", "beam_wider_than_the_vocabulary"),  # the k best of each, then the k best of these k²
    ("20", "stops_when_as_many_have_ended"),  # many, and wrong: a star is not given for it
    ("32", "residuals_made_smaller"),  # llama2.c and nanoGPT: 0.02 / √(2N)
    ("33", "gradients_for_equal_widths"),  # every flash attention: d_v = d_k
    ("33", "causal_only_if_square"),  # many: causal where there are as many queries as keys
    ("33", "four_axes_expected"),  # most: (B, h, T, d)
    ("34", "widths_taken_for_equal"),
    ("34", "published_state_for_each_token"),  # linear attention with a running sum, and an eps
    ("35", "first_choices_first"),  # GShard's capacity
    ("35", "capacity_ignored"),  # Mixtral has none
    ("35", "capacity_in_training_only"),  # Switch has another capacity in use
    ("35", "least_likely_first"),  # torchtitan's `topk(sorted=False)` leaves the order open
    ("37", "state_for_single_tokens_only"),  # Mamba's own step
    ("39", "with_history"),  # FSDP's piece is a parameter
]


@pytest.mark.parametrize(("number", "name"), PUBLISHED, ids=lambda value: value)
def test_what_is_published_passes_the_core(number, name):
    """It falls short of the contract, and some watertight check says so."""
    judge = Judge(find_day(number), 0)
    [wrong] = [mistake for mistake in judge.truth.misconceptions if mistake.id == name]
    module = wrong.module(judge.day)
    failed = [check for check in judge.checks if not judge.truth.passes(check, module)]
    assert failed
    assert not [check.name for check in failed if check.tier == CORE]


TRANSPOSED = "key.to(wide).transpose(-2, -1)"
STORED = "super().__init__()"
FILLED = "scores.masked_fill(scores < kth, -math.inf)"
HEADS_MASK = "mask = mask.unsqueeze(1)"


def failed_core(judge, module):
    """The verdicts on the core checks that a module fails."""
    results = judge.results(judge.outcomes(module))
    return [result for result in results if result.went_wrong and result.tier == CORE]


def edited(day, definition, find, put):
    """The day's reference with a piece of one definition replaced."""
    text = definition_text(day, definition)
    assert text.count(find) == 1
    return reference_module(day, {definition: text.replace(find, put)})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "definition", "put"),
    [
        (
            "8",
            "attention",
            f"(lambda b, h, t, d: {TRANSPOSED.replace('-2, -1', '2, 3')})(*key.size())",
        ),
        ("12", "Encoder", f"{STORED}\n        assert isinstance(layer, EncoderLayer)"),
        ("13", "Decoder", f"{STORED}\n        assert isinstance(layer, DecoderLayer)"),
    ],
)
def test_what_is_right_in_practice_passes_the_core(number, definition, put):
    """Exactly four axes, or an assertion of what the stub's annotation says."""
    day = find_day(number)
    find = TRANSPOSED if number == "8" else STORED
    assert failed_core(Judge(day), edited(day, definition, find, put)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "case", "expected"),
    [
        ("5", "day05_positions_as_tensor2tensor", {"halves_concatenated", "last_exponent_is_one"}),
        ("16", "day16_label_smoothing_of_torch", {"cross_entropy_of_torch"}),
        (
            "16",
            "day16_label_smoothing_over_others",
            {"cross_entropy_and_padding_divided_among"},
        ),
        ("20", "day20_two_topk", set()),
        (
            "9",
            (
                "MultiHeadedAttention",
                HEADS_MASK,
                f"{HEADS_MASK}\n            mask = mask.mT if query.size(1) == key.size(1) else mask",
            ),
            None,
        ),
        (
            "4",
            (
                "multi_head_attention",
                "mask = mask[:, np.newaxis]",
                "mask = mask if query.shape[1] != key.shape[1] else np.swapaxes(mask, 1, 2)\n"
                "        mask = mask[:, np.newaxis]",
            ),
            None,
        ),
        (
            "24",
            ("distribution", FILLED, FILLED.replace("-math.inf", "-1e-10")),
            {"top_k_fills_with_0"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_published_answer_is_judged(number, case, expected):
    """What is wrong fails the core and is named there (`None`: has no name); what is right passes it."""
    day = find_day(number)
    judge = Judge(day)
    if isinstance(case, tuple):
        module = edited(day, *case)
    else:
        path = CASES / f"{case}.py"
        module = build_answer(str(path), read_answer(path))
    failed = failed_core(judge, module)
    assert bool(failed) == (expected != set())
    if expected:
        words = failed[0].message.partition("\n")[0]
        by_id = {mistake.id: mistake.tell for mistake in judge.truth.misconceptions}
        assert {failed[0].misconception} <= expected
        assert all(by_id[name][:60] in words for name in expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_length_penalty_is_core_at_every_seed(seed):
    judge = Judge(find_day("20"), seed)
    [wrong] = [
        mistake for mistake in judge.truth.misconceptions if mistake.id == "one_token_less_counted"
    ]
    module = wrong.module(judge.day)
    core = [check for check in judge.checks if check.tier == CORE]
    assert not all(judge.truth.passes(check, module) for check in core)
