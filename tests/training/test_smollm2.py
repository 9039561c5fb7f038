"""SmolLM2-135M itself in our LLaMA. Without its weights in the cache these tests are skipped.

`course generate --pretrained smollm2-135m --tokens 1` fetches them once.
"""

from typing import Any

import gguf
import nbformat
import pytest
import torch

from course.curriculum import ROOT
from tests.training.conftest import QUIET
from tests.training.test_gguf_file import OTHERS, PARTS
from training.data.downloads import cache
from training.data.wheels import SMOLLM2
from training.generation.generate import Sampling
from training.inference.chat import ChatSession
from training.models.pretrained import Pretrained
from variants.kv_cache import generate_cached
from variants.sampling import generate

FILE = cache() / SMOLLM2.name
PROMPT = "The capital of France is"

pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason=f"the weights of {SMOLLM2.requirement} are not in the cache"
)


@pytest.fixture(scope="module")
def ours():
    return Pretrained.load(FILE, "cpu")


def published(transformers):
    """transformers' model with the file's weights as the `gguf` library dequantizes them, in the order of
    Hugging Face. (transformers reads GGUF by itself only with another package.)"""
    reader = gguf.GGUFReader(FILE)
    fact = {name.removeprefix("llama."): field.contents() for name, field in reader.fields.items()}
    heads, kv_heads = (fact[f"attention.head_count{kv}"] for kv in ("", "_kv"))
    sizes = transformers.LlamaConfig(
        vocab_size=fact["vocab_size"],
        hidden_size=fact["embedding_length"],
        intermediate_size=fact["feed_forward_length"],
        num_hidden_layers=fact["block_count"],
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=fact["context_length"],
        rms_norm_eps=fact["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": fact["rope.freq_base"]},
        tie_word_embeddings=True,
        eos_token_id=None,  # so that it goes on for as long as it is asked to
    )
    state = {}
    ours = {theirs: name for name, theirs in (*PARTS.items(), *OTHERS.items())}
    for tensor in reader.tensors:
        weight = torch.tensor(gguf.dequantize(tensor.data, tensor.tensor_type))
        if tensor.name in ours:
            state[ours[tensor.name]] = weight
            continue
        _, number, part, _ = tensor.name.split(".")
        if part in ("attn_q", "attn_k"):  # what llama.cpp has side by side is half a head apart
            pairs = weight.unflatten(0, (heads if part == "attn_q" else kv_heads, -1, 2))
            weight = pairs.transpose(1, 2).flatten(0, 2)
        state[f"model.layers.{number}.{ours[part]}.weight"] = weight
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model = transformers.LlamaForCausalLM(sizes)
    model.load_state_dict(state)
    return model.eval()


def test_day_32_records_the_logits_of_transformers(ours):
    """What its lesson compares the learner's class with."""
    theirs = published(pytest.importorskip("transformers"))
    lesson = nbformat.read(ROOT / "lessons" / "day32_llama.ipynb", as_version=4)
    [cell] = [pinned for pinned in lesson.cells if "PUBLISHED = " in pinned.source]
    recorded: dict[str, Any] = {"torch": torch}
    exec(cell.source, recorded)
    text = torch.tensor([ours.encode(recorded["TEXT"])])
    with torch.no_grad():
        logits = theirs(text).logits[0, :-1, list(recorded["TOKENS"].values())]
    assert list(recorded["TOKENS"]) == [ours.decode([id_]) for id_ in recorded["TOKENS"].values()]
    torch.testing.assert_close(logits.T, recorded["PUBLISHED"], atol=2e-3, rtol=0)


def test_its_head_is_its_embedding(ours):
    config = ours.model.config
    assert (config.n_layers, config.n_heads, config.n_kv_heads) == (30, 9, 3)
    assert (config.vocab, config.context, config.base) == (49152, 8192, 100_000.0)
    assert ours.model.head.weight.data_ptr() == ours.model.embed.weight.data_ptr()


def test_a_greedy_continuation_is_that_of_transformers(ours, tmp_path):
    """64 tokens from the file and from a folder of the same weights, with the cache and without."""
    transformers = pytest.importorskip("transformers")
    theirs = published(transformers)
    theirs.save_pretrained(tmp_path)
    ours.tokenizer.save(str(tmp_path / "tokenizer.json"))
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(FILE.parent, gguf_file=FILE.name)
    ids = torch.tensor([ours.encode(PROMPT)])
    assert their_tokenizer(PROMPT)["input_ids"] == ids[0].tolist()
    expected = theirs.generate(ids, max_new_tokens=64, do_sample=False, pad_token_id=0)
    assert expected.size(1) == ids.size(1) + 64
    for model in (ours.model, Pretrained.load(tmp_path, "cpu").model):
        assert torch.equal(generate_cached(model, ids, 64, temperature=0.0), expected)
        assert torch.equal(generate(model, ids, 64, temperature=0.0), expected)


@pytest.mark.parametrize(
    "text", ["In 2026, 1234 people; don't", "  Zoë\n\n\tx = 10**3 日本", "I'LL"]
)
def test_it_splits_texts_as_transformers_does(ours, text):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(FILE.parent, gguf_file=FILE.name)
    assert ours.encode(text) == theirs(text)["input_ids"]
    assert ours.decode(ours.encode(text)) == text


def test_it_answers_a_question_and_knows_what_was_said(ours):
    printed = []
    chat = ChatSession(ours, Sampling(temperature=0.0), 24, QUIET, printed.append)
    chat.receive("What is the capital of France?")
    assert "Paris" in "".join(printed)
    first = len(printed)
    chat.receive("Repeat the name of that city.")
    assert "Paris" in "".join(printed[first:])
