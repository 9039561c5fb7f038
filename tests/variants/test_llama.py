"""LLaMA of day 32 against transformers' own, and what a token costs.

Float64 has to agree to 1e-10, logits and gradients. transformers computes its norms and its angles in
float32 whatever the weights' dtype, which is right to 1e-6 only. So both are replaced in it, by torch's
norm and by Python's own sines, and one test compares with transformers as it is.
"""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from tests.reference.oracles import assert_agree, assert_same_gradients, randomized
from tests.variants.recorders import Results
from variants.hugging_face import llama
from variants.kv_cache import KVCache, new_cache
from variants.llama import LLaMA, LLaMAConfig, RotaryAttention
from variants.rope import rope_angles

SMALL = LLaMAConfig(
    vocab=13, context=12, n_layers=2, n_heads=4, n_kv_heads=2, d_model=24, d_ff=17, eps=1e-5
)
SIZES = pytest.mark.parametrize(
    "config",
    [
        dataclasses.replace(SMALL, base=500000.0, n_layers=3),
        dataclasses.replace(SMALL, d_model=16, n_kv_heads=4, d_ff=43, eps=1e-6),
        dataclasses.replace(SMALL, n_heads=6, n_kv_heads=1, d_model=12, vocab=2, eps=0.1),
        LLaMAConfig(7, 5, 1, 1, 1, 6, 9),
    ],
    ids=["grouped, LLaMA 3", "multi-head", "multi-query, one pair", "one head"],
)
CHUNKS = [[12], [1] * 12, [5, 7], [7, 1, 1, 3], [0, 3, 0, 9], [11, 1]]
pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture
def exact(monkeypatch):
    """transformers' norm and angles in float64."""
    published = pytest.importorskip("transformers.models.llama.modeling_llama")

    def normed(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.variance_epsilon)

    def turns(self, x, position_ids):
        base, d = self.config.rope_parameters["rope_theta"], self.config.head_dim
        angles = [
            [[m / base ** (2 * (i % (d // 2)) / d) for i in range(d)] for m in row]
            for row in position_ids.tolist()
        ]
        return torch.tensor(angles).cos(), torch.tensor(angles).sin()

    monkeypatch.setattr(published.LlamaRMSNorm, "forward", normed)
    monkeypatch.setattr(published.LlamaRotaryEmbedding, "forward", turns)


def theirs(config, tied=False):
    """transformers' LLaMA of these sizes, with no parameter left at 0 or 1."""
    transformers = pytest.importorskip("transformers")
    sizes = transformers.LlamaConfig(
        vocab_size=config.vocab,
        max_position_embeddings=config.context,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        num_key_value_heads=config.n_kv_heads,
        hidden_size=config.d_model,
        intermediate_size=config.d_ff,
        rms_norm_eps=config.eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.base},
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=None,
        attn_implementation="sdpa",  # its eager one takes the softmax in float32
    )
    return randomized(transformers.LlamaForCausalLM(sizes).double()).eval()


def pair(config):
    """transformers' model, and ours with its weights."""
    published, ours = theirs(config), LLaMA(config).eval()
    ours.load_state_dict(llama(published.state_dict()))
    return published, ours


def texts(config, rows=3, length=None):
    return torch.randint(config.vocab, (rows, config.context if length is None else length))


def read(model, text, cache, sizes):
    return torch.cat([model(part, cache) for part in text.split(sizes, dim=1)], dim=1)


# --- The whole, against transformers --------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("spare", [0, 2], ids=["full context", "shorter"])
@pytest.mark.usefixtures("exact")
def test_logits_and_gradients_are_those_of_transformers(config, spare):
    published, ours = pair(config)
    text = texts(config, length=config.context - spare)
    expected, actual = published(text).logits, ours(text)
    assert_agree(actual, expected)
    for logits in (expected, actual):
        F.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten()).backward()
    assert_same_gradients(ours, published, llama)


def test_transformers_as_it_is_agrees_to_float32():
    """What the other tests replace in it is replaced by the same."""
    published, ours = pair(dataclasses.replace(SMALL, base=500000.0))
    text = texts(SMALL)
    torch.testing.assert_close(ours(text), published(text).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", CHUNKS, ids=str)
@pytest.mark.usefixtures("exact")
def test_chunks_have_the_logits_of_transformers_and_of_its_cache(sizes):
    published, ours = pair(SMALL)
    text, cache = texts(SMALL), new_cache(SMALL, 3, 12)
    assert_agree(read(ours, text, cache, sizes), published(text).logits)
    cache, past = new_cache(SMALL, 3, 12), None
    for part in text.split([size for size in sizes if size], dim=1):
        expected = published(part, past_key_values=past, use_cache=True)
        past = expected.past_key_values
        assert_agree(ours(part, cache), expected.logits)


@pytest.mark.usefixtures("exact")
def test_a_tied_model_loads_without_its_head():
    """As its file holds it: safetensors stores a shared matrix once."""
    published, ours = theirs(SMALL, tied=True), LLaMA(SMALL)
    weights = {name: w for name, w in published.state_dict().items() if name != "lm_head.weight"}
    ours.load_state_dict(llama(weights))
    text = texts(SMALL)
    assert_agree(ours(text), published(text).logits)
    assert ours.head.weight is not ours.embed.weight


def test_a_published_state_dict_fills_ours():
    """LlamaModel has no prefix and no head; old checkpoints hold frequencies."""
    published = theirs(SMALL)
    state = llama(published.state_dict())
    bare = published.model.state_dict()
    bare |= {
        "layers.1.self_attn.rotary_emb.inv_freq": torch.ones(3),
        "lm_head.weight": torch.ones(1),
    }
    assert state.keys() == llama(bare).keys() == LLaMA(SMALL).state_dict().keys()
    assert torch.equal(llama(bare)["head.weight"], torch.ones(1))
    assert not torch.equal(state["head.weight"], state["embed.weight"])


@pytest.mark.parametrize(
    "name",
    [*(f"model.layers.0.self_attn.q_{x}" for x in ("proj.bias", "norm.weight")), "lm_head.bias"],
)
def test_published_weights_that_are_no_llama_are_refused(name):
    with pytest.raises(ValueError, match=name.removeprefix("model.").replace(".", r"\.")):
        llama({name: torch.ones(3)})


# --- The angles -----------------------------------------------------------------------------------


def test_a_long_context_costs_nothing_until_it_is_read():
    """No call makes anything as long as the context: a token in the middle of it least of all."""
    config = dataclasses.replace(SMALL, context=131072)
    model, cache = LLaMA(config), new_cache(config, 1, 16)
    with Results() as results:
        model(texts(config, 1, 8), cache)
        model(texts(config, 1, 1), cache)
    assert 0 < results.largest < 1000


@torch.no_grad()
def test_a_decoded_token_computes_no_cosine_and_copies_nothing():
    """A copied tensor would come from another device."""
    config = dataclasses.replace(SMALL, n_layers=8)
    model, cache = LLaMA(config).float(), new_cache(config, 1, 16)
    model(texts(config, 1, 5), cache)
    with Results() as results:
        model(texts(config, 1, 1), cache)
    assert not results.operations & {"cos", "sin", "_to_copy", "tril", "ones"}


def test_positions_count_by_their_differences_up_to_the_last():
    """A text at the last positions of a long context is what it is at the first."""
    angles = rope_angles(6, 131072, 500000.0)
    near, far = (randomized(RotaryAttention(24, 4, 2, part)) for part in (angles[:8], angles[-8:]))
    far.load_state_dict(near.state_dict())
    x = torch.randn(2, 8, 24)
    torch.testing.assert_close(near(x), far(x), rtol=0, atol=1e-9)


# --- The model by itself --------------------------------------------------------------------------


def test_more_tokens_than_the_context_are_refused():
    model, cache = LLaMA(SMALL), new_cache(SMALL, 3, 20)
    with pytest.raises(ValueError, match=r"tokens.*context = 12.*13"):
        model(texts(SMALL, length=13))
    model(texts(SMALL, length=8), cache)
    with pytest.raises(ValueError, match=r"tokens.*context = 12.*8 \+ 5"):
        model(texts(SMALL, length=5), cache)
    assert cache.lengths == [8, 8]


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        (KVCache(1, 3, 2, 12, 6), "n_layers = 2 layers, got 1"),
        (KVCache(3, 3, 2, 12, 6), "n_layers = 2 layers, got 3"),
        (KVCache(2, 3, 4, 12, 6), "key and value must be"),
        (KVCache(2, 2, 2, 12, 6), "key and value must be"),
        (KVCache(2, 3, 2, 4, 6), "max_len = 4"),
    ],
)
def test_a_cache_that_does_not_fit_is_refused_and_stays_as_it_is(cache, words):
    with pytest.raises(ValueError, match=words):
        LLaMA(SMALL)(texts(SMALL, length=5), cache)
    assert not any(cache.lengths)
