"""The memory of a checkpointed call, and GPT with checkpointed blocks."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

from variants.efficient import Checkpointed, checkpoint
from variants.gpt import GPT, GPTConfig

CONFIG = GPTConfig(vocab=11, context=9, n_layers=3, n_heads=2, d_model=6, d_ff=10, dropout=0.0)
pytestmark = pytest.mark.usefixtures("float64")


def equal(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10, equal_nan=True)


def allocated(function, x):
    """Bytes that the CPU still holds after a call, beyond those before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        out = function(x)
    return sum(event.self_cpu_memory_usage for event in profiled.key_averages()), out


def test_the_memory_of_what_was_computed_is_free_after_the_call():
    block = nn.Sequential(*(part for _ in range(8) for part in (nn.Linear(64, 64), nn.Tanh())))
    x = torch.randn(256, 64, requires_grad=True)
    plain, _ = allocated(block, x)
    ours, _ = allocated(lambda x: checkpoint(block, x), x)
    assert plain >= 8 * x.nbytes
    assert ours < 1.2 * x.nbytes  # the output, and a random state


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_gpt_of_checkpointed_blocks_is_gpt(dropout):
    plain = GPT(dataclasses.replace(CONFIG, dropout=dropout))
    ours = copy.deepcopy(plain)
    ours.blocks = nn.ModuleList(map(Checkpointed, ours.blocks))
    tokens = torch.randint(11, (2, 9))
    for model in (plain, ours):
        torch.manual_seed(1)
        model(tokens).logsumexp(-1).sum().backward()
    for parameter, expected in zip(ours.parameters(), plain.parameters(), strict=True):
        equal(parameter.grad, expected.grad)
