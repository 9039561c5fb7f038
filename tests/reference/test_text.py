"""Byte pairs against regular expressions, BLEU against sacrebleu, token batches by their properties."""

import itertools
import math
import re

import pytest
import sacrebleu
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from implementation import BPE, bleu, token_batches, tokenize_13a, train_bpe

DRAWN = settings(database=None, deadline=None, derandomize=True, max_examples=150)

# --- Day 21 · Byte-pair encoding -----------------------------------------------------------------

REPETITIVE = st.text("ab é", max_size=40)
TEXTS = st.one_of(st.text(max_size=40), REPETITIVE)


def symbol(number):
    """An id as one character, of those that Unicode leaves to private use."""
    return chr(0xE000 + number)


def symbols(text):
    """The bytes of a text as such characters."""
    return "".join(map(symbol, text.encode("utf-8")))


def merged(sequence, pair, new):
    """Sennrich's step, on strings: `str.replace` takes pairs from the left, and each symbol once."""
    return sequence.replace("".join(map(symbol, pair)), symbol(new))


def train_on_strings(text, vocab_size):
    """The merges, and the sequence they leave, by counting with overlapping regular expressions."""
    sequence, merges = symbols(text), []
    while len(merges) < vocab_size - 256 and len(sequence) > 1:
        pairs = {sequence[i : i + 2] for i in range(len(sequence) - 1)}
        best = min(pairs, key=lambda p: (-len(re.findall(f"(?={p})", sequence)), sequence.find(p)))
        merges.append(tuple(ord(part) - 0xE000 for part in best))
        sequence = merged(sequence, merges[-1], 255 + len(merges))
    return merges, [ord(part) - 0xE000 for part in sequence]


@DRAWN
@given(text=TEXTS, merges=st.integers(0, 30))
def test_training_is_counting_with_regular_expressions(text, merges):
    """The merges are those of the naive count, and encoding the text gives the sequence training ended on."""
    expected, sequence = train_on_strings(text, 256 + merges)
    tokenizer = train_bpe(text, 256 + merges)
    assert isinstance(tokenizer, BPE)
    assert tokenizer.merges == expected
    assert tokenizer.encode(text) == sequence


@DRAWN
@given(learned=TEXTS, text=TEXTS)
def test_encoding_is_every_merge_in_turn(learned, text):
    """Of a text it has not seen: all merges in the order of their rank, each as a replacement of strings."""
    tokenizer = train_bpe(learned, 300)
    sequence = symbols(text)
    for rank, pair in enumerate(tokenizer.merges):
        sequence = merged(sequence, pair, 256 + rank)
    assert tokenizer.encode(text) == [ord(part) - 0xE000 for part in sequence]


@DRAWN
@given(learned=TEXTS, text=st.text())
def test_encoding_loses_nothing(learned, text):
    """Whatever it has learned from, any Unicode text comes back as it was."""
    tokenizer = train_bpe(learned, 280)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= number < 256 + len(tokenizer.merges) for number in ids)


@DRAWN
@given(data=st.data())
def test_decoding_survives_any_ids(data):
    """Whatever a model says is spelled out in bytes and read by Python's own decoder, errors replaced."""
    tokenizer = train_bpe("naïve café 🙂 naïve café 🙂", 270)
    ids = data.draw(st.lists(st.integers(0, 255 + len(tokenizer.merges)), max_size=12))

    def spelling(number):
        if number < 256:
            return bytes([number])
        return b"".join(map(spelling, tokenizer.merges[number - 256]))

    expected = b"".join(map(spelling, ids)).decode("utf-8", errors="replace")
    assert tokenizer.decode(ids) == tokenizer.decode(iter(ids)) == expected


def test_sennrichs_example():
    """low, lower, newest and widest as often as in the paper's §3.2, figure 1: its merges, in its order."""
    tokenizer = train_bpe("low|" * 5 + "lower|" * 2 + "newest|" * 6 + "widest|" * 3, 261)
    spelled = [tokenizer.decode([number]) for number in range(256, 261)]
    assert spelled == ["es", "est", "est|", "lo", "low"]


@pytest.mark.parametrize(
    ("text", "merges", "ids"),
    [
        ("aaab", [(97, 97)], [256, 97, 98]),
        ("aabaa", [(97, 97)], [256, 98, 256]),
        ("bcabca", [(98, 99)], [256, 97, 256, 97]),
        ("abab", [(97, 98)], [256, 256]),
        ("abbaaa", [(97, 97)], [97, 98, 98, 256, 97]),
        ("ba", [(98, 97)], [256]),
    ],
    ids=["overlap", "both", "tie", "first", "overlap counts", "once"],
)
def test_one_merge_by_hand(text, merges, ids):
    """Overlapping pairs all count but merge from the left, ties go to the first, one occurrence is enough."""
    tokenizer = train_bpe(text, 257)
    assert tokenizer.merges == merges
    assert tokenizer.encode(text) == ids


def test_a_merge_may_be_of_merges():
    """aaaa becomes aa·aa and then one id; training stops when no pair is left."""
    tokenizer = train_bpe("aaaa", 1000)
    assert tokenizer.merges == [(97, 97), (256, 256)]
    assert tokenizer.encode("aaaaaaa") == [257, 256, 97]


@pytest.mark.parametrize(("text", "size"), [("", 300), ("a", 300), ("abcabc", 256)])
def test_nothing_to_merge(text, size):
    """An empty text, a single byte, or a vocabulary of bytes alone: no merges, and ids are bytes."""
    tokenizer = train_bpe(text, size)
    assert tokenizer.merges == []
    assert tokenizer.encode("hé") == [104, 195, 169]
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""


def test_pairs_run_across_words_and_characters():
    """Nothing splits the text first: spaces merge with letters, and bytes across characters."""
    assert train_bpe("a b a b a b", 258).merges == [(97, 32), (256, 98)]
    assert train_bpe("éè" * 3, 259).merges == [(195, 169), (256, 195), (257, 168)]


def test_invalid_utf8_is_replaced():
    """A byte that begins nothing, and a character cut short, become U+FFFD."""
    assert BPE([]).decode([0xFF, 97, 0xC3]) == "\ufffda\ufffd"
    assert BPE([(0xC3, 0xA9)]).decode([256, 0xC3]) == "é\ufffd"


# --- Day 22 · Translation ------------------------------------------------------------------------

PIECES = [
    *"abc,.!?;:-'()[]{}~`_^@#$%*+/<=>|\"\\&",
    *re.findall(r"\S+", "the cat sat on the mat The U.S. e.g. don't café 東京 ١٢ … – ½"),
    *re.findall(r"\S+", "1 2.5 3,000 1-2 1.a a.1 ,5 5, 10.000,5 2007-08"),
    *re.findall(r"\S+", "&quot; &amp; &lt; &gt; &amp;quot; &apos; <skipped>"),
    *(" ", "  ", "\n", "-\n", "\t", "\u00a0", "\u3000", "\x1f", "\x85"),
]
LINES = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=12).map(" ".join),
    st.text(max_size=20),
)


@st.composite
def corpora(draw):
    """Hypotheses, and one to three streams of references that are often the same words in another order."""
    size, streams = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    hypotheses = draw(st.lists(LINES, min_size=size, max_size=size))

    def reference(hypothesis):
        words = hypothesis.split()
        shuffled = st.permutations(words).map(" ".join)
        cut = st.integers(0, len(words)).map(lambda n: " ".join(words[n:]))
        return st.one_of(st.just(hypothesis), shuffled, cut, LINES)

    references = [[draw(reference(line)) for line in hypotheses] for _ in range(streams)]
    return hypotheses, references


@DRAWN
@given(LINES)
@example("a-\n")  # white space at the end goes before hyphens do
@example("&amp;lt; &quot;3,000.5&quot;, ~2007-08.")
def test_tokens_are_sacrebleus(line):
    """The tokens that sacrebleu makes of a line, whose white space at the end it takes off first."""
    assert tokenize_13a(line) == Tokenizer13a()(line.rstrip()).split()


@settings(DRAWN, max_examples=200)
@given(corpora())
def test_bleu_is_sacrebleus(corpus):
    """The score of sacrebleu.corpus_bleu, whatever the words, punctuation, entities and streams."""
    expected = sacrebleu.corpus_bleu(*corpus, force=True).score
    score = bleu(*corpus)
    assert isinstance(score, float)
    assert score == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    "line",
    [
        "3,000.5 dogs, cats.",
        "a&quot;b &amp;lt; &lt;i&gt;",
        "2007-08 well-\nknown",
        "(U.S.) ~50% @x",
    ],
)
def test_bleu_of_a_sentence_with_itself_is_100(line):
    """What is repeated to the letter is perfect, given four tokens, however it is punctuated."""
    assert bleu([line], [[line]]) == pytest.approx(100, rel=1e-12)
    assert bleu([line], [["x y z"], [line]]) == pytest.approx(100, rel=1e-12)


def test_papinenis_example():
    """'the' seven times against 'the cat is on the mat': a clipped precision of 2/7, the rest smoothed.

    No bigram, trigram or 4-gram matches: they count ½ of 6, ¼ of 5 and ⅛ of 4. c = 7 > r = 6: no penalty.
    """
    score = bleu(["the " * 7], [["the cat is on the mat"]])
    assert score == pytest.approx(100 * (2 / 7 * 1 / 12 * 1 / 20 * 1 / 32) ** (1 / 4))


def test_brevity_by_hand():
    """Five words of eight, all right: every precision is 1, and what is left is exp(1 − 8/5)."""
    score = bleu(["a b c d e"], [["a b c d e f g h"]])
    assert score == pytest.approx(100 * math.exp(1 - 8 / 5))


def test_the_closest_length_of_references():
    """Of references of 4 and 8 tokens, both 2 from 6, the shorter counts: no penalty for 6 tokens."""
    references = [["a b c d"], ["a b c d e f g h"]]
    assert bleu(["a b c d e f"], references) == pytest.approx(100)
    assert bleu(["a b c d e f"], references[1:]) == pytest.approx(100 * math.exp(1 - 8 / 6))


def test_bleu_is_of_a_corpus():
    """Counts are added up over sentences before dividing: not the mean of the sentences' scores."""
    hypotheses, references = ["a b c d e", "f x g y h z"], [["a b c d e", "f g h i j k"]]
    score = bleu(hypotheses, references)
    alone = [bleu([h], [[r]]) for h, r in zip(hypotheses, references[0], strict=True)]
    assert score == pytest.approx(sacrebleu.corpus_bleu(hypotheses, references).score)
    assert abs(score - sum(alone) / 2) > 1


@pytest.mark.parametrize("hypotheses", [[""], ["x y z w"], ["a b c"]])
def test_bleu_is_zero_without_a_match_or_a_4_gram(hypotheses):
    """Nothing said, nothing right, or too short for a 4-gram: 0, as sacrebleu has it."""
    assert bleu(hypotheses, [["a b c d"]]) == 0
    assert sacrebleu.corpus_bleu(hypotheses, [["a b c d"]], force=True).score == pytest.approx(0)


SENTENCES = st.lists(st.integers(1, 99), max_size=12)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), max_size=30)


def area(batch):
    """What a batch takes up once it is padded."""
    return len(batch) * (max(len(s) for s, _ in batch) + max(len(t) for _, t in batch))


@DRAWN
@given(pairs=PAIRS, max_tokens=st.integers(1, 120))
def test_token_batches(pairs, max_tokens):
    """Nothing is lost, doubled or cut; no batch is empty or too large, but for a single pair that is."""
    batches = list(token_batches(pairs, max_tokens))
    assert all(batches)
    assert sorted(pair for batch in batches for pair in batch) == sorted(pairs)
    assert all(area(batch) <= max_tokens or len(batch) == 1 for batch in batches)


@DRAWN
@given(pairs=PAIRS, max_tokens=st.integers(1, 120))
def test_token_batches_are_as_large_as_can_be(pairs, max_tokens):
    """No batch could have taken the first pair of the next one as well."""
    batches = list(token_batches(pairs, max_tokens))
    for batch, following in itertools.pairwise(batches):
        assert area([*batch, following[0]]) > max_tokens


def test_token_batches_hold_little_padding():
    """Sentences of a length go together: of 200 mixed pairs, less than a tenth is padding."""
    lengths = [(7 * i) % 50 + 1 for i in range(200)]
    pairs = [([1] * n, [2] * n) for n in lengths]
    batches = list(token_batches(pairs, 400))
    assert sum(map(area, batches)) < 1.1 * 2 * sum(lengths)


def test_an_over_long_pair_is_alone():
    """A pair that fits no batch has one of its own, whole, and the others are batched as ever."""
    long, short = ([1] * 50, [2] * 50), ([3], [4])
    assert sorted(map(len, token_batches([short, long, short], 10))) == [1, 2]
    assert [long] in list(token_batches([short, long, short], 10))


def test_token_batches_keep_the_pairs_given():
    """The very pairs come back, not copies, and the list they were in is as it was."""
    pairs = [([3, 4], [5]), ([1], [2])]
    before = list(pairs)
    found = [pair for batch in token_batches(pairs, 8) for pair in batch]
    assert {id(pair) for pair in found} == {id(pair) for pair in pairs}
    assert pairs == before
