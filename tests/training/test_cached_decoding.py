"""Decoding with keys and values kept gives what decoding without them gives, and computes each token once."""

import pytest
import torch

from implementation import Batch, beam_search, greedy_decode, subsequent_mask
from tests.training.conftest import small
from training.data.vocabulary import Languages, Symbols
from training.models.architectures import build
from training.models.cached_decoding import CachedEncoderDecoder, cached_forward
from training.models.parts import REFERENCES, Parts

WORDS = Symbols(tuple("_|.abcdefgh"), "")  # padding, start, end, letters
LONGEST = 14
MODELS = [{"norm": "post"}, {"norm": "pre"}, {"model": "gpt"}, {"model": "llama", "kv_heads": 1}]


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def made(settings, languages):
    """A model with weights so large that what it says hangs on what it has read."""
    torch.manual_seed(3)
    model = build(settings, languages).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.6 if parameter.dim() == 2 else 0.1
            parameter.add_(scale * torch.randn_like(parameter))
    return model


def encoder_decoder(norm):
    settings = small("arithmetic", layers=2, norm=norm, dropout=0.0)
    return settings, made(settings, Languages(WORDS, WORDS, 2))


def sources():
    torch.manual_seed(1)
    src = torch.randint(3, len(WORDS), (5, 6))
    src[1, 4:] = src[3, 2:] = 0
    return src, Batch(src).src_mask


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_greedy_answers_are_the_same(norm):
    settings, model = encoder_decoder(norm)
    src, mask = sources()
    expected = greedy_decode(model, src, mask, LONGEST, 1, 2)
    cached = CachedEncoderDecoder(model, settings, LONGEST)
    assert torch.equal(greedy_decode(cached, src, mask, LONGEST, 1, 2), expected)
    assert len({tuple(row) for row in expected.tolist()}) > 2


@pytest.mark.parametrize("beam", [2, 5])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_beams_that_change_places_keep_their_pasts(norm, beam):
    settings, model = encoder_decoder(norm)
    src, mask = sources()
    changes = []

    class Watched(CachedEncoderDecoder):
        def _parents(self, previous, tgt):
            parents = super()._parents(previous, tgt)
            assert torch.equal(previous[parents], tgt[:, : previous.size(1)])
            assert torch.equal(parents // beam, torch.arange(len(tgt)) // beam)
            changes.append(not torch.equal(parents, torch.arange(len(tgt))))
            return parents

    for alpha in (0.0, 0.6):
        expected = beam_search(model, src, mask, LONGEST, 1, 2, beam, alpha)
        cached = Watched(model, settings, LONGEST, beam)
        assert torch.equal(beam_search(cached, src, mask, LONGEST, 1, 2, beam, alpha), expected)
    assert sum(changes) > 3


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_states_are_the_same_to_rounding(norm):
    settings, model = encoder_decoder(norm)
    src, mask = sources()
    tgt = torch.randint(3, len(WORDS), (5, 9))
    memory = model.encode(src, mask)
    expected = model.decode(memory, mask, tgt, subsequent_mask(9))
    cached = CachedEncoderDecoder(model, settings, 9)
    chunks = [cached.decode(memory, mask, tgt[:, :end], None) for end in (1, 2, 6, 9)]
    torch.testing.assert_close(torch.cat(chunks, dim=1), expected, rtol=1e-12, atol=1e-12)


def test_the_source_is_projected_once_and_each_token_once():
    settings, model = encoder_decoder("post")
    src, mask = sources()
    projected = {"src_attn": 0, "self_attn": 0}
    for name in projected:
        projection = getattr(model.decoder.layers[0], name).w_k

        def count(module, inputs, output, name=name):
            projected[name] += inputs[0].size(1)

        projection.register_forward_hook(count)
    cached = CachedEncoderDecoder(model, settings, LONGEST)
    tokens = greedy_decode(cached, src, mask, LONGEST, 1)
    assert projected == {"src_attn": src.size(1), "self_attn": tokens.size(1) - 1}


# --- Language -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", MODELS, ids=lambda how: next(iter(how.values())))
def test_a_text_is_read_on_as_it_is_read_at_once(how):
    """Also where it grows longer than the context, and what is read moves."""
    settings = small("shakespeare", layers=2, context=7, dropout=0.0, **how)
    model = made(settings, Languages(None, WORDS, None))
    text = torch.randint(len(WORDS), (1, 12))
    ask = cached_forward(model, settings, REFERENCES[settings.model])
    with torch.no_grad():
        for end in (3, 4, 5, 6, 7, 8, 9, 12):
            tokens = text[:, max(0, end - 7) : end]
            expected = model.generator(model(tokens))[:, -1]
            actual = ask(tokens)[:, -1].log_softmax(-1)
            torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_parts_of_a_learner_are_asked_as_they_were_written():
    """Their attention may be another: they are given the whole text."""
    settings = small("shakespeare", context=7, dropout=0.0)
    model = made(settings, Languages(None, WORDS, None))
    lengths = []
    model.register_forward_hook(lambda module, inputs, output: lengths.append(inputs[0].size(1)))
    ask = cached_forward(model, settings, Parts(REFERENCES["paper"].module))
    for end in (3, 4, 5):
        ask(torch.ones(1, end, dtype=torch.int64))
    assert lengths == [3, 4, 5]
