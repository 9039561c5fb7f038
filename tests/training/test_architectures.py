"""The models: what is learned is what the paper's loss says, and nothing looks ahead."""

import types
from functools import partial

import pytest
import torch

import implementation
from course.assembly.runs import described
from tests.training.conftest import small
from training.data.vocabulary import Languages, Symbols
from training.errors import Refused
from training.models.architectures import (
    LanguageModel,
    Objective,
    build,
    copy_weights,
    count,
    recompute_layers,
    smoothed,
    weights_of,
)
from training.models.parts import Parts
from variants.gpt import GPT
from variants.llama import LLaMA

WORDS = Symbols([f"w{n}" for n in range(13)], " ")
PAIR = Languages(WORDS, WORDS, 2)
ALONE = Languages(None, WORDS, None)


def rows():
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(1, 13, (4, 6), generator=generator)
    target = torch.randint(1, 13, (4, 7), generator=generator)
    source[1, 4:] = 0
    target[2, 3:] = 0
    return source, target


def made(settings, languages=PAIR):
    torch.manual_seed(0)
    return build(settings, languages).double().eval()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_smoothing_is_the_reference_s_with_its_gradients(smoothing):
    scores = torch.randn(9, 13, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 13, (9,))
    targets[:2] = 0
    log_probs = scores.log_softmax(-1)
    plain = torch.nn.functional.nll_loss(log_probs, targets, ignore_index=0, reduction="sum")
    ours = smoothed(plain, log_probs, targets, smoothing)
    reference = implementation.LabelSmoothing(13, 0, smoothing)(log_probs, targets)
    torch.testing.assert_close(ours, reference, rtol=1e-12, atol=1e-12)
    (mine,) = torch.autograd.grad(ours, scores, retain_graph=True)
    (theirs,) = torch.autograd.grad(reference, scores)
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_the_objective_is_the_reference_s_loss_on_the_reference_s_model():
    model = made(small(dropout=0.0))
    source, target = rows()
    summed, plain = Objective(model, 0.1)(source, target)
    batch = implementation.Batch(source, target)
    log_probs = model.generator(model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask))
    flat, targets = log_probs.flatten(0, 1), batch.tgt_y.flatten()
    torch.testing.assert_close(summed, implementation.LabelSmoothing(13, 0, 0.1)(flat, targets))
    torch.testing.assert_close(plain, implementation.LabelSmoothing(13, 0, 0.0)(flat, targets))


def test_a_language_model_counts_every_token():
    model = made(small("shakespeare", dropout=0.0), ALONE)
    _, target = rows()  # 0 is a symbol like others here
    summed, plain = Objective(model, 0.0)(None, target)
    log_probs = model.generator(model(target[:, :-1]))
    expected = -log_probs.gather(-1, target[:, 1:].unsqueeze(-1)).sum()
    torch.testing.assert_close(plain, expected)
    torch.testing.assert_close(summed, plain)


each_language_model = pytest.mark.parametrize(
    "kind",
    [{"norm": "post"}, {"norm": "pre"}, {"model": "gpt"}, {"model": "llama", "kv_heads": 1}],
    ids=lambda kind: "-".join(map(str, kind.values())),
)


@each_language_model
def test_a_language_model_does_not_look_ahead(kind):
    model = made(small("shakespeare", layers=2, dropout=0.0, **kind), ALONE)
    tokens = torch.randint(0, 13, (2, 9))
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 13
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=0, atol=1e-13)
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_layers_start_different_and_matrices_xavier():
    model = made(small("shakespeare", layers=2, d_model=64, d_ff=256), ALONE)
    first, other = (layer.feed_forward.w_1.weight for layer in model.decoder.layers)
    assert not torch.equal(first, other)
    assert first.abs().max() <= (6 / (64 + 256)) ** 0.5
    assert first.abs().max() > 0.95 * (6 / (64 + 256)) ** 0.5


def test_tied_weights_are_one():
    model = made(small("text", tie=True), ALONE)
    assert model.generator.proj.weight is model.embed[0].lut.weight
    assert count(model) == count(made(small("text"), ALONE)) - 13 * 16
    pair = made(small(tie=True))
    assert set(weights_of(pair)) >= {"src_embed.0.lut.weight"}
    assert "generator.proj.weight" not in weights_of(pair)


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_norms_of_older_runs_are_loaded(kind):
    """Their names were those of day 12's connections."""
    settings = small("shakespeare", model=kind, layers=2, dropout=0.0)
    torch.manual_seed(1)
    model, other = build(settings, ALONE), build(settings, ALONE)
    names = {"norm_1": 0, "norm_2": 1, "attention_norm": 0, "ffn_norm": 1}
    older = weights_of(model)
    for new, number in names.items():
        older = {
            name.replace(f".{new}.", f".sublayer.{number}.norm."): weight.clone()
            for name, weight in older.items()
        }
    assert any("sublayer" in name for name in older)
    copy_weights(other, older)
    text = torch.randint(len(WORDS), (2, 6))
    assert torch.equal(other(text), model(text))


def test_gpt_and_llama_are_the_variants():
    """Their loss is the cross-entropy of the reference's logits, and their sizes are the settings'."""
    _, target = rows()
    for kind, model_class in (("gpt", GPT), ("llama", LLaMA)):
        changes = {"kv_heads": 1} if kind == "llama" else {}
        model = made(small("text", model=kind, layers=2, dropout=0.0, **changes), ALONE)
        assert isinstance(model, model_class)
        plain, _ = Objective(model, 0.0)(None, target)
        logits = model_class.forward(model, target[:, :-1])
        expected = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), target[:, 1:].flatten(), reduction="sum"
        )
        torch.testing.assert_close(plain, expected, rtol=1e-12, atol=1e-12)
        config = model.config
        assert (config.vocab, config.context, config.n_layers) == (len(WORDS), 64, 2)
        assert (config.n_heads, config.d_model, config.d_ff) == (2, 16, 32)
        assert getattr(config, "n_kv_heads", 2) == (1 if kind == "llama" else 2)


RECOMPUTED = [(PAIR, {}), *((ALONE, kind) for kind in ({}, {"model": "gpt"}, {"model": "llama"}))]


@pytest.mark.parametrize(("languages", "kind"), RECOMPUTED)
def test_recomputing_changes_no_gradient(languages, kind):
    task = "copy" if languages is PAIR else "text"
    settings = small(task, layers=2, dropout=0.0, **kind)
    gradients = []
    for recompute in (False, True):
        model = made(settings, languages)
        if recompute:
            recompute_layers(model)
        source, target = rows()
        Objective(model, 0.0)(source if languages is PAIR else None, target)[0].backward()
        gradients.append({n: p.grad for n, p in model.named_parameters()})
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_fused_attention_and_attention_that_is_looked_at_agree():
    source, target = rows()
    losses = [
        Objective(made(small(dropout=0.0, fused=f)), 0.0)(source, target) for f in (True, False)
    ]
    torch.testing.assert_close(*losses, rtol=1e-12, atol=1e-12)


def test_weights_go_from_model_to_model():
    settings = small("text")
    first = made(settings, ALONE)
    torch.manual_seed(9)
    other = build(settings, ALONE).double().eval()
    tokens = torch.randint(0, 13, (2, 5))
    assert not torch.equal(first(tokens), other(tokens))
    copy_weights(other, weights_of(first))
    assert torch.equal(first(tokens), other(tokens))


def test_weights_of_another_model_are_refused():
    model = made(small())
    with pytest.raises(Refused, match="of another model"):
        copy_weights(model, weights_of(made(small(d_model=32))))
    with pytest.raises(Refused, match=r"decoder\.layers\.1"):
        copy_weights(model, weights_of(made(small(layers=2))))


# --- A learner's own parts ------------------------------------------------------------------------


def parts(**changed):
    module = types.ModuleType("parts")
    vars(module).update(vars(implementation) | changed)
    return Parts(module, "mine", describe=partial(described, answers="mine"))


def test_a_learner_s_parts_are_used():
    model = build(
        small("text"), ALONE, parts(EncoderLayer=type("E", (implementation.EncoderLayer,), {}))
    )
    assert isinstance(model, LanguageModel)
    assert type(model.decoder.layers[0]).__name__ == "E"


def test_parts_that_make_another_model_are_refused():
    class Odd(implementation.Generator):
        def __init__(self, d_model, vocab):
            super().__init__(d_model, vocab)
            self.extra = torch.nn.Parameter(torch.zeros(3))

    with pytest.raises(Refused, match=r"another model than the reference's: generator\.extra"):
        build(small("text"), ALONE, parts(Generator=Odd))


def test_parts_that_raise_are_refused():
    def broken(*sizes, **more):
        raise NotImplementedError

    with pytest.raises(Refused, match="do not make a model: NotImplementedError"):
        build(small(), PAIR, parts(make_model=broken))
