"""The parallel block against Phi's, without rotations."""

import math

import pytest
import torch

from tests.reference.oracles import randomized
from variants.parallel import ParallelBlock

pytestmark = pytest.mark.usefixtures("float64")


def parts_of(ours):
    """The weights of ours as published blocks have them: name of the part to matrix and bias."""
    query, key, value = ours.self_attn.w_qkv.weight.chunk(3)
    of_query, of_key, of_value = ours.self_attn.w_qkv.bias.chunk(3)
    w_o, w_1, w_2 = ours.self_attn.w_o, ours.feed_forward.w_1, ours.feed_forward.w_2
    return {
        "q_proj": (query, of_query),
        "k_proj": (key, of_key),
        "v_proj": (value, of_value),
        "out_proj": (w_o.weight, w_o.bias),
        "fc_in": (w_1.weight, w_1.bias),
        "fc_out": (w_2.weight, w_2.bias),
        "ln_1": (ours.norm.gain, ours.norm.bias),
    }


@torch.no_grad()
def give(theirs, ours, names):
    """Copy our weights into a published block; where it has no biases, ours become 0."""
    for name, (weight, bias) in parts_of(ours).items():
        module = theirs.get_submodule(names[name])
        module.weight.copy_(weight)
        if module.bias is None:
            bias.zero_()
        else:
            module.bias.copy_(bias)


def future(t):
    """What hides later tokens in `transformers`: minus infinity, added to the scores."""
    return torch.full((t, t), -math.inf).triu(1).expand(1, 1, t, t)


@pytest.mark.parametrize(("d_model", "n_heads", "d_ff", "t"), [(12, 3, 29, 7), (8, 1, 5, 1)])
def test_it_is_phis_layer_where_nothing_is_turned(d_model, n_heads, d_ff, t):
    """Phi has biases in its attention, as we have, and the same block."""
    phi = pytest.importorskip("transformers.models.phi.modeling_phi")
    from transformers import PhiConfig

    config = PhiConfig(
        hidden_size=d_model,
        num_attention_heads=n_heads,
        intermediate_size=d_ff,
        attn_implementation="eager",
    )
    theirs = phi.PhiDecoderLayer(config, layer_idx=0).double().eval()
    ours = randomized(ParallelBlock(d_model, n_heads, d_ff))
    inner = {name: f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj")}
    outer = {"fc_in": "mlp.fc1", "fc_out": "mlp.fc2", "ln_1": "input_layernorm"}
    give(theirs, ours, inner | outer | {"out_proj": "self_attn.dense"})
    x, turned = torch.randn(3, t, d_model), theirs.self_attn.rotary_ndims
    still = torch.ones(3, t, turned), torch.zeros(3, t, turned)
    out = theirs(x, attention_mask=future(t), position_embeddings=still)
    torch.testing.assert_close(ours(x), out, rtol=1e-5, atol=1e-5)
