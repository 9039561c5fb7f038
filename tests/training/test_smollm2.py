"""SmolLM2-135M itself in our LLaMA. Without its weights in the cache these tests are skipped.

`course generate --pretrained smollm2-135m --tokens 1` fetches them once.
"""

import pytest
import torch

from tests.training.conftest import QUIET
from training.chatting import Chat
from training.downloads import cache
from training.generating import Drawing
from training.pretrained import Pretrained
from training.wheels import SMOLLM2
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


def test_its_head_is_its_embedding(ours):
    config = ours.model.config
    assert (config.n_layers, config.n_heads, config.n_kv_heads) == (30, 9, 3)
    assert (config.vocab, config.context, config.base) == (49152, 8192, 100_000.0)
    assert ours.model.head.weight.data_ptr() == ours.model.embed.weight.data_ptr()


def test_a_greedy_continuation_is_that_of_transformers(ours, tmp_path):
    """64 tokens from the file and from a folder of the same weights, with the cache and without."""
    transformers = pytest.importorskip("transformers")
    how = {"gguf_file": FILE.name}
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        FILE.parent, dtype=torch.float32, **how
    ).eval()
    theirs.save_pretrained(tmp_path)
    ours.tokenizer.save(str(tmp_path / "tokenizer.json"))
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(FILE.parent, **how)
    ids = torch.tensor([ours.encode(PROMPT)])
    assert their_tokenizer(PROMPT)["input_ids"] == ids[0].tolist()
    wanted = theirs.generate(
        ids, max_new_tokens=64, min_new_tokens=64, do_sample=False, pad_token_id=0
    )
    for model in (ours.model, Pretrained.load(tmp_path, "cpu").model):
        assert torch.equal(generate_cached(model, ids, 64, temperature=0.0), wanted)
    assert torch.equal(generate(ours.model, ids, 64, temperature=0.0), wanted)


@pytest.mark.parametrize(
    "text", ["In 2026, 1234 people; don't", "  Zoë\n\n\tx = 10**3 日本", "I'LL"]
)
def test_it_splits_texts_as_transformers_does(ours, text):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(FILE.parent, gguf_file=FILE.name)
    assert ours.encode(text) == theirs(text)["input_ids"]
    assert ours.decode(ours.encode(text)) == text


def test_it_answers_a_question_and_knows_what_was_said(ours):
    said = []
    chat = Chat(ours, Drawing(temperature=0.0), 24, QUIET, said.append)
    chat.hear("What is the capital of France?")
    assert "Paris" in "".join(said)
    first = len(said)
    chat.hear("Repeat the name of that city.")
    assert "Paris" in "".join(said[first:])
