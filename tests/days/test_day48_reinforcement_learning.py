"""Day 48 · group_advantages(rewards), policy_loss(log_probs, old_log_probs, …), kl_penalty(log_probs, …)."""

import pytest

from course.checks.authoring import FLOAT64, HALVES, backward, gradients, wanting_gradients

AXES = "additional leading axes"
EMPTY = "an answer without a single token is cut off by the verifier, which is rare"
PADDING = "log-probabilities at padding are numbers in most programs"
SIZES = "groups of one have nothing to compare"
ROUNDED = "rewards of 0 and 1 have an exact mean, and those of other numbers may not"
SMALL = "rewards that differ by thousandths, or by far less"
FAR = "log-ratios beyond ±20, as after an update that was far too large"
NEAR = "log-ratios of a thousandth, as after the first steps"


# --- Inputs: rewards ------------------------------------------------------------------------------


@pytest.fixture
def right_and_wrong(draw):
    """Rewards of 0 and 1, both in each group."""
    groups, size = draw.sizes(3, 7, 2)
    return draw.mask(groups, size).float()


@pytest.fixture
def graded(draw, dtype):
    """Rewards of any size, in groups that differ in level and spread."""
    groups, size = draw.sizes(3, 7, 2)
    level, spread = (
        draw.normal(groups, 1, dtype=dtype),
        draw.uniform(0.5, 3, groups, 1, dtype=dtype),
    )
    return level + spread * draw.normal(groups, size, dtype=dtype)


@pytest.fixture
def some_equal(draw):
    """Two groups have equal rewards, all 0 or all another number with an exact mean."""
    groups, size = draw.size(4, 6), draw.size(3, 7)
    rewards = draw.uniform(0, 1, groups, size)
    rewards[1] = 0
    rewards[2] = draw.choice([0.25, 0.5, 0.75, 1.0])
    return rewards


@pytest.fixture
def equal_and_rounded(draw):
    """Groups of equal rewards, most of whose means differ from them in the last digit."""
    size = draw.choice([3, 5, 6, 7])
    rewards = draw.uniform(0, 1, 64, 1).expand(64, size)
    return rewards[rewards.mean(dim=-1) != rewards[:, 0]].clone()


@pytest.fixture
def shaped(draw, case):
    """A single group, pairs in more axes than one, groups of one, or rewards close to each
    other."""
    sizes = draw.sizes(3, 6, 2)
    shapes = {"one group": sizes[:1], "more axes": [*sizes, 2], "groups of one": [*sizes, 1]}
    if case == "close together":
        return 0.5 + 0.001 * draw.normal(*sizes)
    if case == "tiny differences":
        return 1e-7 * draw.normal(*sizes)
    return draw.normal(*shapes[case])


# --- Inputs: log-probabilities of answers ---------------------------------------------------------


def sampled(draw, before, change=0.6, padded=True, **how):
    """Log-probabilities of two models, and a mask with answers of different lengths."""
    length = draw.size(6, 9)
    lengths = draw.integers(1, length - 1, *before, 1)
    lengths[..., 0].view(-1)[0] = length  # the longest
    positions = draw.integers(1, 1, length).cumsum(0) - 1
    log_probs = -draw.uniform(0.3, 2.5, *before, length, **how)
    return {
        "log_probs": log_probs,
        "other": log_probs + change * draw.normal(*before, length, **how),
        "mask": positions < (lengths if padded else length + 0 * lengths),
    }


def step(draw, before=None, sign=None, **how):
    """The arguments of `policy_loss`, with ratios on both sides of the clip range and in it."""
    before = before or [draw.size(4, 6)]
    given = sampled(draw, before, **how)
    dtype = {"dtype": how["dtype"]} if "dtype" in how else {}
    advantages = draw.normal(*before, **dtype)
    if sign:
        advantages = sign * (advantages.abs() + 0.2)
    return {
        "log_probs": given["log_probs"],
        "old_log_probs": given["other"],
        "advantages": advantages,
        "mask": given["mask"],
    }


def penalized(draw, before=None, **how):
    """The arguments of `kl_penalty`."""
    given = sampled(draw, before or [draw.size(4, 6)], **how)
    return {
        "log_probs": given["log_probs"],
        "reference_log_probs": given["other"],
        "mask": given["mask"],
    }


@pytest.fixture
def fresh(draw):
    """A step on answers that the model itself has just sampled, all of one length."""
    given = step(draw, padded=False)
    return given | {"old_log_probs": given["log_probs"].clone()}


@pytest.fixture
def moved(draw, answers):
    """Stale answers of one length, all better than their group, or all worse, with ratios of up to 30."""
    given = step(draw, sign={"better": 1, "worse": -1}[answers], padded=False)
    given["old_log_probs"][..., 0] = given["log_probs"][..., 0] - 3.4
    return given


@pytest.fixture
def stale(draw):
    """A step on answers of different lengths that an earlier model has sampled."""
    return step(draw)


@pytest.fixture
def wide(draw):
    """The same, and a clip range of its own."""
    return step(draw) | {"clip": round(0.3 + 0.01 * draw.size(0, 30), 2)}


@pytest.fixture
def apart(draw):
    """Answers of one length, and how likely two models find their tokens: a k₃ is up to 50."""
    given = penalized(draw, padded=False)
    given["log_probs"][..., 0] = given["reference_log_probs"][..., 0] - 4
    return given


@pytest.fixture
def apart_and_padded(draw):
    """The same for answers of different lengths."""
    return penalized(draw)


@pytest.fixture
def nearly_equal(draw):
    """Two models that have hardly moved apart."""
    return penalized(draw, change=1e-3, padded=False)


def odd(draw, case, make):
    """Arguments with more axes, an answer without tokens, models far apart, what padding can hold,
    or a dtype."""
    if case == "more axes":
        return make(draw, draw.sizes(2, 4, 2))
    if case in ("float64", "float16", "bfloat16"):
        return make(draw, dtype=case)
    given = make(draw)
    if case in ("far more likely", "far less likely"):
        model, other = list(given)[:2]
        shift = draw.uniform(22, 30, *given[model].shape)
        given[other] = given[model] + shift * (1 if case == "far less likely" else -1)
        return given
    if case == "an empty answer":
        given["mask"][1] = False
    else:
        filler = {"minus infinity": float("-inf"), "not a number": float("nan")}[case]
        for name in list(given)[:2]:
            given[name] = given[name].masked_fill(~given["mask"], filler)
    return given


@pytest.fixture
def odd_step(draw, case):
    """The arguments of `policy_loss` in a rare case."""
    return odd(draw, case, step)


@pytest.fixture
def odd_penalty(draw, case):
    """The arguments of `kl_penalty` in a rare case."""
    return odd(draw, case, penalized)


ODD = [
    pytest.param("more axes", marks=pytest.mark.watertight(AXES)),
    pytest.param("an empty answer", marks=pytest.mark.watertight(EMPTY)),
    pytest.param("minus infinity", marks=pytest.mark.watertight(PADDING)),
    pytest.param("not a number", marks=pytest.mark.watertight(PADDING)),
    pytest.param("far more likely", marks=pytest.mark.watertight(FAR)),
    pytest.param("far less likely", marks=pytest.mark.watertight(FAR)),
    pytest.param("float64", marks=FLOAT64.marks),
    *HALVES,
]


def differentiated(function, given):
    """The result, and the gradients of all inputs."""
    inputs = wanting_gradients(given)
    result = function(**inputs)
    backward(result)
    return {"result": result, "gradients": gradients(inputs)}


# --- group_advantages -----------------------------------------------------------------------------


def test_right_and_wrong(answer, right_and_wrong):
    """Right answers have a positive advantage, wrong ones a negative one, and each group's mean is 0."""
    return {"advantages": answer.group_advantages(right_and_wrong)}


@pytest.mark.on_devices
@pytest.mark.parametrize("dtype", ["float32", FLOAT64, *HALVES])
def test_levels_and_spreads(answer, graded):
    """Each group is compared only with itself: with its own mean and standard deviation."""
    return {"advantages": answer.group_advantages(graded)}


def test_equal_rewards(answer, some_equal):
    """If all answers of a group are equally good, every advantage is 0."""
    return {"advantages": answer.group_advantages(some_equal)}


@pytest.mark.watertight(ROUNDED)
@pytest.mark.constant("advantages", "they are 0 in all groups of equal rewards")
def test_rounded_means(answer, equal_and_rounded):
    """Equal rewards have the advantage 0 even where their mean has been rounded."""
    advantages = answer.group_advantages(equal_and_rounded)
    return {
        "advantages": "0" if (advantages == 0).all() else "not all 0",
        "groups": len(advantages),
    }


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("one group", marks=pytest.mark.watertight(AXES)),
        pytest.param("more axes", marks=pytest.mark.watertight(AXES)),
        pytest.param("groups of one", marks=pytest.mark.watertight(SIZES)),
        pytest.param("close together", marks=pytest.mark.watertight(SMALL)),
        pytest.param("tiny differences", marks=pytest.mark.watertight(SMALL)),
    ],
)
def test_shapes_of_groups(answer, shaped):
    """The last axis is a group, whatever is before it and however far apart the rewards are."""
    return {"advantages": answer.group_advantages(shaped), "rewards": shaped}


# --- policy_loss ----------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_fresh_answers(answer, fresh):
    """On answers that the model has just sampled, the gradient is that of REINFORCE."""
    return differentiated(answer.policy_loss, fresh)


@pytest.mark.parametrize("answers", ["better", "worse"])
def test_limit(answer, moved):
    """A token of a better answer gains nothing above the clip range; a token of a worse answer, nothing
    below it."""
    return {"loss": answer.policy_loss(**moved)}


def test_answers_of_any_length(answer, stale):
    """Padding does not count, and each answer's sum is not divided by its length."""
    return {"loss": answer.policy_loss(**stale)}


def test_stale_gradients(answer, stale):
    """A token that went too far in the right direction has no gradient; the old model never has one."""
    return differentiated(answer.policy_loss, stale)


def test_clip(answer, wide):
    """`clip` is the half-width of the range around a ratio of 1."""
    return {"loss": answer.policy_loss(**wide)}


@pytest.mark.parametrize("case", ODD)
def test_odd_steps(answer, odd_step):
    """The result is right for any leading axes, answers without tokens, models far apart, any padding, and
    any dtype."""
    return differentiated(answer.policy_loss, odd_step)


# --- kl_penalty -----------------------------------------------------------------------------------


@pytest.mark.on_devices
def test_estimate(answer, apart):
    """k₃ is summed over the tokens of an answer, and averaged over the answers."""
    return {"penalty": answer.kl_penalty(**apart)}


def test_penalty_with_padding(answer, apart_and_padded):
    """Padding does not count, and nothing is divided by a length."""
    return {"penalty": answer.kl_penalty(**apart_and_padded)}


@pytest.mark.watertight(NEAR)
def test_penalty_of_nearly_equal_models(answer, nearly_equal):
    """Where the two models nearly agree, the penalty is still accurate."""
    return {"penalty": answer.kl_penalty(**nearly_equal)}


def test_penalty_gradients(answer, apart_and_padded):
    """The gradient pulls the model toward the reference, which has no gradient."""
    return differentiated(answer.kl_penalty, apart_and_padded)


@pytest.mark.parametrize("case", ODD)
def test_odd_penalties(answer, odd_penalty):
    """The result is right for any leading axes, answers without tokens, models far apart, any padding, and
    any dtype."""
    return differentiated(answer.kl_penalty, odd_penalty)
