"""What `implementation.py` does with arguments that are wrong or empty: a ValueError that names the argument,
what is allowed and what was passed, or the result that is defined; never a silent broadcast.
"""

import re
from itertools import product

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


def multi_head():
    return MultiHeadedAttention(H, D_MODEL, 0.0)


def model():
    return make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, 0.0).eval()


def ids(*shape):
    return torch.randint(1, VOCAB, shape)


def visible(*shape):
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
    arguments = ids(B, T), visible(B, 1, T), max_len, start, 2
    return (lambda: greedy_decode(model(), *arguments), lambda: beam_search(model(), *arguments))


def beamed(*how):
    return (lambda: beam_search(model(), ids(B, T), visible(B, 1, T), 5, 1, 2, *how),)


def positioned(length):
    return (lambda: PositionalEncoding(D_MODEL, 0.0, max_len=6)(torch.zeros(1, length, D_MODEL)),)


def smoothed(log_probs, target):
    return (lambda: LabelSmoothing(5, 0, 0.1)(log_probs, target),)


def trained(accumulate, batches=None):
    batches = [Batch(ids(B, T), ids(B, T))] if batches is None else batches
    loss = LabelSmoothing(VOCAB, 0)
    return (lambda: run_epoch(batches, model(), loss, None, None, accumulate),)


# What the message names, before the value itself; the values; and the calls that each is passed to.
REFUSED = [
    # zeros and ones, or 0 and −∞, are no mask: their meaning would have to be guessed
    *(
        (
            ("mask", "boolean"),
            [dtype],
            lambda dtype, attend=attend: attend(torch.ones(T, 5).to(dtype)),
        )
        for dtype in (torch.float32, torch.int64, torch.uint8)
        for attend in (attended, lambda mask: attended_by_heads(mask.expand(B, T, 5)))
    ),
    # other sizes, another batch, or a dimension too many
    (
        ("mask", "broadcast", (B, T, 5)),
        [(6,), (T, 6), (3, 5), (2, T, 5), (1, B, T, 5), (B, 5, T)],
        lambda shape: attended(visible(*shape)),
    ),
    # only (1|B, 1|T_q, T_k) is a mask; the message has the shape as given, without a head axis
    (
        ("mask",),
        [
            *((T,), (T, 5), (2, 1, 5), (B, 3, 5), (B, T, 4), (B, T, 1)),
            *((B, 1, 1), (B, 1, T, 5), (B, H, T, 5)),
        ],
        lambda shape: attended_by_heads(visible(*shape)),
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
    (("log_probs", 5), [4, 6], lambda size: smoothed(torch.zeros(2, size), torch.tensor([1, 2]))),
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


# The same, where the message does not end with the value.
OTHERS = [
    *(
        (("h must divide d_model", h, d_model), call)
        for h, d_model in [(3, 8), (16, 8), (0, 8), (-2, 8)]
        for call in (
            lambda h=h, d_model=d_model: MultiHeadedAttention(h, d_model),
            lambda h=h, d_model=d_model: make_model(VOCAB, VOCAB, 1, d_model, 16, h),
        )
    ),
    # one matrix cannot serve two vocabularies
    (
        ("tie", "src_vocab", 7, "tgt_vocab", 9),
        lambda: make_model(7, 9, 1, D_MODEL, 16, H, tie=True),
    ),
    # no mean over no tokens: no batches, only padding, no sequences, no target
    *(
        (("batches", "tokens to predict"), *trained(1, batches))
        for batches in (
            [],
            [Batch(ids(2, 3), 0 * ids(2, 3))],
            [Batch(ids(0, 3), ids(0, 3))],
            [Batch(ids(2, 3))],
        )
    ),
    # there is a stream at least, and each has a reference for every hypothesis: here two
    *(
        (
            ("references", "streams of 2", [len(stream) for stream in references]),
            lambda references=references: bleu(["a", "b"], references),
        )
        for references in ([], [["a"]], [["a", "b", "c"]], [["a", "b"], ["a"]])
    ),
    # a string is a sequence of letters, each of which would pass for a sentence
    *(
        (("references",), lambda references=references: bleu(["a", "b"], references))
        for references in ("ab", ["a b"], ["cd", "ef"])
    ),
    (("hypotheses",), lambda: bleu("ab", [["a", "b"]])),
]


@pytest.mark.parametrize(
    ("words", "call"),
    [
        *(
            ((*named, repr(value) if isinstance(value, str | None) else value), call)
            for named, values, calls in REFUSED
            for value in values
            for call in calls(value)
        ),
        *OTHERS,
    ],
    ids=lambda value: "" if callable(value) else "-".join(map(str, value)),
)
def test_it_is_refused(words, call):
    """By a ValueError that names the argument, what is allowed, and what was passed."""
    with pytest.raises(ValueError, match=".*".join(re.escape(str(word)) for word in words)):
        call()


# --- What is empty --------------------------------------------------------------------------------


def attend(rows, t_q, t_k):
    query, key = torch.randn(rows, t_q, D_MODEL), torch.randn(rows, t_k, D_MODEL)
    return multi_head()(query, key, key, visible(rows, 1, t_k))


def states(norm, rows, s, t):
    transformer = make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, norm=norm)
    return transformer(ids(rows, s), ids(rows, t), visible(rows, 1, s), subsequent_mask(t))


def search(decode, *how, rows=0):
    return decode(model(), ids(rows, T), visible(rows, 1, T), 5, 1, *how)


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda: attend(0, T, T), (0, T, D_MODEL)),
        (lambda: attend(B, 0, T), (B, 0, D_MODEL)),
        (lambda: attend(B, T, 0), (B, T, D_MODEL)),
        (lambda: Embeddings(D_MODEL, VOCAB)(ids(0, T)), (0, T, D_MODEL)),
        (lambda: Embeddings(D_MODEL, VOCAB)(ids(B, 0)), (B, 0, D_MODEL)),
        (lambda: PositionalEncoding(D_MODEL, 0.0, 0)(torch.zeros(B, 0, 8)), (B, 0, D_MODEL)),
        *(
            (lambda sizes=sizes: states(*sizes), (sizes[1], sizes[3], D_MODEL))
            for sizes in product(("post", "pre"), (0, B), (0, T), (0, T))
        ),
        (lambda: Batch(ids(0, T), ids(0, 5)).src_mask, (0, 1, T)),
        (lambda: Batch(ids(0, T), ids(0, 5)).tgt_mask, (0, 4, 4)),
        (lambda: LabelSmoothing(5, 0, 0.1)(torch.zeros(0, 5), ids(0)), ()),
        (lambda: search(greedy_decode, 2), (0, 1)),
        (lambda: search(beam_search, 2), (0, 1)),
        (lambda: search(greedy_decode), (0, 5)),  # without an end always max_len
    ],
)
def test_what_is_empty_is_defined(call, shape):
    output = call()
    assert output.shape == shape and output.double().isfinite().all()


def test_a_stack_of_no_layers():
    """n = 0 is defined: nothing happens in post-norm, and the final norm only in pre-norm."""
    attention, network, x = multi_head(), PositionwiseFeedForward(D_MODEL, 16), torch.randn(B, T, 8)
    assert len(clones(network, 0)) == 0
    assert torch.equal(Encoder(EncoderLayer(D_MODEL, attention, network, 0.0), 0)(x), x)
    stack = Decoder(DecoderLayer(D_MODEL, attention, attention, network, 0.0, "pre"), 0)
    torch.testing.assert_close(stack(x, x), nn.LayerNorm(D_MODEL)(x))


def test_no_text():
    assert bleu([], [[]]) == 0  # where sacrebleu has an IndexError
    assert list(token_batches([], 100)) == []


@pytest.mark.parametrize(("features", "width"), [(D_MODEL, 1), (1, D_MODEL), (D_MODEL, 4)])
def test_gains_are_not_broadcast_over_vectors_of_another_width(features, width):
    """`LayerNorm` refuses them, as `nn.LayerNorm` does."""
    for norm in (nn.LayerNorm, LayerNorm):
        with pytest.raises((ValueError, RuntimeError)):
            norm(features)(torch.randn(B, T, width))


def test_a_row_of_padding_disturbs_no_other_row():
    """Its states and gradients are finite; the other rows' states and decoded tokens do not depend on it."""
    transformer, src, tgt = model(), ids(B, T), ids(B, T)
    src[1], tgt[1] = 0, 0
    batch, alone = Batch(src, tgt), Batch(src[[0, 2]], tgt[[0, 2]])
    states, states_alone = (
        transformer(some.src, some.tgt, some.src_mask, some.tgt_mask) for some in (batch, alone)
    )
    torch.testing.assert_close(states_alone, states[[0, 2]])
    states.sum().backward()
    gradients = [parameter.grad for parameter in transformer.parameters()]
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)
    for decode in (greedy_decode, beam_search):
        decoded = decode(transformer, src, batch.src_mask, 6, 1, 2)
        for row in range(B):
            only = slice(row, row + 1)
            expected = decode(transformer, src[only], batch.src_mask[only], 6, 1, 2)[0]
            assert decoded[row, : len(expected)].tolist() == expected.tolist()
            assert not decoded[row, len(expected) :].any()
