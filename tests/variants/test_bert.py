"""BERT of day 26 against transformers' own.

Float64 has to agree to 1e-10, logits and gradients.
"""

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
    attended = None if mask is None else mask.squeeze(1).long()
    expected = published(text, attention_mask=attended, token_type_ids=segments).logits
    actual = ours(text, segments, mask)
    assert_agree(actual, expected)
    for logits in (expected, actual):  # transformers' own loss is computed in float32
        F.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    assert_same_gradients(ours, published, bert)


def test_published_state_dicts_fill_ours_whatever_else_they_hold():
    """Of BertForPreTraining; of old checkpoints; and with what is tied there once, by either name."""
    state = theirs(SMALL, "BertForPreTraining").state_dict()
    ours = bert(state)
    assert ours.keys() == BERT(SMALL).state_dict().keys()
    old = {
        re.sub(
            "LayerNorm.bias$",
            "LayerNorm.beta",
            re.sub("LayerNorm.weight$", "LayerNorm.gamma", name),
        ): w
        for name, w in state.items()
    }
    assert len(old.keys() - state.keys()) == 2 * (2 * SMALL.n_layers + 2)
    old["bert.embeddings.position_ids"] = torch.arange(8).unsqueeze(0)
    tied = ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"]
    untied = ["bert.embeddings.word_embeddings.weight", "cls.predictions.bias"]
    for left_out in (tied, untied, tied[:1] + untied[1:]):
        for published in (state, old):
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


# --- The model by itself --------------------------------------------------------------------------


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
