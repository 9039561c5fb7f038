"""Day 40: int8 against torch's observers and fake quantization, and against bounds that are derived."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import PerChannelMinMaxObserver

import implementation
from tests.reference.oracles import randomized
from variants.gpt import GPT, GPTConfig
from variants.kv_cache import CachedGPT, generate_cached
from variants.llama import LLaMA, LLaMAConfig
from variants.sampling import generate
from variants.shipping import (
    QuantizedEmbedding,
    QuantizedLinear,
    bytes_of,
    dequantize,
    quantize_int8,
    quantize_model,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
GPT_SIZES = GPTConfig(vocab=37, context=12, n_layers=2, n_heads=3, d_model=24, d_ff=40, dropout=0.0)
LLAMA_SIZES = LLaMAConfig(
    vocab=37, context=12, n_layers=2, n_heads=6, n_kv_heads=3, d_model=24, d_ff=40
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(40)


def wide(dtype):
    return torch.promote_types(dtype, torch.float32)


# --- There ----------------------------------------------------------------------------------------


def test_by_hand():
    weight = torch.tensor(
        [[0.5, -127.0, 100.4, 0.0], [0.0, 0.0, 0.0, 0.0], [2.54, 0.01, -1.27, 0.02]]
    )
    q, scale = quantize_int8(weight)
    assert q.tolist() == [[0, -127, 100, 0], [0, 0, 0, 0], [127, 0, -64, 1]]
    torch.testing.assert_close(scale, torch.tensor([[1.0], [1.0], [0.02]]))


@pytest.mark.parametrize("shape", [(7, 13), (1, 5), (9, 1), (64, 300)])
def test_scales_are_those_of_torchs_observer(shape):
    weight = torch.randn(shape)
    observer = PerChannelMinMaxObserver(
        ch_axis=0,
        dtype=torch.qint8,
        qscheme=torch.per_channel_symmetric,
        quant_min=-127,
        quant_max=127,
    )
    observer(weight)
    theirs, zero = observer.calculate_qparams()
    assert not zero.any()
    _, scale = quantize_int8(weight)
    torch.testing.assert_close(scale.squeeze(1), theirs, rtol=1e-7, atol=0)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("shape", [(7, 13), (1, 5), (9, 1), (64, 300)])
def test_integers_are_torchs(shape):
    weight = torch.randn(shape)
    q, scale = quantize_int8(weight)
    zero = torch.zeros(shape[0], dtype=torch.int64)
    theirs = torch.quantize_per_channel(weight, scale.squeeze(1), zero, 0, torch.qint8)
    # torch multiplies by 1/s: where a quotient lies within rounding of a half, both neighbors are nearest
    steps = weight.double() / scale.double()
    clear = ((steps.abs() % 1) - 0.5).abs() > 1e-4
    assert clear.float().mean() > 0.99
    assert torch.equal(q[clear], theirs.int_repr()[clear])
    torch.testing.assert_close(
        dequantize(q, scale)[clear], theirs.dequantize()[clear], rtol=0, atol=0
    )
    fake = torch.fake_quantize_per_channel_affine(
        weight, scale.squeeze(1), zero.int(), 0, -127, 127
    )
    torch.testing.assert_close(dequantize(q, scale)[clear], fake[clear], rtol=0, atol=0)


def test_a_loop_gives_the_same():
    weight = torch.randn(5, 8, dtype=torch.float64)
    q, scale = quantize_int8(weight)
    for i, row in enumerate(weight.tolist()):
        step = max(abs(w) for w in row) / 127
        assert scale[i].item() == step
        assert q[i].tolist() == [round(w / step) for w in row]  # Python's ties go to the even, too


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_weight_is_off_by_more_than_half_a_step(dtype):
    """|w − s q| ≤ s/2: the nearest of marks that are s apart is no further away, and all lie among them.

    Computed in a dtype with ε: the quotient, at most 127, is off by 127 ε at the most, so the mark may be the
    second nearest by as much; the product s q adds ε |w| ≤ 127 s ε.
    """
    weight = torch.randn(40, 200).to(dtype)
    q, scale = quantize_int8(weight)
    off = (weight.double() - dequantize(q, scale).double()).abs()
    eps = torch.finfo(wide(dtype)).eps
    assert (off <= scale.double() * (0.5 + 2 * 127 * eps)).all()
    assert (off / scale).max() > 0.45  # and the bound is reached


def test_the_rounding_is_spread_evenly():
    """Weights in no relation to the step are off by anything up to half a step: by s/√12 on the average."""
    weight = torch.rand(1, 400_000, dtype=torch.float64) * 2 - 1
    q, scale = quantize_int8(weight)
    off = (weight - dequantize(q, scale)) / scale
    assert abs(off.square().mean().sqrt().item() * math.sqrt(12) - 1) < 0.01


def test_ties_go_to_the_even():
    weight = torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5]])
    q, scale = quantize_int8(weight / 8)
    assert scale.item() == 0.125
    assert q.tolist() == [[127, 0, 2, 2, 0, -2, -2, 126]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_have_scales_of_their_own(dtype):
    weight = torch.randn(6, 11).to(dtype) * torch.tensor(
        [[1e-4], [1.0], [1e3], [0.0], [1.0], [3.0]]
    ).to(dtype)
    q, scale = quantize_int8(weight)
    assert q.shape == (6, 11) and q.dtype == torch.int8
    assert scale.shape == (6, 1) and scale.dtype == wide(dtype)
    assert q.abs().amax(dim=1).tolist() == [127, 127, 127, 0, 127, 127]
    assert scale[3].item() == 1
    assert q.min() >= -127
    for i in range(6):
        alone, its = quantize_int8(weight[i : i + 1])
        assert torch.equal(alone[0], q[i]) and torch.equal(its[0], scale[i])


@pytest.mark.parametrize("largest", [0.0, 1e-45, 1.4e-43, 2.7e-43, 1e-37])
def test_a_row_of_next_to_nothing(largest):
    """Scales below the smallest normal number are 1: 2.7e-43 in steps of 1.4e-45 would be 190 of them."""
    weight = torch.tensor([[largest, -largest, 0.0]])
    q, scale = quantize_int8(weight)
    assert scale.item() == 1 and q.tolist() == [[0, 0, 0]]
    q, scale = quantize_int8(torch.tensor([[2e-36, -1e-36]]))
    assert scale.item() < 1e-37 and q[0, 0] == 127 and q[0, 1] in (-63, -64)


def test_minus_w_becomes_minus_q():
    weight = torch.randn(5, 9)
    q, scale = quantize_int8(weight)
    minus, same = quantize_int8(-weight)
    assert torch.equal(minus, -q) and torch.equal(scale, same)


def test_what_was_quantized_stays_the_same():
    q, scale = quantize_int8(torch.randn(5, 9))
    again, same = quantize_int8(dequantize(q, scale))
    assert torch.equal(q, again)
    torch.testing.assert_close(scale, same, rtol=1e-6, atol=0)


def test_the_weight_stays_as_it_is_and_nothing_has_a_history():
    weight = nn.Parameter(torch.randn(3, 4))
    before = weight.detach().clone()
    q, scale = quantize_int8(weight)
    assert torch.equal(weight, before)
    assert not scale.requires_grad and not q.requires_grad and scale.grad_fn is None


def test_layouts_and_no_rows():
    weight = torch.randn(7, 5)
    q, scale = quantize_int8(weight.t())
    expected, its = quantize_int8(weight.t().contiguous())
    assert torch.equal(q, expected) and torch.equal(scale, its)
    q, scale = quantize_int8(torch.zeros(0, 5))
    assert q.shape == (0, 5) and scale.shape == (0, 1)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (torch.ones(4), "must be"),
        (torch.ones(2, 3, 4), "must be"),
        (torch.ones(2, 0), "must be"),
        (torch.ones(2, 3, dtype=torch.int64), "torch.int64"),
        (torch.tensor([[1.0, math.inf]]), "infinity or NaN"),
        (torch.tensor([[1.0, math.nan]]), "infinity or NaN"),
    ],
)
def test_bad_weights_are_refused(weight, words):
    with pytest.raises(ValueError, match=words):
        quantize_int8(weight)


# --- And back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (0, 5), (4, 0), (2, 3, 4), (6,)])
def test_dequantize(dtype, shape):
    q = torch.randint(-127, 128, shape, dtype=torch.int8)
    scale = torch.rand(*shape[:-1], 1).to(dtype)
    back = dequantize(q, scale)
    assert back.shape == shape and back.dtype == dtype
    assert torch.equal(back, q.to(dtype) * scale)


def test_gradients_reach_the_scale():
    q = torch.randint(-127, 128, (3, 5), dtype=torch.int8)
    scale = torch.rand(3, 1, requires_grad=True)
    dequantize(q, scale).sum().backward()
    torch.testing.assert_close(scale.grad, q.sum(dim=1, keepdim=True).float())


def test_what_does_not_belong_together_is_refused():
    q = torch.zeros(3, 5, dtype=torch.int8)
    with pytest.raises(ValueError, match="must be int8"):
        dequantize(q.int(), torch.ones(3, 1))
    for shape in ((3,), (5,), (1, 5), (5, 1), ()):
        with pytest.raises(ValueError, match="scale must be"):
            dequantize(q, torch.ones(shape))


# --- A layer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 1, 3), (0,), (2, 0)])
def test_a_layer_is_linear_with_dequantized_weights(bias, batch):
    layer = QuantizedLinear(nn.Linear(7, 5, bias=bias).double())
    x = torch.randn(*batch, 7, dtype=torch.float64, requires_grad=True)
    expected = F.linear(x, dequantize(layer.quantized, layer.scale), layer.bias)
    y = layer(x)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    direction = torch.randn_like(y)
    ours, theirs = (torch.autograd.grad(out, x, direction)[0] for out in (y, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_a_layer_is_off_by_no_more_than_its_bound():
    """|y − ŷ|ᵢ = |Σⱼ (W − Ŵ)ᵢⱼ xⱼ| ≤ sᵢ/2 Σⱼ |xⱼ|; and reached, but for a little, by the worst x."""
    linear = nn.Linear(300, 20).double()
    layer = QuantizedLinear(linear)
    x = torch.randn(50, 300, dtype=torch.float64)
    half_steps = layer.scale.squeeze(1) / 2
    bound = x.abs().sum(dim=1, keepdim=True) * half_steps
    assert ((layer(x) - linear(x)).abs() <= bound * (1 + 1e-10)).all()
    off = linear.weight - layer.weight
    worst = off.sign()  # for each output an x of its own
    reached = (layer(worst) - linear(worst)).diagonal().abs() / (300 * half_steps)
    assert (reached > 0.4).all() and (reached <= 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_layers_output_has_the_dtype_of_its_input(dtype):
    linear = nn.Linear(64, 9)
    x = torch.randn(3, 64, dtype=torch.float64).to(dtype)
    for layer in (
        QuantizedLinear(linear),
        QuantizedLinear(copy.deepcopy(linear).to(dtype)),
        QuantizedLinear(linear).to(dtype),
    ):
        y = layer(x)
        assert y.dtype == dtype and layer.quantized.dtype == torch.int8
        bias = layer.bias.double()
        expected = F.linear(x.double(), dequantize(layer.quantized, layer.scale.double()), bias)
        torch.testing.assert_close(y.double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=1e-5)


def test_halves_do_not_overflow():
    """64 inputs of 30 times 127 make 243,840, which float16 has not; the output is some hundreds."""
    linear = nn.Linear(64, 2, bias=False)
    linear.weight.data.fill_(0.1)
    y = QuantizedLinear(linear)(torch.full((1, 64), 30.0).half())
    assert y.isfinite().all()
    torch.testing.assert_close(y.float(), torch.full((1, 2), 192.0), rtol=1e-3, atol=0)


@pytest.mark.parametrize("bias", [True, False])
def test_what_a_layer_holds(bias):
    linear = nn.Linear(7, 5, bias=bias)
    layer = QuantizedLinear(linear)
    held = {name: (tuple(one.shape), one.dtype) for name, one in layer.state_dict().items()}
    assert held == {
        "quantized": ((5, 7), torch.int8),
        "scale": ((5, 1), torch.float32),
    } | ({"bias": ((5,), torch.float32)} if bias else {})
    assert list(layer.parameters()) == [] and list(layer.children()) == []
    assert set(dict(layer.named_buffers())) == set(held)
    layer(torch.randn(2, 7))
    assert set(layer.state_dict()) == set(held)  # a call leaves nothing behind
    assert not [one for one in vars(layer).values() if isinstance(one, torch.Tensor)]
    torch.testing.assert_close(
        layer.weight, dequantize(layer.quantized, layer.scale), rtol=0, atol=0
    )
    assert (layer.bias is None) == (not bias)


def test_what_becomes_of_the_linear_layer_does_not_show():
    linear = nn.Linear(7, 5)
    layer, x = QuantizedLinear(linear), torch.randn(2, 7)
    before = layer(x)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    assert torch.equal(layer(x), before)


def test_a_state_dict_loads():
    one, other = QuantizedLinear(nn.Linear(7, 5)), QuantizedLinear(nn.Linear(7, 5))
    other.load_state_dict(one.state_dict())
    x = torch.randn(2, 7)
    assert torch.equal(one(x), other(x))
    copy.deepcopy(one)


def test_a_bad_layer_is_refused():
    linear = nn.Linear(3, 2)
    nn.init.constant_(linear.weight, math.nan)
    with pytest.raises(ValueError, match="infinity or NaN"):
        QuantizedLinear(linear)


# --- An embedding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 0)])
def test_an_embedding_gives_rows_of_its_table(dtype, batch):
    embedding = nn.Embedding(11, 6).to(dtype)
    small = QuantizedEmbedding(embedding)
    tokens = torch.randint(11, batch)
    rows = small(tokens)
    assert rows.dtype == dtype and rows.shape == (*batch, 6)
    assert torch.equal(rows, F.embedding(tokens, small.weight))
    off = (small.weight.double() - embedding.weight.double()).abs()
    eps = torch.finfo(dtype).eps  # of the scale, which is rounded to it, and of the product
    assert (off <= small.scale.double() * (0.5 + 2 * 127 * eps)).all()


# --- A whole model --------------------------------------------------------------------------------


def with_dequantized_weights(model):
    """The model itself, each matrix replaced by its nearest in eight bits: what must come out."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.weight.copy_(dequantize(*quantize_int8(module.weight)))
    return model


def a_model(kind):
    if kind == "paper":
        return implementation.make_model(37, 37, 1, 24, 40, 3, tie=True)
    kinds = {
        "gpt": (GPT, GPT_SIZES),
        "cached": (CachedGPT, GPT_SIZES),
        "llama": (LLaMA, LLAMA_SIZES),
    }
    made, sizes = kinds[kind]
    return made(sizes)


def asked(model, kind):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1, 37, (2, 9), generator=generator)
    if kind == "paper":
        seen = torch.ones(2, 1, 9, dtype=torch.bool)
        return model.generator(model(tokens, tokens, seen, implementation.subsequent_mask(9)))
    return model(tokens)


@pytest.mark.parametrize("kind", ["gpt", "cached", "llama", "paper"])
def test_a_model_with_eight_bits_is_the_model_with_dequantized_weights(kind):
    model = randomized(a_model(kind)).double().eval()
    small = quantize_model(model)
    torch.testing.assert_close(
        asked(small, kind), asked(with_dequantized_weights(model), kind), rtol=0, atol=1e-10
    )
    assert not torch.equal(asked(small, kind), asked(model, kind))
    kinds = {type(module) for module in small.modules()}
    assert not kinds & {nn.Linear, nn.Embedding} and QuantizedEmbedding in kinds
    assert {type(module) for module in model.modules()} & {nn.Linear}  # it stays as it was
    matrices = [one for one in small.state_dict().values() if one.dim() == 2 and one.size(1) > 1]
    assert all(one.dtype == torch.int8 for one in matrices)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_keeps_its_dtype(dtype):
    for kind in ("gpt", "llama"):
        model = randomized(a_model(kind)).to(dtype)
        for small in (quantize_model(model), quantize_model(model.float()).to(dtype)):
            out = asked(small, kind)
            assert out.dtype == dtype and out.isfinite().all()


def test_tied_matrices_stay_one():
    small = quantize_model(a_model("paper"))
    first = small.src_embed[0].lut.quantized
    assert small.tgt_embed[0].lut.quantized is first and small.generator.proj.quantized is first
    untied = quantize_model(implementation.make_model(37, 37, 1, 24, 40, 3))
    assert untied.src_embed[0].lut.quantized is not untied.generator.proj.quantized


@pytest.mark.parametrize("kind", ["gpt", "llama", "paper"])
def test_its_state_dict_loads_into_any_of_its_kind(kind):
    small = quantize_model(randomized(a_model(kind)).eval())
    other = quantize_model(a_model(kind).eval())
    other.load_state_dict(copy.deepcopy(small.state_dict()))
    assert torch.equal(asked(small, kind), asked(other, kind))


def test_it_writes_with_a_cache_and_keeps_the_mode():
    for kind in ("cached", "llama"):
        model = randomized(a_model(kind)).train()
        model.blocks.eval()
        small = quantize_model(model)
        assert small.training and not small.blocks.training
        assert {m.training for m in small.blocks.modules()} == {False}
        prompt = torch.randint(37, (2, 3))
        assert torch.equal(
            generate_cached(small, prompt, 12, temperature=0),
            generate(small, prompt, 12, temperature=0),
        )


def test_a_quarter_of_the_bytes():
    """A byte a weight, four a row and for each number that is no matrix: 1/4 + 1/width, and a little."""
    sizes = GPTConfig(vocab=300, context=64, n_layers=2, n_heads=4, d_model=128, d_ff=512)
    for model in (GPT(sizes), LLaMA(LLaMAConfig(300, 64, 2, 4, 2, 128, 384))):
        small = quantize_model(model)
        weights = [one for one in model.parameters() if one.dim() == 2]
        rows, numbers = sum(len(one) for one in weights), sum(one.numel() for one in weights)
        others = sum(one.numel() for one in model.parameters() if one.dim() == 1)
        assert bytes_of(model) == 4 * (numbers + others)
        assert bytes_of(small) == numbers + 4 * rows + 4 * others
        assert bytes_of(small) <= 0.27 * bytes_of(model)


def test_what_is_shared_counts_once():
    model = implementation.make_model(37, 37, 1, 24, 40, 3, tie=True)
    untied = implementation.make_model(37, 37, 1, 24, 40, 3)
    assert bytes_of(untied) - bytes_of(model) == 2 * 4 * 37 * 24
    assert bytes_of(quantize_model(untied)) - bytes_of(quantize_model(model)) == 2 * 37 * 24
