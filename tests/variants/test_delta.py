"""The delta rule against its equation in float64, and against the functions of Qwen3-Next."""

import pytest
import torch
import torch.nn.functional as F

from variants.delta import chunked_delta_rule, delta_rule

CHUNKS = [1, 3, 8, 64]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(44)


def inputs(*batch, t=13, d_k=5, d_v=3, dtype=torch.float64):
    """Queries, normalized keys, values, β, α and a state, all of which want gradients."""
    given = {
        "query": torch.randn(*batch, t, d_k, dtype=torch.float64),
        "key": F.normalize(torch.randn(*batch, t, d_k, dtype=torch.float64), dim=-1),
        "value": torch.randn(*batch, t, d_v, dtype=torch.float64),
        "beta": torch.rand(*batch, t, dtype=torch.float64),
        "decay": torch.rand(*batch, t, dtype=torch.float64),
        "state": torch.randn(*batch, d_v, d_k, dtype=torch.float64),
    }
    return {name: x.to(dtype).requires_grad_() for name, x in given.items()}


def as_printed(query, key, value, beta, decay, state):
    """The equation, with its products of matrices, for the rows of a batch."""
    identity, outputs = torch.eye(key.size(-1), dtype=key.dtype), []
    for t in range(key.size(-2)):
        k, v = key[..., t, :], value[..., t, :]
        b, a = beta[..., t, None, None], decay[..., t, None, None]
        erase = identity - b * torch.einsum("...i,...j->...ij", k, k)
        state = a * state @ erase + b * torch.einsum("...i,...j->...ij", v, k)
        outputs.append(torch.einsum("...vk,...k->...v", state, query[..., t, :]))
    return torch.stack(outputs, dim=-2), state


def agree(given, ours, theirs, atol=1e-10):
    """Outputs, states and gradients."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
    directions = [torch.randn_like(x) for x in ours]
    gradients = [
        torch.autograd.grad(one, list(given.values()), directions) for one in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=10 * atol)


def forms():
    """The recurrence, and chunks of several sizes."""
    return [
        delta_rule,
        *(lambda chunk=c, **given: chunked_delta_rule(**given, chunk=chunk) for c in CHUNKS),
    ]


@pytest.mark.parametrize("form", forms(), ids=["recurrent", *map(str, CHUNKS)])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_it_is_the_printed_equation(form, batch):
    given = inputs(*batch)
    agree(given, form(**given), as_printed(**given))


@pytest.mark.parametrize("form", forms(), ids=["recurrent", *map(str, CHUNKS)])
def test_a_decay_of_zero_forgets_everything(form):
    given = inputs(2)
    given["decay"] = given["decay"].detach().clone()
    given["decay"][:, [4, 7]] = 0
    given["decay"].requires_grad_()
    agree(given, form(**given), as_printed(**given))


@pytest.mark.parametrize("form", forms(), ids=["recurrent", *map(str, CHUNKS)])
def test_without_decay_or_state_they_are_ones_and_zeros(form):
    given = inputs(2)
    del given["decay"], given["state"]
    ones, zeros = torch.ones(2, 13).double(), torch.zeros(2, 3, 5).double()
    agree(given, form(**given), as_printed(**given, decay=ones, state=zeros))


@pytest.mark.parametrize("chunk", [None, 8])
def test_it_is_the_gated_delta_rule_of_qwen3_next(chunk):
    qwen = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    given = inputs(
        2, 4, t=21, dtype=torch.float32
    )  # (B, h, T, d): theirs is (B, T, h, d), in float32
    x = {name: one.transpose(1, 2) for name, one in given.items() if name != "state"}
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
        initial_state=given["state"].transpose(-2, -1),
        output_final_state=True,
    )
    ours = delta_rule(**given) if chunk is None else chunked_delta_rule(**given, chunk=chunk)
    agree(given, ours, (output.transpose(1, 2), state.transpose(-2, -1)), atol=1e-5)


@pytest.mark.parametrize("form", [delta_rule, chunked_delta_rule])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_at_the_end_alone(form, dtype):
    given = {name: x.detach() for name, x in inputs(2, t=150, dtype=dtype).items()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state = form(**given)
    wide, wide_state = as_printed(**{name: x.double() for name, x in given.items()})
    assert output.dtype == dtype and state.dtype == torch.float32
    torch.testing.assert_close(output, wide.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=1e-4)
    torch.testing.assert_close(state, wide_state.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", [delta_rule, chunked_delta_rule])
def test_no_tokens_leave_the_state_as_it_is(form):
    given = {name: x.detach() for name, x in inputs(2, t=0).items()}
    output, state = form(**given)
    assert output.shape == (2, 0, 3) and state.equal(given["state"])


@pytest.mark.parametrize("form", [delta_rule, chunked_delta_rule])
@pytest.mark.parametrize("name", ["query", "value", "beta", "decay", "state"])
def test_other_shapes_are_refused(form, name):
    given = {key: x.detach() for key, x in inputs(2).items()}
    given[name] = given[name][..., :1] if name in ("query", "state") else given[name][:, :1]
    with pytest.raises(ValueError, match=f"{name} must be"):
        form(**given)


def test_a_chunk_has_a_token_at_least():
    with pytest.raises(ValueError, match="chunk must be at least 1, got 0"):
        chunked_delta_rule(**inputs(2), chunk=0)
