"""Day 25: decoding with the cache against reading the whole text anew, and transformers' own cache.

Float64 has to agree to 1e-12 with the model without a cache, to 1e-10 with transformers.
"""

import dataclasses

import pytest
import torch

from course.checks import practice
from course.checks.tensors import missing_device
from tests.reference.oracles import assert_agree, randomized
from variants.gpt import GPT, CausalSelfAttention, GPTConfig
from variants.hugging_face import gpt2
from variants.kv_cache import (
    CachedGPT,
    CachedSelfAttention,
    KVCache,
    generate_cached,
    new_cache,
)
from variants.llama import LLaMA, LLaMAConfig
from variants.sampling import generate

CONFIG = GPTConfig(vocab=23, context=11, n_layers=3, n_heads=3, d_model=15, d_ff=29, dropout=0.0)
DECODERS = [
    lambda: GPT(CONFIG),
    lambda: LLaMA(LLaMAConfig(23, 11, 3, n_heads=4, n_kv_heads=2, d_model=16, d_ff=29)),
]
CHUNKS = [[11], [1] * 11, [4, 7], [7, 1, 1, 2], [0, 3, 0, 8], [10, 1]]


@pytest.fixture(autouse=True)
def _float64():
    """Every test starts from one seed, and modules made in it have float64 parameters."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(25)
    yield
    torch.set_default_dtype(default)


@pytest.fixture(params=[GPT, CachedGPT])
def models(request):
    """Day 23's GPT, and a model with the same weights that is called with a cache."""
    plain, cached = randomized(GPT(CONFIG)).eval(), request.param(CONFIG).eval()
    cached.load_state_dict(plain.state_dict())
    return plain, cached


def equal(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def chunk(batch=3, n_heads=2, length=4, d_k=5):
    return torch.randn(2, batch, n_heads, length, d_k).unbind()


def read(model, text, cache, sizes):
    return torch.cat([model(part, cache) for part in text.split(sizes, dim=1)], dim=1)


def held(cache):
    """What a cache says, and what each layer holds, copied. What is not yet written may be anything."""
    parts = [
        room[layer, :, :, :length].clone()
        for room in (cache.keys, cache.values)
        for layer, length in enumerate(cache.lengths)
    ]
    return cache.length, list(cache.lengths), parts


def assert_unchanged(cache, before):
    now = held(cache)
    assert now[:2] == before[:2]
    assert all(torch.equal(one, other) for one, other in zip(now[2], before[2], strict=True))


# --- The cache by itself --------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[7], [1] * 7, [3, 0, 4], [0, 6, 1]])
def test_a_layer_gives_back_all_that_it_was_given_in_order(sizes):
    key, value = chunk(length=7)
    cache = KVCache(2, 3, 2, 7, 5)
    other = chunk(length=7)
    parts = zip(*(whole.split(sizes, dim=2) for whole in (key, value, *other)), strict=True)
    end = 0
    for size, (k, v, other_k, other_v) in zip(sizes, parts, strict=True):
        cache.update(1, other_k, other_v)
        keys, values = cache.update(0, k, v)
        end += size
        assert torch.equal(keys, key[:, :, :end]) and torch.equal(values, value[:, :, :end])
    keys, values = cache.update(1, *chunk(length=0))
    assert torch.equal(keys, other[0]) and torch.equal(values, other[1])


def test_length_is_what_every_layer_holds():
    """In the middle of a step it is still the position of the chunk's first token."""
    cache, seen = KVCache(3, 3, 2, 9, 5), []
    for size in (4, 1, 3):
        for layer in range(3):
            seen.append(cache.length)
            cache.update(layer, *chunk(length=size))
    assert [*seen, cache.length] == [0, 0, 0, 4, 4, 4, 5, 5, 5, 8]
    assert type(cache.length) is int


def test_the_order_of_the_layers_does_not_matter():
    first, second = KVCache(3, 3, 2, 4, 5), KVCache(3, 3, 2, 4, 5)
    parts = [chunk() for _ in range(3)]
    for cache, order in ((first, [0, 1, 2]), (second, [2, 0, 1])):
        for layer in order:
            cache.update(layer, *parts[layer])
    assert first.length == second.length == 4
    assert torch.equal(first.keys, second.keys) and torch.equal(first.values, second.values)


def test_it_holds_exactly_the_numbers_that_it_promises():
    """2 · layers · heads · batch · length · d_k, from the start, the same ones to the end."""
    cache = KVCache(3, 2, 4, 9, 5)
    rooms = [value for value in vars(cache).values() if isinstance(value, torch.Tensor)]
    assert [tuple(room.shape) for room in rooms] == [(3, 2, 4, 9, 5)] * 2
    places = [room.data_ptr() for room in rooms]
    for size in (4, 1, 4):
        for layer in range(3):
            cache.update(layer, *chunk(2, 4, size, 5))
        cache.reorder(torch.tensor([1, 1]))
    assert [cache.keys.data_ptr(), cache.values.data_ptr()] == places
    numbers = sum(room.untyped_storage().nbytes() // 8 for room in (cache.keys, cache.values))
    assert numbers == 2 * 3 * 2 * 4 * 9 * 5
    lists = [value for value in vars(cache).values() if not isinstance(value, torch.Tensor)]
    assert sorted(map(str, lists)) == ["9", "[9, 9, 9]"]


def test_grouped_queries_need_fewer_numbers():
    @dataclasses.dataclass(frozen=True)
    class Grouped(GPTConfig):
        n_kv_heads: int = 2

    config = Grouped(23, 11, 3, 6, 18)
    assert new_cache(config, 4, 7).keys.shape == (3, 4, 2, 7, 3)
    assert new_cache(GPTConfig(23, 11, 3, 6, 18), 4, 7).keys.shape == (3, 4, 6, 7, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_first_chunk_decides_the_dtype(dtype):
    cache, (key, value) = KVCache(2, 3, 2, 9, 5), (part.to(dtype) for part in chunk())
    keys, values = cache.update(0, key, value)
    assert torch.equal(keys, key) and torch.equal(values, value)
    assert keys.dtype == values.dtype == cache.keys.dtype == cache.values.dtype == dtype
    cache.update(1, key, value)
    assert torch.equal(cache.update(0, key, value)[0], torch.cat([key, key], dim=2))


def test_the_first_chunk_decides_the_device():
    cache, (key, value) = KVCache(1, 3, 2, 9, 5), (part.to("meta") for part in chunk())
    keys, _ = cache.update(0, key, value)
    assert keys.device == cache.values.device == torch.device("meta")


def test_no_graph_is_kept():
    layer, cache = CachedSelfAttention(6, 2), KVCache(1, 3, 2, 9, 3)
    x = torch.randn(3, 4, 6, requires_grad=True)
    assert layer(x, cache, 0).requires_grad  # the query's
    results = cache.update(0, *(part.requires_grad_() for part in chunk(d_k=3, length=1)))
    for tensor in (cache.keys, cache.values, *results):
        assert not tensor.requires_grad and tensor.grad_fn is None


def test_the_chunk_stays_as_it_is_and_may_be_written_afterwards():
    cache, (key, value) = KVCache(1, 3, 2, 9, 5), chunk()
    kept = key.clone()
    cache.update(0, key, value)
    assert torch.equal(key, kept)
    key.zero_()
    assert torch.equal(cache.update(0, *chunk(length=0))[0], kept)


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 1], [0, 0, 2], [0, 1, 2]])
def test_reordered_rows_are_those_asked_for_in_every_layer(rows):
    cache, parts = KVCache(2, 3, 2, 9, 5), [chunk(), chunk()]
    for layer, part in enumerate(parts):
        cache.update(layer, *part)
    cache.update(0, *(further := chunk(length=1)))  # in the middle of a step nothing is lost either
    cache.reorder(torch.tensor(rows))
    assert cache.length == 4
    for layer, part in enumerate(parts):
        wholes = [torch.cat(pair, dim=2) for pair in zip(part, further, strict=True)]
        expected = part if layer else wholes
        for one, other in zip(cache.update(layer, *chunk(length=0)), expected, strict=True):
            assert torch.equal(one, other[rows])


@pytest.mark.parametrize(
    ("layer", "key", "value", "words"),
    [
        (2, (3, 2, 1, 5), (3, 2, 1, 5), "layer must be 0 to 1, got 2"),
        (-1, (3, 2, 1, 5), (3, 2, 1, 5), "layer must be 0 to 1, got -1"),
        (0, (2, 2, 1, 5), (2, 2, 1, 5), r"value must be .*\(3, 2, T, 5\).*\(2, 2, 1, 5\)"),
        (0, (1, 2, 1, 5), (1, 2, 1, 5), r"value must be .*\(1, 2, 1, 5\)"),
        (0, (3, 1, 1, 5), (3, 1, 1, 5), r"value must be .*\(3, 1, 1, 5\)"),
        (0, (3, 2, 1, 1), (3, 2, 1, 1), r"value must be .*\(3, 2, 1, 1\)"),
        (0, (2, 1, 5), (2, 1, 5), r"value must be .*\(2, 1, 5\)"),
        (0, (3, 5), (3, 5), r"value must be .*\(3, 5\)"),
        (0, (3, 2, 1, 5), (3, 2, 2, 5), r"value must be .*\(3, 2, 2, 5\)"),
        (0, (3, 2, 2, 5), (3, 2, 1, 5), r"value must be .*\(3, 2, 1, 5\)"),
        (0, (3, 2, 6, 5), (3, 2, 6, 5), r"layer 0 must hold.*max_len = 9.*4 \+ 6"),
        (1, (3, 2, 7, 5), (3, 2, 7, 5), r"layer 1 must hold.*max_len = 9.*3 \+ 7"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused_and_changes_nothing(layer, key, value, words):
    cache = KVCache(2, 3, 2, 9, 5)
    cache.update(0, *chunk())
    cache.update(1, *chunk(length=3))
    before = held(cache)
    with pytest.raises(ValueError, match=words):
        cache.update(layer, torch.randn(key), torch.randn(value))
    assert_unchanged(cache, before)


# --- Attention ------------------------------------------------------------------------------------


def test_attention_without_a_cache_is_that_of_day_23():
    """Output and gradients, from the same state dict, in training too."""
    plain, layer = randomized(CausalSelfAttention(15, 3)), CachedSelfAttention(15, 3)
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(2, 7, 15)
    for one in (plain, layer):
        one(x).square().sum().backward()
    equal(layer(x), plain(x))
    for name, parameter in plain.named_parameters():
        equal(layer.get_parameter(name).grad, parameter.grad)
    assert CachedSelfAttention(6, 2)(torch.randn(2, 0, 6)).shape == (2, 0, 6)


@pytest.mark.parametrize(("d_model", "n_heads"), [(15, 3), (6, 6), (5, 1)])
@pytest.mark.parametrize("sizes", CHUNKS, ids=str)
def test_attention_in_chunks_is_attention_at_once(d_model, n_heads, sizes):
    plain, layer = (
        randomized(CausalSelfAttention(d_model, n_heads)),
        CachedSelfAttention(d_model, n_heads),
    )
    layer.load_state_dict(plain.state_dict())
    x, cache = torch.randn(2, 11, d_model), KVCache(2, 2, n_heads, 11, d_model // n_heads)
    parts = [layer(part, cache, layer=1) for part in x.split(sizes, dim=1)]
    equal(torch.cat(parts, dim=1), plain(x))
    assert cache.lengths == [0, 11]


def test_attention_drops_weights_in_training_only():
    layer, x = randomized(CachedSelfAttention(6, 2, dropout=1.0)), torch.randn(2, 4, 6)
    assert torch.equal(layer(x, KVCache(1, 2, 2, 4, 3), 0), layer.w_o.bias.expand(2, 4, 6))
    assert not torch.allclose(
        layer.eval()(x, KVCache(1, 2, 2, 4, 3), 0), layer.w_o.bias.expand(2, 4, 6)
    )


def test_half_precision_is_kept_as_it_is():
    layer, x = CachedSelfAttention(16, 4).bfloat16(), torch.randn(2, 9, 16).bfloat16()
    cache = KVCache(1, 2, 4, 9, 4)
    out = torch.cat([layer(part, cache, 0) for part in x.split([5, 1, 3], dim=1)], dim=1)
    assert out.dtype == cache.keys.dtype == torch.bfloat16
    torch.testing.assert_close(out, layer(x), rtol=0, atol=0.02)


@pytest.mark.parametrize(("d_model", "n_heads"), [(10, 3), (10, 0)])
def test_heads_that_do_not_divide_are_refused(d_model, n_heads):
    with pytest.raises(ValueError, match=f"n_heads.*{n_heads}.*{d_model}"):
        CachedSelfAttention(d_model, n_heads)


# --- The whole model ------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", CHUNKS, ids=str)
def test_a_text_in_chunks_has_the_logits_of_the_whole(models, sizes):
    plain, cached = models
    text, cache = torch.randint(23, (2, 11)), new_cache(CONFIG, 2, 11)
    equal(read(cached, text, cache, sizes), plain(text))
    assert cache.length == 11


def test_chunks_have_the_logits_of_transformers_and_of_its_cache():
    transformers = pytest.importorskip("transformers")
    sizes = transformers.GPT2Config(
        vocab_size=23,
        n_positions=11,
        n_embd=15,
        n_layer=3,
        n_head=3,
        n_inner=29,
        bos_token_id=0,
        eos_token_id=0,
    )
    theirs, ours = (
        randomized(transformers.GPT2LMHeadModel(sizes).double()).eval(),
        GPT(CONFIG).eval(),
    )
    ours.load_state_dict(gpt2(theirs.state_dict()))
    text, cache, past = torch.randint(23, (2, 11)), new_cache(CONFIG, 2, 11), None
    for part in text.split([4, 1, 1, 3, 2], dim=1):
        said = theirs(part, past_key_values=past, use_cache=True)
        past = said.past_key_values
        assert_agree(ours(part, cache), said.logits)


def test_beams_continue_the_rows_that_they_come_from(models):
    plain, cached = models
    text, cache = torch.randint(23, (3, 11)), new_cache(CONFIG, 3, 11)
    cached(text[:, :6], cache)
    for rows, end in (([2, 2, 0], 7), ([1, 0, 1], 8), ([0, 2, 2], 11)):
        cache.reorder(torch.tensor(rows))
        start = cache.length
        text = torch.cat([text[rows, :start], text[:, start:]], dim=1)
        equal(cached(text[:, start:end], cache), plain(text[:, :end])[:, start:])


def test_a_step_projects_the_new_token_alone(models):
    """What a cache is for: each step asks the projection for one row, whatever is held."""
    _, cached = models
    rows = []
    layer = cached.blocks[1].self_attn.w_qkv
    layer.register_forward_hook(lambda _, x, __: rows.append(x[0].shape[1]))
    generate_cached(cached, torch.randint(23, (2, 4)), 7)
    assert rows == [4, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("new", "room"), [(3, 7), (7, 11), (30, 11)])
def test_generation_makes_no_more_room_than_the_text_needs(models, new, room):
    _, cached = models
    caches = []
    cached.register_forward_pre_hook(lambda _, inputs: caches.extend(inputs[1:]))
    generate_cached(cached, torch.randint(23, (2, 4)), new)
    assert {cache.keys.shape for cache in caches} == {(3, 2, 3, room, 5)}


def test_dropout_of_everything_leaves_the_bias_of_the_final_norm():
    model = randomized(GPT(dataclasses.replace(CONFIG, dropout=1.0)))
    expected = (model.norm.bias @ model.embed.weight.T).expand(2, 5, 23)
    assert_agree(model(torch.randint(23, (2, 5)), new_cache(CONFIG, 2, 5)), expected)


def test_a_cache_that_does_not_fit_the_model_is_refused_and_stays_as_it_is(models):
    _, cached = models
    text = torch.randint(23, (2, 11))
    long = new_cache(CONFIG, 2, 20)
    cached(text[:, :8], long)
    short = new_cache(CONFIG, 2, 9)
    cached(text[:, :8], short)
    for cache, part, words in [
        (long, text[:, :4], r"context = 11.*12"),
        (short, text[:, :2], "max_len = 9"),
        (short, text[:1, :1], r"value must be \(B"),
    ]:
        before = held(cache)
        with pytest.raises(ValueError, match=words):
            cached(part, cache)
        assert_unchanged(cache, before)
    with pytest.raises(ValueError, match=r"context = 11.*12"):
        cached(torch.randint(23, (2, 12)))


def test_a_cache_without_the_index_of_a_layer_is_refused():
    """By default all layers would write into the first layer of the cache."""
    layer, x = CachedSelfAttention(15, 3), torch.randn(2, 1, 15)
    with pytest.raises(ValueError, match=r"layer must be 0 to [0-9]+, got None"):
        layer(x, new_cache(CONFIG, 2, 5))


# --- Generation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", DECODERS, ids=["gpt", "llama"])
def test_a_prompt_costs_the_logits_of_its_last_position_alone(model):
    """They are what costs most where the vocabulary is large."""
    model, text, rows = randomized(model()).eval(), torch.randint(23, (2, 7)), []
    equal(model(text, last=True), model(text)[:, -1:])
    model.norm.register_forward_hook(lambda _, x, __: rows.append(x[0].shape[1]))
    generate_cached(model, text, 3)
    assert rows == [1, 1, 1]


@pytest.mark.parametrize("model", DECODERS, ids=["gpt", "llama"])
def test_it_compiles_whole(model):
    """`torch.compile` sees one function."""
    model, text = randomized(model()).eval(), torch.randint(23, (2, 7))
    equal(torch.compile(model, fullgraph=True, backend="eager")(text), model(text))


@pytest.mark.skipif(missing_device("practice") is not None, reason="torch has no practice GPU here")
@pytest.mark.parametrize("model", DECODERS, ids=["gpt", "llama"])
def test_nothing_is_made_on_the_cpu(model):
    model, text = randomized(model()).float().eval(), torch.randint(23, (2, 4))
    expected = generate_cached(model, text, 5, temperature=0.0)
    with practice.running():
        model, text = model.to("practice"), text.to("practice")
        assert torch.equal(generate_cached(model, text, 5, temperature=0.0).cpu(), expected)
        model(text).sum().backward()


@pytest.mark.parametrize(
    ("prompt", "new"), [(1, 6), (4, 7), (4, 8), (4, 30), (11, 5), (15, 5), (10, 1), (3, 0)]
)
@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"top_k": 9, "top_p": 0.95}], ids=str)
def test_it_continues_as_without_a_cache(models, prompt, new, options):
    """Within the context, up to its end, and far beyond."""
    plain, cached = models
    tokens = torch.randint(23, (3, prompt))
    kept = tokens.clone()
    texts = [
        function(model, tokens, new, **options, generator=torch.Generator().manual_seed(7))
        for function, model in ((generate, plain), (generate_cached, cached))
    ]
    assert torch.equal(*texts) and texts[0].shape == (3, prompt + new)
    assert torch.equal(tokens, kept)


def test_generation_leaves_every_module_in_its_mode(models):
    _, cached = models
    cached.train()
    cached.blocks[1].eval()
    before = [module.training for module in cached.modules()]
    generate_cached(cached, torch.randint(23, (2, 4)), 3)
    assert [module.training for module in cached.modules()] == before


@pytest.mark.parametrize(
    ("prompt", "new", "options", "words"),
    [
        (0, 3, {}, "empty prompt"),
        (4, -1, {}, "max_new_tokens"),
        (4, -9, {}, "max_new_tokens"),
        (4, 3, {"temperature": -1.0}, "temperature"),
        (4, 3, {"top_k": 0}, "top_k"),
        (4, 3, {"top_p": 1.5}, "top_p"),
    ],
)
def test_what_generate_refuses_is_refused(models, prompt, new, options, words):
    with pytest.raises(ValueError, match=words):
        generate_cached(models[1], torch.randint(23, (2, prompt)), new, **options)
