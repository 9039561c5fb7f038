"""Mixture of depths against loops over rows and tokens, and each promise of its docstrings by itself."""

import math
from fractions import Fraction

import pytest
import torch
from torch import nn

from tests.reference.oracles import assert_agree, randomized
from variants.depths import MixtureOfDepths
from variants.gpt import Block, CausalSelfAttention, FeedForward
from variants.parallel import ParallelBlock


@pytest.fixture(autouse=True)
def _float64():
    """Every test starts from one seed, and modules made in it have float64 parameters."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(2404)
    yield
    torch.set_default_dtype(default)


def serial(d_model, n_heads, d_ff):
    """A block of day 23."""
    attention = CausalSelfAttention(d_model, n_heads)
    return Block(d_model, attention, FeedForward(d_model, d_ff), 0.0)


def parallel(d_model, n_heads, d_ff):
    return ParallelBlock(d_model, n_heads, d_ff)


def row_by_row(layer, x, k):
    """Equation 1, a row and a token at a time: the chosen found by counting those that score higher."""
    weight = layer.router.weight[0]
    out = []
    for row in x:
        scores = [(weight * token).sum() for token in row]
        chosen = [
            i for i, score in enumerate(scores) if sum(bool(o > score) for o in scores) < k
        ]  # ascending
        assert len(chosen) == k
        seen = torch.stack([row[i] for i in chosen])
        came_out = layer.block(seen.unsqueeze(0))[0]
        tokens = list(row)
        for number, i in enumerate(chosen):
            tokens[i] = row[i] + scores[i] * (came_out[number] - row[i])
        out.append(torch.stack(tokens))
    return torch.stack(out)


@pytest.mark.parametrize("make", [serial, parallel])
@pytest.mark.parametrize(
    ("t", "capacity", "k"),
    [(9, 0.5, 4), (7, 0.25, 1), (5, 0.1, 1), (8, 0.875, 7), (6, 1.0, 6), (1, 0.125, 1), (1, 1, 1)],
)
def test_values_and_gradients_are_those_of_loops(make, t, capacity, k):
    layer = randomized(MixtureOfDepths(make(6, 2, 11), 6, capacity))
    x = torch.randn(3, t, 6, requires_grad=True)
    wanted = [x, *layer.parameters()]
    out, expected = layer(x), row_by_row(layer, x, k)
    assert_agree(out, expected)
    direction = torch.randn_like(out)
    assert_agree(
        torch.autograd.grad(out, wanted, direction),
        torch.autograd.grad(expected, wanted, direction),
    )


def counted(capacity, t):
    """How many tokens are chosen of t."""
    layer = MixtureOfDepths(nn.Identity(), 2, capacity)
    weights, places = layer.choose(torch.randn(1, t, 2))
    assert weights.shape == places.shape
    return places.size(1)


def test_the_share_is_rounded_down_as_though_decimals_were_exact():
    """Every hundredth of every length up to 120, against rational numbers."""
    for hundredths in range(1, 101):
        for t in range(1, 121, 7 if hundredths % 10 else 1):
            exact = math.floor(Fraction(hundredths, 100) * t)
            assert counted(hundredths / 100, t) == max(1, exact), (hundredths, t)
    assert 0.29 * 100 < 29 and counted(0.29, 100) == 29  # the example of the docstring


def test_a_third_of_a_long_text_and_a_very_small_share():
    assert counted(1 / 3, 3 * 2**12) == 2**12
    assert counted(1e-7, 4096) == 1
    assert counted(1 - 1e-6, 1000) == 999


class Watching(nn.Module):
    """A block that adds 1 to every feature, and keeps what it was called with."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x)
        return x + 1


def test_the_block_is_called_once_with_the_chosen_in_their_order():
    layer = MixtureOfDepths(Watching(), 4, 0.5)
    x = torch.randn(3, 9, 4)
    layer(x)
    [seen] = layer.block.seen
    scores = x @ layer.router.weight[0]
    for row in range(3):
        border = scores[row].sort(descending=True).values[3]
        assert_agree(seen[row], x[row][scores[row] >= border])


def test_others_pass_by_to_the_last_bit_and_the_chosen_gain_their_weight():
    layer = MixtureOfDepths(Watching(), 4, 0.4)
    x = torch.randn(2, 8, 4)
    out, (weights, places) = layer(x), layer.choose(x)
    assert places.shape == (2, 3) and places.dtype == torch.int64
    assert (places.diff(dim=1) > 0).all()
    assert_agree(weights, (x @ layer.router.weight[0]).gather(1, places))
    passed = torch.ones(2, 8, dtype=torch.bool).scatter(1, places, False)
    assert torch.equal(out[passed], x[passed])
    gained = (out - x)[~passed].view(2, 3, 4)
    assert_agree(gained, weights.unsqueeze(-1).expand(2, 3, 4))


def test_negative_weights_stay_negative():
    layer = MixtureOfDepths(Watching(), 1, 0.5)
    nn.init.ones_(layer.router.weight)
    x = torch.tensor([[[-5.0], [-1.0], [-3.0], [-2.0]]])
    assert_agree(layer(x)[0, :, 0], torch.tensor([-5.0, -2.0, -3.0, -4.0]))


def test_equal_scores_never_make_more_than_there_is_room_for():
    layer = MixtureOfDepths(Watching(), 3, 0.5)
    x = torch.ones(2, 7, 1).expand(2, 7, 3)
    assert ((layer(x) != x).all(dim=-1).sum(dim=1) == 3).all()
    assert layer.block.seen[0].shape == (2, 3, 3)


def test_what_the_rows_choose_is_their_own():
    layer = randomized(MixtureOfDepths(serial(6, 2, 11), 6, 0.5))
    x = torch.randn(4, 7, 6)
    alone = torch.cat([layer(row.unsqueeze(0)) for row in x])
    assert_agree(layer(x), alone)
    assert len({tuple(row) for row in layer.choose(x)[1].tolist()}) > 1


def test_a_token_that_passes_by_is_seen_by_nobody():
    layer = randomized(MixtureOfDepths(serial(6, 2, 11), 6, 0.5))
    x = torch.randn(1, 8, 6, requires_grad=True)
    chosen = layer.choose(x)[1][0].tolist()
    for t in range(8):
        (grad,) = torch.autograd.grad(layer(x)[0, t].sum(), x)
        seen = (grad[0].abs().sum(-1) > 0).nonzero().flatten().tolist()
        assert seen == ([s for s in chosen if s <= t] if t in chosen else [t])


def test_the_choice_looks_at_later_tokens():
    """What the lesson warns of: a last token with a large score pushes out an earlier one."""
    layer = MixtureOfDepths(Watching(), 1, 0.5)
    nn.init.ones_(layer.router.weight)
    before = layer(torch.tensor([[[3.0], [1.0], [2.0], [0.0]]]))
    after = layer(torch.tensor([[[3.0], [1.0], [2.0], [9.0]]]))
    assert before[0, :3, 0].tolist() == [6.0, 1.0, 4.0]
    assert after[0, :3, 0].tolist() == [6.0, 1.0, 2.0]


def test_parameters_and_state_dict():
    layer = MixtureOfDepths(nn.Linear(4, 4), 4, 0.5)
    assert {name: tuple(tensor.shape) for name, tensor in layer.state_dict().items()} == {
        "block.weight": (4, 4),
        "block.bias": (4,),
        "router.weight": (1, 4),
    }
    torch.manual_seed(5)
    block = nn.Linear(4, 4)
    layer = MixtureOfDepths(block, 4, 0.5)
    torch.manual_seed(5)
    nn.Linear(4, 4)
    assert torch.equal(layer.router.weight, nn.Linear(4, 1, bias=False).weight)
    assert layer.block is block and layer.capacity == 0.5


@pytest.mark.parametrize("capacity", [0.5, 1.0])
def test_empty_inputs(capacity):
    layer = MixtureOfDepths(serial(6, 2, 11), 6, capacity)
    assert layer(torch.zeros(2, 0, 6)).shape == (2, 0, 6)
    assert layer(torch.zeros(0, 5, 6)).shape == (0, 5, 6)
    assert layer.choose(torch.zeros(2, 0, 6))[1].shape == (2, 0)


def test_the_input_stays_as_it_is():
    layer, x = MixtureOfDepths(Watching(), 4, 1.0), torch.randn(2, 5, 4)
    before = x.clone()
    layer(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_dtype_is_that_of_the_input(dtype):
    """The scores lie far apart, so that rounding chooses no others."""
    layer = MixtureOfDepths(serial(6, 2, 11), 6, 0.5)
    layer.router.weight.data = torch.eye(1, 6)
    x = torch.randn(2, 8, 6)
    x[..., 0] = torch.stack([torch.randperm(8), torch.randperm(8)]) / 4
    layer, x = layer.to(dtype), x.to(dtype)
    out = layer(x)
    assert out.dtype == dtype and layer.choose(x)[0].dtype == dtype
    expected = layer.double()(x.double())
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("capacity", [0, -0.5, 1.001, 2, math.nan])
def test_a_capacity_that_is_no_share_is_refused(capacity):
    with pytest.raises(ValueError, match="capacity must be above 0 and at most 1"):
        MixtureOfDepths(nn.Identity(), 4, capacity)
