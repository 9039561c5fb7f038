"""Day 47 · sequence_log_probs(logits, labels), bradley_terry_loss(chosen, rejected), dpo_loss(…, beta)."""

import pytest

from course.checks.authoring import FLOAT64, HALVES, backward, gradients, wanting_gradients

AXES = "publications take a batch of answers: one leading axis"
FAR = "differences in the thousands occur with long answers; few models get there"
CUT = "an answer without labels occurs where a long prompt was cut off"


# --- Inputs ---------------------------------------------------------------------------------------


def answers(draw, before, t, vocab, scale=2.0, dtype="float32"):
    """Logits, and labels that are kept at some positions, more in one answer than in another."""
    labels = draw.integers(0, vocab - 1, *before, t)
    labeled = draw.mask(*before, t)
    return {
        "logits": draw.normal(*before, t, vocab, scale=scale, dtype=dtype),
        "labels": labels.masked_fill(~labeled, -100),
    }


def batch(draw, **how):
    """A few answers, of which the first has two labels more than the second."""
    rows, t, vocab = draw.sizes(4, 9, 3)
    batch = answers(draw, [rows], t, vocab, **how)
    labels = batch["labels"]
    labels[:2] = -100
    labels[0, 1:4] = draw.integers(1, vocab - 1, 3)
    labels[1, 2] = draw.size(1, vocab - 1)
    labels[2, 0] = 0  # a token like any other
    return batch


@pytest.fixture
def dtype():
    """What logits are in, unless a check says otherwise."""
    return "float32"


@pytest.fixture
def given(draw, dtype):
    """A batch of answers of different lengths."""
    return batch(draw, dtype=dtype)


@pytest.fixture
def alone(draw):
    """One answer, without a batch."""
    return answers(draw, [], *draw.sizes(4, 9, 2))


@pytest.fixture
def of_one_token(draw):
    """Answers of a single token."""
    rows, vocab = draw.sizes(4, 9, 2)
    return answers(draw, [rows], 1, vocab)


@pytest.fixture
def paired(draw):
    """Two answers for each prompt: one leading axis more."""
    rows, t, vocab = draw.sizes(3, 8, 3)
    return answers(draw, [rows, 2], t, vocab)


@pytest.fixture
def certain(draw):
    """Logits in the thousands: most labels have a probability of 0 in float32."""
    return batch(draw, scale=4000.0)


@pytest.fixture
def cut_off(draw):
    """A batch whose last answer has no labels."""
    inputs = batch(draw)
    inputs["labels"][-1] = -100
    return inputs


@pytest.fixture
def rewards(draw, dtype):
    """The rewards of the answers of several pairs; the wrong answer leads in some."""
    pairs = draw.size(4, 8)
    inputs = {name: draw.normal(pairs, scale=1.5, dtype=dtype) for name in ("chosen", "rejected")}
    inputs["chosen"][0] = inputs["rejected"][0] - 1.0
    return inputs


@pytest.fixture
def rewards_far_apart(draw):
    """Three pairs: the right answer leads by thousands, neither leads much, the wrong one leads."""
    near = draw.normal(3)
    return {"chosen": near + near.new_tensor([6000.0, 0.0, -9000.0]), "rejected": draw.normal(3)}


def log_probs(draw, pairs, dtype="float32"):
    """The four log-probabilities of each pair: around −9, and the reference not far from the policy."""
    sides = ("chosen", "rejected")
    policy = {
        f"policy_{side}": draw.normal(pairs, mean=-9.0, scale=3.0, dtype=dtype) for side in sides
    }
    reference = {
        f"reference_{side}": policy[f"policy_{side}"]
        + draw.normal(pairs, mean=0.5, scale=2.0, dtype=dtype)
        for side in sides
    }
    return policy | reference


@pytest.fixture
def four(draw, dtype):
    """Log-probabilities of several pairs, and a beta."""
    inputs = log_probs(draw, draw.size(4, 8), dtype=dtype)
    return inputs | {"beta": float(draw.uniform(0.2, 0.7))}


@pytest.fixture
def without_beta(draw):
    """Log-probabilities of several pairs."""
    return log_probs(draw, draw.size(4, 8))


@pytest.fixture
def equal(draw):
    """A policy that is its reference still, and a beta."""
    inputs = log_probs(draw, draw.size(4, 8))
    for side in ("chosen", "rejected"):
        inputs[f"reference_{side}"] = inputs[f"policy_{side}"].clone()
    return inputs | {"beta": float(draw.uniform(0.2, 0.7))}


@pytest.fixture
def four_far_apart(draw):
    """Two pairs of which a policy is certain, rightly and wrongly."""
    inputs = log_probs(draw, 2) | {"beta": float(draw.uniform(0.5, 0.9))}
    shift = inputs["policy_chosen"].new_tensor([-500.0, -8000.0])
    inputs["policy_chosen"] = inputs["policy_chosen"] + shift
    inputs["policy_rejected"] = inputs["policy_rejected"] + shift.flip(0)
    return inputs


def differentiated(loss, inputs):
    """A loss with its gradients."""
    inputs = wanting_gradients(inputs)
    result = loss(**inputs)
    backward(result)
    return {"loss": result, "gradients": gradients(inputs)}


# --- sequence_log_probs ---------------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize("dtype", ["float32", FLOAT64, *HALVES])
def test_log_probs(answer, given):
    """The log-probability of an answer is the sum over its labels."""
    return {"log_probs": answer.sequence_log_probs(**given)}


@pytest.mark.watertight(AXES)
def test_shapes(answer, alone, of_one_token, paired):
    """There may be any number of leading axes, or none, and a single token."""
    return {
        "one answer": answer.sequence_log_probs(**alone),
        "answers of one token": answer.sequence_log_probs(**of_one_token),
        "pairs": answer.sequence_log_probs(**paired),
    }


def test_gradients_of_the_logits(answer, given):
    """Gradients reach the positions with a label, and are 0 elsewhere."""
    inputs = wanting_gradients(given)
    backward(answer.sequence_log_probs(**inputs))
    return {"gradients": gradients(inputs)}


def test_labels_stay(answer, given):
    """Logits and labels do not change."""
    answer.sequence_log_probs(**given)
    return given


@pytest.mark.watertight(FAR)
def test_certain_models(answer, certain):
    """For logits in the thousands, the results are finite."""
    return {"log_probs": answer.sequence_log_probs(**certain)}


@pytest.mark.watertight(CUT)
def test_no_labels(answer, cut_off):
    """An answer without labels has the log-probability 0."""
    return {"log_probs": answer.sequence_log_probs(**cut_off)}


# --- bradley_terry_loss ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_preferences(answer, rewards):
    """The loss is the mean of −log σ(chosen − rejected), and pulls the two rewards apart."""
    return differentiated(answer.bradley_terry_loss, rewards)


@pytest.mark.watertight(FAR)
def test_far_rewards(answer, rewards_far_apart):
    """If the rewards differ by thousands in the wrong direction, the loss is in the thousands, not
    infinite."""
    return differentiated(answer.bradley_terry_loss, rewards_far_apart)


# --- dpo_loss -------------------------------------------------------------------------------------


@pytest.mark.on_devices
@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_loss(answer, four):
    """An answer's reward is beta times how much its log-probability has grown since the reference."""
    return {"loss": answer.dpo_loss(**four)}


def test_default_beta(answer, without_beta):
    """Without a beta, 0.1 is used."""
    return {"loss": answer.dpo_loss(**without_beta)}


@pytest.mark.constant("loss", "ln 2, whatever the log-probabilities")
def test_equal_policies(answer, equal):
    """If policy and reference are equal, the loss is ln 2, and its gradient depends only on beta."""
    return differentiated(answer.dpo_loss, equal)


def test_gradients(answer, four):
    """The gradient raises the chosen answer and lowers the rejected one; the reference gets none."""
    return differentiated(answer.dpo_loss, four)


@pytest.mark.watertight(FAR)
def test_far_policies(answer, four_far_apart):
    """A pair that differs by thousands in the wrong direction still has a finite loss and a gradient."""
    return differentiated(answer.dpo_loss, four_far_apart)
