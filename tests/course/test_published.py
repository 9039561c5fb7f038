"""What published implementations do, and what trains well with them, is no failure of a day's core."""

import pytest

from course.checks.loading import CORE
from course.curriculum import find_day
from course.judging.judge import Judge

PUBLISHED = [
    ("32", "residuals_made_smaller"),  # llama2.c and nanoGPT: 0.02 / √(2N)
    ("33", "gradients_for_equal_widths"),  # every flash attention: d_v = d_k
    ("33", "causal_only_if_square"),  # many: causal where there are as many queries as keys
    ("33", "four_axes_expected"),  # most: (B, h, T, d)
    ("34", "widths_taken_for_equal"),
    ("34", "published_state_for_each_token"),  # linear attention with a running sum, and an eps
    ("35", "first_choices_first"),  # GShard's capacity
    ("35", "capacity_ignored"),  # Mixtral has none
    ("35", "capacity_in_training_only"),  # Switch has another capacity in use
    ("37", "state_for_single_tokens_only"),  # Mamba's own step
    ("39", "with_history"),  # FSDP's piece is a parameter
]


@pytest.mark.parametrize(("number", "name"), PUBLISHED, ids=lambda value: value)
def test_what_is_published_passes_the_core(number, name):
    """It falls short of the contract, and some watertight check says so."""
    judge = Judge(find_day(number), 0)
    [wrong] = [one for one in judge.truth.misconceptions if one.id == name]
    module = wrong.module(judge.day)
    failed = [check for check in judge.checks if not judge.truth.passes(check, module)]
    assert failed
    assert not [check.name for check in failed if check.tier == CORE]
