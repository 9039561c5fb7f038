"""What is measured of a model is what the words say."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from laboratory.study import measures, timed
from laboratory.study.measures import LENGTHS, MEASURES, TIMED, in_blocks
from laboratory.study.model import Recipe, build
from laboratory.study.timed import AllocatedBytes
from tests.training.conftest import CPU, POETRY, QUIET, small
from training.data import tasks
from training.models.architectures import Objective
from variants.kv_cache import KVCache, new_cache
from variants.llama import LLaMAConfig
from variants.mamba import Mamba, MambaState

SWIGLU = {"activation": "swiglu"}
MAMBA = {"attention": "mamba", "positions": "none"}
HERE = CPU.device


@pytest.fixture
def studied(tmp_path):
    """Make a model of a recipe, and what it learns."""
    poem = tmp_path / "poem.txt"
    poem.write_text(POETRY, encoding="utf-8")

    def make(recipe=None, **changes):
        usual = {"data": str(poem), "context": 8, "heads": 4, "dropout": 0.0, "norm": "pre"}
        settings = small("text", **(usual | changes))
        task = tasks.load(settings, QUIET)
        torch.manual_seed(0)
        model = build(Recipe(**(recipe or {})), settings, task.languages).eval()
        return model, task, settings, HERE

    return make


# --- The held-out split ---------------------------------------------------------------------------


def test_the_loss_is_the_objective_s_on_every_held_out_token(studied):
    model, task, settings, _ = studied()
    batches = task.held_out("validation")
    total = sum(float(Objective(model, 0.0)(None, rows.target)[1]) for rows in batches)
    expected = total / sum(rows.tokens for rows in batches)
    losses = MEASURES["loss"](model, task, settings, HERE)["loss"]
    assert float(losses.mean()) == pytest.approx(expected)
    blocks = in_blocks(losses)
    assert len(blocks) == measures.BLOCKS
    assert sum(blocks) / len(blocks) == pytest.approx(expected, rel=0.01)
    tokens = len(losses) // measures.BLOCKS
    assert blocks[-1] == pytest.approx(float(losses[-tokens:].mean()), abs=1e-4)


def test_a_model_is_measured_as_it_would_be_used(studied):
    model, task, settings, _ = studied(dropout=0.5)
    model.train()
    first = MEASURES["loss"](model, task, settings, HERE)["loss"]
    assert torch.equal(first, MEASURES["loss"](model, task, settings, HERE)["loss"])


@pytest.fixture
def _read(monkeypatch):
    monkeypatch.setattr(measures, "READ", (8, 16, 32))


@pytest.mark.usefixtures("_read")
def test_lengths_read_the_same_text_and_positions_add_up_to_the_longest(studied):
    model, task, settings, _ = studied({"positions": "rope"})
    measured = MEASURES["lengths"](model, task, settings, HERE)
    text = task._validation
    windows = (len(text) - 1) // 32
    for length in (8, 16, 32):
        total = 0.0
        for first in range(0, windows * 32, length):
            window = text[first : first + length + 1].unsqueeze(0)
            total += float(Objective(model, 0.0)(None, window)[1])
        mean = float(measured[f"read_{length}"].mean())
        assert mean == pytest.approx(total / (windows * 32), rel=1e-5)
    parts = (measured["at_8"] + measured["at_16"] + 2 * measured["at_32"]) / 4
    assert parts == pytest.approx(float(measured["read_32"].mean()), rel=1e-5)
    assert measured["at_8"] == pytest.approx(first_of_each(model, task), rel=1e-5)


def first_of_each(model, task):
    """The loss of the first 8 of every 32 tokens."""
    text = task._validation
    starts = range(0, (len(text) - 1) // 32 * 32, 32)
    total = sum(float(Objective(model, 0.0)(None, text[i : i + 9].unsqueeze(0))[1]) for i in starts)
    return total / (8 * len(starts))


@pytest.mark.usefixtures("_read")
def test_learned_positions_have_no_loss_beyond_their_end(studied):
    assert set(MEASURES["lengths"](*studied({"positions": "learned"}))) == {"read_8"}


@pytest.mark.usefixtures("_read")
def test_a_model_that_looks_at_nothing_loses_nothing_beyond(studied):
    model, *rest = studied({"positions": "none"}, layers=1)
    nn.init.zeros_(model.blocks[0].self_attn.w_o.weight)
    measured = MEASURES["lengths"](model, *rest)
    assert measured["read_32"] == pytest.approx(measured["read_8"], rel=1e-5)


# --- Experts --------------------------------------------------------------------------------------


def test_a_router_with_one_favorite_is_seen(studied):
    model, *rest = studied({**SWIGLU, "experts": 4}, layers=1)
    with torch.no_grad():
        model.blocks[0].feed_forward.router.w_r.weight.zero_()
        model.blocks[0].sublayer[1].norm.gain.zero_()
        model.blocks[0].sublayer[1].norm.bias.fill_(1.0)
        model.blocks[0].feed_forward.router.w_r.weight[2] = 1.0
    measured = MEASURES["routing"](model, *rest)
    assert measured == {"largest_share": 1.0, "routing_entropy": 0.0}


def test_shares_are_of_all_choices(studied):
    model, task, settings, _ = studied({**SWIGLU, "experts": 4, "top_k": 2})
    measured = MEASURES["routing"](model, task, settings, HERE)
    counts, entropies = [], []
    chosen = {0: [], 1: []}
    for rows in task.held_out("validation"):
        model(rows.target[:, :-1])
        for number, block in enumerate(model.blocks):
            chosen[number] += block.feed_forward.chosen.flatten().tolist()
    for layer in list(chosen.values())[: len(model.blocks)]:
        shares = [layer.count(expert) / len(layer) for expert in range(4)]
        counts.append(max(shares))
        entropies.append(-sum(f * math.log(f) for f in shares if f) / math.log(4))
    assert measured["largest_share"] == pytest.approx(sum(counts) / len(counts))
    assert measured["routing_entropy"] == pytest.approx(sum(entropies) / len(entropies))
    assert 0.25 < measured["largest_share"] <= 0.5


def test_nobody_is_routed_in_a_dense_model(studied):
    assert MEASURES["routing"](*studied()) == {}


# --- The cache ------------------------------------------------------------------------------------


def held_in(cache: KVCache) -> int:
    return cache.keys.nbytes + cache.values.nbytes


@pytest.mark.parametrize(
    ("recipe", "heads"), [({}, 4), ({"attention": "grouped"}, 2), ({"attention": "multi_query"}, 1)]
)
def test_keys_and_values_are_as_many_as_a_real_cache_holds(studied, recipe, heads):
    measured = MEASURES["cache"](*studied(recipe, layers=3))
    for length in LENGTHS:
        real = new_cache(LLaMAConfig(9, length, 3, 4, heads, 16, 32), 1, length)
        assert measured[f"cache_{length}"] == held_in(real)


def test_mamba_s_state_is_a_real_one(studied):
    model, *rest = studied(MAMBA)
    states = [
        MambaState(module.config, 1) for module in model.modules() if isinstance(module, Mamba)
    ]
    real = sum(state.window.nbytes + state.h.nbytes for state in states)
    measured = MEASURES["cache"](model, *rest)
    assert {measured[f"cache_{length}"] for length in LENGTHS} == {real}


@pytest.mark.parametrize(
    ("recipe", "numbers"),
    [
        ({"attention": "window", "window": 10}, 2 * 10 * 16),
        ({"attention": "linear"}, 4 * 4 * 5),  # S is 4 × 4 in each of 4 heads, and Z 4
    ],
)
def test_what_sees_no_further_keeps_no_more(studied, recipe, numbers):
    measured = MEASURES["cache"](*studied(recipe, layers=2))
    assert set(measured.values()) == {2 * numbers * 4}


def test_a_short_convolution_keeps_three_inputs_more(studied):
    full, convolved = (
        MEASURES["cache"](*studied({"attention": kind}, layers=2))
        for kind in ("fused", "convolved")
    )
    assert {convolved[name] - full[name] for name in full} == {2 * 3 * 16 * 4}


# --- Time and memory ------------------------------------------------------------------------------


@pytest.fixture
def _short(monkeypatch):
    monkeypatch.setattr(timed, "LENGTHS", (8, 32))
    monkeypatch.setattr(timed, "TOKENS", 64)


class OperationClock(TorchDispatchMode):
    """A clock on which each operation takes a second, whatever the machine is busy with."""

    operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operations += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("recipe", [{}, MAMBA, {**SWIGLU, "experts": 2}], ids=str)
def test_speed_and_memory_at_each_length(studied, recipe, monkeypatch):
    model, *rest = studied(recipe)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with OperationClock() as clock:
        counted = SimpleNamespace(process_time=lambda: float(clock.operations), perf_counter=None)
        monkeypatch.setattr(timed, "time", counted)
        speeds = TIMED["speed"](model, *rest)
    sizes = TIMED["memory"](model, *rest)
    for length in (8, 32):
        assert speeds[f"reading_speed_{length}"] > speeds[f"training_speed_{length}"] > 0
        weights = 4 * sum(weight.numel() for weight in model.parameters())
        assert sizes[f"training_bytes_{length}"] > weights  # the gradients alone
        assert sizes[f"training_bytes_{length}"] > sizes[f"reading_bytes_{length}"] > 0
    assert sizes == TIMED["memory"](model, *rest)
    assert all(weight.equal(before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    assert not model.training


@pytest.mark.usefixtures("_short")
def test_no_speed_beyond_learned_positions(studied):
    measured = TIMED["speed"](*studied({"positions": "learned"}))
    assert set(measured) == {"training_speed_8", "reading_speed_8"}


@pytest.mark.usefixtures("_short")
def test_speed_is_tokens_over_seconds(studied, monkeypatch):
    clock = iter(range(0, 1000, 2))  # each pass takes 2 seconds
    stopped = SimpleNamespace(process_time=lambda: next(clock), perf_counter=None)
    monkeypatch.setattr(timed, "time", stopped)
    assert set(TIMED["speed"](*studied()).values()) == {32.0}


def test_bytes_are_held_until_nobody_wants_them():
    with AllocatedBytes() as allocated:
        first = torch.zeros(100)  # 400 bytes
        two = first + 1  # 800 in all
        view = two[10:]
        del first
        three = torch.zeros(50)  # 600
        assert allocated.now == 600
        del two, view
        assert allocated.now == 200
    assert allocated.most == 800
    assert three.sum() == 0


def test_what_autograd_keeps_is_held():
    weights = [torch.ones(100, requires_grad=True) for _ in range(2)]
    with AllocatedBytes() as allocated:
        product = (weights[0].exp() * weights[1].exp()).sum()
        assert allocated.now == 804  # both factors are kept for the way back, their product is not
        product.backward()
        del product
        assert allocated.now == 800  # two gradients
