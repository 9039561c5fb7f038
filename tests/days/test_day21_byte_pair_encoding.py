"""Day 21 · train_bpe(text, vocab_size) and BPE(merges) with encode and decode.

What was learned is observed through `encode` and `decode` alone: the id 256 + r, decoded, spells merge r.
"""

import pytest

WORDS = [
    *["the", "low", "lower", "lowest", "new", "newer", "newest"],
    *["wide", "wider", "widest", "show", "slow", "slower"],
]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SCRIPTS = [
    "é",
    "ß",
    "Ω",
    "я",
    "中",
    "文",
    "🙂",
    "e\u0301",
    " ",
    "\n",
    "\r\n",
    "\0",
    "a",
    "B",
    "7",
    "'",
]


def text_of(draw, alphabet, length, between=""):
    """A text of drawn characters or words."""
    return between.join(draw.choice(alphabet) for _ in range(length))


def some_letters(draw, count):
    """Different letters, in an order of their own."""
    unused = list(LETTERS)
    return [unused.pop(draw.size(0, len(unused) - 1)) for _ in range(count)]


def some_merges(draw, letters, count):
    """Merges of letters and of earlier merges, none twice."""
    ids = [ord(letter) for letter in letters]
    merges = []
    while len(merges) < count:
        pair = (draw.choice(ids), draw.choice(ids))
        if pair not in merges:
            ids.append(256 + len(merges))
            merges.append(pair)
    return merges


def spelled(bpe, count):
    """What the first merges stand for, as far as there are any."""
    words = []
    for rank in range(count):
        try:
            words.append(bpe.decode([256 + rank]))
        except (LookupError, ValueError):  # however it says that there is no such id
            words.append("(no such id)")
    return " | ".join(words)


def written(ids):
    """Ids in a line, so that they are seen as a whole."""
    return " ".join(str(int(number)) for number in ids)


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def both_cases(draw):
    """A word that is oftener written in upper case than in lower."""
    word = "".join(some_letters(draw, 3))
    return {"text": " ".join([word.upper()] * 3 + [word] * 2)}


@pytest.fixture
def sentence(draw):
    """Words that share their stems and endings."""
    return {"text": text_of(draw, WORDS, 40, between=" ")}


@pytest.fixture
def two_pairs(draw):
    """One pair that is commoner than all others, and occurs last."""
    a, b, c, d, e = some_letters(draw, 5)
    return {"text": f"{a}{b}{c}{a}{b}{c}{e}" + f"{c}{d}" * draw.size(4, 6)}


@pytest.fixture
def ties(draw):
    """Every pair occurs once; the letters are in no alphabetical order."""
    letters = some_letters(draw, draw.size(6, 9))
    return {"text": "".join(letters), "vocab_size": 256 + 3}


@pytest.fixture
def overlapping(draw):
    """Of four equal letters three pairs can be made, though only two at once; another pair occurs twice."""
    a, b, c, d = some_letters(draw, 4)
    return {"text": f"{b}{c}{b}{c}{d}{a}{a}{a}{a}"}


@pytest.fixture
def run(draw):
    """One letter, again and again, an odd number of times."""
    return {"text": draw.choice(LETTERS) * (2 * draw.size(2, 5) + 1)}


@pytest.fixture
def short(draw):
    """A text in which nothing occurs twice, and a vocabulary far larger than it can fill."""
    letters = some_letters(draw, draw.size(4, 9))
    return {"text": "".join(letters), "vocab_size": 256 + 50}


@pytest.fixture
def scripts(draw):
    """A text in many scripts."""
    return {"text": text_of(draw, SCRIPTS, 60)}


@pytest.fixture
def other(draw):
    """Another text than the one that was learned from."""
    return {"other": text_of(draw, [*WORDS, "Straße", "lowness"], 12, between=" ")}


@pytest.fixture
def merges_and_text(draw):
    """Merges and merges of merges, and a text of the same few letters."""
    letters = some_letters(draw, 3)
    return {"merges": some_merges(draw, letters, 14), "text": text_of(draw, letters, 60)}


@pytest.fixture
def rank_against_place(draw):
    """The pair that comes second in the text has the lower rank."""
    a, b, c, d = some_letters(draw, 4)
    merges = [(ord(b), ord(c)), (ord(a), ord(b)), (ord(a), 256), (ord(c), ord(d))]
    first = draw.size(2, 3)  # the merge that stands first in the text among them
    return {"merges": merges[:first] + merges[3:], "text": f"{a}{b}{c}{d}{a}{b}" * draw.size(1, 4)}


@pytest.fixture
def rank_against_length(draw):
    """When two merges compete, the one that spells more has the higher rank."""
    a, b, c, d = some_letters(draw, 4)
    merges = [(ord(c), ord(d)), (ord(a), ord(b)), (ord(b), 256)]
    return {"merges": merges, "text": f"{a}{b}{c}{d}" * draw.size(1, 4)}


@pytest.fixture
def rank_against_left(draw):
    """The merge learned first takes a letter from a piece that begins further left."""
    a, b, c = some_letters(draw, 3)
    return {"merges": [(ord(b), ord(c)), (ord(a), ord(b))], "text": f"{a}{b}{c}" * draw.size(2, 5)}


@pytest.fixture
def run_and_merge(draw):
    """A letter again and again, and the merge of two of it."""
    letter = draw.choice(LETTERS)
    merges = [(ord(letter), ord(letter))]
    return {
        "merges": merges,
        "text": letter * (2 * draw.size(2, 6) + 1) + draw.choice("0123456789"),
    }


@pytest.fixture
def halves(draw):
    """Merges whose ids begin or end in the midst of a character."""
    character = draw.choice(["é", "Ω", "я", "中", "🙂"])
    after = draw.choice(LETTERS)
    spelling = character.encode("utf-8")
    merges = [(spelling[-1], ord(after)), (ord(after), spelling[0])]
    return {"merges": merges, "text": f"{character}{after}" * draw.size(2, 5)}


@pytest.fixture
def broken(draw):
    """Bytes that are not UTF-8, among letters: a lone byte, and a character without its end."""
    letters = [ord(letter) for letter in some_letters(draw, 4)]
    return {"ids": [letters[0], 0xFF, *letters[1:3], 0xE4, 0xB8, letters[3], 0xC3]}


# --- train_bpe ------------------------------------------------------------------------------------


def test_commonest_pair(answer, two_pairs):
    """The first merge is the most frequent pair of neighbors, wherever it occurs."""
    bpe = answer.train_bpe(two_pairs["text"], 257)
    return {"first merge": bpe.decode([256]), "ids": written(bpe.encode(two_pairs["text"]))}


def test_merges_of_merges(answer, sentence):
    """After each merge, pairs are counted again, including the new id; spaces are ordinary bytes."""
    bpe = answer.train_bpe(sentence["text"], 256 + 40)
    return {"merges": spelled(bpe, 40), "ids": written(bpe.encode(sentence["text"]))}


@pytest.mark.watertight("a vocabulary without any merge")
def test_no_merges(answer, sentence):
    """A vocabulary of 256 consists of only the bytes."""
    bpe = answer.train_bpe(sentence["text"], 256)
    return {"ids": written(bpe.encode(sentence["text"]))}


def test_ties(answer, ties):
    """Of equally frequent pairs, the pair that occurs first is merged."""
    bpe = answer.train_bpe(**ties)
    return {"merges": spelled(bpe, 3), "ids": written(bpe.encode(ties["text"]))}


def test_overlapping_pairs_count(answer, overlapping):
    """`aaaa` has three pairs of neighbors, although only two can be merged."""
    bpe = answer.train_bpe(overlapping["text"], 257)
    return {"first merge": bpe.decode([256]), "ids": written(bpe.encode(overlapping["text"]))}


def test_run_of_one_letter(answer, run):
    """Pairs are merged from left to right, without using a letter twice."""
    bpe = answer.train_bpe(run["text"], 257)
    return {"first merge": bpe.decode([256]), "ids": written(bpe.encode(run["text"]))}


@pytest.mark.watertight("a text so short that every pair is merged before the vocabulary is full")
def test_pairs_that_occur_once(answer, short):
    """Pairs that occur once are merged, too, until the text is a single id."""
    bpe = answer.train_bpe(**short)
    return {
        "merges": spelled(bpe, len(short["text"]) - 1),
        "ids": written(bpe.encode(short["text"])),
    }


@pytest.mark.watertight("an empty text, from which there is nothing to learn")
def test_learning_from_nothing(answer, other):
    """An empty text gives no merges, and any text can still be encoded."""
    bpe = answer.train_bpe("", 300)
    return {"ids": written(bpe.encode(other["other"]))}


def test_another_text(answer, sentence, other):
    """Merges from one text work for another text, even with unknown characters."""
    bpe = answer.train_bpe(sentence["text"], 256 + 20)
    ids = list(bpe.encode(other["other"]))
    return {"ids": written(ids), "back": bpe.decode(ids)}


def test_any_script(answer, scripts):
    """Bytes are merged, not characters, so any text can be encoded and decoded without loss."""
    bpe = answer.train_bpe(scripts["text"], 256 + 25)
    ids = list(bpe.encode(scripts["text"]))
    return {"ids": written(ids), "back": bpe.decode(ids)}


def test_upper_case(answer, both_cases):
    """An upper-case letter is a different byte, with its own merges."""
    return {"merges": spelled(answer.train_bpe(both_cases["text"], 256 + 3), 3)}


# --- BPE ------------------------------------------------------------------------------------------


def test_bytes(answer, scripts):
    """Without merges the ids are the bytes of UTF-8."""
    bpe = answer.BPE([])
    ids = list(bpe.encode(scripts["text"]))
    return {"ids": written(ids), "back": bpe.decode(ids)}


def test_encode(answer, merges_and_text):
    """Merges apply by rank, after the merges that form their parts."""
    bpe = answer.BPE(merges_and_text["merges"])
    return {"ids": written(bpe.encode(merges_and_text["text"]))}


def test_rank_comes_before_place(answer, rank_against_place):
    """The merge that was learned first is applied first, not the one that occurs first in the text."""
    bpe = answer.BPE(rank_against_place["merges"])
    return {"ids": written(bpe.encode(rank_against_place["text"]))}


def test_rank_comes_before_length(answer, rank_against_length):
    """The merge with the longest spelling does not come first."""
    bpe = answer.BPE(rank_against_length["merges"])
    return {"ids": written(bpe.encode(rank_against_length["text"]))}


def test_rank_comes_before_left(answer, rank_against_left):
    """A known piece further left also waits for the merge that was learned first."""
    bpe = answer.BPE(rank_against_left["merges"])
    return {"ids": written(bpe.encode(rank_against_left["text"]))}


def test_encode_a_run(answer, run_and_merge):
    """In a run of one letter, every second pair is merged, from the left."""
    bpe = answer.BPE(run_and_merge["merges"])
    return {"ids": written(bpe.encode(run_and_merge["text"]))}


def test_decode(answer, merges_and_text):
    """The bytes of an id are those of its two parts, the left part first."""
    bpe = answer.BPE(merges_and_text["merges"])
    return {"merges": spelled(bpe, len(merges_and_text["merges"]))}


@pytest.mark.watertight("ids that begin or end within a character")
def test_halves_of_characters(answer, halves):
    """Ids may begin or end within a character, so all bytes are joined before they are decoded."""
    bpe = answer.BPE(halves["merges"])
    ids = list(bpe.encode(halves["text"]))
    return {"ids": written(ids), "back": bpe.decode(ids)}


def test_invalid_bytes(answer, broken):
    """Bytes that are not valid UTF-8 become U+FFFD, and the rest is kept."""
    return {"text": answer.BPE([]).decode(broken["ids"])}


@pytest.mark.watertight("an empty text and no ids")
@pytest.mark.constant("ids", "text", "of nothing comes nothing")
def test_nothing(answer, merges_and_text):
    """An empty text has no ids, and an empty list of ids decodes to an empty text."""
    bpe = answer.BPE(merges_and_text["merges"])
    return {"ids": written(bpe.encode("")), "text": bpe.decode([]), "last": bpe.decode([256])}
