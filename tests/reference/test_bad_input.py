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
KEEP = pytest.mark.parametrize("keep_weights", [True, False], ids=["kept", "fused"])
SEARCHES = pytest.mark.parametrize("search", [greedy_decode, beam_search])


def refused(*named):
    """A ValueError whose message names all of these, in this order."""
    return pytest.raises(ValueError, match=".*".join(re.escape(str(part)) for part in named))


def multi_head(keep_weights=True):
    layer = MultiHeadedAttention(H, D_MODEL, 0.0)
    layer.keep_weights = keep_weights
    return layer


def model():
    return make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, 0.0).eval()


def ids(*shape):
    return torch.randint(1, VOCAB, shape)


def seen(*shape):
    return torch.ones(shape, dtype=torch.bool)


# --- Attention -----------------------------------------------------------------------------------

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8], ids=str)


@DTYPES
def test_attention_refuses_a_mask_that_is_not_boolean(dtype):
    """Zeros and ones, or 0 and −∞, are no mask: their meaning would have to be guessed."""
    x = torch.randn(B, T, 5)
    with refused("mask", "boolean", dtype):
        attention(x, x, x, torch.ones(T, T, dtype=dtype))


@KEEP
@DTYPES
def test_multi_head_attention_refuses_a_mask_that_is_not_boolean(dtype, keep_weights):
    """Neither of its two ways takes it: torch's kernel would add a mask of floats to the scores."""
    x = torch.randn(B, T, D_MODEL)
    with refused("mask", "boolean", dtype):
        multi_head(keep_weights)(x, x, x, torch.ones(B, 1, T, dtype=dtype))


@pytest.mark.parametrize(
    "shape", [(6,), (T, 6), (3, 5), (2, T, 5), (1, B, T, 5), (B, 5, T)], ids=str
)
def test_attention_refuses_a_mask_that_does_not_broadcast(shape):
    """Here (T_q, T_k) is (4, 5): other sizes, another batch or a dimension too many are refused."""
    query, key = torch.randn(B, T, 6), torch.randn(B, 5, 6)
    with refused("mask", "broadcast", (B, T, 5), shape):
        attention(query, key, key, seen(*shape))


@KEEP
@pytest.mark.parametrize(
    "shape",
    [
        (T,),
        (T, 5),
        (2, 1, 5),
        (B, 3, 5),
        (B, T, 4),
        (B, T, 1),
        (B, 1, 1),
        (B, 1, T, 5),
        (B, H, T, 5),
    ],
    ids=str,
)
def test_multi_head_attention_refuses_a_mask_of_another_shape(shape, keep_weights):
    """Only (1|B, 1|T_q, T_k) is a mask; the message has the shape as it was given, without a head axis."""
    query, key = torch.randn(B, T, D_MODEL), torch.randn(B, 5, D_MODEL)
    with refused("mask", shape):
        multi_head(keep_weights)(query, key, key, seen(*shape))


@pytest.mark.parametrize(("h", "d_model"), [(3, 8), (16, 8), (0, 8), (-2, 8)])
def test_heads_that_do_not_divide_are_refused(h, d_model):
    """h has to divide d_model, in a layer and in a model."""
    with refused("h must divide d_model", h, d_model):
        MultiHeadedAttention(h, d_model)
    with refused("h must divide d_model", h, d_model):
        make_model(VOCAB, VOCAB, 1, d_model, 16, h)


@KEEP
def test_nothing_to_attend_to_or_from(keep_weights):
    """No sequences, no queries and no keys are all defined: empty results, and the output bias."""
    layer, x = multi_head(keep_weights), torch.randn(B, T, D_MODEL)
    assert layer(x[:0], x[:0], x[:0]).shape == (0, T, D_MODEL)
    assert layer(x[:, :0], x, x).shape == (B, 0, D_MODEL)
    output = layer(x, x[:, :0], x[:, :0], seen(B, 1, 0))
    assert torch.equal(output, layer.w_o.bias.expand(B, T, -1))


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_a_dropout_that_is_no_probability_is_refused(p):
    """Torch's own dropout refuses it, wherever it is given."""
    for make in (
        lambda: MultiHeadedAttention(H, D_MODEL, p),
        lambda: PositionwiseFeedForward(D_MODEL, 16, p),
        lambda: PositionalEncoding(D_MODEL, p),
        lambda: SublayerConnection(D_MODEL, p),
        lambda: make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, p),
    ):
        with refused("dropout", "between 0 and 1", p):
            make()


# --- Embeddings, positions, norms ----------------------------------------------------------------


@pytest.mark.parametrize("token", [-1, VOCAB, 10**6])
def test_tokens_outside_the_vocabulary_are_refused(token):
    """By the table itself, and so by a model, as source and as target."""
    bad, good = torch.tensor([[1, token, 2]]), torch.tensor([[1, 2, 3]])
    with refused("tokens", f"0 to {VOCAB - 1}", token):
        Embeddings(D_MODEL, VOCAB)(bad)
    for src, tgt in ((bad, good), (good, bad)):
        with refused("tokens", f"0 to {VOCAB - 1}", token):
            model()(src, tgt, None, None)


def test_no_tokens_have_no_vectors():
    """Empty ids give an empty result of the right width."""
    assert Embeddings(D_MODEL, VOCAB)(ids(0, T)).shape == (0, T, D_MODEL)
    assert Embeddings(D_MODEL, VOCAB)(ids(B, 0)).shape == (B, 0, D_MODEL)


def test_a_sequence_longer_than_the_table_is_refused():
    """One position too many is a ValueError with both numbers; exactly as many are not."""
    layer = PositionalEncoding(D_MODEL, 0.0, max_len=6)
    assert layer(torch.zeros(1, 6, D_MODEL)).shape == (1, 6, D_MODEL)
    with refused("max_len", 6, 7):
        layer(torch.zeros(1, 7, D_MODEL))


def test_a_model_refuses_more_than_its_5000_positions():
    """The same through the whole model."""
    with refused("max_len", 5000, 5001):
        model().encode(ids(1, 5001), None)


def test_a_table_without_positions():
    """`max_len` 0 is a table of no rows, good for no tokens only."""
    layer = PositionalEncoding(D_MODEL, 0.0, max_len=0)
    assert layer(torch.zeros(B, 0, D_MODEL)).shape == (B, 0, D_MODEL)
    with refused("max_len", 0, 1):
        layer(torch.zeros(B, 1, D_MODEL))


@pytest.mark.parametrize("width", [1, 4])
def test_positions_are_not_broadcast_over_vectors_of_another_width(width):
    """Vectors of width 1 would become vectors of width d_model, each a sum that nobody asked for."""
    with refused("d_model", D_MODEL, width):
        PositionalEncoding(D_MODEL, 0.0)(torch.zeros(B, T, width))


@pytest.mark.parametrize(("features", "width"), [(D_MODEL, 1), (1, D_MODEL), (D_MODEL, 4)])
def test_gains_are_not_broadcast_over_vectors_of_another_width(features, width):
    """Nor does a norm of other features take them, as nn.LayerNorm does not."""
    with pytest.raises((ValueError, RuntimeError)):
        nn.LayerNorm(features)(torch.randn(B, T, width))
    with pytest.raises((ValueError, RuntimeError)):
        LayerNorm(features)(torch.randn(B, T, width))


@pytest.mark.parametrize("norm", ["rms", "Post", "", None])
def test_an_unknown_norm_is_refused(norm):
    """By a connection, and so by layers and a model."""
    attend, network = multi_head(), PositionwiseFeedForward(D_MODEL, 16)
    for make in (
        lambda: SublayerConnection(D_MODEL, 0.0, norm),
        lambda: EncoderLayer(D_MODEL, attend, network, 0.0, norm),
        lambda: DecoderLayer(D_MODEL, attend, attend, network, 0.0, norm),
        lambda: make_model(VOCAB, VOCAB, 1, D_MODEL, 16, H, norm=norm),
    ):
        with refused("norm", '"post" or "pre"', repr(norm)):
            make()


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


@KEEP
def test_rows_of_nothing_but_padding_are_finite(keep_weights):
    """A source and a target of only padding give finite states and gradients, in a batch with others."""
    transformer = model()
    for module in transformer.modules():
        if isinstance(module, MultiHeadedAttention):
            module.keep_weights = keep_weights
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


@pytest.mark.parametrize("length", [0, 1])
def test_a_target_without_room_is_refused(length):
    """It needs a start symbol and a token: its shape is in the message."""
    with refused("tgt", (B, length)):
        Batch(ids(B, T), ids(B, length))


@pytest.mark.parametrize("rows", [1, 2])
def test_source_and_target_of_different_sizes_are_refused(rows):
    """A single target would be broadcast over all the sources, and trained on as often."""
    with refused("tgt", B, rows):
        Batch(ids(B, T), ids(rows, T))


def test_a_batch_of_no_sequences():
    """Defined: everything is empty, and there is no token to predict."""
    batch = Batch(ids(0, T), ids(0, 5))
    assert batch.src_mask.shape == (0, 1, T)
    assert batch.tgt_mask.shape == (0, 4, 4)
    assert (batch.tgt.shape, batch.tgt_y.shape) == ((0, 4), (0, 4))
    assert batch.ntokens == 0


@pytest.mark.parametrize("smoothing", [-0.1, 1.1, float("nan")])
def test_a_smoothing_that_is_no_share_is_refused(smoothing):
    """ε lies in 0 to 1."""
    with refused("smoothing", "0 to 1", smoothing):
        LabelSmoothing(5, 0, smoothing)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_smoothing_over_too_few_classes_is_refused(size):
    """A target, the padding, and one more class to give a share."""
    with refused("size", "at least 3", size):
        LabelSmoothing(size, 0, 0.1)


@pytest.mark.parametrize("padding_idx", [-1, 5, 100])
def test_a_padding_outside_the_classes_is_refused(padding_idx):
    """−1 would be the last class, without a word; larger ones fail only in the middle of training."""
    with refused("padding_idx", "0 to 4", padding_idx):
        LabelSmoothing(5, padding_idx, 0.1)


@pytest.mark.parametrize("target", [-1, 5, -100])
def test_targets_outside_the_classes_are_refused(target):
    """Also −100, which torch's losses ignore."""
    with refused("target", "0 to 4", target):
        LabelSmoothing(5, 0, 0.1)(torch.zeros(2, 5), torch.tensor([1, target]))


@pytest.mark.parametrize("size", [4, 6])
def test_log_probabilities_of_another_size_are_refused(size):
    """Shares of ε are made for `size` classes, and do not add up over others."""
    with refused("log_probs", 5, size):
        LabelSmoothing(5, 0, 0.1)(torch.zeros(2, size), torch.tensor([1, 2]))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_as_many_targets_as_rows_are_needed(count):
    """A single target would be broadcast over some of the sum, and not over the rest."""
    with refused("target", 3, count):
        LabelSmoothing(5, 0, 0.1)(torch.zeros(3, 5), torch.ones(count, dtype=torch.long))


def test_the_loss_of_nothing_is_zero():
    """No rows at all, and rows of padding alone, are worth 0, with gradients of 0."""
    loss, log_probs = LabelSmoothing(5, 0, 0.1), torch.zeros(2, 5, requires_grad=True)
    assert loss(log_probs[:0], torch.zeros(0, dtype=torch.long)) == 0
    padding = loss(log_probs, torch.tensor([0, 0]))
    padding.backward()
    assert padding == 0
    assert not log_probs.grad.any()


@pytest.mark.parametrize("warmup", [0, -1])
def test_no_warm_up_is_refused(warmup):
    """A warm-up takes a step at least: 0 would divide by zero."""
    with refused("warmup", "at least 1", warmup):
        rate(1, 512, 1, warmup)


def test_a_negative_step_is_refused():
    """Steps are counted from 1, and 0 is forgiven."""
    with refused("step", "at least 0", -1):
        rate(-1, 512, 1, 4000)


@pytest.mark.parametrize("model_size", [0, -4])
def test_a_model_without_width_is_refused(model_size):
    """Else 0 would divide by zero, and −4 would give a complex number."""
    with refused("model_size", "at least 1", model_size):
        rate(1, model_size, 1, 4000)


@pytest.mark.parametrize("accumulate", [0, -1])
def test_accumulating_no_batches_is_refused(accumulate):
    """A group has a batch at least."""
    with refused("accumulate", "at least 1", accumulate):
        run_epoch(
            [Batch(ids(B, T), ids(B, T))], model(), LabelSmoothing(VOCAB, 0), None, None, accumulate
        )


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


@SEARCHES
@pytest.mark.parametrize("max_len", [0, -1])
def test_no_room_for_the_start_symbol_is_refused(search, max_len):
    """`max_len` counts it, and is 1 at least."""
    with refused("max_len", "at least 1", max_len):
        search(model(), ids(B, T), seen(B, 1, T), max_len, 1, 2)


@pytest.mark.parametrize("beam", [0, -1])
def test_a_beam_without_a_place_is_refused(beam):
    """It has one at least."""
    with refused("beam", "at least 1", beam):
        beam_search(model(), ids(B, T), seen(B, 1, T), 5, 1, 2, beam)


@pytest.mark.parametrize("alpha", [-0.5, float("nan")])
def test_a_penalty_that_is_none_is_refused(alpha):
    """With a negative α the search would stop although a later end could be worth more."""
    with refused("alpha", "at least 0", alpha):
        beam_search(model(), ids(B, T), seen(B, 1, T), 5, 1, 2, 4, alpha)


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


@SEARCHES
def test_a_start_symbol_outside_the_vocabulary_is_refused(search):
    """The embedding says so."""
    with refused("tokens", f"0 to {VOCAB - 1}", VOCAB):
        search(model(), ids(B, T), seen(B, 1, T), 5, VOCAB, 2)


# --- Text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [255, 0, -1])
def test_a_vocabulary_smaller_than_the_bytes_is_refused(vocab_size):
    """The 256 bytes are always in it."""
    with refused("vocab_size", 256, vocab_size):
        train_bpe("text", vocab_size)


@pytest.mark.parametrize("merge", [(97, 256), (300, 97), (-1, 97)])
def test_merges_of_ids_that_do_not_exist_yet_are_refused(merge):
    """A merge may use the bytes and the merges before it, not itself and not what comes later."""
    with refused("merges", merge):
        BPE([merge, (97, 98)])


@pytest.mark.parametrize("number", [-1, 257, 10**6])
def test_ids_that_do_not_exist_are_refused(number):
    """With one merge the ids are 0 to 256."""
    with refused("ids", "0 to 256", number):
        BPE([(97, 98)]).decode([97, number])


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


@pytest.mark.parametrize("max_tokens", [0, -5])
def test_batches_that_hold_nothing_are_refused(max_tokens):
    """Refused at the call, not when the first batch is asked for."""
    with refused("max_tokens", "at least 1", max_tokens):
        list(token_batches([([1], [2])], max_tokens))


def test_batches_of_no_pairs():
    """Defined: none."""
    assert list(token_batches([], 100)) == []
