"""Day 40: int8 against torch's observers and fake quantization, and against bounds that are derived."""

import copy

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


# --- Weights --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_weight_is_off_by_more_than_half_a_step(dtype):
    """|w − s q| ≤ s/2: the nearest of marks that are s apart is no further away, and all lie among them.

    Computed in a dtype with ε: the quotient, at most 127, is off by 127 ε at the most, so the mark may be the
    second nearest by as much; the product s q adds ε |w| ≤ 127 s ε.
    """
    weight = torch.randn(40, 200).to(dtype)
    q, scale = quantize_int8(weight)
    off = (weight.double() - dequantize(q, scale).double()).abs()
    eps = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    assert (off <= scale.double() * (0.5 + 2 * 127 * eps)).all()
    assert (off / scale).max() > 0.45  # and the bound is reached


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
    """A copy of the model whose matrices have the values that eight bits can represent."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.weight.copy_(dequantize(*quantize_int8(module.weight)))
    return model


MODELS = {
    "gpt": lambda: GPT(GPT_SIZES),
    "cached": lambda: CachedGPT(GPT_SIZES),
    "llama": lambda: LLaMA(LLAMA_SIZES),
    "paper": lambda: implementation.make_model(37, 37, 1, 24, 40, 3, tie=True),
}


def scores(model, kind):
    tokens = torch.randint(1, 37, (2, 9), generator=torch.Generator().manual_seed(1))
    if kind == "paper":
        mask = implementation.subsequent_mask(9)
        return model.generator(model(tokens, tokens, None, mask))
    return model(tokens)


@pytest.mark.parametrize("kind", ["gpt", "cached", "llama", "paper"])
def test_a_model_with_eight_bits_is_the_model_with_dequantized_weights(kind):
    model = randomized(MODELS[kind]()).double().eval()
    small = quantize_model(model)
    torch.testing.assert_close(
        scores(small, kind), scores(with_dequantized_weights(model), kind), rtol=0, atol=1e-10
    )
    assert not torch.equal(scores(small, kind), scores(model, kind))
    kinds = {type(module) for module in small.modules()}
    assert not kinds & {nn.Linear, nn.Embedding} and QuantizedEmbedding in kinds
    assert {type(module) for module in model.modules()} & {nn.Linear}  # it stays as it was
    matrices = [x for x in small.state_dict().values() if x.dim() == 2 and x.size(1) > 1]
    assert all(matrix.dtype == torch.int8 for matrix in matrices)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_keeps_its_dtype(dtype):
    for kind in ("gpt", "llama"):
        model = randomized(MODELS[kind]()).to(dtype)
        for small in (quantize_model(model), quantize_model(model.float()).to(dtype)):
            out = scores(small, kind)
            assert out.dtype == dtype and out.isfinite().all()


def test_tied_matrices_stay_one():
    small = quantize_model(MODELS["paper"]())
    first = small.src_embed[0].lut.quantized
    assert small.tgt_embed[0].lut.quantized is first and small.generator.proj.quantized is first
    untied = quantize_model(implementation.make_model(37, 37, 1, 24, 40, 3))
    assert untied.src_embed[0].lut.quantized is not untied.generator.proj.quantized


@pytest.mark.parametrize("kind", ["gpt", "llama", "paper"])
def test_its_state_dict_loads_into_any_of_its_kind(kind):
    small = quantize_model(randomized(MODELS[kind]()).eval())
    other = quantize_model(MODELS[kind]().eval())
    other.load_state_dict(copy.deepcopy(small.state_dict()))
    assert torch.equal(scores(small, kind), scores(other, kind))


def test_it_writes_with_a_cache_and_keeps_the_mode():
    for kind in ("cached", "llama"):
        model = randomized(MODELS[kind]()).train()
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
        matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
        rows, numbers = map(sum, zip(*((len(w), w.numel()) for w in matrices), strict=True))
        vectors = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() == 1)
        assert bytes_of(model) == 4 * (numbers + vectors)
        assert bytes_of(small) == numbers + 4 * rows + 4 * vectors
        assert bytes_of(small) <= 0.27 * bytes_of(model)


def test_what_is_shared_counts_once():
    model = implementation.make_model(37, 37, 1, 24, 40, 3, tie=True)
    untied = implementation.make_model(37, 37, 1, 24, 40, 3)
    assert bytes_of(untied) - bytes_of(model) == 2 * 4 * 37 * 24
    assert bytes_of(quantize_model(untied)) - bytes_of(quantize_model(model)) == 2 * 37 * 24
