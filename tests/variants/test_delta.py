"""The delta rule against the functions of Qwen3-Next, which compute in float32 and have (B, T, h, d)."""

import pytest
import torch
import torch.nn.functional as F

from variants.delta import chunked_delta_rule, delta_rule


def inputs(*batch, t=13, d_k=5, d_v=3):
    """Queries, normalized keys, values, β, α and a state, all of which want gradients."""
    tensors = {
        "query": torch.randn(*batch, t, d_k),
        "key": F.normalize(torch.randn(*batch, t, d_k), dim=-1),
        "value": torch.randn(*batch, t, d_v),
        "beta": torch.rand(*batch, t),
        "decay": torch.rand(*batch, t),
        "state": torch.randn(*batch, d_v, d_k),
    }
    return {name: x.requires_grad_() for name, x in tensors.items()}


def agree(inputs, ours, theirs, atol=1e-10):
    """Outputs, states and gradients."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
    directions = [torch.randn_like(x) for x in ours]
    gradients = [
        torch.autograd.grad(results, list(inputs.values()), directions)
        for results in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=10 * atol)


@pytest.mark.parametrize("chunk", [None, 8])
def test_it_is_the_gated_delta_rule_of_qwen3_next(chunk):
    qwen = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    tensors = inputs(2, 4, t=21)
    x = {name: tensor.transpose(1, 2) for name, tensor in tensors.items() if name != "state"}
    theirs = (
        qwen.torch_recurrent_gated_delta_rule
        if chunk is None
        else lambda **rest: qwen.torch_chunk_gated_delta_rule(**rest, chunk_size=chunk)
    )
    output, state = theirs(
        query=x["query"] * 5**0.5,  # which they divide by √d_k
        key=x["key"],
        value=x["value"],
        g=x["decay"].log(),
        beta=x["beta"],
        initial_state=tensors["state"].transpose(-2, -1),
        output_final_state=True,
    )
    ours = delta_rule(**tensors) if chunk is None else chunked_delta_rule(**tensors, chunk=chunk)
    agree(tensors, ours, (output.transpose(1, 2), state.transpose(-2, -1)), atol=1e-5)
