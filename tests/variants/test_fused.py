"""The fast path computes what the classes of the lessons compute, gradients included, on any device."""

import copy
import io

import pytest
import torch
from torch import nn

from course.checks import practice
from course.checks.tensors import missing_device
from implementation import make_model
from variants.fused import FUSED, LastLogits, fuse
from variants.gpt import GPT, GPTConfig
from variants.kv_cache import CachedGPT, generate_cached, new_cache
from variants.llama import LLaMA, LLaMAConfig
from variants.sampling import generate

SIZES = {"vocab": 11, "context": 12, "n_layers": 2, "n_heads": 4, "d_model": 16, "d_ff": 24}
MAKE = {
    "gpt": lambda: GPT(GPTConfig(**SIZES, dropout=0.0)),
    "cached gpt": lambda: CachedGPT(GPTConfig(**SIZES, dropout=0.0)),
    "llama": lambda: LLaMA(LLaMAConfig(**SIZES, n_kv_heads=4)),
    "grouped llama": lambda: LLaMA(LLaMAConfig(**SIZES, n_kv_heads=2)),
}
CACHED = [name for name in MAKE if name != "gpt"]
# Roundings that results may be apart, in their dtype's eps: sums are made in another order. Nine were seen.
ROUNDINGS = 32


def both(name, dtype=torch.float64):
    """The same model twice, the second fused."""
    torch.manual_seed(0)
    model = MAKE[name]().to(dtype).eval()
    with torch.no_grad():
        for (
            parameter
        ) in model.parameters():  # larger than at the start, so that attention is not even
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model, fuse(copy.deepcopy(model))


def tokens(rows=3, length=7):
    return torch.randint(SIZES["vocab"], (rows, length), generator=torch.Generator().manual_seed(1))


def are_alike(one, other):
    """Equal but for rounding."""
    room = ROUNDINGS * torch.finfo(one.dtype).eps
    torch.testing.assert_close(other, one, rtol=room, atol=room * float(one.abs().max()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MAKE)
def test_results_and_gradients(name, dtype):
    slow, fast = both(name, dtype)
    results = []
    for model in (slow, fast):
        logits = model(tokens())
        logits.float().log_softmax(-1)[..., 3].sum().backward()
        results.append([logits, *(one.grad for one in model.parameters())])
    for one, other in zip(*results, strict=True):
        are_alike(one.detach(), other.detach())


@pytest.mark.parametrize("name", MAKE)
def test_it_calls_the_kernels(name, monkeypatch):
    """Attention is one call of PyTorch's for each layer, also where day 8's is fused away."""
    slow, fast = both(name)
    ours = SIZES["n_layers"] if name != "cached gpt" else 0  # which calls day 8's
    called = []
    kernel = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *args, **kwargs: called.append(args[0].shape) or kernel(*args, **kwargs),
    )
    for model, on, calls in (
        (slow, False, ours),
        (fast, True, SIZES["n_layers"]),
        (fast, False, ours),
    ):
        called.clear()
        fuse(model, on)(tokens())
        assert len(called) == calls


@pytest.mark.parametrize("chunks", [(7,), (1, 1, 1, 1, 1, 1, 1), (3, 1, 3), (2, 5)])
@pytest.mark.parametrize("name", CACHED)
def test_a_cache_read_in_chunks(name, chunks):
    slow, fast = both(name)
    with torch.no_grad():
        whole = slow(tokens())
        cache = new_cache(fast.config, 3, 7)
        read = [fast(chunk, cache) for chunk in tokens().split(chunks, dim=1)]
    are_alike(whole, torch.cat(read, dim=1))


@pytest.mark.parametrize("name", CACHED)
def test_generation(name):
    """Greedy text is the same, past the context too, and with the logits of the last position alone."""
    slow, fast = both(name)
    start = tokens(rows=2, length=3)
    expected = generate(slow, start, 14, temperature=0.0)
    for model in (slow, fast, LastLogits(fast)):
        assert torch.equal(generate_cached(model, start, 14, temperature=0.0), expected)
    assert LastLogits(fast)(start).shape == (2, 1, SIZES["vocab"])


def test_the_last_logits_are_the_only_ones_computed():
    """The head of a large vocabulary is what a prompt costs most at."""
    _, fast = both("llama")
    seen = []
    fast.head.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape[1]))
    LastLogits(fast)(tokens())
    assert seen == [1]


@pytest.mark.parametrize("name", MAKE)
def test_nothing_else_changes(name):
    """Names in the state dict, copies, files, and the way back."""
    slow, fast = both(name)
    assert list(slow.state_dict()) == list(fast.state_dict())
    with torch.no_grad():
        expected = fast(tokens())
        assert torch.equal(copy.deepcopy(fast)(tokens()), expected)
        file = io.BytesIO()
        torch.save(fast.state_dict(), file)
        file.seek(0)
        again = fuse(MAKE[name]().double().eval())
        again.load_state_dict(torch.load(file))
        assert torch.equal(again(tokens()), expected)
        assert torch.equal(fuse(fast, False)(tokens()), slow(tokens()))
    assert not any("forward" in vars(module) for module in fast.modules())


def test_a_copy_computes_with_its_own_weights():
    _, fast = both("llama")
    other = copy.deepcopy(fast)
    with torch.no_grad():
        other.head.weight.zero_()
        assert not other(tokens()).any()
        assert fast(tokens()).any()


def test_subclasses_compute_as_they_are_written():
    """A learner's own class is never replaced."""

    class Mine(GPT):
        def forward(self, tokens):
            return super().forward(tokens) + 1

    torch.manual_seed(0)
    mine = Mine(GPTConfig(**SIZES, dropout=0.0)).eval()
    expected = GPT.forward(mine, tokens()) + 1
    assert "forward" not in vars(fuse(mine))
    are_alike(expected.detach(), mine(tokens()).detach())


def test_attention_of_the_encoder_decoder_keeps_no_weights():
    model = fuse(make_model(11, 11, n=1, d_model=16, d_ff=32, h=2, dropout=0.0))
    assert model.encoder.layers[0].self_attn.keep_weights is False
    assert fuse(model, False).encoder.layers[0].self_attn.keep_weights is True


def test_dropout_is_only_for_training():
    torch.manual_seed(0)
    config = GPTConfig(**SIZES, dropout=0.5)
    model = fuse(GPT(config))
    assert not torch.equal(model(tokens()), model(tokens()))
    model.eval()
    assert torch.equal(model(tokens()), model(tokens()))


def test_dropout_falls_on_every_sublayer_beside_a_cache():
    """With p = 1 nothing reaches the residual stream: the logits are those of the final norm's bias."""
    config = GPTConfig(**SIZES, dropout=0.0)
    model = fuse(CachedGPT(config))
    for connection in (one for block in model.blocks for one in block.sublayer):
        connection.dropout.p = 1.0
    before = model(tokens(), new_cache(config, 3, 7))
    for block in model.blocks:
        torch.nn.init.ones_(block.self_attn.w_o.bias)
        torch.nn.init.ones_(block.feed_forward.w_2.bias)
    assert torch.equal(model(tokens(), new_cache(config, 3, 7)), before)


@pytest.mark.parametrize("name", MAKE)
def test_it_compiles_whole(name):
    """No break in the graph: `torch.compile` sees one function."""
    _, fast = both(name)
    expected = fast(tokens())
    compiled = torch.compile(fast, fullgraph=True, backend="eager")
    are_alike(expected.detach(), compiled(tokens()).detach())


@pytest.mark.skipif(missing_device("practice") is not None, reason="torch has no practice GPU here")
@pytest.mark.parametrize("name", MAKE)
def test_on_the_practice_gpu(name):
    """Nothing is made on the CPU; the same numbers come out."""
    _, fast = both(name, torch.float32)
    expected = fast(tokens())
    with practice.running():
        there = copy.deepcopy(fast).to("practice")
        result = there(tokens().to("practice"))
        result.sum().backward()
        if name in CACHED:
            start = tokens().to("practice")
            generate_cached(LastLogits(there), start, 3, temperature=0.0)
        are_alike(expected.detach(), result.detach().cpu())


def test_every_class_is_tested():
    found = {type(module) for name in MAKE for module in MAKE[name]().modules()}
    alone = {one for one in FUSED if issubclass(one, nn.Module)} - found
    assert {one.__name__ for one in alone} <= {"GroupedQueryAttention", "CachedSelfAttention"}
