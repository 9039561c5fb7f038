"""The mixture against Mixtral's block with copied weights, against a loop over tokens, and against Switch."""

import copy
import math

import pytest
import torch

from tests.variants.recorders import Results
from variants.activations import SwiGLU
from variants.hugging_face import mixtral_moe
from variants.moe import MixtureOfExperts, TopKRouter, load_balancing_loss

SIZES = [(7, 5, 4, 2), (6, 9, 5, 1), (5, 3, 3, 3), (4, 6, 1, 1), (8, 5, 7, 4)]  # d_model d_ff N k


# --- The router -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("d_model", "_", "n_experts", "k"), SIZES)
def test_router_is_a_softmax_and_its_largest_as_shares(d_model, _, n_experts, k):
    router = TopKRouter(d_model, n_experts, k).double()
    x = torch.randn(3, 11, d_model, dtype=torch.float64)
    weights, experts, probs = router(x)
    assert experts.dtype == torch.int64
    for token in range(33):
        scores = (router.w_r.weight @ x.view(33, -1)[token]).tolist()
        powers = [math.exp(score) for score in scores]
        order = sorted(range(n_experts), key=lambda i: -scores[i])[:k]
        assert experts.view(33, k)[token].tolist() == order
        expected = [powers[i] / sum(powers[i] for i in order) for i in order]
        assert weights.view(33, k)[token].tolist() == pytest.approx(expected, abs=1e-12)
        expected = [power / sum(powers) for power in powers]
        assert probs.view(33, -1)[token].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("d_model", "_", "n_experts", "k"), SIZES)
def test_router_is_mixtrals_softmax_of_the_largest_scores(d_model, _, n_experts, k):
    """The paper takes the k largest scores first, then their softmax: the same values and gradients."""
    router = TopKRouter(d_model, n_experts, k).double()
    x = torch.randn(13, d_model, dtype=torch.float64, requires_grad=True)
    weights, experts, _ = router(x)
    scores = router.w_r(x)
    largest = scores.topk(k).values.softmax(-1)
    torch.testing.assert_close(weights, largest, rtol=0, atol=1e-12)
    assert torch.equal(experts, scores.topk(k).indices)
    direction = torch.randn_like(weights)
    ours = torch.autograd.grad(weights, [x, router.w_r.weight], direction)
    theirs = torch.autograd.grad(largest, [x, router.w_r.weight], direction)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_router_of_halves_decides_in_float32(dtype):
    router = TopKRouter(64, 8, 2).to(dtype)
    x = (4 * torch.randn(20_000, 64)).to(dtype)
    weights, experts, probs = router(x)
    assert weights.dtype == probs.dtype == dtype
    wide = copy.deepcopy(router).float()(x.float())
    assert torch.equal(experts, wide[1])
    torch.testing.assert_close(weights, wide[0].to(dtype), rtol=0, atol=torch.finfo(dtype).eps)
    torch.testing.assert_close(probs, wide[2].to(dtype), rtol=0, atol=torch.finfo(dtype).eps)
    rounded = router.w_r(x).topk(2).indices  # scores of three digits choose others
    assert not torch.equal(experts, rounded)


def test_router_within_autocast_decides_in_float32():
    router, x = TopKRouter(64, 8, 2), 4 * torch.randn(500, 64)
    expected = router(x)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(router(x), expected)


def test_router_in_other_shapes():
    router = TopKRouter(6, 4, 3)
    for shape in [(), (5,), (0,), (2, 0), (2, 3, 4)]:
        weights, experts, probs = router(torch.randn(*shape, 6))
        assert weights.shape == experts.shape == (*shape, 3)
        assert probs.shape == (*shape, 4)
    assert dict(router.state_dict()).keys() == {"w_r.weight"}
    assert (
        TopKRouter(6, 4, 1)(torch.randn(9, 6))[0] == 1
    ).all()  # the only share is all there is to share


# --- The loss -------------------------------------------------------------------------------------


def test_loss_is_that_of_switch():
    """Equations 4 to 6 written out, with one expert a token, which is the likeliest."""
    probs = torch.randn(3, 7, 5, dtype=torch.float64).softmax(-1)
    tokens, n = probs.view(-1, 5), 5
    f = [sum(int(token.argmax()) == i for token in tokens) / 21 for i in range(n)]
    p = [sum(float(token[i]) for token in tokens) / 21 for i in range(n)]
    expected = n * sum(one * other for one, other in zip(f, p, strict=True))
    loss = load_balancing_loss(probs, probs.argmax(-1, keepdim=True))
    assert loss.shape == () and loss.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_loss_is_hugging_faces_over_k(k):
    theirs = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    scores = torch.randn(2, 40, 6, requires_grad=True)
    probs = scores.softmax(-1)
    ours = load_balancing_loss(probs, probs.topk(k).indices)
    whole = theirs.load_balancing_loss_func((scores.view(-1, 6),), num_experts=6, top_k=k)
    torch.testing.assert_close(k * ours, whole, rtol=1e-5, atol=1e-6)
    (mine,), (grad,) = (torch.autograd.grad(loss, scores) for loss in (k * ours, whole))
    torch.testing.assert_close(mine, grad, rtol=1e-4, atol=1e-7)


def test_loss_when_all_is_even_and_when_all_go_to_the_same():
    n, k = 6, 2
    rows = torch.arange(12)
    even = torch.stack([rows % n, (rows + 1) % n], dim=-1)
    assert load_balancing_loss(torch.full((12, n), 1 / n), even).item() == pytest.approx(1)
    one_hot = torch.zeros(12, n).scatter(1, even, 0.5)
    assert load_balancing_loss(one_hot, even).item() == pytest.approx(1)
    same = torch.tensor([4, 1]).expand(12, k)
    certain = torch.zeros(12, n).scatter(1, same, 0.5)
    assert load_balancing_loss(certain, same).item() == pytest.approx(n / k)


def test_loss_has_a_gradient_through_the_probabilities_alone():
    probs = torch.rand(10, 4, dtype=torch.float64, requires_grad=True)
    experts = torch.randint(4, (10, 2))
    (grad,) = torch.autograd.grad(load_balancing_loss(probs, experts), probs)
    shares = torch.stack([(experts == i).double().mean() for i in range(4)])
    torch.testing.assert_close(grad, (4 * shares / 10).expand(10, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_loss_of_halves_is_added_up_in_float32(dtype):
    """70,000 tokens: more than float16 can count, and each too small to change a bfloat16 sum."""
    probs = torch.rand(70_000, 3).softmax(-1).to(dtype)
    experts = probs.argmax(-1, keepdim=True)
    loss = load_balancing_loss(probs, experts)
    assert loss.dtype == dtype
    expected = load_balancing_loss(probs.double(), experts)
    torch.testing.assert_close(loss.double(), expected, rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("shapes", [((3, 4), (2, 2)), ((3, 4), (3, 1, 2)), ((6, 4), (2, 3, 2))])
def test_loss_of_different_tokens_is_refused(shapes):
    probs, experts = torch.rand(shapes[0]), torch.zeros(shapes[1], dtype=torch.long)
    with pytest.raises(ValueError, match="same tokens"):
        load_balancing_loss(probs, experts)


# --- The mixture ----------------------------------------------------------------------------------


def by_token(layer, x):
    """The layer as a loop over tokens, each asking its experts one after the other."""
    tokens = x.reshape(-1, x.size(-1))
    n, k = len(layer.experts), layer.router.k
    room = math.inf
    if layer.capacity_factor is not None:
        room = math.ceil(layer.capacity_factor * k * len(tokens) / n)
    taken, outputs = [0] * n, []
    for token in tokens:
        scores = layer.router.w_r(token).topk(k)
        output = torch.zeros_like(token)
        for i, share in zip(scores.indices.tolist(), scores.values.softmax(0), strict=True):
            if taken[i] < room:
                taken[i] += 1
                output = output + share * layer.experts[i](token)
        outputs.append(output)
    return torch.stack(outputs).view_as(x)


@pytest.mark.parametrize("factor", [None, 0.25, 0.5, 1.0, 1.3, 100.0])
@pytest.mark.parametrize(("d_model", "d_ff", "n_experts", "k"), SIZES)
def test_it_is_a_loop_over_tokens(d_model, d_ff, n_experts, k, factor):
    layer = MixtureOfExperts(d_model, d_ff, n_experts, k, factor).double()
    x = torch.randn(3, 11, d_model, dtype=torch.float64, requires_grad=True)
    ours, theirs = layer(x), by_token(layer, x)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    direction = torch.randn_like(ours)
    wanted = [x, *layer.parameters()]
    one = torch.autograd.grad(ours, wanted, direction, materialize_grads=True)
    other = torch.autograd.grad(
        theirs, wanted, direction, allow_unused=True, materialize_grads=True
    )
    torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def mixtral(d_model, d_ff, n_experts, k):
    """Mixtral's block in float64, with the names of its weights."""
    modeling = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    from transformers import MixtralConfig

    config = MixtralConfig(
        hidden_size=d_model,
        intermediate_size=d_ff,
        num_local_experts=n_experts,
        num_experts_per_tok=k,
        experts_implementation="eager",
    )
    block = modeling.MixtralSparseMoeBlock(config).double()
    for weight in block.parameters():
        torch.nn.init.normal_(weight, std=weight.size(-1) ** -0.5)
    return block


@pytest.mark.parametrize(("d_model", "d_ff", "n_experts", "k"), SIZES)
def test_it_is_mixtrals_block(d_model, d_ff, n_experts, k, monkeypatch):
    theirs = mixtral(d_model, d_ff, n_experts, k)
    # its router's softmax is in float32 whatever comes in: for once, .float() is to keep all digits
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    ours = MixtureOfExperts(d_model, d_ff, n_experts, k).double()
    ours.load_state_dict(mixtral_moe(theirs.state_dict()))
    x = torch.randn(3, 11, d_model, dtype=torch.float64, requires_grad=True)
    one, other = ours(x), theirs(x)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
    direction = torch.randn_like(one)
    (mine,), (grad,) = (
        torch.autograd.grad(y, x, direction, retain_graph=True) for y in (one, other)
    )
    torch.testing.assert_close(mine, grad, rtol=0, atol=1e-10)
    one.backward(direction)
    other.backward(direction)
    named = mixtral_moe({name: weight.grad for name, weight in theirs.named_parameters()})
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, named[name], rtol=0, atol=1e-10, msg=name)


def test_published_names_of_single_experts_and_unknown_ones():
    layer = MixtureOfExperts(6, 5, 3, 2)
    published = {"gate.weight": layer.router.w_r.weight}
    for number, expert in enumerate(layer.experts):
        for name, linear in (
            ("w1", expert.w_gate),
            ("w2", expert.w_down),
            ("w3", expert.w_up),
        ):
            published[f"experts.{number}.{name}.weight"] = linear.weight
    assert {name: id(w) for name, w in mixtral_moe(published).items()} == {
        name: id(w) for name, w in layer.named_parameters()
    }
    with pytest.raises(ValueError, match=r"experts\.0\.w1\.bias"):
        mixtral_moe(published | {"experts.0.w1.bias": torch.zeros(5)})


def test_every_expert_is_called_once_at_most_and_on_its_tokens_only():
    layer = MixtureOfExperts(6, 5, 4, 2)
    seen: dict[int, list[torch.Tensor]] = {number: [] for number in range(4)}
    for number, expert in enumerate(layer.experts):
        expert.register_forward_hook(
            lambda _, given, __, number=number: seen[number].append(given[0])
        )
    x = torch.randn(3, 7, 6)
    layer(x)
    _, experts, _ = layer.router(x.view(21, 6))
    for number, calls in seen.items():
        [given] = calls
        assert torch.equal(given, x.view(21, 6)[(experts == number).any(-1)])


@pytest.mark.parametrize("factor", [None, 0.5])
def test_the_cpu_reads_from_the_device_once(factor, monkeypatch):
    """For where each expert begins. No other operation has a shape that depends on values."""
    reads, tolist = [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: reads.append(1) or tolist(self))
    layer, x = MixtureOfExperts(6, 5, 4, 2, factor), torch.randn(3, 7, 6)
    with Results() as results:
        layer(x).sum().backward()
    assert "index_select" in results.operations and len(reads) == 1
    reading = {"nonzero", "_local_scalar_dense", "masked_select", "index", "bincount"}
    assert not results.operations & reading


def only(layer, *experts):
    """Every token with positive features chooses these experts, the first one most of all."""
    with torch.no_grad():
        layer.router.w_r.weight.fill_(-5.0)
        for rank, number in enumerate(experts):
            layer.router.w_r.weight[number] = 1.0 - rank / 10
    return layer


def test_probabilities_and_choices_of_the_last_call():
    layer = MixtureOfExperts(6, 5, 4, 2)
    assert layer.probs is None and layer.chosen is None
    layer(torch.randn(2, 3, 6))
    x = torch.randn(3, 5, 6)
    layer(x)
    _, experts, probs = layer.router(x)
    assert torch.equal(layer.probs, probs) and torch.equal(layer.chosen, experts)
    load_balancing_loss(layer.probs, layer.chosen).backward()
    assert layer.router.w_r.weight.grad.any()


def test_shapes_and_names():
    layer = MixtureOfExperts(6, 5, 4, 2)
    for shape in [(), (5,), (0,), (2, 0), (2, 3, 4)]:
        assert layer(torch.randn(*shape, 6)).shape == (*shape, 6)
        assert layer.probs.shape == (*shape, 4) and layer.chosen.shape == (*shape, 2)
    assert MixtureOfExperts(6, 5, 4, 2, 1.0)(torch.zeros(2, 0, 6)).shape == (2, 0, 6)
    names = {"router.w_r.weight": (4, 6)}
    for number in range(4):
        names |= {f"experts.{number}.{name}.weight": (5, 6) for name in ("w_gate", "w_up")}
        names |= {f"experts.{number}.w_down.weight": (6, 5)}
    assert {name: tuple(weight.shape) for name, weight in layer.state_dict().items()} == names
    assert all(isinstance(expert, SwiGLU) for expert in layer.experts)
    first, second = (expert.w_up.weight for expert in layer.experts[:2])
    assert not torch.equal(first, second)


def test_tokens_in_another_layout():
    layer = MixtureOfExperts(6, 5, 4, 2)
    x = torch.randn(5, 3, 6)
    torch.testing.assert_close(layer(x.transpose(0, 1)), layer(x).transpose(0, 1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_right_to_their_rounding(dtype):
    layer = MixtureOfExperts(16, 24, 4, 2).to(dtype)
    x = torch.randn(40, 16).to(dtype)
    output = layer(x)
    assert output.dtype == layer.probs.dtype == dtype
    expected = copy.deepcopy(layer_without_past(layer)).double()(x.double())
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=4 * torch.finfo(dtype).eps)


def layer_without_past(layer):
    """The layer as before its first call: what hangs on a graph cannot be copied."""
    layer.probs = layer.chosen = None
    return layer


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((0, 5, 4, 2), "d_model and n_experts must be at least 1, got d_model=0, n_experts=4"),
        ((6, 5, 0, 1), "d_model and n_experts must be at least 1, got d_model=6, n_experts=0"),
        ((6, 0, 4, 2), "d_model and d_ff must be at least 1"),
        ((6, 5, 4, 0), "k must be from 1 to n_experts, got k=0, n_experts=4"),
        ((6, 5, 4, 5), "k must be from 1 to n_experts, got k=5, n_experts=4"),
        ((6, 5, 4, 2, 0.0), "capacity_factor must be above 0 or None, got 0.0"),
        ((6, 5, 4, 2, -1.0), "capacity_factor must be above 0 or None, got -1.0"),
        ((6, 5, 4, 2, math.nan), "capacity_factor must be above 0 or None, got nan"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(sizes, words):
    with pytest.raises(ValueError, match=words):
        MixtureOfExperts(*sizes)
