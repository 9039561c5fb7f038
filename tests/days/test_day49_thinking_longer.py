"""Day 49 · majority_vote(answers), pass_at_k(n, correct, k), best_of_n(answers, scores, weighted)."""

import pytest

MANY = "thousands of samples are rare, and there C(n, k) has hundreds of digits"
NOBODY = "every sample of a question may be cut off"
LOW = "scores of less than −10⁹ are no log-probabilities"
TIES = "equal scores are rare with a verifier, whose scores are floats"
ALIKE = "a verifier has usually normalized the answers"
WORDS = ("ten", "two", "six", "one", "four", "nine", "five", "zero")


# --- Inputs ---------------------------------------------------------------------------------------


def some(draw, count):
    """Different answers, numbers or words."""
    numbers = draw.sizes(10, 99, count)
    words = [WORDS[i] for i in draw.sizes(0, len(WORDS) - 1, count)]
    return draw.choice([numbers, words])


def shuffled(draw, items):
    """The items in a random order."""
    return [items[i] for i in draw.sizes(0, len(items) - 1, len(items))]


def eighths(draw, low, high, count):
    """Different scores whose sums are exact, in increasing order."""
    return sorted(size / 8 for size in draw.sizes(8 * low, 8 * high, count))


def unzipped(pairs):
    """The arguments of `best_of_n` from pairs of an answer and its score."""
    return {"answers": [answer for answer, _ in pairs], "scores": [score for _, score in pairs]}


@pytest.fixture
def votes(draw):
    """A majority, which the first and the last sample do not have."""
    a, b, c = some(draw, 3)
    return [a, *shuffled(draw, [b, b, b, b, c]), c]


@pytest.fixture
def nearly_alike(draw):
    """Texts that differ only in case or in a space, the first of which is not the most frequent one."""
    word, other = (WORDS[i] for i in draw.sizes(0, len(WORDS) - 1, 2))
    return [word.upper(), f"{word} ", word, word, other, other, other]


@pytest.fixture
def plurality(draw):
    """The most frequent answer has less than half of the samples, no two of them in a row."""
    a, b, c, d = some(draw, 4)
    return [b, b, a, c, c, a, d, a]


@pytest.fixture
def ties(draw):
    """Two answers have as many votes. The one seen first is the larger or the smaller one, and the second or
    the first to have all its votes."""
    small, large = sorted(draw.sizes(1, 99, 2))
    return [
        [large, small, small, large],
        [small, large, small, large],
        [large, small, large, small],
    ]


@pytest.fixture
def cut_off(draw):
    """Most samples have no answer."""
    a, b = some(draw, 2)
    return shuffled(draw, [None] * 4 + [a, a, b])


@pytest.fixture
def falsy(draw, case):
    """An answer that is false in Python has the majority."""
    answer = {"zero": 0, "empty text": ""}[case]
    other = {"zero": draw.size(1, 9), "empty text": draw.choice(WORDS)}[case]
    return shuffled(draw, [answer] * 3 + [other] * 2)


@pytest.fixture
def nobody(draw):
    """No sample has an answer."""
    return [None] * draw.size(1, 5)


@pytest.fixture
def nobody_scored(draw):
    """No sample has an answer; all have scores."""
    scores = eighths(draw, 1, 4, 3)
    return {"answers": [None] * len(scores), "scores": scores}


@pytest.fixture
def counts(draw):
    """n, correct and k, with more than k wrong samples."""
    n = draw.size(12, 20)
    return {"n": n, "correct": draw.size(2, 5), "k": draw.size(2, 6)}


@pytest.fixture
def nearly_all(draw):
    """Fewer than k samples are wrong."""
    n = draw.size(8, 12)
    wrong = draw.size(1, 3)
    return {"n": n, "correct": n - wrong, "k": draw.size(wrong + 1, n)}


@pytest.fixture
def exactly(draw):
    """Exactly k samples are wrong."""
    n, k = draw.size(5, 7), draw.size(2, 4)
    return {"n": n, "correct": n - k, "k": k}


@pytest.fixture
def ends(draw, case):
    """The ends of the ranges."""
    n = draw.size(4, 9)
    return {
        "nothing is right": {"n": n, "correct": 0, "k": draw.size(1, n)},
        "everything is right": {"n": n, "correct": n, "k": draw.size(1, n)},
        "all tries": {"n": n, "correct": draw.size(1, n - 1), "k": n},
    }[case]


@pytest.fixture
def thousands(draw):
    """Thousands of samples, with binomial coefficients that are larger than any float."""
    return {"n": draw.size(4000, 6000), "correct": draw.size(1, 3), "k": draw.size(1000, 2000)}


@pytest.fixture
def judged(draw):
    """The best sample has an answer that is not the most frequent one, nor has it the largest total."""
    a, b, c = some(draw, 3)
    low, mid, high, best = eighths(draw, 1, 4, 4)
    return unzipped(shuffled(draw, [(a, high), (a, mid), (a, high), (b, best), (c, low)]))


@pytest.fixture
def log_probabilities(draw):
    """All scores are negative."""
    return unzipped(shuffled(draw, list(zip(some(draw, 4), eighths(draw, -9, -1, 4), strict=True))))


@pytest.fixture
def very_low(draw):
    """All scores are negative, and larger than any number that one might take for infinity."""
    scores = [10.0**11 * score for score in eighths(draw, -9, -1, 4)]
    return unzipped(shuffled(draw, list(zip(some(draw, 4), scores, strict=True))))


@pytest.fixture
def best_cut_off(draw):
    """The sample with the highest score has no answer, nor have those with the largest total. The best of
    the others is false in Python, and does not win if it gets an earlier sample's score."""
    a, b, c = draw.choice([[0, *draw.sizes(1, 9, 2)], ["", *WORDS[:2]]])
    low, mid, high, best = eighths(draw, 1, 4, 4)
    return unzipped([(None, best), (b, low), (c, mid), (None, best), (a, high), (None, low)])


@pytest.fixture
def equal_scores(draw):
    """Five samples have the highest score. Neither the smallest nor the largest of their answers is that of
    the first or of the last sample, or the answer that was seen first."""
    smallest, *middle, largest = sorted(some(draw, 5))
    a, b, c = shuffled(draw, middle)
    low, high = eighths(draw, 1, 4, 2)
    best = [(answer, high) for answer in (b, largest, smallest, a, c)]
    return unzipped([(a, low), *best, (b, low)])


@pytest.fixture
def heavy(draw):
    """Several questions. In the first, the largest total, the highest score (and the best chance that any
    is right), mean, product and last score, and the most samples belong to different answers; the others
    tell the rest of these apart."""
    total, best, mean, last, often = some(draw, 5)
    begin = shuffled(draw, [(best, 2.0), (last, 0.125)])
    middle = [(total, 1.0), (total, 1.25), (mean, 1.75), *[(often, 0.125)] * 4]
    end = shuffled(draw, [(best, 0.125), (last, 1.875)])
    first = [(answer, s / 4) for answer, s in [*begin, *shuffled(draw, middle), *end]]
    rest = [
        [(total, 0.5), (best, 0.625), (total, 0.5)],
        [(total, 0.75), (best, 0.375), (total, 0.25)],
        [(total, 0.5), (best, 0.375), (total, 0.5)],
    ]
    return [unzipped(pairs) for pairs in [first, *rest]]


@pytest.fixture
def equal_totals(draw):
    """Two answers have the same total: the second or the first one seen reaches it first, with the best
    sample or without it. At last, all scores are 0."""
    a, b = some(draw, 2)
    low, high = eighths(draw, 3, 6, 2)
    cases = [
        [(a, low), (b, low + high), (a, high)],
        [(a, low + high), (b, low), (b, high)],
        [(a, low), (b, high), (b, low), (a, high)],
        [(a, 0.0), (b, 0.0), (b, 0.0)],
    ]
    return [unzipped(pairs) for pairs in cases]


# --- majority_vote --------------------------------------------------------------------------------


def test_majority(answer, votes):
    """The most frequent answer wins, wherever its samples are."""
    return {"winner": answer.majority_vote(votes)}


def test_plurality(answer, plurality):
    """The most frequent answer wins with less than half of the votes, too."""
    return {"winner": answer.majority_vote(plurality)}


@pytest.mark.watertight(ALIKE)
def test_nearly_alike(answer, nearly_alike):
    """Answers are compared as they are: case and spaces count."""
    return {"winner": answer.majority_vote(nearly_alike), "answers": nearly_alike}


def test_tie(answer, ties):
    """In a tie, the answer that was seen first wins."""
    return {"winners": [answer.majority_vote(votes) for votes in ties]}


def test_cut_off(answer, cut_off):
    """A sample without an answer has no vote."""
    return {"winner": answer.majority_vote(cut_off)}


@pytest.mark.constant("winner", "the answer is 0, or the empty text, by definition of the case")
@pytest.mark.parametrize("case", ["zero", "empty text"])
def test_falsy(answer, falsy):
    """0 and the empty text are answers, and can win."""
    return {"winner": answer.majority_vote(falsy), "answers": falsy}


@pytest.mark.watertight(NOBODY)
def test_nobody(answer, nobody):
    """Without any answer there is no winner."""
    return {"winner": answer.majority_vote(nobody), "samples": len(nobody)}


# --- pass_at_k ------------------------------------------------------------------------------------


def test_estimate(answer, counts):
    """pass@k is the share of choices of k samples, without replacement, that have a right sample."""
    return {"pass_at_k": answer.pass_at_k(**counts)}


@pytest.mark.constant("pass_at_k", "some right sample is in every choice")
def test_nearly_all(answer, nearly_all):
    """If fewer than k samples are wrong, every choice of k has a right one."""
    return {"pass_at_k": answer.pass_at_k(**nearly_all), "counts": nearly_all}


def test_exactly(answer, exactly):
    """If k samples are wrong, there is a single choice without a right one."""
    return {"pass_at_k": answer.pass_at_k(**exactly)}


def test_one_try(answer, counts):
    """With a single try, pass@k is the share of right samples."""
    return {"pass_at_1": answer.pass_at_k(counts["n"], counts["correct"], 1)}


@pytest.mark.constant("pass_at_k", "at these ends nothing is left to chance")
@pytest.mark.parametrize("case", ["nothing is right", "everything is right", "all tries"])
def test_ends(answer, ends):
    """The result is certain if nothing or everything is right, or if all samples are tried."""
    return {"pass_at_k": answer.pass_at_k(**ends), "n": ends["n"]}


@pytest.mark.watertight(MANY)
def test_thousands(answer, thousands):
    """With thousands of samples, nothing overflows."""
    return {"pass_at_k": answer.pass_at_k(**thousands)}


# --- best_of_n ------------------------------------------------------------------------------------


def test_best(answer, judged):
    """The answer of the sample with the highest score is chosen, however rare it is."""
    return {"chosen": answer.best_of_n(**judged)}


def test_negative_scores(answer, log_probabilities):
    """Scores may be negative: the one nearest to 0 is the highest."""
    return {"chosen": answer.best_of_n(**log_probabilities)}


@pytest.mark.watertight(LOW)
def test_very_low_scores(answer, very_low):
    """However low all scores are, one of them is the highest."""
    return {"chosen": answer.best_of_n(**very_low)}


def test_best_cut_off(answer, best_cut_off):
    """A sample without an answer is never chosen, whatever its score; 0 and the empty text are answers."""
    return {"chosen": answer.best_of_n(**best_cut_off)}


def test_weighted(answer, heavy):
    """With `weighted`, the answer with the largest sum of scores is chosen."""
    return {"chosen": [answer.best_of_n(**pairs, weighted=True) for pairs in heavy]}


def test_weighted_cut_off(answer, best_cut_off):
    """With `weighted`, samples without an answer are never chosen."""
    return {"chosen": answer.best_of_n(**best_cut_off, weighted=True)}


@pytest.mark.watertight(TIES)
def test_equal_scores(answer, equal_scores):
    """Of several samples with the highest score, the first is chosen."""
    return {"chosen": answer.best_of_n(**equal_scores)}


@pytest.mark.watertight(TIES)
def test_equal_totals(answer, equal_totals):
    """Of several answers with the largest sum, which may be 0, the one that was seen first is chosen."""
    return {"chosen": [answer.best_of_n(**pairs, weighted=True) for pairs in equal_totals]}


@pytest.mark.watertight(NOBODY)
@pytest.mark.parametrize("case", [False, True])
def test_nobody_to_choose(answer, nobody_scored, case):
    """Without any answer, nothing is chosen."""
    return {"chosen": answer.best_of_n(**nobody_scored, weighted=case)} | nobody_scored
