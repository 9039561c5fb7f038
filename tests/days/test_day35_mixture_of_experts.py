"""Day 35 · TopKRouter(d_model, n_experts, k), load_balancing_loss(probs, experts) and
MixtureOfExperts(d_model, d_ff, n_experts, k, capacity_factor=None)."""

import math

import pytest
import torch

from course.checks.authoring import DTYPES, HALVES, backward, gradients, wanting_gradients

AXES = "a router never looks at more than one token, so axes in front of it cannot matter"
EMPTY = "an empty batch is a shape like any other"
LAYOUT = "a transposed tensor lies in memory in another order, and `view` refuses it"
DROPPED = "Mixtral drops nothing, and those who do drop by rules of their own"
STARTS = "where the weights start decides what the first steps of training are like"
DECIDED = "half precision has one number for scores that float32 tells apart"
AGAIN = "what was computed with the weights of one step is wrong at the next"
SAVED = "a model saved after a call has to load into a new one, key by key"
ALONE = "an expert that is asked for one token at a time gives the same, many times slower"
GIVEN = "tokens given to each expert"
MARGIN = 0.1  # between scores that decide: no rounding makes two of them change places


def routed(draw, *batch, d_model, n_experts, k, which=None, dtype="float32"):
    """A router's weights, and tokens whose choice is clear; each expert is somebody's choice.

    `which` may pick tokens by their choices, from most to least likely: it returns their rows.
    """
    chosen, count = 0, math.prod(batch)
    rows = torch.empty(0)
    # Now and then an expert is nobody's clear choice, or too few tokens choose clearly or are picked.
    while chosen < n_experts or len(rows) < count:
        router = draw.normal(n_experts, d_model, dtype="float64")
        router = (2 * router / router.norm(dim=-1, keepdim=True)).to(getattr(torch, dtype))
        tokens = draw.normal(1500, d_model, dtype=dtype)
        scores, choices = (tokens.double() @ router.double().T).sort(dim=-1, descending=True)
        gaps = (scores[:, :-1] - scores[:, 1:])[:, :k]
        clear = gaps.amin(-1) > MARGIN if n_experts > 1 else ...
        tokens, choices = tokens[clear], choices[clear]
        chosen = len(choices[:, :k].unique())
        rows = which(choices) if which and len(choices) else torch.arange(len(tokens))
    if which is None:
        firsts = [(choices[:, :k] == number).any(-1).nonzero()[0] for number in range(n_experts)]
        rows = torch.cat([torch.cat(firsts).unique(), rows])
    x = (
        tokens[rows[:count]][draw.sizes(0, count - 1, count)]
        if which is None
        else tokens[rows[:count]]
    )
    return {"x": x.view(*batch, d_model), "router": router, "n_experts": n_experts, "k": k}


def some_sizes(draw):
    """B, T, d_model, d_ff and the number of experts, all different; k lies between 1 and that number."""
    b, t, d_model, d_ff, n_experts = draw.sizes(3, 8, 5)
    k = draw.size(2, n_experts - 1)
    return {"B": b, "T": t, "d_model": d_model, "d_ff": d_ff, "n_experts": n_experts, "k": k}


def routed_somehow(draw, dtype="float32", **fixed):
    """Tokens in a batch of sequences, several of several experts for each."""
    b, t, d_model, _, n_experts, k = (some_sizes(draw) | fixed).values()
    return routed(draw, b, t, d_model=d_model, n_experts=n_experts, k=k, dtype=dtype)


def mixed(draw, which=None, dtype="float32", **fixed):
    """What a mixture is made from and called with."""
    sizes = some_sizes(draw) | fixed
    b, t, d_ff = (sizes.pop(name) for name in ("B", "T", "d_ff"))
    factor = sizes.pop("capacity_factor", None)
    given = routed(draw, b, t, which=which, dtype=dtype, **sizes)
    return given | {"d_ff": d_ff, "capacity_factor": factor}


def wanted_by_all(choices):
    """Tokens that all want one expert, every other one before all others, and the rest after another."""
    number = choices[0, 0]
    first, second = (choices[:, column] == number for column in (0, 1))
    pairs = zip(second.nonzero().flatten(), first.nonzero().flatten(), strict=False)
    return torch.tensor([int(row) for pair in pairs for row in pair], dtype=torch.int64)


def router_of(build, made, given, **how):
    """The router with these weights."""
    router = build(made, given["x"].size(-1), given["n_experts"], given["k"], **how)
    with torch.no_grad():
        router.w_r.weight.copy_(given["router"])
    return router


def layer_of(build, made, given, **how):
    """The layer with these weights in its router."""
    sizes = given["x"].size(-1), given["d_ff"], given["n_experts"], given["k"]
    layer = build(made, *sizes, given["capacity_factor"], **how)
    with torch.no_grad():
        layer.router.w_r.weight.copy_(given["router"])
    return layer


def by_name(routed):
    """What a router returns, by name, the choice first, and each token's choices by their numbers: in which
    order they come is a matter of its own."""
    weights, experts, probs = routed
    if experts.shape == weights.shape and experts.dtype == torch.int64:
        order = experts.argsort(dim=-1)
        experts, weights = experts.gather(-1, order), weights.gather(-1, order)
    return {"experts": experts, "weights": weights, "probs": probs}


def kept_by(layer):
    """What a layer keeps of its router's last call, each token's choices by their numbers."""
    chosen = layer.chosen.sort(dim=-1).values if torch.is_tensor(layer.chosen) else layer.chosen
    return {"probs": layer.probs, "chosen": chosen}


def choices(draw, *batch, n_experts, k, **how):
    """Probabilities of all experts, and k different experts for each token, whichever."""
    count = math.prod(batch)
    rows = [draw.sizes(0, n_experts - 1, k) for _ in range(count)]
    probs = draw.weights(*batch, n_experts, **how)
    return {"probs": probs, "experts": torch.tensor(rows).view(*batch, k)}


def start_of(weight):
    """How a matrix starts, in words: as `nn.Linear` makes it, uniform between ±1/√in, or otherwise."""
    bound = weight.size(-1) ** -0.5
    largest, mean = float(weight.abs().max()) / bound, float(weight.abs().mean()) / bound
    return "uniform" if 0.95 < largest < 1.0001 and 0.45 < mean < 0.55 else "otherwise"


def in_shape(draw, tokens, leading):
    """Some of 30 tokens, with as many axes in front."""
    shape = {0: (), 1: (draw.size(2, 9),), 3: draw.sizes(1, 4, 3)}[leading]
    return tokens[: math.prod(shape)].reshape(*shape, -1)


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def tokens(draw):
    """Tokens in a batch of sequences, several of several experts for each."""
    return routed_somehow(draw)


@pytest.fixture
def tokens_with_one_choice(draw):
    """One expert for each token."""
    return routed_somehow(draw, k=1)


@pytest.fixture
def tokens_of_dtype(draw, dtype):
    """Everything of one dtype."""
    return routed_somehow(draw, dtype)


@pytest.fixture
def tokens_of_rank(draw, leading):
    """One token, a list of them, or more axes in front."""
    d_model, n_experts = draw.sizes(3, 8, 2)
    batch = routed(draw, 30, d_model=d_model, n_experts=n_experts, k=2)
    return batch | {"x": in_shape(draw, batch["x"], leading)}


@pytest.fixture
def close_scores(draw, dtype):
    """Scores between 8 and 9 that lie some thousandths apart."""
    n_experts, k = draw.size(5, 7), 2
    router = draw.normal(n_experts, 5, dtype=dtype)
    router[:, 0] = 1.0
    tokens = draw.normal(600, 5, scale=0.002, dtype=dtype)
    tokens[:, 0] = 8.5
    scores = (tokens.double() @ router.double().T).sort(dim=-1, descending=True).values
    clear = (scores[:, :k] - scores[:, 1 : k + 1]).amin(-1) > 1e-4
    return {"x": tokens[clear][:50], "router": router, "n_experts": n_experts, "k": k}


@pytest.fixture
def roomy(draw):
    """Sizes of a router and of a mixture whose matrices are large enough to know how they start."""
    d_model, d_ff = draw.sizes(60, 70, 2)
    n_experts = draw.size(40, 50)
    return {"router": (d_model, n_experts, 2), "mixture": (d_model, d_ff, n_experts, 2)}


@pytest.fixture
def some(draw):
    """Several choices of each token."""
    b, t, n_experts = draw.sizes(3, 8, 3)
    return choices(draw, b, t, n_experts=n_experts, k=draw.size(2, n_experts - 1))


@pytest.fixture
def chosen_by_some(draw, k):
    """k choices of each token; with 2 no token chooses the last two experts, not improbable as they are."""
    b, t, n_experts = draw.sizes(4, 8, 3)
    given = choices(draw, b, t, n_experts=n_experts - 2 * (k == 2), k=k)
    return given | {"probs": draw.weights(b, t, n_experts)}


@pytest.fixture
def some_of_dtype(draw, dtype):
    """Probabilities in other dtypes."""
    b, t, n_experts = draw.sizes(3, 8, 3)
    return choices(draw, b, t, n_experts=n_experts, k=2, dtype=dtype)


@pytest.fixture
def some_of_rank(draw, leading):
    """Choices of one token, of a list of them, or with more axes in front."""
    n_experts, *shape = draw.sizes(3, 7, leading + 1)
    return choices(draw, *shape, n_experts=n_experts, k=2)


@pytest.fixture
def many_halves(draw, dtype):
    """Enough tokens of one expert that float16 has no number for it."""
    n_experts, count = draw.size(3, 5), draw.size(90_000, 100_000)
    experts = draw.integers(0, n_experts - 1, count, 1)
    experts[draw.uniform(0.0, 1.0, count) < 0.9] = draw.size(0, n_experts - 1)
    return {"probs": draw.weights(count, n_experts, dtype=dtype), "experts": experts}


@pytest.fixture
def given(draw):
    """Several of several experts for each token."""
    return mixed(draw)


@pytest.fixture
def given_k(draw, k):
    """One expert for each token, or several."""
    return mixed(draw, **({"k": 1} if k == "one" else {}))


@pytest.fixture
def again(draw, given):
    """A second call, with another batch and another length, to the same router."""
    x = given["x"]
    rows = x.flatten(0, 1)
    more = torch.cat([rows, rows.flip(0)])[: (x.size(0) + 1) * (x.size(1) - 1)]
    return more.view(x.size(0) + 1, x.size(1) - 1, -1)


@pytest.fixture
def given_of_rank(draw, leading):
    """One token, a list of them, or more axes in front."""
    d_model, d_ff, n_experts = draw.sizes(3, 8, 3)
    batch = routed(draw, 30, d_model=d_model, n_experts=n_experts, k=2)
    x = in_shape(draw, batch["x"], leading)
    return batch | {"x": x, "d_ff": d_ff, "capacity_factor": None}


@pytest.fixture
def a_crowd(draw):
    """All tokens want the same expert, and there is room for all."""
    return mixed(draw, which=wanted_by_all, n_experts=draw.size(4, 7), k=2, d_model=draw.size(5, 8))


@pytest.fixture
def of_dtype(draw, dtype):
    """Everything of one dtype."""
    return mixed(draw, dtype=dtype)


@pytest.fixture
def too_many(draw):
    """All tokens want the same expert, half of them as their second choice, and not all of them fit."""
    n_experts, t, b = draw.sizes(4, 7, 3)
    share = 2 * b * t / n_experts
    for percent in draw.sizes(30, 120, 91):
        room = percent / 100 * share
        by_choice = 2 * math.ceil(room / 2)
        if 0.15 < room % 1 < 0.85 and by_choice != math.ceil(room) < b * t - 2:
            break
    sizes = {"B": b, "T": t, "n_experts": n_experts, "k": 2, "d_model": draw.size(5, 8)}
    return mixed(draw, which=wanted_by_all, capacity_factor=percent / 100, **sizes)


@pytest.fixture
def exact_room(draw):
    """Room for a whole number of tokens without rounding."""
    n_experts, b = draw.sizes(4, 6, 2)
    sizes = {"B": b, "T": n_experts, "n_experts": n_experts, "k": 2, "d_model": draw.size(5, 8)}
    return mixed(draw, which=wanted_by_all, capacity_factor=1.0, **sizes)


@pytest.fixture
def nothing(draw, factor):
    """No tokens at all."""
    given = mixed(draw)
    return given | {"x": given["x"][:, :0], "capacity_factor": factor}


# --- TopKRouter -----------------------------------------------------------------------------------


def test_router_parameters(answer, build, tokens):
    """The only parameter is a linear layer without a bias, `w_r`."""
    return dict(router_of(build, answer.TopKRouter, tokens).named_parameters())


def test_router_probabilities(answer, build, tokens):
    """Every expert has a probability, and those of a token sum to 1."""
    return {"probs": router_of(build, answer.TopKRouter, tokens)(tokens["x"])[2]}


def test_router_choice(answer, build, tokens):
    """The router returns the indices of each token's k most likely experts."""
    return {"experts": by_name(router_of(build, answer.TopKRouter, tokens)(tokens["x"]))["experts"]}


def test_router_weights(answer, build, tokens):
    """The weights are the chosen experts' probabilities, divided by their sum."""
    return {"weights": by_name(router_of(build, answer.TopKRouter, tokens)(tokens["x"]))["weights"]}


@pytest.mark.watertight("the order of a token's experts, which no layer depends on")
def test_router_order(answer, build, tokens):
    """The most likely expert of each token comes first, and the others follow in order."""
    return {"experts": router_of(build, answer.TopKRouter, tokens)(tokens["x"])[1]}


def test_router_one_choice(answer, build, tokens_with_one_choice):
    """With k = 1, the single weight is 1, and the last axis stays."""
    given = tokens_with_one_choice
    return by_name(router_of(build, answer.TopKRouter, given)(given["x"]))


@pytest.mark.watertight(AXES)
@pytest.mark.parametrize("leading", [0, 1, 3])
def test_router_leading_dimensions(answer, build, tokens_of_rank, leading):
    """The input may be one token, or have any number of leading axes."""
    return by_name(router_of(build, answer.TopKRouter, tokens_of_rank)(tokens_of_rank["x"]))


@pytest.mark.parametrize("by", ["weights", "probabilities"])
def test_router_gradients(answer, build, tokens, by):
    """Both the weights and the probabilities have gradients."""
    router = router_of(build, answer.TopKRouter, tokens)
    inputs = wanting_gradients({"x": tokens["x"]})
    backward(by_name(router(**inputs))["weights" if by == "weights" else "probs"])
    return {"gradients": gradients(inputs) | gradients(router)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_router_dtype(answer, build, tokens_of_dtype, dtype):
    """Weights and probabilities have the dtype of the tokens."""
    return by_name(
        router_of(build, answer.TopKRouter, tokens_of_dtype, dtype=dtype)(tokens_of_dtype["x"])
    )


@pytest.mark.watertight(DECIDED)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_router_decides_in_float32(answer, build, close_scores, dtype):
    """Scores that half precision would round to the same number are still distinguished."""
    router = router_of(build, answer.TopKRouter, close_scores, dtype=dtype)
    return {"experts": router(close_scores["x"])[1]}


@pytest.mark.watertight(STARTS)
@pytest.mark.constant("start of w_r", "it is that of `nn.Linear`")
def test_router_start(answer, roomy):
    """The router has the default initialization of `nn.Linear`."""
    router = answer.TopKRouter(*roomy["router"])
    return {"start of w_r": start_of(router.w_r.weight), "size": router.w_r.weight.numel()}


# --- load_balancing_loss --------------------------------------------------------------------------


def test_loss(answer, some):
    """The loss multiplies an expert's share of the choices by its mean probability; every choice counts
    the same."""
    return {"loss": answer.load_balancing_loss(**some)}


@pytest.mark.parametrize("k", [1, 2])
def test_loss_of_few_choices(answer, chosen_by_some, k):
    """With one choice per token, the loss is the paper's; an expert that no token chose has a share of
    0."""
    return {"loss": answer.load_balancing_loss(**chosen_by_some)}


@pytest.mark.watertight(AXES)
@pytest.mark.parametrize("leading", [0, 1, 3])
def test_loss_leading_dimensions(answer, some_of_rank, leading):
    """With any number of leading axes, all tokens count the same."""
    return {"loss": answer.load_balancing_loss(**some_of_rank)}


def test_loss_gradients(answer, some):
    """Probabilities get a gradient, which is larger the more often their expert was chosen."""
    inputs = wanting_gradients(some)
    backward(answer.load_balancing_loss(**inputs))
    return {"gradients": gradients(inputs)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_loss_dtype(answer, some_of_dtype, dtype):
    """The loss has the dtype of the probabilities."""
    return {"loss": answer.load_balancing_loss(**some_of_dtype)}


@pytest.mark.parametrize("dtype", HALVES[:1])
def test_loss_of_many_halves(answer, many_halves, dtype):
    """Counts of a hundred thousand tokens do not overflow in float16."""
    return {"loss": answer.load_balancing_loss(**many_halves)}


# --- MixtureOfExperts -----------------------------------------------------------------------------


def test_parameters(answer, build, given):
    """The parameters are those of a router, and of a gated feed-forward network for each expert."""
    return dict(layer_of(build, answer.MixtureOfExperts, given).named_parameters())


@pytest.mark.on_devices
@pytest.mark.parametrize("k", ["one", "several"])
def test_mixture(answer, build, given_k, k):
    """Each token gets its k experts' outputs, multiplied by their weights and added up."""
    return {"output": layer_of(build, answer.MixtureOfExperts, given_k)(given_k["x"])}


def test_nothing_is_dropped(answer, build, a_crowd):
    """Without a capacity, an expert takes all tokens that chose it, even if these are all tokens."""
    return {"output": layer_of(build, answer.MixtureOfExperts, a_crowd)(a_crowd["x"])}


def test_second_call(answer, build, given, again):
    """A second call, with a different batch and length, does not depend on the first."""
    layer = layer_of(build, answer.MixtureOfExperts, given)
    layer(given["x"])
    return {"output": layer(again)} | kept_by(layer)


def test_kept_for_the_loss(answer, build, given):
    """`probs` and `chosen` are the router's results at the last call, and None before the first."""
    layer = layer_of(build, answer.MixtureOfExperts, given)
    before = {"probs before": layer.probs, "chosen before": layer.chosen}
    layer(given["x"])
    return kept_by(layer) | before


def test_kept_with_its_gradient(answer, build, given):
    """A loss on `probs` has gradients for the router, but not for the experts."""
    layer = layer_of(build, answer.MixtureOfExperts, given)
    layer(given["x"])
    backward(layer.probs)
    return {"gradients": gradients(layer.router)}


def watched(layer):
    """Lists that fill when the layer is called: tokens given to each expert, and calls that give it any."""
    rows = [0] * len(layer.experts)
    calls = [0] * len(layer.experts)

    def note(number):
        def hook(_, inputs):
            taken = inputs[0].numel() // inputs[0].size(-1)
            rows[number] += taken
            calls[number] += taken > 0

        return hook

    for number, expert in enumerate(layer.experts):
        expert.register_forward_pre_hook(note(number))
    return rows, calls


def test_experts_compute_for_their_tokens(answer, build, given):
    """An expert gets only the tokens that chose it."""
    layer = layer_of(build, answer.MixtureOfExperts, given)
    rows, _ = watched(layer)
    output = layer(given["x"])
    return {GIVEN: output.new_tensor(rows), "output": output}


@pytest.mark.watertight(ALONE)
@pytest.mark.constant("calls of one expert", "it is one call")
def test_experts_are_called_once(answer, build, given):
    """An expert is called once, with all its tokens together."""
    layer = layer_of(build, answer.MixtureOfExperts, given)
    rows, calls = watched(layer)
    output = layer(given["x"])
    return {"calls of one expert": max(calls), GIVEN: output.new_tensor(rows)}


# --- Capacity -------------------------------------------------------------------------------------


@pytest.mark.watertight(DROPPED)
@pytest.mark.parametrize("room", ["rounded up", "whole"])
def test_capacity(answer, build, too_many, exact_room, room):
    """An expert takes the first tokens that chose it, as first or second choice, until it is full; the
    stored choices include dropped ones."""
    given = too_many if room == "rounded up" else exact_room
    layer = layer_of(build, answer.MixtureOfExperts, given)
    output = layer(given["x"])
    return {"output": output} | kept_by(layer)


@pytest.mark.watertight(DROPPED)
def test_capacity_at_a_second_call(answer, build, too_many):
    """At a second call with fewer tokens, the capacity depends on their number."""
    layer = layer_of(build, answer.MixtureOfExperts, too_many)
    layer(too_many["x"])
    return {"output of fewer tokens": layer(too_many["x"][:1])}


@pytest.mark.watertight(DROPPED)
@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_capacity_saves_work(answer, build, too_many, mode):
    """An expert does not get tokens beyond its capacity, even in evaluation mode."""
    layer = layer_of(build, answer.MixtureOfExperts, too_many).train(mode == "training")
    rows, _ = watched(layer)
    output = layer(too_many["x"])
    return {GIVEN: output.new_tensor(rows), "output": output}


@pytest.mark.watertight(DROPPED)
def test_gradients_with_capacity(answer, build, too_many):
    """Dropped choices have no gradient, and the gradients of all others do not change."""
    layer = layer_of(build, answer.MixtureOfExperts, too_many)
    inputs = wanting_gradients({"x": too_many["x"]})
    backward(layer(**inputs))
    return {"gradients": gradients(inputs) | gradients(layer.router)}


# --- Gradients, shapes, dtypes --------------------------------------------------------------------


def test_gradients(answer, build, given):
    """Gradients reach the tokens, the router through the weights, and every chosen expert."""
    layer = layer_of(build, answer.MixtureOfExperts, given)
    inputs = wanting_gradients({"x": given["x"]})
    backward(layer(**inputs))
    return {"gradients": gradients(inputs) | gradients(layer)}


@pytest.mark.watertight(AXES)
@pytest.mark.parametrize("leading", [0, 1, 3])
def test_leading_dimensions(answer, build, given_of_rank, leading):
    """The input may be one token, or have any number of leading axes."""
    return {"output": layer_of(build, answer.MixtureOfExperts, given_of_rank)(given_of_rank["x"])}


@pytest.mark.watertight(LAYOUT)
def test_transposed_tokens(answer, build, given):
    """The input may be transposed, and not contiguous."""
    return {"output": layer_of(build, answer.MixtureOfExperts, given)(given["x"].transpose(0, 1))}


@pytest.mark.watertight(EMPTY)
@pytest.mark.parametrize("factor", [None, 1.0])
def test_no_tokens(answer, build, nothing, factor):
    """Without tokens, there are no outputs, with or without a capacity."""
    return {"output": layer_of(build, answer.MixtureOfExperts, nothing)(nothing["x"])}


@pytest.mark.watertight(SAVED)
def test_state_dict(answer, build, given):
    """The state dict holds the weights and nothing else, before a call and after it."""
    layer = layer_of(build, answer.MixtureOfExperts, given)
    layer(given["x"])
    return dict(layer.state_dict())


@pytest.mark.watertight(STARTS)
@pytest.mark.constant("matrices that start otherwise", "none")
def test_start(answer, roomy):
    """Router and experts have their default initialization, and no two experts are equal."""
    layer = answer.MixtureOfExperts(*roomy["mixture"])
    parameters = dict(layer.named_parameters())
    other = [name for name, parameter in parameters.items() if start_of(parameter) != "uniform"]
    first, *rest = [
        sum(float(parameter.sum()) for parameter in e.parameters()) for e in layer.experts
    ]
    alike = ["experts"] if first in rest else []
    sizes = sum(parameter.numel() for parameter in parameters.values())
    return {"matrices that start otherwise": ", ".join(other + alike) or "none", "size": sizes}


@pytest.mark.watertight(AGAIN)
def test_after_an_update(answer, build, given):
    """After its weights have changed, the layer computes with the new ones."""
    layer = layer_of(build, answer.MixtureOfExperts, given)
    before = layer(given["x"]).detach()
    with torch.no_grad():
        for parameter in layer.experts.parameters():
            parameter.mul_(0.9)
    after = layer(given["x"].flip(0))
    return {"output before": before, "output after": after, "probs": layer.probs}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, build, of_dtype, dtype):
    """The output has the dtype of the layer and the tokens."""
    return {
        "output": layer_of(build, answer.MixtureOfExperts, of_dtype, dtype=dtype)(of_dtype["x"])
    }
