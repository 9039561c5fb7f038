"""Mamba of day 37 against transformers' own, and its parallel scan against the sequential one.

Float64 has to agree to 1e-10, logits and gradients. transformers computes parts of the layer in float32
whatever the weights' dtype, which is right to 1e-6 only. So its conversions are taken out, and one test
compares with transformers as it is.
"""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.reference.oracles import assert_agree, assert_same_gradients, randomized
from tests.variants.recorders import Results
from variants import mamba as module
from variants.hugging_face import mamba
from variants.mamba import (
    CHUNK,
    Mamba,
    MambaConfig,
    MambaLM,
    associative_scan,
    parallel_scan,
    selective_scan,
)

pytestmark = pytest.mark.usefixtures("float64")

SMALL = MambaConfig(vocab=13, n_layers=2, d_model=6, d_state=5, d_conv=4, expand=3, dt_rank=2)
SIZES = pytest.mark.parametrize(
    "config",
    [
        SMALL,
        dataclasses.replace(SMALL, n_layers=3, d_conv=3, eps=0.1),
        dataclasses.replace(SMALL, d_conv=2, expand=1, d_state=1, dt_rank=1),
        MambaConfig(7, 1, 1, 2, 5, 2, 3),
    ],
    ids=["small", "three layers", "one number of state", "narrow"],
)


@pytest.fixture
def exact(monkeypatch):
    """transformers' Mamba without its conversions to float32."""
    published = pytest.importorskip("transformers.models.mamba.modeling_mamba")

    def normed(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.variance_epsilon)

    monkeypatch.setattr(published.MambaRMSNorm, "forward", normed)
    monkeypatch.setattr(Tensor, "float", lambda self: self)


def scanned(b=2, t=7, d=3, n=4, dtype=torch.float64, scale=1.0):
    """The arguments of a scan."""
    return {
        "u": torch.randn(b, t, d, dtype=dtype),
        "delta": scale * torch.rand(b, t, d, dtype=dtype),
        "a": -torch.rand(d, n, dtype=dtype) - 0.1,
        "b": torch.randn(b, t, n, dtype=dtype),
        "c": torch.randn(b, t, n, dtype=dtype),
        "d": torch.randn(d, dtype=dtype),
    }


def with_gradients(function, inputs):
    """The output of a function, and the gradients of a weighted sum of its numbers."""
    inputs = {name: tensor.detach().clone().requires_grad_() for name, tensor in inputs.items()}
    output = function(**inputs)
    generator = torch.Generator().manual_seed(5)
    weights = torch.rand(output.shape, generator=generator, dtype=output.dtype)
    (weights * output).sum().backward()
    return output, {name: tensor.grad for name, tensor in inputs.items()}


def theirs(config):
    """transformers' Mamba of these sizes, with no parameter left at 0 or 1."""
    transformers = pytest.importorskip("transformers")
    sizes = transformers.MambaConfig(
        vocab_size=config.vocab,
        hidden_size=config.d_model,
        state_size=config.d_state,
        num_hidden_layers=config.n_layers,
        layer_norm_epsilon=config.eps,
        expand=config.expand,
        conv_kernel=config.d_conv,
        time_step_rank=config.dt_rank,
        residual_in_fp32=False,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    return randomized(transformers.MambaForCausalLM(sizes).double()).eval()


def pair(config):
    """transformers' model, and ours with its weights."""
    published, ours = theirs(config), MambaLM(config).eval()
    ours.load_state_dict(mamba(published.state_dict()))
    return published, ours


def texts(config, rows=3, length=12):
    return torch.randint(config.vocab, (rows, length))


# --- The scan -------------------------------------------------------------------------------------


def in_pieces(sizes):
    """The parallel scan over pieces of a text, each from the state after the last."""

    def scan(a, d, **inputs):
        outputs, h = [], None
        for piece in zip(*(x.split(sizes, dim=1) for x in inputs.values()), strict=True):
            y, h = parallel_scan(**dict(zip(inputs, piece, strict=True)), a=a, d=d, h=h)
            outputs.append(y)
        return torch.cat(outputs, dim=1)

    return scan


@pytest.mark.parametrize("chunk", [2, 3, CHUNK])
@pytest.mark.parametrize(
    "sizes", [[1], [2], [3], [CHUNK - 1], [CHUNK + 1], [3 * CHUNK + 5], [7, 1, 20]], ids=str
)
def test_the_parallel_scan_in_pieces_is_the_sequential_one(sizes, chunk, monkeypatch):
    """Outputs and gradients."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    inputs = scanned(2, sum(sizes), 3, 4)
    expected, expected_gradients = with_gradients(selective_scan, inputs)
    output, gradients = with_gradients(in_pieces(sizes), inputs)
    assert_agree(output, expected)
    assert_agree(gradients, expected_gradients)


@pytest.mark.parametrize("time", [16, 64, 100])
def test_rounds_are_logarithmic_and_work_is_linear(time):
    """How many tensors are multiplied, one by another, and how many tokens those have together."""
    sizes = []

    class Counted(Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function is Tensor.__mul__ or function is Tensor.mul:
                sizes.append(max(args[0].size(1), args[1].size(1)))
            return super().__torch_function__(function, types, args, kwargs or {})

    decay, added = (torch.rand(1, time, 2).as_subclass(Counted) for _ in range(2))
    associative_scan(decay, added)
    assert len(sizes) == 3 * (math.ceil(math.log2(time + 1)) - 1)
    assert sum(sizes) < 3 * time


@pytest.mark.parametrize(
    ("dtype", "wide"), [(torch.bfloat16, torch.float32), (torch.float64, torch.float64)]
)
def test_the_state_is_float32_at_least(dtype, wide):
    inputs = scanned(2, 3, 3, 4, dtype=dtype)
    y, h = parallel_scan(**inputs)
    assert (y.dtype, h.dtype, tuple(h.shape)) == (dtype, wide, (2, 3, 4))
    y, h = parallel_scan(**inputs, h=h)
    assert (y.dtype, h.dtype) == (dtype, wide)


@pytest.mark.parametrize("chunk", [4, 8])
def test_without_gradients_one_chunk_of_states_is_stored(chunk, monkeypatch):
    """No intermediate tensor has more numbers than a chunk's states, or than y."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    with torch.no_grad(), Results() as results:
        parallel_scan(**scanned(1, 64, 2, 8))
    assert results.largest <= max(chunk * 2 * 8, 64 * 8)


# --- The layer ------------------------------------------------------------------------------------


@pytest.mark.parametrize("autocast", [False, True])
def test_steps_and_decay_are_float32_where_the_rest_is_not(autocast, monkeypatch):
    """Within autocast, the bias of dt_proj is not rounded to bfloat16, which has three digits."""
    arguments, scan = {}, parallel_scan
    monkeypatch.setattr(module, "parallel_scan", lambda **how: arguments.update(how) or scan(**how))
    layer, x = Mamba(SMALL).float(), torch.randn(2, 5, 6)
    x = x.float() if autocast else x.bfloat16()
    layer = layer if autocast else layer.bfloat16()
    torch.nn.init.zeros_(layer.dt_proj.weight)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        layer(x)
    assert arguments["u"].dtype == torch.bfloat16 and arguments["h"].dtype == torch.float32
    steps = F.softplus(layer.dt_proj.bias.float()).expand(2, 5, -1)
    torch.testing.assert_close(arguments["delta"], steps)
    torch.testing.assert_close(arguments["a"], -layer.a_log.float().exp())


def test_new_states_are_where_the_weights_are():
    model = MambaLM(SMALL).to("meta", torch.bfloat16)
    for state in model.new_states(3):
        assert state.window.device.type == state.h.device.type == "meta"
        assert (state.window.dtype, state.h.dtype) == (torch.bfloat16, torch.float32)


def test_defaults_are_those_of_the_smallest_published_model():
    """Mamba 130m; transformers counts its parameters."""
    transformers = pytest.importorskip("transformers")
    config = MambaConfig()
    assert config.d_inner == 1536 and config.dt_rank == math.ceil(config.d_model / 16)
    sizes = transformers.MambaConfig(num_hidden_layers=24, vocab_size=50280)
    with torch.device("meta"):
        published, ours = transformers.MambaForCausalLM(sizes), MambaLM(config)
    counts = [sum(p.numel() for p in model.parameters()) for model in (published, ours)]
    assert counts == [129_135_360, 129_135_360]


# --- The whole, against transformers --------------------------------------------------------------


@SIZES
@pytest.mark.usefixtures("exact")
def test_logits_and_gradients_are_those_of_transformers(config):
    published, ours = pair(config)
    text = texts(config)
    expected, actual = published(text).logits, ours(text)
    assert_agree(actual, expected)
    for logits in (expected, actual):
        F.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten()).backward()
    assert_same_gradients(ours, published, mamba)


def test_transformers_as_it_is_agrees_to_float32():
    """What the other tests replace in it is replaced by the same."""
    published, ours = pair(SMALL)
    text = texts(SMALL)
    torch.testing.assert_close(ours(text), published(text).logits.double(), rtol=1e-4, atol=1e-4)


@SIZES
@pytest.mark.usefixtures("exact")
def test_steps_have_the_logits_of_transformers_and_of_its_cache(config):
    """A prompt, and then token by token: transformers reads no longer chunk from a state."""
    published, ours = pair(config)
    text, states, past = texts(config), ours.new_states(3), None
    for part in text.split([5] + [1] * 7, dim=1):
        expected = published(part, cache_params=past, use_cache=True)
        past = expected.cache_params
        assert_agree(ours(part, states), expected.logits)


def test_a_published_state_dict_fills_ours():
    """MambaModel has no prefix and no head; the authors' files call the table `embedding`."""
    published = theirs(SMALL)
    state = mamba(published.state_dict())
    bare = published.backbone.state_dict()
    bare["embedding.weight"] = bare.pop("embeddings.weight")
    assert state.keys() == mamba(bare).keys() == MambaLM(SMALL).state_dict().keys()


def test_a_head_of_its_own_and_unknown_names_are_refused():
    weights = theirs(SMALL).state_dict()
    with pytest.raises(ValueError, match="tied"):
        mamba(weights | {"lm_head.weight": torch.zeros(13, 6)})
    # safetensors stores either name of what is tied
    assert mamba({"lm_head.weight": torch.zeros(13, 6)}).keys() == {"embed.weight"}
    with pytest.raises(ValueError, match=r"layers\.0\.mixer\.in_proj\.bias"):
        mamba({"backbone.layers.0.mixer.in_proj.bias": torch.zeros(36)})


def test_start_of_the_model():
    config = dataclasses.replace(SMALL, n_layers=4, d_model=100, vocab=500)
    model = MambaLM(config)
    assert abs(model.embed.weight.std() / 0.02 - 1) < 0.05
    for block in model.blocks:
        weight = block.mixer.out_proj.weight
        assert abs(weight.std() * (3 * weight.size(1)) ** 0.5 - 0.5) < 0.02
        assert (block.norm.gain == 1).all()
    assert not torch.equal(*(model.blocks[n].mixer.in_proj.weight for n in (0, 1)))
