"""Day 17 · rate(step, model_size, factor, warmup)."""

import pytest


def options(draw, **given):
    """A width, a factor and a warm-up, none of them a round number or the paper's."""
    settings = {
        "model_size": draw.size(60, 900),
        "factor": float(draw.uniform(0.3, 3.0)),
        "warmup": draw.size(300, 900),
    }
    return settings | given


def plain(rate):
    """The rate as Python's own float, which NumPy's float64 is too. Anything else stays what it is."""
    return float(rate) if isinstance(rate, float) else rate


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def setting(draw):
    """The paper's factor, 1, and a width and a warm-up."""
    return options(draw, factor=1.0)


@pytest.fixture
def factored(draw):
    """Another factor than 1."""
    return options(draw)


@pytest.fixture
def rising(draw):
    """A step during the warm-up."""
    return {"step": draw.size(20, 280)}


@pytest.fixture
def falling(draw):
    """A step after the warm-up."""
    return {"step": draw.size(950, 5000)}


@pytest.fixture
def around_the_peak(setting):
    """The last steps of the warm-up and the first after it, out of order."""
    warmup = setting["warmup"]
    return [warmup + 1, warmup - 1, warmup, warmup + 2, warmup - 2]


@pytest.fixture
def late(draw):
    """Steps of a run that takes weeks."""
    return [draw.size(10**power, 9 * 10**power) for power in (5, 6, 7)]


@pytest.fixture
def sizes(draw):
    """Widths from tiny to huge."""
    return draw.sizes(2, 20, 2) + draw.sizes(300, 20000, 2)


@pytest.fixture
def factors(draw):
    """Factors on both sides of 1."""
    return [float(draw.uniform(0.01, 0.5)), float(draw.uniform(2.0, 50.0))]


@pytest.fixture
def warmups(draw):
    """Warm-ups, short and long."""
    return [draw.size(2, 9), draw.size(20, 90), draw.size(2000, 9000)]


@pytest.fixture
def whole_factor(draw):
    """A factor that is a whole number, as everything else is."""
    return options(draw, factor=draw.size(2, 9))


# --- Checks ---------------------------------------------------------------------------------------


def test_warming_up(answer, setting, rising):
    """During the warm-up, the learning rate rises linearly."""
    return {"rate": plain(answer.rate(**rising, **setting))}


def test_after_the_warm_up(answer, setting, falling):
    """After the warm-up, the learning rate decays like 1/√step."""
    return {"rate": plain(answer.rate(**falling, **setting))}


def test_factor(answer, factored, factors, rising, falling):
    """The factor multiplies the learning rate at every step."""
    return {
        f"factor {number}": [
            plain(answer.rate(**step, **(factored | {"factor": factor})))
            for step in (rising, falling)
        ]
        for number, factor in enumerate(factors, start=1)
    }


def test_model_size(answer, factored, sizes, rising, falling):
    """A model four times as wide has half the learning rate."""
    return {
        f"size {number}": [
            plain(answer.rate(**step, **(factored | {"model_size": size})))
            for step in (rising, falling)
        ]
        for number, size in enumerate(sizes, start=1)
    }


def test_around_the_peak(answer, setting, around_the_peak):
    """The learning rate is highest exactly at the end of the warm-up."""
    return {"rates": [plain(answer.rate(step, **setting)) for step in around_the_peak]}


def test_first_steps(answer, factored):
    """Steps count from 1, so the second learning rate is twice the first."""
    return {"rates": [plain(answer.rate(step, **factored)) for step in (1, 2, 3)]}


@pytest.mark.watertight("step 0, which schedulers pass before the first step")
def test_step_0(answer, factored):
    """Step 0, which a scheduler passes before the first step, has the learning rate of step 1."""
    return {f"at step {step}": plain(answer.rate(step, **factored)) for step in (0, 1)}


def test_warm_up(answer, factored, warmups):
    """The warm-up ends at step `warmup`, however long it is."""
    return {
        f"warm-up {number}": [
            plain(answer.rate(step, **(factored | {"warmup": warmup})))
            for step in (1, warmup // 2, warmup, 3 * warmup)
        ]
        for number, warmup in enumerate(warmups, start=1)
    }


@pytest.mark.watertight("a warm-up of a single step")
def test_warm_up_of_one_step(answer, factored):
    """With a warm-up of one step, the learning rate decays from the start."""
    at_once = factored | {"warmup": 1}
    return {"rates": [plain(answer.rate(step, **at_once)) for step in (1, 2, 3)]}


def test_late(answer, factored, late):
    """After millions of steps, the learning rate is small, and decays ever more slowly."""
    return {"rates": [plain(answer.rate(step, **factored)) for step in late]}


def test_whole_numbers(answer, whole_factor, rising, falling):
    """Even if all arguments are integers, the learning rate is a float."""
    return {"rates": [plain(answer.rate(**step, **whole_factor)) for step in (rising, falling)]}
