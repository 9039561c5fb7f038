"""Decoding of entire models with the cache against reading the text again; they agree to 1e-12 in float64."""

import pytest
import torch

from course.checks import practice
from course.checks.tensors import missing_device
from tests.reference.oracles import randomized
from variants.gpt import GPT, GPTConfig
from variants.kv_cache import CachedGPT, KVCache, generate_cached, new_cache
from variants.llama import LLaMA, LLaMAConfig
from variants.sampling import generate

pytestmark = pytest.mark.usefixtures("float64")

CONFIG = GPTConfig(vocab=23, context=11, n_layers=3, n_heads=3, d_model=15, d_ff=29, dropout=0.0)
DECODERS = [
    lambda: GPT(CONFIG),
    lambda: LLaMA(LLaMAConfig(23, 11, 3, n_heads=4, n_kv_heads=2, d_model=16, d_ff=29)),
]
CHUNKS = [[11], [1] * 11, [4, 7], [7, 1, 1, 2], [0, 3, 0, 8], [10, 1]]


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


def contents(cache):
    """Lengths, and copies of the keys and values that each layer holds."""
    tensors = [
        tensor[layer, :, :, :length].tolist()
        for tensor in (cache.keys, cache.values)
        for layer, length in enumerate(cache.lengths)
    ]
    return cache.length, list(cache.lengths), tensors


# --- The cache by itself --------------------------------------------------------------------------


def test_the_first_chunk_decides_the_device():
    cache, (key, value) = KVCache(1, 3, 2, 9, 5), (part.to("meta") for part in chunk())
    keys, _ = cache.update(0, key, value)
    assert keys.device == cache.values.device == torch.device("meta")


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
    before = contents(cache)
    with pytest.raises(ValueError, match=words):
        cache.update(layer, torch.randn(key), torch.randn(value))
    assert contents(cache) == before


# --- The whole model ------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", CHUNKS, ids=str)
def test_a_text_in_chunks_has_the_logits_of_the_whole(models, sizes):
    plain, cached = models
    text, cache = torch.randint(23, (2, 11)), new_cache(CONFIG, 2, 11)
    equal(read(cached, text, cache, sizes), plain(text))
    assert cache.length == 11


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
    """Each step projects one token, whatever the cache holds."""
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
        before = contents(cache)
        with pytest.raises(ValueError, match=words):
            cached(part, cache)
        assert contents(cache) == before
    with pytest.raises(ValueError, match=r"context = 11.*12"):
        cached(torch.randint(23, (2, 12)))


# --- Generation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", DECODERS, ids=["gpt", "llama"])
def test_a_prompt_costs_the_logits_of_its_last_position_alone(model):
    """These logits cost most where the vocabulary is large."""
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
def test_nothing_is_created_on_the_cpu(model):
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
    before = tokens.clone()
    texts = [
        function(model, tokens, new, **options, generator=torch.Generator().manual_seed(7))
        for function, model in ((generate, plain), (generate_cached, cached))
    ]
    assert torch.equal(*texts) and texts[0].shape == (3, prompt + new)
    assert torch.equal(tokens, before)


def test_generation_leaves_every_module_in_its_mode(models):
    _, cached = models
    cached.train()
    cached.blocks[1].eval()
    before = [module.training for module in cached.modules()]
    generate_cached(cached, torch.randint(23, (2, 4)), 3)
    assert [module.training for module in cached.modules()] == before
