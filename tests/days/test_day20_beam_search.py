"""Day 20 · beam_search(model, src, src_mask, max_len, start, end, beam=4, alpha=0.6).

Only what every sound beam search agrees on is observed: a beam of one is greedy decoding, a beam that
holds everything finds the best there is, and elsewhere the margins are clear. What is likely is
planned, therefore, or drawn until the best is beyond doubt.
"""

import itertools
import math

import pytest
import torch
from torch import nn

from course.checks.authoring import DTYPES, HALVES
from implementation import make_model

PAD = 0
SHARP = 0.98  # how likely it is that a path, once entered, is followed for another step


class Script(nn.Module):
    """A stand-in for a Transformer, which says what a table tells it to.

    `log_probs[row, place, history]` are those of the next token. Which row a source asks for is the sum
    of its real tokens. The history is a number whose digits are all the tokens so far; as in a real
    decoder, a position that sees a later one is no longer what it was. As in a real model, too, the
    states are not the log-probabilities yet: here the generator turns them upside down.
    """

    def __init__(self, log_probs):
        super().__init__()
        self.log_probs = log_probs  # (rows, places, histories, V)
        self.differentiable = 0

    def encode(self, src, src_mask):
        real = torch.ones_like(src).bool() if src_mask is None else src_mask.squeeze(1)
        total = (src * real).sum(-1, keepdim=True)  # (B, 1)
        return (total + ~real).unsqueeze(-1).to(self.log_probs.dtype)  # (B, S, 1)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        hidden = torch.zeros_like(memory).bool() if src_mask is None else ~src_mask.transpose(1, 2)
        row = memory.masked_fill(hidden, 0.0).amax((1, 2)).long() % len(self.log_probs)  # (B,)
        step = torch.arange(tgt.size(1), device=tgt.device)
        back = step.unsqueeze(1) - step  # (t, t): how far behind the query a key lies
        sees = torch.ones_like(back).unsqueeze(0).float()
        sees = sees if tgt_mask is None else sees * tgt_mask
        token = (sees * ((back == 0) + 7.0 * (back < 0))) @ tgt.unsqueeze(-1).float()  # (B, t, 1)
        digits = (back >= 0) * self.log_probs.size(-1) ** back.clamp(min=0).float()
        history = ((sees * digits) @ token).squeeze(-1).long() % self.log_probs.size(2)  # (B, t)
        step = step.clamp(max=self.log_probs.size(1) - 1)
        return -self.log_probs[row.unsqueeze(1), step, history]  # (B, t, V)

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.encode(src, src_mask)
        states = self.decode(memory, src_mask, tgt, tgt_mask)
        return states  # noqa: RET504 - the line without it is an earlier day's answer

    def generator(self, states):
        self.differentiable += states.requires_grad
        return (-states).log_softmax(dim=-1)


class Chain(Script):
    """The same with a short memory: what comes next hangs on the last token, and whether it is the first."""

    def decode(self, memory, src_mask, tgt, tgt_mask):
        row = memory.amax((1, 2)).long() % len(self.log_probs)  # (B,)
        step = torch.arange(tgt.size(1), device=tgt.device).clamp(max=1)
        return -self.log_probs[row.unsqueeze(1), step, tgt]  # (B, t, V)


# --- What is likely -------------------------------------------------------------------------------


def number_of(path, vocab):
    """Tokens as the digits of a number."""
    number = 0
    for token in path:
        number = number * vocab + token
    return number


def level(draw, vocab, places):
    """All tokens nearly alike, but for the padding, which is said by nobody."""
    shares = draw.uniform(1.0, 1.4, places, vocab**places, vocab, dtype="float64")
    shares[..., PAD] = 0.01
    return shares / shares.sum(-1, keepdim=True)


def planned(draw, how, vocab, places, paths):
    """The log-probabilities of a row in which these paths have the probabilities given.

    A path is entered at the start and then hardly ever left. What remains is spread over all others.
    After an end the model babbles on, and is sure of every word.
    """
    shares, weights = level(draw, vocab, places), {}
    for path, probability in paths:
        weight = probability / SHARP ** (len(path) - 1)
        for length in range(len(path)):
            options = weights.setdefault(path[:length], {})
            options[path[length]] = options.get(path[length], 0.0) + weight
    for prefix, options in weights.items():
        total = 1.0 if not prefix else sum(options.values()) / SHARP
        here = shares[len(prefix), number_of((how["start"], *prefix), vocab) % vocab**places]
        rest = [token for token in range(vocab) if token not in options]
        here[rest] *= (1 - sum(options.values()) / total) / here[rest].sum()
        for token, weight in options.items():
            here[token] = weight / total
    for path, _ in paths:
        while len(path) < places and how["end"] in path:
            here = shares[len(path), number_of((how["start"], *path), vocab) % vocab**places]
            word = draw.choice(words(how, vocab))
            here *= (1 - SHARP) / (1 - here[word])
            here[word] = SHARP
            path = (*path, word)
    return shares.log().float()


def drawn(draw, how, vocab, places, alpha):
    """The log-probabilities of a row whose best hypothesis is clearly better than the next."""
    while True:
        scores = draw.normal(places, vocab**places, vocab, scale=1.5)
        scores[..., PAD] = -9.0
        log_probs = scores.log_softmax(dim=-1)
        best, second = worth_of_all(log_probs, how, alpha).topk(2).values.tolist()
        if best - second > 0.02:
            return log_probs


def worth_of_all(log_probs, how, alpha):
    """What every hypothesis of a row is worth."""
    places, histories, vocab = log_probs.shape
    history, total, worth = torch.tensor([how["start"]]), torch.zeros(1), []
    for index in range(places):
        sums = total.unsqueeze(1) + log_probs[index, history % histories]  # (…, V)
        last = torch.arange(vocab) == how["end"]
        over = last if index < places - 1 else torch.ones_like(last)
        worth.append((sums / ((6 + index) / 6) ** alpha)[:, over].flatten())
        history = (history.unsqueeze(1) * vocab + torch.arange(vocab))[:, ~last].flatten()
        total = sums[:, ~last].flatten()
    return torch.cat(worth)


def words(how, vocab):
    """Tokens that are neither padding nor end."""
    return [token for token in range(1, vocab) if token != how["end"]]


def a_path(draw, how, vocab, length, first=None, end=True):
    """A path of `length` tokens, which perhaps begins with a given one, and ends or is cut off."""
    path = [draw.choice(words(how, vocab)) for _ in range(length - end)]
    if path and first is not None:
        path[0] = first
    return (*path, how["end"]) if end else tuple(path)


def race(draw, how, vocab, places, lengths, ratio, likely=0.4, end=True):
    """A short path and a long one, whose log-probability is `ratio` times that of the short one.

    With the right penalty the long one is better where `ratio` is below `even(lengths, alpha)`.
    """
    first = draw.sizes(0, vocab - 3, 2)
    one, other = (words(how, vocab)[i] for i in first)
    short = a_path(draw, how, vocab, lengths[0], one)
    long = a_path(draw, how, vocab, lengths[1], other, end)
    return planned(draw, how, vocab, places, [(short, likely), (long, likely**ratio)])


def even(lengths, alpha, count=lambda n: (5 + n) / 6):
    """The ratio of log-probabilities at which hypotheses of two lengths are worth the same."""
    short, long = lengths
    return (count(long) / count(short)) ** alpha


def between(*ratios):
    """Ratios between these, so that whoever counts otherwise gets another winner."""
    ratios = sorted({round(ratio, 6) for ratio in ratios if ratio < 4})
    return [math.sqrt(low * high) for low, high in itertools.pairwise(ratios)]


# --- Inputs ---------------------------------------------------------------------------------------


def sources(draw, rows, length):
    """Sources that ask for row 0, row 1, row 2 … of a table of so many rows."""
    src = draw.integers(1, 5, rows, length) * rows
    src[:, 0] += torch.arange(rows)
    return {"src": src, "src_mask": torch.ones(rows, 1, length, dtype=torch.bool)}


def symbols(draw, vocab):
    """A start symbol and an end symbol, neither of them the padding."""
    start, end = draw.sizes(1, vocab - 1, 2)
    return {"start": start, "end": end}


def speech(draw, how, rows, **limits):
    """A table and the rest of what a call takes."""
    log_probs = torch.stack(rows)
    call = sources(draw, len(rows), draw.size(1, 4)) | how
    return {"log_probs": log_probs, "call": call | {"max_len": log_probs.size(1) + 1} | limits}


def wide_enough(draw, rows, vocab, places, **limits):
    """Any probabilities, and a beam that holds every hypothesis of a length before the last."""
    how = symbols(draw, vocab)
    limits = {"beam": vocab, "alpha": draw.choice([0.3, 0.6, 1.0, 2.0])} | limits
    table = [drawn(draw, how, vocab, places, limits["alpha"]) for _ in range(rows)]
    return speech(draw, how, table, **limits)


def straight(draw, vocab, places, ends):
    """One path a row that leaves no doubt; row i says `end` at place `ends[i]`, or never."""
    how = symbols(draw, vocab)
    paths = [a_path(draw, how, vocab, n or places, end=n is not None) for n in ends]
    table = [planned(draw, how, vocab, places, [(path, 0.9)]) for path in paths]
    return speech(draw, how, table, beam=draw.size(2, 4), alpha=0.6)


@pytest.fixture
def one_place(draw):
    """Room for a single token after the start symbol."""
    rows, vocab = draw.sizes(3, 6, 2)
    return wide_enough(draw, rows, vocab, 1)


@pytest.fixture
def start_alone(draw):
    """Room for the start symbol."""
    rows, vocab = draw.sizes(3, 6, 2)
    inputs = wide_enough(draw, rows, vocab, 1, beam=draw.size(1, 5))
    return inputs | {"call": inputs["call"] | {"max_len": 1}}


@pytest.fixture
def greedy_rows(draw):
    """Paths that end one after the other, one of them not at all, and a beam of one."""
    inputs = straight(draw, 5, 4, [*draw.sizes(1, 3, 3), None])
    return inputs | {"call": inputs["call"] | {"beam": 1}}


@pytest.fixture
def garden_path(draw):
    """A first token that promises most and keeps nothing, and one that keeps what it promises."""
    rows, vocab, places = draw.size(2, 4), 6, 3
    how, table = symbols(draw, vocab), []
    options = words(how, vocab)
    for _ in range(rows):
        tempting, good = (options[i] for i in draw.sizes(0, 3, 2))
        paths = [((tempting, word, how["end"]), 0.5 / len(options)) for word in options]
        paths.append((a_path(draw, how, vocab, places, good), 0.36))
        table.append(planned(draw, how, vocab, places, paths))
    return speech(draw, how, table, beam=2, alpha=draw.choice([0.0, 0.6]))


@pytest.fixture
def one_row(draw):
    """A single source."""
    return wide_enough(draw, 1, draw.size(4, 7), 2, alpha=0.0)


@pytest.fixture
def everything(draw):
    """Several rows, and a beam that holds every hypothesis of each."""
    return wide_enough(draw, draw.size(4, 6), draw.size(4, 7), 2)


@pytest.fixture
def garden_further_on(draw):
    """The same after a word that there is no way around: both of the best beginnings begin with it."""
    rows, vocab, places = draw.size(2, 4), 5, 3
    how, table = symbols(draw, vocab), []
    options = words(how, vocab)
    for _ in range(rows):
        tempting, good = (options[i] for i in draw.sizes(0, 2, 2))
        first, last = draw.choice(options), draw.choice(options)
        paths = [((first, tempting, word), 0.5 / len(options)) for word in options]
        paths.append(((first, good, last), 0.36))
        table.append(planned(draw, how, vocab, places, paths))
    return speech(draw, how, table, beam=2, alpha=draw.choice([0.0, 0.6]))


@pytest.fixture
def wider_than_the_vocabulary(draw):
    """Nine beginnings of two words that are nearly as likely; one of the last comes to most."""
    vocab, places = 5, 3
    how, table = symbols(draw, vocab), []
    options = words(how, vocab)
    beginnings = list(itertools.product(options, options))
    for _ in range(draw.size(2, 3)):
        ranked = [beginnings[i] for i in draw.sizes(0, 8, 9)]
        good, last = draw.size(6, 7), draw.choice(options)
        paths = []
        for rank, beginning in enumerate(ranked):
            promise = 0.14 * 1.08**-rank
            ways = [last] if rank == good else options
            paths += [((*beginning, way), promise * SHARP**2 / len(ways)) for way in ways]
        table.append(planned(draw, how, vocab, places, paths))
    return speech(draw, how, table, beam=draw.size(9, 12), alpha=draw.choice([0.0, 0.6]))


def crowded(draw, beam):
    """Beginnings of which the last that a beam holds is the best, but for the one after it."""
    vocab = beam + 3
    how, table = symbols(draw, vocab), []
    options = words(how, vocab)  # one more than the beam holds
    promises = [
        0.95 * 1.15**-rank / sum(1.15**-r for r in range(beam + 1)) for rank in range(beam + 1)
    ]
    for _ in range(draw.size(2, 3)):
        first = [options[i] for i in draw.sizes(0, beam, beam + 1)]
        paths = []
        for rank, (token, promise) in enumerate(zip(first, promises, strict=True)):
            after = draw.choice(options)
            of_after = {beam - 1: 0.72, beam: 0.97}.get(rank, 1 / len(options))
            for word in options:
                share = of_after if word == after else (1 - of_after) / (len(options) - 1)
                paths.append(((token, word), promise * share * SHARP))
        table.append(planned(draw, how, vocab, 2, paths))
    return speech(draw, how, table, beam=beam, alpha=draw.choice([0.0, 0.6, 1.0]))


@pytest.fixture
def crowd(draw, beam):
    """More beginnings than the beam holds."""
    return crowded(draw, beam)


@pytest.fixture
def usual_beam(draw):
    """More beginnings than a beam holds of which nothing is said."""
    inputs = crowded(draw, 4)
    return inputs | {"call": {key: value for key, value in inputs["call"].items() if key != "beam"}}


@pytest.fixture
def usual_penalty(draw):
    """Races for a length penalty of which nothing is said."""
    how, lengths = symbols(draw, 5), (1, 3)
    ratios = between(0.9, 1.0, even(lengths, 0.6), even(lengths, 1.0), 3.0)
    table = [race(draw, how, 5, 3, lengths, ratio) for ratio in ratios]
    return speech(draw, how, table, beam=5)


@pytest.fixture
def ends(draw):
    """Every row ends somewhere else."""
    return straight(draw, 5, 4, draw.sizes(1, 4, 3))


@pytest.fixture
def soon_over(draw):
    """The best have ended before there is no room left; longer ones were promising until the last word."""
    how, table = symbols(draw, 5), []
    for length in draw.sizes(1, 2, 2):
        one, other = (words(how, 5)[i] for i in draw.sizes(0, 2, 2))
        promising = a_path(draw, how, 5, 3, other, end=False)
        paths = [((*promising, word), 0.48 / 3) for word in words(how, 5)]
        paths.append((a_path(draw, how, 5, length, one), 0.4))
        table.append(planned(draw, how, 5, 4, paths))
    return speech(draw, how, table, beam=5, alpha=0.6)


@pytest.fixture
def rising(draw):
    """What has ended is second to a beginning that then splits into many: it rises to the first place."""
    how, table = symbols(draw, 5), []
    for length in (1, 2):
        one, other = (words(how, 5)[i] for i in draw.sizes(0, 2, 2))
        splits = a_path(draw, how, 5, length, other, end=False)
        paths = [((*splits, word), 0.45 * SHARP**length / 3) for word in words(how, 5)]
        paths.append((a_path(draw, how, 5, length, one), 0.3))
        table.append(planned(draw, how, 5, 4, paths))
    return speech(draw, how, table, beam=draw.size(3, 5), alpha=draw.uniform(0.6, 1.0).item())


@pytest.fixture
def later_is_better(draw):
    """No length penalty: a short hypothesis that ends first, and a likelier long one; or the reverse."""
    how, places = symbols(draw, 5), 3
    table = [race(draw, how, 5, places, (n, n + 1), ratio) for n in (1, 2) for ratio in (0.9, 1.5)]
    return speech(draw, how, table, beam=5, alpha=0.0)


@pytest.fixture
def races(draw, alpha):
    """A short hypothesis against a long one, over and over, now with the one ahead, now with the other."""
    how, lengths = symbols(draw, 5), (1, draw.size(2, 3))
    right = even(lengths, alpha)
    counts = [
        even(lengths, alpha, count) for count in (lambda n: n, lambda n: 4 + n, lambda n: 6 + n)
    ]
    ratios = between(0.8, 1.0, right, even(lengths, 1.0), lengths[1], *counts)
    table = [race(draw, how, 5, 3, lengths, ratio) for ratio in ratios]
    return speech(draw, how, table, beam=5, alpha=alpha)


@pytest.fixture
def close_races(draw):
    """Races that are decided by what counts as length, and a large alpha."""
    alpha, how = draw.uniform(1.8, 2.4).item(), symbols(draw, 5)
    table = []
    for lengths in ((1, 3), (1, 2), (2, 3)):
        counts = [even(lengths, alpha, lambda n, five=five: (five + n) / 6) for five in (4, 5, 6)]
        table += [race(draw, how, 5, 3, lengths, ratio) for ratio in between(*counts)]
    return speech(draw, how, table, beam=5, alpha=alpha)


@pytest.fixture
def cut_off(draw):
    """A hypothesis that ends against one that is cut off; each has to win by the same rule."""
    alpha, how, places = draw.uniform(1.0, 1.6).item(), symbols(draw, 5), 3
    table = []
    for short in (1, 2):
        right = even((short, places), alpha)
        raw = 1 / ((5 + short) / 6) ** alpha  # the one that is cut off is not penalized
        more = even((short, places + 1), alpha)  # it is taken to have an end
        ratios = [*between(0.8, raw, 1.0, right, more), 1.2 * more]
        table += [race(draw, how, 5, places, (short, places), r, end=False) for r in ratios]
    return speech(draw, how, table, beam=5, alpha=alpha)


@pytest.fixture
def overtaken_at_last(draw):
    """One hypothesis has ended at once, and one that continues looks worse until it is over."""
    how, lengths, alpha = symbols(draw, 5), (1, 4), 2.5
    row = race(draw, how, 5, 4, lengths, 0.92 * even(lengths, alpha), likely=0.6)
    return speech(draw, how, [row], beam=5, alpha=alpha)


@pytest.fixture
def overtaken_soon(draw):
    """One hypothesis has ended, and one that continues is more likely, though not by its bare sum."""
    how = symbols(draw, 5)
    return speech(draw, how, [race(draw, how, 5, 4, (2, 4), 0.85, likely=0.42)], beam=5, alpha=2.5)


@pytest.fixture
def overtaken_by_one_left(draw):
    """Two short hypotheses end, as many as the beam holds, and the one that is left becomes the best."""
    how, table = symbols(draw, 5), []
    for _ in range(draw.size(2, 3)):
        going, *rest = a_path(draw, how, 5, 4)
        paths = [((how["end"],), 0.25), ((going, how["end"]), 0.12), ((going, *rest), 0.4)]
        table.append(planned(draw, how, 5, 4, paths))
    return speech(draw, how, table, beam=2, alpha=draw.uniform(0.8, 1.2).item())


@pytest.fixture
def hidden_tokens(draw):
    """Sources in which some tokens do not count, whatever they are."""
    rows = draw.size(3, 4)
    inputs = straight(draw, 5, 3, [*draw.sizes(1, 3, 3), None][:rows])  # no two rows say the same
    length = draw.size(5, 7)
    asked = sources(draw, rows, length)
    own = torch.arange(1, rows + 1)  # row i shows its own of these, and no other row's
    mask = draw.mask(rows, 1, length)
    mask[..., 0] = True  # it is the one that tells the rows apart
    mask[..., own] = torch.eye(rows, dtype=torch.bool).unsqueeze(1)
    noise = draw.integers(1, 5, rows, length) * rows
    noise[:, own] += (
        1  # one of them that is not its own, or all that are hidden, ask for another row
    )
    shown = mask.squeeze(1)
    src = asked["src"] * shown + noise * ~shown
    beam = draw.size(2, 3)  # so that no first place has the right mask by accident
    return inputs | {"call": inputs["call"] | {"src": src, "src_mask": mask, "beam": beam}}


@pytest.fixture
def short_integers(draw):
    """Sources of another integer dtype."""
    inputs = straight(draw, 5, 3, [draw.size(1, 3) for _ in range(3)])
    return inputs | {"call": inputs["call"] | {"src": inputs["call"]["src"].int()}}


@pytest.fixture
def of_dtype(draw, dtype):
    """A table of one dtype, and clear margins in any."""
    how, places = symbols(draw, 5), 3
    table = [race(draw, how, 5, places, (1, 3), ratio) for ratio in (0.9, 1.3, 3.0)]
    inputs = speech(draw, how, table, beam=5, alpha=2.0)
    return inputs | {"log_probs": inputs["log_probs"].to(getattr(torch, dtype))}


@pytest.fixture
def small_steps(draw, dtype):
    """Paths with a total of about −2, of which one keeps falling by less than the dtype resolves."""
    vocab, places, eps = 16, 15, torch.finfo(getattr(torch, dtype)).eps
    how, table = symbols(draw, vocab), []  # twelve more words: none begins as likely as these two
    # A total between 2 and 4 moves by 2 eps, or not at all.
    for falls in (0.9 * eps, 0.9 * eps, 0.05 * eps):
        one, other = (words(how, vocab)[i] for i in draw.sizes(0, vocab - 3, 2))
        shares = draw.uniform(1.0, 1.4, 2, vocab, vocab, dtype="float64")
        shares[..., [PAD, how["end"]]] = 0.01
        begun = {one: math.exp(-2.1), other: math.exp(-2.1 - 5 * eps)}
        likely(shares[0, how["start"]], begun)
        likely(shares[1, one], {one: math.exp(-falls)})
        likely(shares[1, other], {other: math.exp(-0.04 * eps)})
        table.append((shares / shares.sum(-1, keepdim=True)).log())
    inputs = speech(draw, how, table, beam=draw.size(2, 3), alpha=draw.choice([0.0, 0.6]))
    call = inputs["call"] | {"max_len": 1 + places}
    return {"log_probs": inputs["log_probs"].to(getattr(torch, dtype)), "call": call}


def likely(shares, given):
    """These tokens get these shares, and the others share what is left."""
    rest = [token for token in range(len(shares)) if token not in given]
    shares[rest] *= (1 - sum(given.values())) / shares[rest].sum()
    for token, share in given.items():
        shares[token] = share


@pytest.fixture
def sentences(draw):
    """Sources with padding at their ends, for a Transformer with two vocabularies."""
    vocabularies = [draw.size(7, 12), 6]
    rows, length = draw.sizes(3, 5, 2)
    src = draw.integers(1, vocabularies[0] - 1, rows, length)
    for row in range(1, rows):
        src[row, draw.size(1, length - 1) :] = PAD
    call = {"src": src, "src_mask": (src != PAD).unsqueeze(1), "max_len": 3, "beam": 6}
    return {"vocabularies": vocabularies, "call": call | symbols(draw, 6) | {"alpha": 0.8}}


# --- The simplest beams ---------------------------------------------------------------------------


def test_beam_of_one(answer, greedy_rows):
    """A beam of one is greedy decoding: each row ends separately, and has 0 after its end."""
    return {"tokens": answer.beam_search(Script(greedy_rows["log_probs"]), **greedy_rows["call"])}


@pytest.mark.watertight("a `max_len` of a single token")
def test_start_alone(answer, start_alone):
    """`max_len` counts the start symbol: with a `max_len` of 1, the result is the start symbol."""
    return {"tokens": answer.beam_search(Script(start_alone["log_probs"]), **start_alone["call"])}


@pytest.mark.watertight("a `max_len` of one token after the start")
def test_one_place(answer, one_place):
    """With a `max_len` of 2, the only new token is the most likely one, even if it is the end."""
    return {"tokens": answer.beam_search(Script(one_place["log_probs"]), **one_place["call"])}


@pytest.mark.watertight("ids in a different integer dtype, as a data loader may return them")
def test_whole_numbers(answer, short_integers):
    """Tokens are int64, whatever integer dtype the source has."""
    model = Script(short_integers["log_probs"])
    return {"tokens": answer.beam_search(model, **short_integers["call"])}


# --- The search -----------------------------------------------------------------------------------


def test_garden_path(answer, garden_path):
    """A beam of two finds a better sequence whose first token is less likely."""
    return {"tokens": answer.beam_search(Script(garden_path["log_probs"]), **garden_path["call"])}


def test_garden_further_on(answer, garden_further_on):
    """All continuations of a row compete: both places in the beam may go to continuations of one
    hypothesis."""
    model = Script(garden_further_on["log_probs"])
    return {"tokens": answer.beam_search(model, **garden_further_on["call"])}


def test_one_row(answer, one_row):
    """A beam that holds everything finds the most likely of all hypotheses."""
    return {"tokens": answer.beam_search(Script(one_row["log_probs"]), **one_row["call"])}


def test_batch(answer, everything):
    """Each row of a batch finds its own best hypothesis, as if it were alone."""
    return {"tokens": answer.beam_search(Script(everything["log_probs"]), **everything["call"])}


@pytest.mark.watertight("a beam wider than the vocabulary, which fills up in later steps")
def test_wider_than_the_vocabulary(answer, wider_than_the_vocabulary):
    """A beam may be wider than the vocabulary; it fills up in later steps."""
    model = Script(wider_than_the_vocabulary["log_probs"])
    return {"tokens": answer.beam_search(model, **wider_than_the_vocabulary["call"])}


@pytest.mark.parametrize("beam", [2, 3, 4])
def test_crowd(answer, crowd, beam):
    """Only the `beam` most likely hypotheses are extended."""
    return {"tokens": answer.beam_search(Script(crowd["log_probs"]), **crowd["call"])}


def test_usual_beam(answer, usual_beam):
    """By default, the beam has four hypotheses."""
    return {"tokens": answer.beam_search(Script(usual_beam["log_probs"]), **usual_beam["call"])}


def test_source_mask(answer, hidden_tokens):
    """Source tokens that the mask hides have no effect on the output, in any hypothesis of the beam."""
    model = Script(hidden_tokens["log_probs"])
    return {"tokens": answer.beam_search(model, **hidden_tokens["call"])}


# --- Ends -----------------------------------------------------------------------------------------


def test_rows_end_apart(answer, ends):
    """Each row keeps its `end`, followed by 0."""
    return {"tokens": answer.beam_search(Script(ends["log_probs"]), **ends["call"])}


def test_soon_over(answer, soon_over):
    """The result is as long as the longest returned hypothesis, not as the longest one tried."""
    return {"tokens": answer.beam_search(Script(soon_over["log_probs"]), **soon_over["call"])}


def test_rising(answer, rising):
    """A finished hypothesis keeps its length and its score."""
    return {"tokens": answer.beam_search(Script(rising["log_probs"]), **rising["call"])}


def test_best_not_first(answer, later_is_better):
    """The best hypothesis wins, not the first that ends, nor the last."""
    model = Script(later_is_better["log_probs"])
    return {"tokens": answer.beam_search(model, **later_is_better["call"])}


# --- The length penalty ---------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
def test_alpha(answer, races, alpha):
    """A larger alpha favors longer hypotheses with the same log-probability."""
    return {"tokens": answer.beam_search(Script(races["log_probs"]), **races["call"])}


def test_usual_alpha(answer, usual_penalty):
    """By default, alpha is 0.6."""
    model = Script(usual_penalty["log_probs"])
    return {"tokens": answer.beam_search(model, **usual_penalty["call"])}


@pytest.mark.watertight("scores so close that one token more or less in the length decides")
def test_what_counts(answer, close_races):
    """The length counts the tokens after the start symbol, including the end."""
    return {"tokens": answer.beam_search(Script(close_races["log_probs"]), **close_races["call"])}


@pytest.mark.watertight("hypotheses that are cut off, which should win when they are better")
def test_cut_off(answer, cut_off):
    """A hypothesis that is cut off at `max_len` is scored like one that ended."""
    return {"tokens": answer.beam_search(Script(cut_off["log_probs"]), **cut_off["call"])}


@pytest.mark.watertight("a late winner, which a search that stops early never finds")
def test_overtaken_at_last(answer, overtaken_at_last):
    """An unfinished hypothesis is dropped only if it cannot win, even by becoming longer."""
    model = Script(overtaken_at_last["log_probs"])
    return {"tokens": answer.beam_search(model, **overtaken_at_last["call"])}


@pytest.mark.watertight("a late winner, which a search that stops early never finds")
def test_overtaken_soon(answer, overtaken_soon):
    """An unfinished hypothesis is not compared with a finished one by its log-probability alone."""
    model = Script(overtaken_soon["log_probs"])
    return {"tokens": answer.beam_search(model, **overtaken_soon["call"])}


@pytest.mark.watertight("a late winner, which a search that stops early never finds")
def test_overtaken_by_one_left(answer, overtaken_by_one_left):
    """Even if as many hypotheses have ended as the beam is wide, an unfinished one can still win."""
    model = Script(overtaken_by_one_left["log_probs"])
    return {"tokens": answer.beam_search(model, **overtaken_by_one_left["call"])}


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(answer, of_dtype, dtype):
    """Tokens are int64 whatever dtype the model computes in."""
    return {"tokens": answer.beam_search(Script(of_dtype["log_probs"]), **of_dtype["call"])}


@pytest.mark.parametrize("dtype", HALVES)
def test_many_small_steps(answer, small_steps, dtype):
    """In half precision, log-probabilities are added up in float32, so that small ones count."""
    return {"tokens": answer.beam_search(Chain(small_steps["log_probs"]), **small_steps["call"])}


# --- With a model ---------------------------------------------------------------------------------


@pytest.mark.constant("steps that could be differentiated", "none: nobody will")
def test_no_gradient(answer, ends):
    """No gradient is recorded."""
    model = Script(nn.Parameter(ends["log_probs"].clone()))
    tokens = answer.beam_search(model, **ends["call"])
    return {"steps that could be differentiated": model.differentiable, "tokens": tokens}


def test_transformer(answer, build, sentences):
    """With a Transformer, the search finds the best of all its outputs."""
    model = build(make_model, *sentences["vocabularies"], n=2, d_model=8, d_ff=12, h=2, dropout=0.0)
    with torch.no_grad():  # without biases it says many things; it never says padding
        for name, vector in model.named_parameters():
            if vector.dim() == 1:
                vector.fill_(1.0 if name.endswith("gain") else 0.0)
        model.generator.proj.bias[PAD] = -100.0
    return {"tokens": answer.beam_search(model, **sentences["call"])}
