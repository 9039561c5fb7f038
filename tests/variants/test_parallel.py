"""The parallel block against published ones, torch's attention and a formula written out."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.reference.oracles import assert_agree, randomized
from variants.gpt import Block, CausalSelfAttention, FeedForward
from variants.parallel import ParallelBlock

SIZES = pytest.mark.parametrize(
    ("d_model", "n_heads", "d_ff", "t"), [(15, 3, 29, 7), (6, 6, 5, 4), (5, 1, 8, 1)]
)


@pytest.fixture(autouse=True)
def _float64():
    """Every test starts from one seed, and modules made in it have float64 parameters."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(36)
    yield
    torch.set_default_dtype(default)


def both(ours, x, expected):
    """Values and all gradients of our block agree with those of a function of x and our parameters."""
    wanted = [x, *ours.parameters()]
    out, other = ours(x), expected(x)
    assert_agree(out, other)
    direction = torch.randn_like(out)
    assert_agree(
        torch.autograd.grad(out, wanted, direction), torch.autograd.grad(other, wanted, direction)
    )


@SIZES
def test_it_is_the_formula_with_torchs_own_parts(d_model, n_heads, d_ff, t):
    ours = randomized(ParallelBlock(d_model, n_heads, d_ff))

    def written_out(x):
        normed = F.layer_norm(x, (d_model,), ours.norm.gain, ours.norm.bias)
        attn, ffn = ours.self_attn, ours.feed_forward
        time_first = normed.transpose(0, 1)
        attended, _ = F.multi_head_attention_forward(
            *(time_first, time_first, time_first, d_model, n_heads),
            *(attn.w_qkv.weight, attn.w_qkv.bias, None, None, False, 0.0),
            *(attn.w_o.weight, attn.w_o.bias),
            attn_mask=torch.ones(t, t, dtype=torch.bool).triu(1),
        )
        hidden = normed @ ffn.w_1.weight.T + ffn.w_1.bias
        gelu = hidden / 2 * (1 + (math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)).tanh())
        thought = gelu @ ffn.w_2.weight.T + ffn.w_2.bias
        return x + attended.transpose(0, 1) + thought

    both(ours, torch.randn(3, t, d_model, requires_grad=True), written_out)


@SIZES
def test_the_products_may_be_fused(d_model, n_heads, d_ff, t):
    """What the formula is for: one product into queries, keys, values and hidden layer, one back."""
    ours = randomized(ParallelBlock(d_model, n_heads, d_ff))

    def fused(x):
        attn, ffn = ours.self_attn, ours.feed_forward
        weight = torch.cat([attn.w_qkv.weight, ffn.w_1.weight])
        bias = torch.cat([attn.w_qkv.bias, ffn.w_1.bias])
        *qkv, hidden = F.linear(ours.norm(x), weight, bias).split([d_model] * 3 + [d_ff], dim=-1)
        heads = [one.unflatten(-1, (n_heads, -1)).transpose(1, 2) for one in qkv]
        heads = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(-2)
        joined = torch.cat([heads, F.gelu(hidden, approximate="tanh")], dim=-1)
        weight = torch.cat([attn.w_o.weight, ffn.w_2.weight], dim=1)
        return x + F.linear(joined, weight, attn.w_o.bias + ffn.w_2.bias)

    both(ours, torch.randn(3, t, d_model, requires_grad=True), fused)


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
        place = theirs.get_submodule(names[name])
        place.weight.copy_(weight)
        if place.bias is None:
            bias.zero_()
        else:
            place.bias.copy_(bias)


def future(t):
    """What hides later tokens in `transformers`: minus infinity, added to the scores."""
    return torch.full((t, t), -math.inf).triu(1).expand(1, 1, t, t)


@pytest.mark.parametrize(("d_model", "n_heads", "d_ff", "t"), [(15, 3, 29, 7), (8, 1, 5, 1)])
def test_it_is_gpt_js_block_where_nothing_is_turned(d_model, n_heads, d_ff, t):
    gptj = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    from transformers import GPTJConfig

    config = GPTJConfig(
        n_embd=d_model, n_head=n_heads, n_inner=d_ff, rotary_dim=2, attn_implementation="eager"
    )
    theirs = gptj.GPTJBlock(config, layer_idx=0).double().eval()
    ours = randomized(ParallelBlock(d_model, n_heads, d_ff))
    inner = {name: f"attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    give(theirs, ours, inner | {"fc_in": "mlp.fc_in", "fc_out": "mlp.fc_out", "ln_1": "ln_1"})
    x = torch.randn(3, t, d_model)
    # with all positions 0 every angle is 0
    still = torch.zeros(3, t, dtype=torch.long)
    out, _ = theirs(x, attention_mask=future(t), position_ids=still)
    # its scores are in float32 whatever the dtype, hence the tolerance
    torch.testing.assert_close(ours(x), out, rtol=1e-5, atol=1e-5)


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


def test_it_differs_from_day_23_by_what_the_network_reads():
    """With one network and one attention, the parallel sum is the serial one whose network read x."""
    ours = randomized(ParallelBlock(10, 2, 17))
    serial = Block(10, ours.self_attn, ours.feed_forward, 0.0)
    for norm in (serial.norm_1, serial.norm_2):
        norm.load_state_dict(ours.norm.state_dict())
    x = torch.randn(2, 6, 10)
    attended = ours.self_attn(ours.norm(x))
    missing = ours.feed_forward(ours.norm(x + attended)) - ours.feed_forward(ours.norm(x))
    assert_agree(ours(x) + missing, serial(x))
    assert missing.abs().max() > 0.1


def test_no_token_sees_a_later_one():
    ours, x = randomized(ParallelBlock(12, 3, 17)), torch.randn(1, 6, 12, requires_grad=True)
    for t in range(6):
        (grad,) = torch.autograd.grad(ours(x)[0, t].sum(), x)
        assert (grad[0].abs().sum(-1) > 0).tolist() == [s <= t for s in range(6)]


def test_it_holds_what_it_promises_and_no_more():
    ours = ParallelBlock(6, 2, 9)
    assert {name: tuple(tensor.shape) for name, tensor in ours.state_dict().items()} == {
        "norm.gain": (6,),
        "norm.bias": (6,),
        "self_attn.w_qkv.weight": (18, 6),
        "self_attn.w_qkv.bias": (18,),
        "self_attn.w_o.weight": (6, 6),
        "self_attn.w_o.bias": (6,),
        "feed_forward.w_1.weight": (9, 6),
        "feed_forward.w_1.bias": (9,),
        "feed_forward.w_2.weight": (6, 9),
        "feed_forward.w_2.bias": (6,),
    }
    assert isinstance(ours.self_attn, CausalSelfAttention)
    assert isinstance(ours.feed_forward, FeedForward)


def test_its_parts_start_as_by_themselves():
    torch.manual_seed(1)
    ours = ParallelBlock(6, 2, 9)
    torch.manual_seed(1)
    attention, network = CausalSelfAttention(6, 2), FeedForward(6, 9)
    assert torch.equal(ours.self_attn.w_qkv.weight, attention.w_qkv.weight)
    assert torch.equal(ours.feed_forward.w_2.weight, network.w_2.weight)
    assert (ours.norm.gain == 1).all() and (ours.norm.bias == 0).all()


def test_dropout_of_everything_leaves_the_input():
    ours, x = randomized(ParallelBlock(6, 2, 9, dropout=1.0)), torch.randn(2, 4, 6)
    assert torch.equal(ours(x), x)
    assert torch.equal(ours.self_attn(x), ours.self_attn.w_o.bias.expand(2, 4, 6))
    assert not torch.allclose(ours.eval()(x), x)


def test_the_two_outputs_are_dropped_independently():
    """Biases of 1 and 10, everything else 0: a feature gains nothing, 1, 10 or 11, over 1 − p."""
    ours = ParallelBlock(5, 1, 3, dropout=0.3)
    for parameter in ours.parameters():
        nn.init.zeros_(parameter)
    nn.init.ones_(ours.self_attn.w_o.bias)
    nn.init.constant_(ours.feed_forward.w_2.bias, 10.0)
    gain = (0.7 * ours(torch.zeros(1, 4000, 5))).round().long()
    shares = torch.bincount(gain.flatten(), minlength=12) / gain.numel()
    expected = {0: 0.09, 1: 0.21, 10: 0.21, 11: 0.49}
    for value, share in expected.items():
        assert abs(float(shares[value]) - share) < 0.03  # 8 deviations and more
    assert shares[list(expected)].sum() == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_dtype_is_that_of_the_input(dtype):
    ours, x = ParallelBlock(12, 3, 17).to(dtype), torch.randn(2, 5, 12).to(dtype)
    out = ours(x)
    assert out.dtype == dtype
    expected = ours.double()(x.double())
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=16 * torch.finfo(dtype).eps)


def test_empty_inputs_and_the_input_itself():
    ours, x = randomized(ParallelBlock(6, 2, 9)), torch.randn(2, 4, 6)
    assert ours(torch.zeros(2, 0, 6)).shape == (2, 0, 6)
    assert ours(torch.zeros(0, 5, 6)).shape == (0, 5, 6)
    before = x.clone()
    ours(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("n_heads", [0, 4, 12])
def test_heads_that_do_not_divide_d_model_are_refused(n_heads):
    with pytest.raises(ValueError, match="n_heads must divide d_model"):
        ParallelBlock(6, n_heads, 9)
