"""What `implementation.py` does with arguments that are wrong or empty: a ValueError that names the
argument, what was given and what is allowed, or the result that is defined; never a silent broadcast.
"""

import re

import pytest
import torch
from torch import nn

from implementation import (
    BPE,
    Batch,
    Decoder,
    DecoderLayer,
    Embeddings,
    Encoder,
    EncoderLayer,
    LabelSmoothing,
    LayerNorm,
    MultiHeadedAttention,
    PositionalEncoding,
    PositionwiseFeedForward,
    SublayerConnection,
    attention,
    beam_search,
    bleu,
    clones,
    greedy_decode,
    make_model,
    rate,
    run_epoch,
    subsequent_mask,
    token_batches,
    train_bpe,
)

VOCAB, B, T, D_MODEL, H = 9, 3, 4, 8, 2
NAN = float("nan")
SEARCHES = pytest.mark.parametrize("search", [greedy_decode, beam_search])


def refused(*named):
    """A ValueError whose message names all of these, in this order."""
    return pytest.raises(ValueError, match=".*".join(re.escape(str(part)) for part in named))


def multi_head():
    return MultiHeadedAttention(H, D_MODEL, 0.0)


def model():
    return make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, 0.0).eval()


def ids(*shape):
    return torch.randint(1, VOCAB, shape)


def seen(*shape):
    return torch.ones(shape, dtype=torch.bool)


# --- What is refused ------------------------------------------------------------------------------


def layers_of(norm):
    """Each way to ask for a norm."""
    attend, network = multi_head(), PositionwiseFeedForward(D_MODEL, 16)
    return (
        lambda: SublayerConnection(D_MODEL, 0.0, norm),
        lambda: EncoderLayer(D_MODEL, attend, network, 0.0, norm),
        lambda: DecoderLayer(D_MODEL, attend, attend, network, 0.0, norm),
        lambda: make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, norm=norm),
    )


def layers_that_drop(p):
    """Each place that dropout is given to: torch's own refuses it."""
    return (
        lambda: MultiHeadedAttention(H, D_MODEL, p),
        lambda: PositionwiseFeedForward(D_MODEL, 16, p),
        lambda: PositionalEncoding(D_MODEL, p),
        lambda: SublayerConnection(D_MODEL, p),
        lambda: make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, p),
    )


def attended(mask):
    """(T_q, T_k) is (4, 5)."""
    query, key = torch.randn(B, T, 6), torch.randn(B, 5, 6)
    return (lambda: attention(query, key, key, mask),)


def attended_by_heads(mask):
    """(T_q, T_k) is (4, 5)."""
    query, key = torch.randn(B, T, D_MODEL), torch.randn(B, 5, D_MODEL)
    return (lambda: multi_head()(query, key, key, mask),)


def searched(max_len=5, start=1):
    given = ids(B, T), seen(B, 1, T), max_len, start, 2
    return (lambda: greedy_decode(model(), *given), lambda: beam_search(model(), *given))


def beamed(*how):
    return (lambda: beam_search(model(), ids(B, T), seen(B, 1, T), 5, 1, 2, *how),)


def positioned(length):
    return (lambda: PositionalEncoding(D_MODEL, 0.0, max_len=6)(torch.zeros(1, length, D_MODEL)),)


def smoothed(log_probs, target):
    return (lambda: LabelSmoothing(5, 0, 0.1)(log_probs, target),)


def trained(accumulate):
    batch, loss = Batch(ids(B, T), ids(B, T)), LabelSmoothing(VOCAB, 0)
    return (lambda: run_epoch([batch], model(), loss, None, None, accumulate),)


# What the message names, before the value itself; the values; and the calls that each is given to.
REFUSED = [
    # zeros and ones, or 0 and −∞, are no mask: their meaning would have to be guessed
    *(
        (("mask", "boolean"), [dtype], lambda dtype, given=given: given(torch.ones(T, 5).to(dtype)))
        for dtype in (torch.float32, torch.int64, torch.uint8)
        for given in (attended, lambda mask: attended_by_heads(mask.expand(B, T, 5)))
    ),
    # other sizes, another batch, or a dimension too many
    (
        ("mask", "broadcast", (B, T, 5)),
        [(6,), (T, 6), (3, 5), (2, T, 5), (1, B, T, 5), (B, 5, T)],
        lambda shape: attended(seen(*shape)),
    ),
    # only (1|B, 1|T_q, T_k) is a mask; the message has the shape as given, without a head axis
    (
        ("mask",),
        [
            *((T,), (T, 5), (2, 1, 5), (B, 3, 5), (B, T, 4), (B, T, 1)),
            *((B, 1, 1), (B, 1, T, 5), (B, H, T, 5)),
        ],
        lambda shape: attended_by_heads(seen(*shape)),
    ),
    (("dropout", "between 0 and 1"), [-0.1, 1.1], layers_that_drop),
    (("norm", '"post" or "pre"'), ["rms", "Post", "", None], layers_of),
    (("max_len", 6), [7], positioned),
    # vectors of width 1 would become vectors of width d_model
    (
        ("d_model", D_MODEL),
        [1, 4],
        lambda width: (lambda: PositionalEncoding(D_MODEL, 0.0)(torch.zeros(B, T, width)),),
    ),
    # a target needs a start symbol and a token
    (("tgt",), [(B, 0), (B, 1)], lambda shape: (lambda: Batch(ids(B, T), ids(*shape)),)),
    # a single target would be broadcast over all the sources
    (("tgt", B), [1, 2], lambda rows: (lambda: Batch(ids(B, T), ids(rows, T)),)),
    (("smoothing", "0 to 1"), [-0.1, 1.1, NAN], lambda e: (lambda: LabelSmoothing(5, 0, e),)),
    # a target, the padding, and one more class to give a share
    (("size", "at least 3"), [0, 1, 2], lambda size: (lambda: LabelSmoothing(size, 0, 0.1),)),
    # −1 would be the last class; larger ones would fail only in the middle of training
    (("padding_idx", "0 to 4"), [-1, 5, 100], lambda i: (lambda: LabelSmoothing(5, i, 0.1),)),
    # shares of ε are made for `size` classes, and do not add up over others
    (
        ("log_probs", 5),
        [4, 6],
        lambda size: smoothed(torch.zeros(2, size), torch.tensor([1, 2])),
    ),
    # a single target would be broadcast over some of the sum, and not over the rest
    (
        ("target", 3),
        [1, 2, 4],
        lambda count: smoothed(torch.zeros(3, 5), torch.ones(count, dtype=torch.long)),
    ),
    (("warmup", "at least 1"), [0, -1], lambda warmup: (lambda: rate(1, 512, 1, warmup),)),
    (("step", "at least 0"), [-1], lambda step: (lambda: rate(step, 512, 1, 4000),)),
    # 0 would divide by zero, and −4 would give a complex number
    (("model_size", "at least 1"), [0, -4], lambda size: (lambda: rate(1, size, 1, 4000),)),
    (("accumulate", "at least 1"), [0, -1], trained),
    (("max_len", "at least 1"), [0, -1], lambda max_len: searched(max_len)),
    (("beam", "at least 1"), [0, -1], beamed),
    # with a negative α the search would stop although a later end could be worth more
    (("alpha", "at least 0"), [-0.5, NAN], lambda alpha: beamed(4, alpha)),
    (("vocab_size", 256), [255, 0, -1], lambda size: (lambda: train_bpe("text", size),)),
    # a merge may use the bytes and the merges before it
    (("merges",), [(97, 256), (300, 97), (-1, 97)], lambda m: (lambda: BPE([m, (97, 98)]),)),
    # with one merge the ids are 0 to 256
    (
        ("ids", "0 to 256"),
        [-1, 257, 10**6],
        lambda number: (lambda: BPE([(97, 98)]).decode([97, number]),),
    ),
    # at the call, not when the first batch is asked for
    (
        ("max_tokens", "at least 1"),
        [0, -5],
        lambda most: (lambda: list(token_batches([([1], [2])], most)),),
    ),
]


@pytest.mark.parametrize(
    ("named", "value", "calls"),
    [
        pytest.param(named, value, calls, id=f"{named[0]}-{value}")
        for named, values, calls in REFUSED
        for value in values
    ],
)
def test_it_is_refused(named, value, calls):
    """By a ValueError that names the argument, what is allowed, and what was given."""
    for call in calls(value):
        with refused(*named, repr(value) if isinstance(value, str | None) else value):
            call()


# --- Attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("h", "d_model"), [(3, 8), (16, 8), (0, 8), (-2, 8)])
def test_heads_that_do_not_divide_are_refused(h, d_model):
    """h has to divide d_model, in a layer and in a model."""
    with refused("h must divide d_model", h, d_model):
        MultiHeadedAttention(h, d_model)
    with refused("h must divide d_model", h, d_model):
        make_model(VOCAB, VOCAB, 1, d_model, 16, h)


def test_nothing_to_attend_to_or_from():
    """No sequences, no queries and no keys are all defined: empty results, and the output bias."""
    layer, x = multi_head(), torch.randn(B, T, D_MODEL)
    assert layer(x[:0], x[:0], x[:0]).shape == (0, T, D_MODEL)
    assert layer(x[:, :0], x, x).shape == (B, 0, D_MODEL)
    output = layer(x, x[:, :0], x[:, :0], seen(B, 1, 0))
    assert torch.equal(output, layer.w_o.bias.expand(B, T, -1))


# --- Embeddings, positions, norms ----------------------------------------------------------------


def test_no_tokens_have_no_vectors():
    """Empty ids give an empty result of the right width."""
    assert Embeddings(D_MODEL, VOCAB)(ids(0, T)).shape == (0, T, D_MODEL)
    assert Embeddings(D_MODEL, VOCAB)(ids(B, 0)).shape == (B, 0, D_MODEL)


def test_a_table_without_positions():
    """`max_len` is how many there may be; 0 is a table of no rows, good for no tokens only."""
    layer = PositionalEncoding(D_MODEL, 0.0, max_len=6)
    assert layer(torch.zeros(1, 6, D_MODEL)).shape == (1, 6, D_MODEL)
    layer = PositionalEncoding(D_MODEL, 0.0, max_len=0)
    assert layer(torch.zeros(B, 0, D_MODEL)).shape == (B, 0, D_MODEL)
    with refused("max_len", 0, 1):
        layer(torch.zeros(B, 1, D_MODEL))


@pytest.mark.parametrize(("features", "width"), [(D_MODEL, 1), (1, D_MODEL), (D_MODEL, 4)])
def test_gains_are_not_broadcast_over_vectors_of_another_width(features, width):
    """Nor does a norm of other features take them, as nn.LayerNorm does not."""
    with pytest.raises((ValueError, RuntimeError)):
        nn.LayerNorm(features)(torch.randn(B, T, width))
    with pytest.raises((ValueError, RuntimeError)):
        LayerNorm(features)(torch.randn(B, T, width))


# --- The model -----------------------------------------------------------------------------------


def test_tying_two_vocabularies_is_refused():
    """One matrix cannot serve two vocabularies: both sizes are named."""
    with refused("tie", "src_vocab", 7, "tgt_vocab", 9):
        make_model(7, 9, 1, D_MODEL, 16, H, tie=True)


def test_a_stack_of_no_layers():
    """n = 0 is defined: nothing happens in post-norm, and the final norm only in pre-norm."""
    attend, network, x = multi_head(), PositionwiseFeedForward(D_MODEL, 16), torch.randn(B, T, 8)
    assert len(clones(network, 0)) == 0
    assert torch.equal(Encoder(EncoderLayer(D_MODEL, attend, network, 0.0), 0)(x), x)
    stack = Decoder(DecoderLayer(D_MODEL, attend, attend, network, 0.0, "pre"), 0)
    torch.testing.assert_close(stack(x, x), nn.LayerNorm(D_MODEL)(x))


@pytest.mark.parametrize(("rows", "s", "t"), [(0, T, T), (B, 0, T), (B, T, 0), (0, 0, 0)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_empty_batch_has_empty_states(norm, rows, s, t):
    """No sequences, no source tokens and no target tokens are defined: shapes with 0."""
    transformer = make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, norm=norm)
    src, tgt = ids(rows, s), ids(rows, t)
    states = transformer(src, tgt, seen(rows, 1, s), subsequent_mask(t))
    assert states.shape == (rows, t, D_MODEL)
    assert states.isfinite().all()
    assert transformer.generator(states).shape == (rows, t, VOCAB)


def test_rows_of_nothing_but_padding_are_finite():
    """A source and a target of only padding give finite states and gradients, in a batch with others."""
    transformer = model()
    src, tgt = ids(B, T), ids(B, T)
    src[1], tgt[1] = 0, 0
    batch = Batch(src, tgt)
    states = transformer(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
    assert states.isfinite().all()
    states.sum().backward()
    assert all(
        parameter.grad is None or parameter.grad.isfinite().all()
        for parameter in transformer.parameters()
    )
    alone = Batch(src[[0, 2]], tgt[[0, 2]])
    torch.testing.assert_close(
        transformer(alone.src, alone.tgt, alone.src_mask, alone.tgt_mask), states[[0, 2]]
    )


# --- Training ------------------------------------------------------------------------------------


def test_a_batch_of_no_sequences():
    """Defined: everything is empty, and there is no token to predict."""
    batch = Batch(ids(0, T), ids(0, 5))
    assert batch.src_mask.shape == (0, 1, T)
    assert batch.tgt_mask.shape == (0, 4, 4)
    assert (batch.tgt.shape, batch.tgt_y.shape) == ((0, 4), (0, 4))
    assert batch.ntokens == 0


def test_the_loss_of_nothing_is_zero():
    """No rows at all, and rows of padding alone, are worth 0, with gradients of 0."""
    loss, log_probs = LabelSmoothing(5, 0, 0.1), torch.zeros(2, 5, requires_grad=True)
    assert loss(log_probs[:0], torch.zeros(0, dtype=torch.long)) == 0
    padding = loss(log_probs, torch.tensor([0, 0]))
    padding.backward()
    assert padding == 0
    assert not log_probs.grad.any()


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [Batch(torch.ones(2, 3, dtype=torch.long), torch.zeros(2, 3, dtype=torch.long))],
        [Batch(torch.ones(0, 3, dtype=torch.long), torch.zeros(0, 3, dtype=torch.long))],
        [Batch(torch.ones(2, 3, dtype=torch.long))],
    ],
    ids=["no batches", "only padding", "no sequences", "no target"],
)
def test_an_epoch_without_a_token_is_refused(batches):
    """There is no mean over no tokens: a ValueError, not NaN, whatever it is that is missing."""
    with refused("batches", "tokens to predict"):
        run_epoch(batches, model(), LabelSmoothing(VOCAB, 0))


def test_a_group_of_padding_among_others_changes_nothing():
    """Its step has a gradient of 0, not 0/0, and the mean is over the tokens of the others."""
    transformer = model()
    before = [parameter.detach().clone() for parameter in transformer.parameters()]
    padding, batch = Batch(ids(2, 3), 0 * ids(2, 3)), Batch(ids(2, 3), ids(2, 3))
    still = torch.optim.SGD(transformer.parameters(), lr=0.0)
    loss = LabelSmoothing(VOCAB, 0)
    means = [run_epoch(data, transformer, loss, still) for data in ([batch, padding], [batch])]
    assert means[0] == means[1]
    moving = torch.optim.SGD(transformer.parameters(), lr=1.0)
    with refused("batches", "tokens to predict"):
        run_epoch([padding], transformer, loss, moving)
    assert all(map(torch.equal, transformer.parameters(), before))


# --- Decoding ------------------------------------------------------------------------------------


def test_a_beam_wider_than_the_vocabulary():
    """Defined: places that nothing fills do no harm, even more than there are hypotheses."""
    arguments = model(), ids(B, T), seen(B, 1, T), 3, 1, 2
    everything = beam_search(*arguments, beam=VOCAB**2)
    assert torch.equal(beam_search(*arguments, beam=10 * VOCAB**2), everything)
    assert beam_search(*arguments, beam=VOCAB + 1).shape[0] == B


@SEARCHES
def test_decoding_of_no_sequences(search):
    """Defined: no rows, of which the start symbol is the only column that there has to be."""
    decoded = search(model(), ids(0, T), seen(0, 1, T), 5, 1, 2)
    assert decoded.shape == (0, 1)
    assert decoded.dtype == torch.int64


def test_greedy_decoding_of_no_sequences_without_an_end():
    """Without an end the result is (B, max_len), with B = 0 too."""
    assert greedy_decode(model(), ids(0, T), seen(0, 1, T), 5, 1).shape == (0, 5)


@SEARCHES
def test_decoding_of_nothing_but_padding(search):
    """A source without a token to attend to is decoded like any other, and disturbs nobody."""
    transformer, src = model(), ids(B, T)
    src[1] = 0
    mask = (src != 0).unsqueeze(1)
    decoded = search(transformer, src, mask, 6, 1, 2)
    assert decoded.shape[0] == B
    for row in range(B):
        alone = search(transformer, src[row : row + 1], mask[row : row + 1], 6, 1, 2)[0]
        assert decoded[row, : len(alone)].tolist() == alone.tolist()
        assert not decoded[row, len(alone) :].any()


# --- Text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "references", [[], [["a"]], [["a", "b", "c"]], [["a", "b"], ["a"]]], ids=str
)
def test_streams_that_do_not_fit_are_refused(references):
    """There is a stream at least, and each has a reference for every hypothesis: here two."""
    with refused("references", "streams of 2", [len(stream) for stream in references]):
        bleu(["a", "b"], references)


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [("ab", [["a", "b"]]), ("ab", ["ab"]), (["a b"], ["a"]), (["a", "b"], ["cd", "ef"])],
    ids=["a hypothesis", "both", "a reference", "references without streams"],
)
def test_a_string_is_no_stream(hypotheses, references):
    """A string is a sequence of letters, each of which would pass for a sentence."""
    with pytest.raises(ValueError, match=r"hypotheses|references"):
        bleu(hypotheses, references)


def test_a_corpus_of_no_sentences_scores_zero():
    """Defined: 0, where sacrebleu has an IndexError."""
    assert bleu([], [[]]) == 0


def test_batches_of_no_pairs():
    """Defined: none."""
    assert list(token_batches([], 100)) == []
