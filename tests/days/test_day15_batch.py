"""Day 15 · Batch(src, tgt=None, pad=0)."""

import pytest

PARTS = ["src", "src_mask", "tgt", "tgt_y", "tgt_mask"]


def sequences(draw, batch, s, t, pad=0):
    """Tokens without any padding: a source and a target, which need not be equally long."""
    return {"src": _words(draw, pad, batch, s), "tgt": _words(draw, pad, batch, t), "pad": pad}


def _words(draw, pad, *shape):
    """Ids from 0 to 30 other than the padding's."""
    ids = draw.integers(0, 29, *shape)
    return ids + (ids >= pad)


def padded_at_the_end(draw, tokens, pad, shortest):
    """The same with sequences of several lengths, the first of them whole and the second not."""
    batch, time = tokens.shape
    for row in range(1, batch):
        length = draw.size(shortest, time - 1) if row == 1 else draw.size(shortest, time)
        tokens[row, length:] = pad
    return tokens


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def whole(draw):
    """No padding at all."""
    return sequences(draw, *draw.sizes(2, 8, 3))


@pytest.fixture
def padded(draw):
    """Shorter sequences end in padding."""
    inputs = sequences(draw, *draw.sizes(3, 8, 3))
    for name in ("src", "tgt"):
        inputs[name] = padded_at_the_end(draw, inputs[name], 0, shortest=2)
    return inputs


@pytest.fixture
def equally_long(draw):
    """Source and target have the same length, but not the same padding."""
    batch, time = draw.sizes(4, 8, 2)
    inputs = sequences(draw, batch, time, time)
    inputs["src"][0, time - draw.size(1, 2) :] = 0
    inputs["tgt"] = padded_at_the_end(draw, inputs["tgt"], 0, shortest=2)
    return inputs


@pytest.fixture
def other_pad(draw):
    """The id of padding is another than 0, and 0 is a word like any other, and not as frequent."""
    inputs = sequences(draw, *draw.sizes(3, 8, 3), pad=draw.size(1, 9))
    for name in ("src", "tgt"):
        tokens = padded_at_the_end(draw, inputs[name], inputs["pad"], shortest=2)
        tokens[tokens == 0] = 31
        paddings = int((tokens == inputs["pad"]).sum())
        tokens[0, 1 : 3 if paddings == 1 else 2] = 0
        inputs[name] = tokens
    return inputs


@pytest.fixture
def holes(draw):
    """Padding before the words and between them."""
    inputs = sequences(draw, *draw.sizes(4, 8, 3))
    for name in ("src", "tgt"):
        tokens = inputs[name]
        tokens[0, draw.size(1, tokens.shape[1] - 2)] = 0
        tokens[1, : draw.size(1, 2)] = 0
    return inputs


@pytest.fixture
def nothing_real(draw):
    """A source and a target that are padding from end to end."""
    inputs = sequences(draw, *draw.sizes(3, 8, 3))
    inputs["src"][0] = 0
    inputs["tgt"][draw.size(0, 1)] = 0
    return inputs


@pytest.fixture
def one_pair(draw):
    """A batch of one."""
    s, t = draw.sizes(3, 8, 2)
    inputs = sequences(draw, 1, s, t)
    inputs["src"][0, -1] = inputs["tgt"][0, -1] = 0
    return inputs


@pytest.fixture
def shortest_target(draw):
    """A start symbol and one token, which is padding in one row."""
    inputs = sequences(draw, *draw.sizes(3, 8, 2), 2)
    inputs["tgt"][draw.size(0, 2), 1] = 0
    return inputs


@pytest.fixture
def source_alone(draw):
    """No target."""
    batch, s = draw.sizes(3, 8, 2)
    pad = draw.size(0, 5)
    return {"src": padded_at_the_end(draw, _words(draw, pad, batch, s), pad, 1), "pad": pad}


# --- Checks ---------------------------------------------------------------------------------------


def seen(batch):
    """What a batch holds; the number of tokens may be an int or a tensor with nothing but one number."""
    tokens = batch.ntokens
    if tokens is not None and getattr(tokens, "ndim", 0) == 0:
        tokens = int(tokens)
    return {name: getattr(batch, name) for name in PARTS} | {"ntokens": tokens}


def test_shifted(answer, whole):
    """The decoder gets all tokens except the last, and has to predict all tokens except the first."""
    batch = answer.Batch(**whole)
    return {"src": batch.src, "tgt": batch.tgt, "tgt_y": batch.tgt_y}


def test_source_mask(answer, padded):
    """`src_mask`, (B, 1, S), is True at real tokens."""
    return {"src_mask": answer.Batch(**padded).src_mask}


def test_target_mask(answer, padded):
    """`tgt_mask`, (B, T − 1, T − 1), is True at real keys that are not later than the query."""
    return {"tgt_mask": answer.Batch(**padded).tgt_mask}


def test_number_of_tokens(answer, padded):
    """`ntokens` counts the real tokens of `tgt_y`, which have a loss."""
    return {"ntokens": seen(answer.Batch(**padded))["ntokens"]}


def test_without_padding(answer, whole):
    """If there is no padding, only the future is hidden."""
    return seen(answer.Batch(**whole))


def test_equally_long(answer, equally_long):
    """If source and target have the same length, each still has the mask of its own padding."""
    return seen(answer.Batch(**equally_long))


def test_another_pad(answer, other_pad):
    """With a different `pad`, that id is hidden, and 0 is an ordinary token."""
    return seen(answer.Batch(**other_pad))


def test_usual_pad(answer, padded):
    """By default, the id of padding is 0."""
    return seen(answer.Batch(padded["src"], padded["tgt"]))


@pytest.mark.watertight("padding before words, or between them")
def test_padding_anywhere(answer, holes):
    """Padding is hidden at every position, and a padded query still attends to its real earlier keys."""
    return seen(answer.Batch(**holes))


@pytest.mark.watertight("rows that are all padding, which fill up a last batch")
def test_nothing_but_padding(answer, nothing_real):
    """A row that is all padding has nothing to attend to, and no tokens are counted."""
    return seen(answer.Batch(**nothing_real))


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
def test_one_pair(answer, one_pair):
    """A batch of one keeps its axis."""
    return seen(answer.Batch(**one_pair))


@pytest.mark.watertight("sizes of one, where an axis is easily lost")
def test_shortest_target(answer, shortest_target):
    """A target with a start symbol and one token has one position, and a mask with one entry."""
    return seen(answer.Batch(**shortest_target))


@pytest.mark.watertight("a batch without a target, as in decoding")
def test_source_alone(answer, source_alone):
    """Without a target, source and source mask are set, and the other four attributes are None."""
    return seen(answer.Batch(**source_alone))
