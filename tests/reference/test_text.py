"""Byte pairs against regular expressions, BLEU against sacrebleu, token batches by their properties."""

import itertools
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


SENTENCES = st.lists(st.integers(1, 99), max_size=12)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), max_size=30)


def area(batch):
    """What a batch takes up once it is padded."""
    return len(batch) * (max(len(s) for s, _ in batch) + max(len(t) for _, t in batch))


@DRAWN
@given(pairs=PAIRS, max_tokens=st.integers(1, 120))
def test_token_batches(pairs, max_tokens):
    """Nothing is lost, doubled or cut; no batch is empty or too large, but for a single pair that is; and no
    batch could have taken the first pair of the next one as well."""
    batches = list(token_batches(pairs, max_tokens))
    assert all(batches)
    assert sorted(pair for batch in batches for pair in batch) == sorted(pairs)
    assert all(area(batch) <= max_tokens or len(batch) == 1 for batch in batches)
    for batch, following in itertools.pairwise(batches):
        assert area([*batch, following[0]]) > max_tokens
