"""Day 22 · bleu(hypotheses, references) and token_batches(pairs, max_tokens)."""

from string import ascii_letters

import numpy as np
import pytest

WORDS = ["the", "a", "old", "red", "cat", "dog", "house", "sees", "eats", "under", "near", "sleeps"]
OTHERS = ["Haus", "Hund", "rot", "klein", "liegt", "dort", "kaum", "fern"]
ODD = [
    "3.5",
    "1,000",
    "2-3",
    "don't",
    "U.S.",
    "&quot;no&quot;",
    "&amp;",
    "(yes)",
    "cat;",
    "50%",
    "end.",
]


def words_of(draw, length, words=WORDS):
    """A line of drawn words."""
    return [draw.choice(words) for _ in range(length)]


def disturbed(draw, words):
    """The same with some words lost, doubled or exchanged, as a translation differs from another."""
    line = []
    for word in words:
        line += draw.choice([[word]] * 6 + [[], [word, word], [draw.choice(WORDS)]])
    return line


def joined(hypotheses, *streams):
    """Lines of words as text."""
    return {
        "hypotheses": [" ".join(line) for line in hypotheses],
        "references": [[" ".join(line) for line in stream] for stream in streams],
    }


def ids(draw, *sizes):
    """Ids of a side of a pair, of a length between two bounds."""
    return tuple(words_of(draw, draw.size(*sizes), range(1, 9)))


def corpus(draw, sentences, streams, words=WORDS):
    """Hypotheses, and as many references for each as there are streams."""
    originals = [words_of(draw, draw.size(6, 12), words) for _ in range(sentences)]
    return joined(*([disturbed(draw, line) for line in originals] for _ in range(1 + streams)))


def score(value):
    """A score to the digits of float32: right answers add up in different orders, and some in tensors."""
    return np.float32(float(value))


def pair_of(draw, longest):
    """Two sequences of ids."""
    return tuple(tuple(draw.size(1, 9) for _ in range(draw.size(1, longest))) for _ in range(2))


def contents(batches, given):
    """The pairs in the batches, whatever the order, by letters and lengths: a is the first that was given."""
    names = {}
    for pair in given:
        names.setdefault(pair, f"{ascii_letters[len(names)]} {len(pair[0])}→{len(pair[1])}")
    batched = [tuple(map(tuple, pair)) for batch in batches for pair in batch]
    return ", ".join(sorted(names.get(pair) or in_ids(pair) for pair in batched))


def in_ids(pair):
    """A pair that was not given, spelled out."""
    return "(" + "→".join(" ".join(map(str, side)) for side in pair) + ")"


def padded_size(batch):
    """The places that a batch takes up once it is padded."""
    return len(batch) * sum(max(len(pair[side]) for pair in batch) for side in (0, 1))


def facts(batches, pairs, max_tokens):
    """What must hold of batches, however they were made."""
    batches = [list(batch) for batch in list(batches)]  # all are kept before one is read
    return {
        "pairs and their lengths": contents(batches, pairs),
        "an empty batch": any(not batch for batch in batches),
        "batches beyond the limit": ", ".join(
            sorted(
                f"{len(batch)} pairs take {padded_size(batch)}"
                for batch in batches
                if len(batch) > 1 and padded_size(batch) > max_tokens
            )
        ),
    }


# --- Inputs ---------------------------------------------------------------------------------------


@pytest.fixture
def one_stream(draw):
    """A small corpus with one reference each."""
    return corpus(draw, draw.size(4, 6), 1)


@pytest.fixture
def several_streams(draw, streams):
    """The same with more references; there are more sentences than streams."""
    return corpus(draw, draw.size(4, 6), streams)


@pytest.fixture
def equally_close(draw):
    """For each sentence one reference that is as much shorter as the other is longer."""
    lines = [words_of(draw, draw.size(7, 10)) for _ in range(4)]
    return joined(
        [[draw.choice(OTHERS), *line[1:]] for line in lines],
        [[*line, draw.choice(WORDS)] for line in lines],
        [line[:-1] for line in lines],
    )


@pytest.fixture
def far_and_near(draw):
    """The nearest reference is neither the shortest nor the longest, and each time in the next stream. With
    these lengths, no stream has the total length of the nearest references."""
    lines = [words_of(draw, draw.size(7, 10)) for _ in range(4)]
    kinds = [
        lambda line: line + words_of(draw, 12),
        lambda line: line[:1],
        lambda line: [*line, draw.choice(WORDS)],
    ]
    streams = [
        [kinds[(place + stream) % 3](line) for place, line in enumerate(lines)]
        for stream in range(3)
    ]
    return joined(lines, *streams)


@pytest.fixture
def too_short(draw):
    """Hypotheses that are the beginnings of their references."""
    lines = [words_of(draw, draw.size(9, 12)) for _ in range(4)]
    return joined([line[: draw.size(5, 8)] for line in lines], lines)


@pytest.fixture
def too_long(draw):
    """Hypotheses that go on after the end of their references."""
    lines = [words_of(draw, draw.size(6, 9)) for _ in range(4)]
    return joined([line + words_of(draw, draw.size(1, 3)) for line in lines], lines)


@pytest.fixture
def repeated(draw):
    """Words said far too often; one reference has the word twice, another once."""
    lines = [words_of(draw, 8) for _ in range(3)]
    often = [(line, draw.choice(WORDS)) for line in lines]
    return joined(
        [[*line[:5], *([word] * draw.size(3, 5))] for line, word in often],
        [[*line, word, word] for line, word in often],
        [[word, *line] for line, word in often],
    )


@pytest.fixture
def without_long_matches(draw, longest):
    """Runs of at most so many words are right."""
    lines = [words_of(draw, draw.size(8, 10)) for _ in range(3)]
    broken = [
        [
            word if index % (longest + 1) < longest else draw.choice(OTHERS)
            for index, word in enumerate(line)
        ]
        for line in lines
    ]
    return joined(broken, lines)


@pytest.fixture
def strangers(draw):
    """Hypotheses of which no word is right."""
    lines = [words_of(draw, draw.size(5, 8), OTHERS) for _ in range(3)]
    return joined(lines, [words_of(draw, 7) for _ in lines])


@pytest.fixture
def brief(draw):
    """Right sentences of three words: there is no run of four in them."""
    lines = [words_of(draw, 3) for _ in range(3)]
    return joined(lines, lines)


@pytest.fixture
def with_a_silent_one(draw):
    """One of the hypotheses is empty, and one very long."""
    given = corpus(draw, 4, 1)
    longest = " ".join(words_of(draw, 20))
    return {
        "hypotheses": ["", longest, *given["hypotheses"][2:]],
        "references": [[given["references"][0][0], longest, *given["references"][0][2:]]],
    }


@pytest.fixture
def odd_words(draw):
    """Numbers, brackets, abbreviations, entities."""
    return corpus(draw, 6, 1, WORDS[:6] + ODD)


@pytest.fixture
def capitals(draw):
    """Hypotheses whose first words are written in capitals; their references are not."""
    lines = [words_of(draw, draw.size(7, 10)) for _ in range(4)]
    return joined([[line[0].upper(), line[1].title(), *line[2:]] for line in lines], lines)


@pytest.fixture
def pairs(draw):
    """Sentence pairs of many lengths, and room for a few of them at a time."""
    given = [pair_of(draw, 9) for _ in range(draw.size(12, 18))]
    return {"pairs": given, "max_tokens": draw.size(30, 45)}


@pytest.fixture
def equal_pairs(draw):
    """The same pair several times, and others."""
    twins = [pair_of(draw, 5)] * draw.size(3, 5)
    return {"pairs": [*twins, *(pair_of(draw, 5) for _ in range(4)), *twins], "max_tokens": 24}


@pytest.fixture
def crossed(draw):
    """Long sources with short targets, and the other way round: together they need much padding."""
    given = []
    for _ in range(draw.choice([4, 5])):
        long, short = ids(draw, 9, 10), ids(draw, 1, 1)
        given += [(long, short), (short, long)]
    return {"pairs": given, "max_tokens": draw.size(33, 38)}


@pytest.fixture
def shrinking(draw):
    """Sources grow while targets shrink: the longest source and the longest target are of different pairs."""
    first, early = ((ids(draw, 1, 1), ids(draw, *size)) for size in ((9, 10), (13, 14)))
    late = ids(draw, 5, 6), ids(draw, 1, 1)
    return {"pairs": [first, early, late], "max_tokens": draw.size(23, 27)}


@pytest.fixture
def unlike(draw):
    """A long target, then a long source: each pair fits by itself, and both together do not."""
    early, late = (ids(draw, 2, 2), ids(draw, 9, 10)), (ids(draw, 11, 12), ids(draw, 1, 1))
    return {"pairs": [early, late], "max_tokens": draw.size(29, 33)}


@pytest.fixture
def lopsided(draw):
    """Targets far longer than their sources."""
    given = [(ids(draw, 1, 2), ids(draw, 9, 12)) for _ in range(draw.size(7, 9))]
    return {"pairs": given, "max_tokens": 40}


@pytest.fixture
def too_long_pairs(draw, where):
    """A pair that is too long for any batch, alone or among others."""
    long = ids(draw, 30, 30), ids(draw, 1, 3)
    small = [pair_of(draw, 4) for _ in range(draw.size(4, 6))]
    given = {
        "first": [long, *small],
        "last": [*small, long],
        "all": [long, (long[1], long[0]), long],
    }
    return {"pairs": given[where], "max_tokens": draw.size(16, 20)}


@pytest.fixture
def by_turns(draw):
    """Short pairs and long ones by turns; a target is about as long as its source."""
    given = []
    for index in range(draw.size(42, 50)):
        length = draw.size(2, 6) if index % 2 else draw.size(22, 30)
        sides = length, length + draw.choice([-1, 0, 1, 2])
        given.append(tuple(ids(draw, size, size) for size in sides))
    return {"pairs": given, "max_tokens": draw.size(180, 220)}


@pytest.fixture
def a_pair(draw):
    """A single pair, and more than enough room."""
    return {"pairs": [pair_of(draw, 9)], "max_tokens": 100}


# --- bleu -----------------------------------------------------------------------------------------


def test_bleu(answer, one_stream):
    """The score is the geometric mean of four precisions over the corpus, times the brevity penalty."""
    return {"score": score(answer.bleu(**one_stream))}


def test_too_short(answer, too_short):
    """Short output is penalized: here every word is right, and the brevity penalty remains."""
    return {"score": score(answer.bleu(**too_short))}


def test_too_long(answer, too_long):
    """The brevity penalty is at most 1: output that is too long only loses precision."""
    return {"score": score(answer.bleu(**too_long))}


@pytest.mark.parametrize("streams", [2, 3])
def test_several_references(answer, several_streams, streams):
    """With several streams of references, a match with any of them counts."""
    return {"score": score(answer.bleu(**several_streams))}


def test_repeated_words(answer, repeated):
    """A word counts at most as often as it occurs in the reference that contains it most often."""
    return {"score": score(answer.bleu(**repeated))}


def test_closest_reference(answer, far_and_near):
    """The brevity penalty uses the reference that is closest in length."""
    return {"score": score(answer.bleu(**far_and_near))}


@pytest.mark.watertight("references that are equally close in length")
def test_equally_close_references(answer, equally_close):
    """Of two references that are equally close in length, the shorter one is used."""
    return {"score": score(answer.bleu(**equally_close))}


@pytest.mark.watertight("orders without any match, as in a small or a bad corpus")
@pytest.mark.parametrize("longest", [3, 2, 1])
def test_without_long_matches(answer, without_long_matches, longest):
    """Orders without a match are smoothed: the first counts as half a match, the second as a quarter."""
    return {"score": score(answer.bleu(**without_long_matches))}


@pytest.mark.watertight("translations without any match")
@pytest.mark.constant(
    "score of strangers", "score of three words", "nothing matches, nothing counts"
)
def test_no_score(answer, strangers, brief, one_stream):
    """If nothing matches at all, or no hypothesis has four words, the score is 0."""
    return {
        "score of strangers": score(answer.bleu(**strangers)),
        "score of three words": score(answer.bleu(**brief)),
        "score": score(answer.bleu(**one_stream)),
    }


@pytest.mark.constant("score of itself", "a corpus is like itself")
def test_perfect_score(answer, one_stream):
    """The references themselves score 100."""
    lines = one_stream["references"][0]
    return {
        "score of itself": score(answer.bleu(lines, [lines])),
        "score": score(answer.bleu(one_stream["hypotheses"], [lines, lines])),
    }


@pytest.mark.watertight("an empty hypothesis")
def test_empty_hypothesis(answer, with_a_silent_one):
    """Counts are added up over the corpus before the division, including empty hypotheses."""
    return {"score": score(answer.bleu(**with_a_silent_one))}


def test_capitals(answer, capitals):
    """Case matters."""
    return {"score": score(answer.bleu(**capitals))}


def test_tokens(answer, odd_words):
    """Tokens are those of mteval-v13a: punctuation is separate, except within numbers."""
    return {"score": score(answer.bleu(**odd_words))}


# --- token_batches --------------------------------------------------------------------------------


@pytest.mark.watertight("a single pair, and none at all")
@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
@pytest.mark.constant("batches of nothing", "there are none")
def test_one_pair_and_none(answer, a_pair):
    """One pair is one batch; without pairs there are no batches."""
    nothing = list(answer.token_batches([], a_pair["max_tokens"]))
    batches = list(answer.token_batches(**a_pair))
    return facts(batches, **a_pair) | {"batches of nothing": len(nothing)}


@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
def test_batches(answer, pairs):
    """Every pair is in exactly one batch, complete, and no padded batch exceeds the limit."""
    return facts(answer.token_batches(**pairs), **pairs)


@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
def test_equal_pairs(answer, equal_pairs):
    """A pair that occurs several times is in the batches just as often."""
    return facts(answer.token_batches(**equal_pairs), **equal_pairs)


@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
def test_crossed_lengths(answer, crossed):
    """Padding counts: every source and target is as long as the longest in its batch."""
    return facts(answer.token_batches(**crossed), **crossed)


@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
def test_shrinking_targets(answer, shrinking):
    """The longest source and the longest target count, even if they are in different pairs."""
    return facts(answer.token_batches(**shrinking), **shrinking)


@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
def test_unlike_pairs(answer, unlike):
    """Two pairs fit together if both fit when padded to the longer source and the longer target."""
    return facts(answer.token_batches(**unlike), **unlike)


@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
def test_long_targets(answer, lopsided):
    """Targets count as well as sources."""
    return facts(answer.token_batches(**lopsided), **lopsided)


@pytest.mark.constant("padding", "batches", "a coarse judgment, so that every good order passes")
@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
def test_good_company(answer, by_turns):
    """Pairs of similar length are batched together, so that there is little padding."""
    batches = list(answer.token_batches(**by_turns))
    real = sum(len(source) + len(target) for source, target in by_turns["pairs"])
    padded = sum(padded_size(batch) for batch in batches if batch)
    return facts(batches, **by_turns) | {
        "padding": "little" if padded <= 1.3 * real else "much",
        "batches": "few" if len(batches) * by_turns["max_tokens"] <= 3 * real else "many",
    }


@pytest.mark.constant("an empty batch", "batches beyond the limit", "there is none")
@pytest.mark.parametrize("where", ["first", "last", "all"])
def test_too_long_pair(answer, too_long_pairs, where):
    """A pair that is too long for any batch gets a batch of its own, and is not cut."""
    return facts(answer.token_batches(**too_long_pairs), **too_long_pairs)
