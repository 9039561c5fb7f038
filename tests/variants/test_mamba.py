"""Mamba of day 37 against loops and transformers' own, and each promise of its docstrings by itself.

Float64 has to agree to 1e-10, logits and gradients. transformers computes parts of the layer in float32
whatever the weights' dtype, which is right to 1e-6 only. So its conversions are taken out, and one test
compares with transformers as it is.
"""

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.reference.oracles import assert_agree, randomized
from variants import mamba as module
from variants.hugging_face import mamba
from variants.mamba import (
    CHUNK,
    Mamba,
    MambaConfig,
    MambaLM,
    MambaState,
    associative_scan,
    parallel_scan,
    selective_scan,
)

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
CHUNKS = [[12], [1] * 12, [5, 7], [7, 1, 1, 3], [2, 10]]
NAMES = ("u", "delta", "a", "b", "c", "d")


@pytest.fixture(autouse=True)
def _float64():
    """Every test starts from one seed, and modules made in it have float64 parameters."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(2312)
    yield
    torch.set_default_dtype(default)


@pytest.fixture
def exact(monkeypatch):
    """transformers' Mamba without its conversions to float32."""
    published = pytest.importorskip("transformers.models.mamba.modeling_mamba")

    def normed(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.variance_epsilon)

    monkeypatch.setattr(published.MambaRMSNorm, "forward", normed)
    monkeypatch.setattr(Tensor, "float", lambda self: self)


def scanned(b=2, t=7, d=3, n=4, dtype=torch.float64, scale=1.0):
    """What a scan is given."""
    return {
        "u": torch.randn(b, t, d, dtype=dtype),
        "delta": scale * torch.rand(b, t, d, dtype=dtype),
        "a": -torch.rand(d, n, dtype=dtype) - 0.1,
        "b": torch.randn(b, t, n, dtype=dtype),
        "c": torch.randn(b, t, n, dtype=dtype),
        "d": torch.randn(d, dtype=dtype),
    }


def by_definition(u, delta, a, b, c, d, start=None):
    """Number by number: eq. 2 of the paper, with the code's discretisation and its skip."""
    rows, time, width = u.shape
    y = [[[None] * width for _ in range(time)] for _ in range(rows)]
    last = [[None] * width for _ in range(rows)]
    for row in range(rows):
        for i in range(width):
            h = [torch.zeros(()) if start is None else start[row, i, n] for n in range(a.size(1))]
            for t in range(time):
                step = delta[row, t, i]
                h = [
                    torch.exp(step * a[i, n]) * h[n] + step * b[row, t, n] * u[row, t, i]
                    for n in range(a.size(1))
                ]
                read = sum(c[row, t, n] * h[n] for n in range(a.size(1)))
                y[row][t][i] = read + d[i] * u[row, t, i]
            last[row][i] = torch.stack(h)
    return (
        torch.stack([torch.stack([torch.stack(x) for x in row]) for row in y]),
        torch.stack([torch.stack(row) for row in last]),
    )


def with_gradients(function, given):
    """What a function makes of the inputs, and the gradients of a weighted sum of it."""
    given = {name: one.detach().clone().requires_grad_() for name, one in given.items()}
    results = function(**given)
    results = results if isinstance(results, tuple) else (results,)
    weights = torch.Generator().manual_seed(5)
    total = sum((torch.rand(r.shape, generator=weights, dtype=r.dtype) * r).sum() for r in results)
    total.backward()
    return results, {name: one.grad for name, one in given.items()}


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


def equal(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


# --- The scan -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 6, 3, 2), (1, 1, 2, 1), (3, 2, 1, 4)], ids=str)
def test_sequential_scan_is_the_definition(sizes):
    given = scanned(*sizes)
    (actual,), gradients = with_gradients(selective_scan, given)
    (expected,), right = with_gradients(lambda **how: by_definition(**how)[0], given)
    assert_agree(actual, expected)
    for name in NAMES:
        assert_agree(gradients[name], right[name])


@pytest.mark.parametrize("sizes", [(2, 6, 3, 2), (1, 1, 2, 1), (3, 2, 1, 4)], ids=str)
@pytest.mark.parametrize("chunk", [2, 3, 64])
def test_parallel_scan_from_a_state_is_the_definition(sizes, chunk, monkeypatch):
    """Outputs, the last state, and the gradients of both, of the first state too."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    given = scanned(*sizes) | {"h": torch.randn(sizes[0], sizes[2], sizes[3])}
    actual, gradients = with_gradients(parallel_scan, given)
    expected, right = with_gradients(lambda h, **how: by_definition(**how, start=h), given)
    for one, other in zip(actual, expected, strict=True):
        assert_agree(one, other)
    for name in (*NAMES, "h"):
        assert_agree(gradients[name], right[name])


@pytest.mark.parametrize("time", [1, 2, 3, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_parallel_and_sequential_scan_agree(time):
    given = scanned(2, time, 3, 4)
    (expected,), right = with_gradients(selective_scan, given)
    (actual,), gradients = with_gradients(lambda **how: parallel_scan(**how)[0], given)
    assert actual.shape == (2, time, 3)
    assert_agree(actual, expected)
    for name in NAMES:
        assert_agree(gradients[name], right[name])


@pytest.mark.parametrize("time", range(1, 18))
def test_associative_scan_is_a_loop(time):
    decay, written = torch.randn(2, 2, time, 3)
    h, states = torch.zeros(2, 3), []
    for t in range(time):
        h = decay[:, t] * h + written[:, t]
        states.append(h)
    equal(associative_scan(decay, written), torch.stack(states, dim=1))


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

    decay, written = (torch.rand(1, time, 2).as_subclass(Counted) for _ in range(2))
    associative_scan(decay, written)
    assert len(sizes) == 3 * (math.ceil(math.log2(time + 1)) - 1)
    assert sum(sizes) < 3 * time


@pytest.mark.parametrize("scan", [selective_scan, lambda **how: parallel_scan(**how)[0]])
def test_a_forgotten_past_is_no_nan(scan):
    """exp(Δ A) is 0 in float64 from −745 on; a product of many small decays is so much sooner."""
    given = scanned(2, 90, 3, 4, scale=30.0)
    given["a"] = given["a"] * 50
    (y,), gradients = with_gradients(scan, given)
    (expected,), right = with_gradients(selective_scan, given)
    assert y.isfinite().all()
    assert_agree(y, expected)
    for name in NAMES:
        assert gradients[name].isfinite().all()
        assert_agree(gradients[name], right[name])


def test_a_step_of_zero_leaves_the_state():
    given = scanned(2, 5, 3, 4)
    given["delta"][:, 2:] = 0
    _, h = parallel_scan(**given)
    _, earlier = parallel_scan(
        **{k: v[:, :2] if k in ("u", "delta", "b", "c") else v for k, v in given.items()}
    )
    equal(h, earlier)
    equal(selective_scan(**given), parallel_scan(**given)[0])


@pytest.mark.parametrize("scan", [selective_scan, lambda **how: parallel_scan(**how)[0]])
def test_later_tokens_change_nothing_earlier(scan):
    given, other = scanned(2, 9, 3, 4), scanned(2, 9, 3, 4)
    changed = {
        k: torch.cat([v[:, :5], other[k][:, 5:]], dim=1) if v.dim() == 3 else v
        for k, v in given.items()
    }
    equal(scan(**changed)[:, :5], scan(**given)[:, :5])


@pytest.mark.parametrize("scan", [selective_scan, lambda **how: parallel_scan(**how)[0]])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_halves_are_computed_in_float32(scan, dtype):
    """Two hundred tokens that the state adds up: in half precision it would stop at some."""
    given = scanned(2, 200, 3, 4, scale=0.05)
    given["a"] = given["a"] * 0.01
    given["u"], given["b"], given["c"] = (given[k].abs() for k in ("u", "b", "c"))
    rounded = {k: v.to(dtype) for k, v in given.items()}
    right = selective_scan(**{k: v.double() for k, v in rounded.items()})
    y = scan(**rounded)
    assert y.dtype == dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), right, rtol=eps if eps > 1e-6 else 1e-5, atol=1e-6)


@pytest.mark.parametrize("scan", [selective_scan, lambda **how: parallel_scan(**how)[0]])
def test_scans_within_autocast_are_in_float32(scan):
    given = scanned(2, 9, 3, 4, dtype=torch.float32)
    expected = scan(**given)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(scan(**given), expected)


@pytest.mark.parametrize(
    ("dtype", "wide"), [(torch.bfloat16, torch.float32), (torch.float64, torch.float64)]
)
def test_the_state_is_float32_at_least(dtype, wide):
    given = scanned(2, 3, 3, 4, dtype=dtype)
    y, h = parallel_scan(**given)
    assert (y.dtype, h.dtype, tuple(h.shape)) == (dtype, wide, (2, 3, 4))
    y, h = parallel_scan(**given, h=h)
    assert (y.dtype, h.dtype) == (dtype, wide)


@pytest.mark.parametrize("scan", [selective_scan, parallel_scan])
def test_scans_leave_their_arguments_alone(scan):
    given = scanned()
    kept = copy.deepcopy(given)
    scan(**given)
    for name in NAMES:
        assert torch.equal(given[name], kept[name])


@pytest.mark.parametrize("scan", [selective_scan, parallel_scan])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("u", (7, 3)),
        ("delta", (2, 7, 1)),
        ("delta", (2, 3, 7)),
        ("a", (4,)),
        ("a", (1, 4)),
        ("a", (4, 3)),
        ("b", (2, 7, 1)),
        ("b", (2, 4, 7)),
        ("c", (2, 1, 4)),
        ("c", (1, 7, 4)),
        ("d", (1,)),
        ("d", (7, 3)),
    ],
    ids=str,
)
def test_other_shapes_are_refused(scan, name, shape):
    with pytest.raises(ValueError, match=rf"\b{name} .*\({shape[0]},"):
        scan(**(scanned() | {name: torch.rand(shape)}))


def test_a_state_of_another_shape_is_refused():
    for shape in ((1, 3, 4), (2, 4, 3), (2, 3)):
        with pytest.raises(ValueError, match=r"h must be \(B, D, N\) = \(2, 3, 4\)"):
            parallel_scan(**scanned(), h=torch.zeros(shape))


@pytest.mark.parametrize("chunk", [4, 8])
def test_without_gradients_one_chunk_of_states_is_held(chunk, monkeypatch):
    """No tensor made on the way has more numbers than a chunk's states, or than y."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    sizes = []

    class Watched(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            sizes.extend(one.numel() for one in [result] if isinstance(one, Tensor))
            return result

    given = scanned(1, 64, 2, 8)
    with torch.no_grad(), Watched():
        parallel_scan(**given)
    assert max(sizes) <= max(chunk * 2 * 8, 64 * 8)


# --- The layer ------------------------------------------------------------------------------------


@SIZES
@pytest.mark.usefixtures("exact")
def test_layer_is_that_of_transformers(config):
    """Outputs and gradients, of the input too."""
    published, ours = pair(config)
    x = torch.randn(3, 12, config.d_model)
    layers = published.backbone.layers[0].mixer, ours.blocks[0].mixer
    results = [
        with_gradients(layer, {key: x})
        for layer, key in zip(layers, ("hidden_states", "x"), strict=True)
    ]
    ((expected,), right), ((actual,), gradients) = results
    assert_agree(actual, expected)
    assert_agree(gradients["x"], right["hidden_states"])


@SIZES
@pytest.mark.parametrize("sizes", CHUNKS, ids=str)
def test_layer_in_chunks_is_the_layer_at_once(config, sizes):
    layer, state = randomized(Mamba(config)), MambaState(config, 2)
    x = torch.randn(2, 12, config.d_model)
    parts = [layer(part, state) for part in x.split(sizes, dim=1)]
    equal(torch.cat(parts, dim=1), layer(x))
    assert state.window.shape == (2, config.d_conv - 1, config.d_inner)
    assert state.h.shape == (2, config.d_inner, config.d_state)


def test_the_state_holds_the_convolutions_last_inputs_and_the_scans_state():
    layer, state = randomized(Mamba(SMALL)), MambaState(SMALL, 2)
    assert not state.window.any() and not state.h.any()
    x = torch.randn(2, 9, 6)
    layer(x, state)
    inputs = layer.in_proj(x)[..., : SMALL.d_inner]
    equal(state.window, inputs[:, -3:])
    u = F.silu(layer.conv1d(F.pad(inputs.transpose(1, 2), (3, 0))).transpose(1, 2))
    r, b, c = layer.x_proj(u).split([2, 5, 5], dim=-1)
    delta = F.softplus(layer.dt_proj(r))
    _, h = by_definition(u, delta, -layer.a_log.exp(), b, c, layer.d)
    assert_agree(state.h, h)


def test_the_state_is_as_large_after_a_long_text():
    layer, state = Mamba(SMALL), MambaState(SMALL, 2)
    before = sum(one.numel() for one in vars(state).values())
    layer(torch.randn(2, 300, 6), state)
    assert sorted(vars(state)) == ["h", "window"]
    assert sum(one.numel() for one in vars(state).values()) == before == 2 * 18 * (3 + 5)
    held = sum(one.untyped_storage().nbytes() for one in vars(state).values())
    assert held == 8 * before  # and no view keeps more


def test_a_state_keeps_no_history_and_no_text():
    layer, state, x = randomized(Mamba(SMALL)), MambaState(SMALL, 2), torch.randn(2, 4, 6)
    x.requires_grad_()
    layer(x, state)
    assert not state.window.requires_grad and not state.h.requires_grad
    layer(x.detach(), state).sum().backward()
    assert x.grad is None


def test_rows_and_earlier_calls_do_not_matter():
    layer, x = randomized(Mamba(SMALL)), torch.randn(3, 8, 6)
    whole = layer(x)
    layer(torch.randn(1, 5, 6))
    equal(torch.cat([layer(row) for row in x.split(1)]), whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrower_layers_keep_their_dtype(dtype):
    layer, state = randomized(Mamba(SMALL)), MambaState(SMALL, 2)
    x = torch.randn(2, 9, 6)
    right, layer = layer(x), copy.deepcopy(layer).to(dtype)
    for out in (
        layer(x.to(dtype)),
        torch.cat([layer(part, state) for part in x.to(dtype).split([4, 5], dim=1)], dim=1),
    ):
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), right, rtol=0.05, atol=0.1)
    assert state.window.dtype == dtype


@pytest.mark.parametrize("autocast", [False, True])
def test_steps_and_decay_are_float32_where_the_rest_is_not(autocast, monkeypatch):
    """Within autocast, the bias of dt_proj is not rounded to bfloat16, which has three digits."""
    seen, scan = {}, parallel_scan
    monkeypatch.setattr(module, "parallel_scan", lambda **how: seen.update(how) or scan(**how))
    layer, x = Mamba(SMALL).float(), torch.randn(2, 5, 6)
    x = x.float() if autocast else x.bfloat16()
    layer = layer if autocast else layer.bfloat16()
    torch.nn.init.zeros_(layer.dt_proj.weight)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        layer(x)
    assert seen["u"].dtype == torch.bfloat16 and seen["h"].dtype == torch.float32
    steps = F.softplus(layer.dt_proj.bias.float()).expand(2, 5, -1)
    torch.testing.assert_close(seen["delta"], steps)
    torch.testing.assert_close(seen["a"], -layer.a_log.float().exp())


def test_new_states_are_where_the_weights_are():
    model = MambaLM(SMALL).to("meta", torch.bfloat16)
    for state in model.new_states(3):
        assert state.window.device.type == state.h.device.type == "meta"
        assert (state.window.dtype, state.h.dtype) == (torch.bfloat16, torch.float32)


def test_a_state_of_other_rows_is_refused_and_stays():
    layer, state = Mamba(SMALL), MambaState(SMALL, 2)
    layer(torch.randn(2, 3, 6), state)
    kept = {name: one.clone() for name, one in vars(state).items()}
    with pytest.raises(ValueError, match="state must have 3 rows as x, got 2"):
        layer(torch.randn(3, 3, 6), state)
    assert all(torch.equal(getattr(state, name), one) for name, one in kept.items())


def test_parameters_of_the_layer():
    shapes = {name: tuple(p.shape) for name, p in Mamba(SMALL).state_dict().items()}
    assert shapes == {
        "in_proj.weight": (36, 6),
        "conv1d.weight": (18, 1, 4),
        "conv1d.bias": (18,),
        "x_proj.weight": (12, 18),
        "dt_proj.weight": (18, 2),
        "dt_proj.bias": (18,),
        "a_log": (18, 5),
        "d": (18,),
        "out_proj.weight": (6, 18),
    }
    assert shapes.keys() == dict(Mamba(SMALL).named_parameters()).keys()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_start(dtype):
    """S4D-Real, steps between 0.001 and 0.1 uniform in their logarithm, and the weight by the rank."""
    torch.set_default_dtype(dtype)
    layer = Mamba(MambaConfig(d_model=1000, d_state=7, dt_rank=25))
    assert {p.dtype for p in layer.parameters()} == {dtype}
    torch.testing.assert_close(-layer.a_log.exp(), -torch.arange(1.0, 8).repeat(2000, 1))
    assert (layer.d == 1).all()
    weight = layer.dt_proj.weight
    assert 0.99 * 0.2 < weight.abs().max() <= 0.2
    assert abs(weight.std() * 3**0.5 / 0.2 - 1) < 0.01
    steps = F.softplus(layer.dt_proj.bias)
    assert steps.min() > 0.999e-3 and steps.max() < 0.1001
    places = (steps / 1e-3).log() / math.log(100)
    assert abs(places.mean() - 0.5) < 0.03 and abs(places.std() - 12**-0.5) < 0.02
    for name in ("in_proj", "x_proj", "out_proj"):
        weight = getattr(layer, name).weight
        assert abs(weight.std() * (3 * weight.size(1)) ** 0.5 - 1) < 0.01
    assert abs(layer.conv1d.weight.std() * 12**0.5 - 1) < 0.02


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
    theirs_by_name = mamba({name: p.grad for name, p in published.named_parameters()})
    ours_by_name = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert theirs_by_name.keys() == ours_by_name.keys()
    for name, gradient in ours_by_name.items():
        assert_agree(gradient, theirs_by_name[name])


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
        said = published(part, cache_params=past, use_cache=True)
        past = said.cache_params
        assert_agree(ours(part, states), said.logits)


@pytest.mark.parametrize("sizes", CHUNKS, ids=str)
def test_a_text_in_chunks_has_the_logits_of_the_whole(sizes):
    model = randomized(MambaLM(SMALL))
    text, states = texts(SMALL), model.new_states(3)
    parts = [model(part, states) for part in text.split(sizes, dim=1)]
    equal(torch.cat(parts, dim=1), model(text))


@pytest.mark.usefixtures("exact")
def test_greedy_text_is_that_of_transformers():
    published, ours = pair(SMALL)
    prompt = texts(SMALL, length=4)
    expected = published.generate(prompt, max_new_tokens=20, do_sample=False)
    states, part, text = ours.new_states(3), prompt, prompt
    for _ in range(20):
        part = ours(part, states)[:, -1:].argmax(dim=-1)
        text = torch.cat([text, part], dim=1)
    assert torch.equal(text, expected)


def test_a_published_state_dict_fills_ours():
    """MambaModel has no prefix and no head; the authors' files call the table `embedding`."""
    published = theirs(SMALL)
    whole = mamba(published.state_dict())
    bare = published.backbone.state_dict()
    bare["embedding.weight"] = bare.pop("embeddings.weight")
    assert whole.keys() == mamba(bare).keys() == MambaLM(SMALL).state_dict().keys()


def test_a_head_of_its_own_and_unknown_names_are_refused():
    weights = theirs(SMALL).state_dict()
    with pytest.raises(ValueError, match="tied"):
        mamba(weights | {"lm_head.weight": torch.zeros(13, 6)})
    alone = mamba(
        {"lm_head.weight": torch.zeros(13, 6)}
    )  # safetensors keeps any one of what is tied
    assert alone.keys() == {"embed.weight"}
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


def test_states_for_other_layers_are_refused():
    model = MambaLM(SMALL)
    for states in (model.new_states(2)[:1], [], model.new_states(2) * 2):
        with pytest.raises(ValueError, match=f"n_layers=2, got {len(states)}"):
            model(texts(SMALL, rows=2), states)
