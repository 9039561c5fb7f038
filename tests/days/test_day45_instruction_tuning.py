"""Day 45 · chat_tokens(messages, encode, start, end), answer_labels(tokens, written), pack(examples, …)."""

import pytest

LETTERS = "abcdefghijklmnopqrstuvwxyz .?A"
MERGES = "a vocabulary learned from text has pieces that begin with a line break"
ODD = "a data set of millions has every odd conversation in it"
SIZES = "sizes of one occur in every large data set"
PAD = "pad in an example"
ROWS = ("one token", "as long as a row")
EDGES = [PAD, *(pytest.param(x, marks=pytest.mark.watertight(SIZES)) for x in ROWS)]
ODDITIES = ["an empty answer", "other roles", "spaces around the answer", "a reply after an answer"]


# --- Inputs: conversations ------------------------------------------------------------------------


class Encoder:
    """Text to ids, a character at a time; a line break and the character after or before it may be one
    token."""

    def __init__(self, draw, merges=None):
        self.ids = dict(zip(f"{LETTERS}\n_", draw.sizes(100, 900, 32), strict=True))
        self.merges = merges

    def __call__(self, text):
        ids, rest = [], text
        while rest:
            index = {"after": 0, "before": 1}.get(self.merges)
            size = 2 if index is not None and rest[1:] and rest[index] == "\n" else 1
            ids.append(
                sum(
                    self.ids.get(letter, 900 + ord(letter)) * 1000**index
                    for index, letter in enumerate(rest[:size])
                )
            )
            rest = rest[size:]
        return ids


def text(draw, low=2, high=7):
    """A few letters."""
    return "".join(draw.choice(LETTERS) for _ in range(draw.size(low, high)))


def said(draw, *roles):
    """What is said in these roles."""
    return [{"role": role, "content": text(draw)} for role in roles]


def conversation(draw, *roles, merges=None):
    """The arguments of `chat_tokens`."""
    start, end = draw.sizes(1, 90, 2)
    encode = Encoder(draw, merges)
    return {"messages": said(draw, *roles), "encode": encode, "start": start, "end": end}


@pytest.fixture
def given(draw):
    """A question and an answer."""
    return conversation(draw, "user", "assistant")


@pytest.fixture
def long(draw):
    """A system message, and two questions with their answers."""
    return conversation(draw, "system", *["user", "assistant"] * 2)


@pytest.fixture
def asked(draw):
    """A conversation that ends with a question."""
    return conversation(draw, "user", "assistant", "user")


@pytest.fixture
def merging(draw, merges):
    """A conversation in a vocabulary that has line breaks with what follows, or with what is before."""
    return conversation(draw, "user", "assistant", merges=merges)


@pytest.fixture
def odd(draw, case):
    """A conversation that hardly is one."""
    roles = ["agent", "Ada"] if case == "other roles" else []
    talk = conversation(draw, "user", *roles, "assistant")
    if case == "an empty answer":
        talk["messages"][1]["content"] = ""
    if case == "spaces around the answer":
        talk["messages"][1]["content"] = f" {text(draw)}\n"
    return talk | ({"reply": True} if case == "a reply after an answer" else {})


def seen(chat_tokens, given, **how):
    """The tokens, and which are written."""
    tokens, written = chat_tokens(**given, **how)
    return {"tokens": tokens, "written": written}


# --- Inputs: rows of tokens -----------------------------------------------------------------------


def row(draw, size, before=()):
    """Tokens, and which the assistant has written: neither all nor none of them."""
    return {"tokens": draw.integers(1, 900, *before, size), "written": draw.mask(*before, size)}


@pytest.fixture
def tokens_and_written(draw):
    """A row in which the last token is written, and the first is not."""
    tokens = row(draw, draw.size(6, 10))
    tokens["written"][0], tokens["written"][-1] = False, True
    return tokens


@pytest.fixture
def begun(draw):
    """A row whose first token is written."""
    tokens = row(draw, draw.size(6, 10))
    tokens["written"][0] = True
    return tokens


@pytest.fixture
def rows(draw):
    """Several rows."""
    t, *before = draw.sizes(3, 7, 3)
    return row(draw, t, before)


@pytest.fixture
def very_short(draw):
    """A batch of rows with one token each."""
    size = draw.size(2, 5)
    return {"tokens": draw.integers(1, 900, size, 1), "written": draw.mask(size, 2)[:, :1]}


def examples(draw, sizes):
    """Tokens and labels of these sizes."""
    return [
        (
            draw.integers(1, 900, size),
            draw.integers(1, 900, size).masked_fill(~draw.mask(size), -100),
        )
        for size in sizes
    ]


def packing(draw, length, sizes):
    """The arguments of `pack`."""
    return {"examples": examples(draw, sizes), "length": length, "pad": draw.size(901, 999)}


@pytest.fixture
def one_row(draw):
    """Two or three examples of different sizes, and room for a few tokens more."""
    sizes = draw.sizes(2, 6, draw.size(2, 3))
    return packing(draw, sum(sizes) + draw.size(2, 4), sizes)


@pytest.fixture
def full_row(draw):
    """Examples that fill a row to its last token."""
    sizes = draw.sizes(2, 6, 3)
    return packing(draw, sum(sizes), sizes)


@pytest.fixture
def going_back(draw):
    """A short example that fits into the first row only, behind a long one that does not."""
    long = draw.size(6, 9)
    return packing(draw, long + 3, [long, long + 2, draw.size(2, 3), long - 2, 3])


@pytest.fixture
def in_three_rows(draw):
    """Three rows have room for the last example: the second is the fullest."""
    length = draw.size(9, 12)
    return packing(draw, length, [length - 5, length - 2, length - 3, 2])


@pytest.fixture
def edges(draw, case):
    """One token, examples that fill their rows, or `pad` as a token and as a label of an example."""
    length = draw.size(5, 9)
    sizes = {"one token": [1], "as long as a row": [length, 1, length], PAD: [length - 1, 3]}
    batch = packing(draw, length, sizes[case])
    if case == PAD:
        tokens, labels = batch["examples"][0]
        tokens[1] = labels[0] = batch["pad"]
        labels[1] = tokens[2]
    return batch


def packed(pack, given):
    """All four by name."""
    tokens, labels, positions, mask = pack(**given)
    return {"tokens": tokens, "labels": labels, "positions": positions, "mask": mask}


# --- chat_tokens ----------------------------------------------------------------------------------


def test_tokens(answer, given):
    """Each message is start, role, line break, content, end, line break."""
    return {"tokens": answer.chat_tokens(**given)[0]}


def test_written(answer, given):
    """The content of the assistant's messages and the end token after it are marked as written, and
    nothing else."""
    return seen(answer.chat_tokens, given)


def test_several_turns(answer, long):
    """In a long conversation, every answer is marked, and no system message."""
    return seen(answer.chat_tokens, long)


def test_reply(answer, asked):
    """`reply` adds the header of the assistant's next message, which is not marked as written."""
    return seen(answer.chat_tokens, asked, reply=True)


def test_no_reply_after_the_end(answer, asked):
    """Without `reply` nothing follows the last message."""
    return seen(answer.chat_tokens, asked)


@pytest.mark.watertight(MERGES)
@pytest.mark.parametrize("merges", ["after", "before"])
def test_header_by_itself(answer, merging, merges):
    """Header and content are encoded separately, as when a reply is sampled."""
    return seen(answer.chat_tokens, merging)


@pytest.mark.watertight(ODD)
@pytest.mark.constant("dtypes without messages", "there are no numbers")
@pytest.mark.parametrize("case", ODDITIES)
def test_odd_conversations(answer, odd):
    """Role and content are encoded unchanged, and `reply` adds a header, whoever wrote the last message."""
    none = seen(answer.chat_tokens, odd | {"messages": [], "reply": False})
    dtypes = ", ".join(str(x.dtype) for x in none.values())
    return seen(answer.chat_tokens, odd) | {"dtypes without messages": dtypes}


# --- answer_labels --------------------------------------------------------------------------------


def test_labels(answer, tokens_and_written):
    """The label of each position is the next token, if the assistant wrote that token."""
    return {"labels": answer.answer_labels(**tokens_and_written)}


def test_first_token(answer, begun):
    """The first token is never a label, even if it is written."""
    return {"labels": answer.answer_labels(**begun)}


def test_rows(answer, rows):
    """Rows of a batch are labeled separately: a row's last position has no next token."""
    return {"labels": answer.answer_labels(**rows)}


def test_inputs_stay(answer, tokens_and_written):
    """The tokens are the model's input, and do not change."""
    answer.answer_labels(**tokens_and_written)
    return tokens_and_written


@pytest.mark.watertight(SIZES)
def test_very_short(answer, very_short):
    """A single token has no next token, so its label is −100."""
    return {"labels": answer.answer_labels(**very_short), "tokens": very_short["tokens"]}


# --- pack -----------------------------------------------------------------------------------------


def test_one_row(answer, one_row):
    """Examples follow one another, and padding without labels fills the row."""
    output = packed(answer.pack, one_row)
    return {"tokens": output["tokens"], "labels": output["labels"]}


@pytest.mark.on_devices
def test_positions(answer, one_row):
    """Positions restart at 0 in each example, and in the padding."""
    return {"positions": packed(answer.pack, one_row)["positions"]}


@pytest.mark.on_devices
def test_mask(answer, one_row):
    """A token attends to itself and to earlier tokens of its own example."""
    return {"mask": packed(answer.pack, one_row)["mask"]}


def test_full_row(answer, full_row):
    """A row that is full needs no padding."""
    return packed(answer.pack, full_row)


def test_first_row_with_room(answer, going_back):
    """Each example goes into the first row that has room for it, in the order given."""
    return packed(answer.pack, going_back)


def test_not_the_fullest(answer, in_three_rows):
    """If several rows have room, the first one is used, not the fullest."""
    return packed(answer.pack, in_three_rows)


@pytest.mark.parametrize("case", EDGES)
def test_edges(answer, edges):
    """`pad` in an example is not padding; examples of one token and of a full row work, too."""
    return packed(answer.pack, edges) | {"pad": edges["pad"]}
