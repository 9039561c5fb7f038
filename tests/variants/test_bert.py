"""BERT of day 26 against transformers' own, and each promise of its docstrings by itself.

Float64 has to agree to 1e-10, logits and gradients. Shares of random draws may be off by 6.5 of their
standard errors, which a right answer exceeds less than once in 10⁹ runs.
"""

import math
import re

import pytest
import torch
import torch.nn.functional as F

from tests.reference.oracles import assert_agree, assert_same_gradients, randomized
from variants.bert import BERT, BERTConfig, mask_tokens
from variants.hugging_face import bert

SIZES = pytest.mark.parametrize(
    "config",
    [
        BERTConfig(23, 11, n_layers=3, n_heads=3, d_model=15, d_ff=29, dropout=0.0, segments=3),
        BERTConfig(7, 5, n_layers=1, n_heads=1, d_model=5, d_ff=3, dropout=0.0, eps=0.1),
        BERTConfig(3, 9, n_layers=2, n_heads=6, d_model=6, d_ff=24, dropout=0.0, segments=1),
    ],
    ids=["odd", "one head", "heads of one feature"],
)
SMALL = BERTConfig(13, 8, n_layers=2, n_heads=2, d_model=10, d_ff=17, dropout=0.0)
pytestmark = pytest.mark.usefixtures("float64")


def theirs(config, kind="BertForMaskedLM"):
    """transformers' BERT of these sizes, with no parameter left at 0 or 1.

    It has no padding index, which would only keep one row of the table from learning.
    """
    transformers = pytest.importorskip("transformers")
    sizes = transformers.BertConfig(
        vocab_size=config.vocab,
        max_position_embeddings=config.context,
        hidden_size=config.d_model,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        intermediate_size=config.d_ff,
        layer_norm_eps=config.eps,
        type_vocab_size=config.segments,
        pad_token_id=None,
    )
    return randomized(getattr(transformers, kind)(sizes).double()).eval()


def tokens(config, rows=3, length=None):
    return torch.randint(config.vocab, (rows, config.context if length is None else length))


def padding(*lengths, width):
    """`(B, 1, T)`, True at the real tokens of rows of these lengths."""
    return (torch.arange(width) < torch.tensor(lengths).unsqueeze(1)).unsqueeze(1)


# --- The whole, against transformers --------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("segmented", [False, True], ids=["one segment", "segments"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("spare", [0, 2], ids=["full context", "shorter"])
def test_logits_and_gradients_are_those_of_transformers(config, segmented, padded, spare):
    published, ours = theirs(config), BERT(config)
    ours.load_state_dict(bert(published.state_dict()))
    length = config.context - spare
    text = tokens(config, length=length)
    segments = torch.randint(config.segments, text.shape) if segmented else None
    mask = padding(length, 2, 1, width=length) if padded else None
    _, labels = mask_tokens(text, 0, config.vocab, special=(1,), p=0.5)
    assert (labels == -100).any() and (labels >= 0).any()
    whole = None if mask is None else mask.squeeze(1).long()
    expected = published(text, attention_mask=whole, token_type_ids=segments).logits
    actual = ours(text, segments, mask)
    assert_agree(actual, expected)
    for logits in (expected, actual):  # transformers' own loss is computed in float32
        F.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    assert_same_gradients(ours, published, bert)


def test_published_state_dicts_fill_ours_whatever_else_they_hold():
    """Of BertForPreTraining; of old checkpoints; and with what is tied there once, by either name."""
    whole = theirs(SMALL, "BertForPreTraining").state_dict()
    ours = bert(whole)
    assert ours.keys() == BERT(SMALL).state_dict().keys()
    old = {
        re.sub(
            "LayerNorm.bias$",
            "LayerNorm.beta",
            re.sub("LayerNorm.weight$", "LayerNorm.gamma", name),
        ): w
        for name, w in whole.items()
    }
    assert len(old.keys() - whole.keys()) == 2 * (2 * SMALL.n_layers + 2)
    old["bert.embeddings.position_ids"] = torch.arange(8).unsqueeze(0)
    tied = ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"]
    untied = ["bert.embeddings.word_embeddings.weight", "cls.predictions.bias"]
    for left_out in (tied, untied, tied[:1] + untied[1:]):
        for published in (whole, old):
            again = bert({name: w for name, w in published.items() if name not in left_out})
            assert again.keys() == ours.keys()
            assert all(torch.equal(tensor, ours[name]) for name, tensor in again.items())


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_published_head_that_is_not_tied_is_refused(name):
    weights = theirs(SMALL).state_dict()
    weights[f"cls.predictions.decoder.{name}"] = weights[f"cls.predictions.decoder.{name}"] + 1
    with pytest.raises(
        ValueError, match=rf"decoder\.{name} must equal .*{name if name == 'bias' else 'emb'}"
    ):
        bert(weights)


@pytest.mark.parametrize(
    "name",
    [
        "bert.encoder.layer.0.attention.self.distance_embedding.weight",
        "bert.encoder.layer.0.crossattention.self.query.weight",
        "classifier.weight",
    ],
)
def test_published_weights_that_are_no_bert_are_refused(name):
    with pytest.raises(ValueError, match=re.escape(name.removeprefix("bert."))):
        bert({name: torch.ones(3, 2)})


# --- Masking --------------------------------------------------------------------------------------


def assert_share(where, expected):
    """The share of True in `where` is the expected one, but for chance."""
    margin = 6.5 * math.sqrt(expected * (1 - expected) / where.numel())
    assert abs(where.double().mean().item() - expected) <= margin


def assert_unrelated(some, others):
    """Whether `some` is True says nothing about whether `others` is, but for chance."""
    some, others = some.double() - some.double().mean(), others.double() - others.double().mean()
    correlation = (some * others).mean() / (some.std() * others.std())
    assert abs(correlation.item()) < 6.5 / math.sqrt(some.numel())


def test_labels_are_the_chosen_tokens_and_the_rest_stays():
    text = tokens(SMALL, rows=50)
    before = text.clone()
    inputs, labels = mask_tokens(text, mask_id=4, vocab=13, special=(0, 2), p=0.5)
    assert torch.equal(text, before)
    chosen = labels != -100
    assert torch.equal(labels[chosen], text[chosen]) and torch.equal(inputs[~chosen], text[~chosen])
    assert 0 < chosen.sum() < chosen.numel() and not torch.equal(inputs, text)
    assert not chosen[(text == 0) | (text == 2)].any()
    for result in (inputs, labels):
        assert result.dtype == torch.int64 and result.shape == text.shape
        assert result.data_ptr() != text.data_ptr()


def test_p_of_0_chooses_none_and_p_of_1_all_but_the_special():
    text = tokens(SMALL, rows=50)
    inputs, labels = mask_tokens(text, 4, 13, (0, 2), p=0)
    assert torch.equal(inputs, text) and (labels == -100).all()
    assert inputs.data_ptr() != text.data_ptr()
    special = (text == 0) | (text == 2)
    inputs, labels = mask_tokens(text, 4, 13, (0, 2), p=1)
    assert torch.equal(labels, text.masked_fill(special, -100))
    assert torch.equal(inputs[special], text[special])


@pytest.mark.parametrize("p", [None, 0.4, 1.0])
def test_the_shares_of_the_chosen_and_of_what_they_become(p):
    """Where a random token is one of 5, a fifth of them are the mask, and a fifth what was there."""
    text = torch.randint(3, (1000, 400))  # of 5, so that 3 and 4, the mask, only come in
    given = {} if p is None else {"p": p}
    inputs, labels = mask_tokens(text, 4, 5, special=(), **given)
    chosen = labels != -100
    assert_share(chosen, 0.15 if p is None else p)
    text, inputs = text[chosen], inputs[chosen]
    assert_share(inputs == 4, 0.8 + 0.1 / 5)
    assert_share(inputs == text, 0.1 + 0.1 / 5)
    for step in (1, 2):
        assert_share(inputs == (text + step) % 3, 0.1 / 5)
    assert_share(inputs == 3, 0.1 / 5)


def test_a_random_token_is_any_of_the_vocabulary():
    """Special ones as well, each as likely."""
    text = torch.full((400_000,), 6)
    inputs, _ = mask_tokens(text, 4, 7, special=(0, 2), p=1)
    for token in (0, 1, 2, 3, 5):
        assert_share(inputs == token, 0.1 / 7)


@pytest.mark.parametrize("p", [0.15, 1.0])
@pytest.mark.parametrize("axis", [0, 1])
def test_every_token_has_a_fate_of_its_own(p, axis):
    """Neighbors, in a row or in a column, are not chosen, masked or replaced together or in turn."""
    text = torch.full((500, 401), 3)
    inputs, labels = mask_tokens(text, 4, 1000, special=(), p=p)
    events = [inputs == 4, (inputs != 4) & (inputs != 3)]
    for event in [labels != -100, *events] if p < 1 else events:
        assert event.any() and not event.all()
        assert_unrelated(event.narrow(axis, 1, 400), event.narrow(axis, 0, 400))


def test_a_row_may_have_more_or_fewer_chosen_than_its_share():
    """As many as a binomial has, not 15% of each row: their variance is T p (1 − p)."""
    text = torch.full((20_000, 40), 3)
    _, labels = mask_tokens(text, 4, 9, special=())
    variance = (labels != -100).sum(dim=1).double().var().item()
    expected = 40 * 0.15 * 0.85
    assert abs(variance - expected) < 6.5 * expected * math.sqrt(2 / 20_000)


def test_equal_generators_give_equal_results_and_move_on():
    text = tokens(SMALL, rows=50)
    before = torch.get_rng_state()
    first, second = (torch.Generator().manual_seed(5) for _ in range(2))
    one, two = (mask_tokens(text, 4, 13, (0,), generator=g) for g in (first, second))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    again = mask_tokens(text, 4, 13, (0,), generator=first)
    assert not torch.equal(again[1], one[1])
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(7)
    one = mask_tokens(text, 4, 13, (0,))
    torch.manual_seed(7)
    assert all(torch.equal(a, b) for a, b in zip(mask_tokens(text, 4, 13, (0,)), one, strict=True))


@pytest.mark.parametrize("special", [[0, 2], (0, 2), {0, 2}, [], [4], range(13)])
def test_special_may_be_any_collection(special):
    text = tokens(SMALL, rows=50)
    _, labels = mask_tokens(text, 4, 13, special, p=1)
    for token in range(13):
        assert (labels[text == token] == (-100 if token in special else token)).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 4), (2, 3, 4)])
def test_any_shape_is_masked(shape):
    inputs, labels = mask_tokens(torch.full(shape, 6), 4, 7, special=(), p=1)
    assert inputs.shape == labels.shape == shape
    assert (labels == 6).all()


def test_ids_outside_the_vocabulary_and_probabilities_that_are_none_are_refused():
    text = tokens(SMALL)
    for wrong in (-1, 13):
        with pytest.raises(ValueError, match=f"mask_id must be in 0 to 12, got {wrong}"):
            mask_tokens(text, wrong, 13, ())
        with pytest.raises(ValueError, match=f"special.*0 to 12.*{wrong}"):
            mask_tokens(text, 4, 13, (0, wrong))
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=f"p must be in 0 to 1, got {wrong}"):
            mask_tokens(text, 4, 13, (), p=wrong)


# --- The model by itself --------------------------------------------------------------------------


def test_a_mask_may_differ_from_query_to_query_and_serve_all_rows():
    model, text = randomized(BERT(SMALL)), tokens(SMALL)
    past = torch.ones(1, 8, 8, dtype=torch.bool).tril()
    whole = model(text, None, past)
    assert_agree(model(text[:, :3], mask=past[:, :3, :3]), whole[:, :3])
    assert_agree(model(text, mask=past.expand(3, -1, -1)), whole)


def test_the_head_is_the_embedding_and_a_free_bias():
    """One matrix, which both uses move; nothing else stands in the state dict."""
    model = BERT(SMALL)
    state = model.state_dict()
    assert {name.split(".")[0] for name in state} == {
        *("embed", "positions", "segments", "norm", "encoder", "transform", "bias")
    }
    assert state.keys() == dict(model.named_parameters()).keys()
    assert state["embed.weight"].shape == (13, 10) and state["positions.weight"].shape == (8, 10)
    assert state["segments.weight"].shape == (2, 10) and state["bias"].shape == (13,)
    assert [name for name, tensor in state.items() if tensor.shape == (13, 10)] == ["embed.weight"]
    assert len(model.encoder.layers) == 2 and model.config is SMALL
    assert model.embed.padding_idx is None
    text = torch.zeros(1, 1, dtype=torch.long)
    before = model(text)
    before.logsumexp(dim=-1).sum().backward()
    assert (model.embed.weight.grad.abs().sum(dim=-1) > 0).all()  # tokens never read are scored
    with torch.no_grad():
        model.bias += torch.arange(13)
    assert_agree(model(text) - before, torch.arange(13.0).expand(1, 1, 13))


def test_dropout_of_everything_leaves_what_biases_make_of_it():
    """Embedding and sublayers alike give 0, after the embedding's norm, not before it."""
    none = randomized(BERT(BERTConfig(13, 8, 0, 2, 10, 17, dropout=1.0)))
    start = none.transform(torch.zeros(3, 8, 10))
    assert_agree(none(tokens(SMALL)), F.linear(start, none.embed.weight, none.bias))
    model = randomized(BERT(BERTConfig(13, 8, 2, 2, 10, 17, dropout=1.0)))
    x = torch.zeros(3, 8, 10)
    for layer in model.encoder.layers:
        assert layer.self_attn.dropout.p == 1.0
        for connection in layer.sublayer:
            x = F.layer_norm(x, (10,), connection.norm.gain, connection.norm.bias, SMALL.eps)
    expected = F.linear(model.transform(x), model.embed.weight, model.bias)
    assert_agree(model(tokens(SMALL)), expected)
    assert not torch.allclose(model.eval()(tokens(SMALL)), expected)


def test_attention_weights_are_dropped():
    """Of all of them, with nothing else dropped, the bias of the output projection is left."""
    model = randomized(BERT(BERTConfig(13, 8, 1, 2, 10, 17, dropout=1.0)))
    attention, x = model.encoder.layers[0].self_attn, torch.randn(2, 4, 10)
    assert torch.equal(attention(x, x, x), attention.w_o.bias.expand(2, 4, 10))


def test_bert_base_has_109_514_298_parameters():
    """Without the next sentence's parts, as transformers' own: `BertForMaskedLM(BertConfig())`."""
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        model, published = (
            BERT(BERTConfig()),
            transformers.BertForMaskedLM(transformers.BertConfig()),
        )
    sizes = [sum(parameter.numel() for parameter in m.parameters()) for m in (model, published)]
    assert sizes == [109_514_298, 109_514_298]
    assert BERTConfig().eps == published.config.layer_norm_eps
    assert BERTConfig().dropout == published.config.hidden_dropout_prob == 0.1


def test_initial_weights():
    """A normal cut at two deviations has 0.8796 of its deviation. Margins: 6 standard errors and more."""
    normal = torch.distributions.Normal(0.0, 1.0)
    two = torch.tensor(2.0)
    density = normal.log_prob(two).exp()
    std = 0.02 * (1 - 2 * two * density / (2 * normal.cdf(two) - 1)).sqrt().item()
    for name, parameter in BERT(BERTConfig(300, 200, 3, 2, 96, 200)).named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (1.0 if name.endswith("gain") else 0.0)).all(), name
            continue
        n = parameter.numel()
        assert abs(parameter.mean().item()) < 6 * std / math.sqrt(n), name
        assert abs(parameter.std().item() - std) < 6 * std / math.sqrt(2 * n), name
        assert parameter.abs().max() <= 0.04, name
        assert n < 1000 or parameter.abs().max() > 0.035, name


def test_layers_start_different():
    first, second = (layer.state_dict() for layer in BERT(SMALL).encoder.layers)
    for name, tensor in first.items():
        assert tensor.dim() == 1 or not torch.equal(tensor, second[name])


def test_empty_inputs():
    model = BERT(SMALL)
    assert model(tokens(SMALL, length=0)).shape == (3, 0, 13)
    assert model(tokens(SMALL, rows=0)).shape == (0, 8, 13)


def test_dtypes_follow_the_weights():
    mask = padding(8, 3, 1, width=8)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        logits = BERT(SMALL).to(dtype)(tokens(SMALL), None, mask)
        assert logits.dtype == dtype and logits.isfinite().all()


def test_more_tokens_than_the_context_are_refused():
    with pytest.raises(ValueError, match=r"tokens.*context = 8.*9"):
        BERT(SMALL)(tokens(SMALL, length=9))


@pytest.mark.parametrize("shape", [(8,), (1, 8), (3, 7), (3, 1)])
def test_segments_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=rf"segments.*\(3, 8\).*{re.escape(str(shape))}"):
        BERT(SMALL)(tokens(SMALL), torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(3, 8).bool(),
        torch.ones(3, 1, 8),
        torch.ones(3, 1, 7).bool(),
        torch.ones(3, 1, 1).bool(),
    ],
    ids=["no axis for queries", "not boolean", "another length", "one key"],
)
def test_masks_of_another_shape_or_dtype_are_refused(mask):
    with pytest.raises(ValueError, match=r"mask must (be|broadcast)"):
        BERT(SMALL)(tokens(SMALL), None, mask)


@pytest.mark.parametrize(("d_model", "n_heads"), [(10, 3), (10, 0), (4, 8)])
def test_heads_that_do_not_divide_are_refused(d_model, n_heads):
    with pytest.raises(
        ValueError, match=f"must divide d_model, got h={n_heads}, d_model={d_model}"
    ):
        BERT(BERTConfig(13, 8, 2, n_heads, d_model, 17))
