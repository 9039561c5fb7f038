"""Day 36: the parallel block against Phi's, and how many tokens a mixture of depths chooses."""

import math
from fractions import Fraction

import pytest
import torch
from torch import nn

from tests.reference.oracles import randomized
from variants.depths import MixtureOfDepths
from variants.parallel_block import ParallelBlock

pytestmark = pytest.mark.usefixtures("float64")


def number_chosen(capacity, t):
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
            assert number_chosen(hundredths / 100, t) == max(1, exact), (hundredths, t)
    assert 0.29 * 100 < 29 and number_chosen(0.29, 100) == 29  # the example of the docstring


def test_a_third_of_a_long_text_and_a_very_small_share():
    assert number_chosen(1 / 3, 3 * 2**12) == 2**12
    assert number_chosen(1e-7, 4096) == 1
    assert number_chosen(1 - 1e-6, 1000) == 999


@pytest.mark.parametrize(("d_model", "n_heads", "d_ff", "t"), [(12, 3, 29, 7), (8, 1, 5, 1)])
def test_the_parallel_block_is_phis(d_model, n_heads, d_ff, t):
    phi = pytest.importorskip("transformers.models.phi.modeling_phi")
    from transformers import PhiConfig

    sizes = {"hidden_size": d_model, "num_attention_heads": n_heads, "intermediate_size": d_ff}
    config = PhiConfig(**sizes, attn_implementation="eager")
    theirs = phi.PhiDecoderLayer(config, layer_idx=0).double().eval()
    ours = randomized(ParallelBlock(d_model, n_heads, d_ff))
    state = {
        f"self_attn.{name}_proj.{kind}": part
        for kind, tensor in ours.self_attn.w_qkv.state_dict().items()
        for name, part in zip("qkv", tensor.chunk(3), strict=True)
    }
    state |= {
        f"{theirs_name}.{kind}": tensor
        for theirs_name, part in {
            "self_attn.dense": ours.self_attn.w_o,
            "mlp.fc1": ours.feed_forward.w_1,
            "mlp.fc2": ours.feed_forward.w_2,
            "input_layernorm": ours.norm,
        }.items()
        for kind, tensor in zip(("weight", "bias"), part.parameters(), strict=True)
    }
    theirs.load_state_dict(state)
    x, width = torch.randn(3, t, d_model), theirs.self_attn.rotary_ndims
    no_rotation = torch.ones(3, t, width), torch.zeros(3, t, width)
    mask = torch.full((t, t), -math.inf).triu(1).expand(1, 1, t, t)
    expected = theirs(x, attention_mask=mask, position_embeddings=no_rotation)
    # its softmax is in float32 whatever the dtype, hence the tolerance
    torch.testing.assert_close(ours(x), expected, rtol=1e-5, atol=1e-5)
