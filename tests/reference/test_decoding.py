"""`greedy_decode` and `beam_search` against loops over single rows, exhaustive search by brute force, and
a beam search in plain Python that never stops early.

Most models here are tables: what a token is worth is drawn for every row and every beginning, so that
all hypotheses can be enumerated, and rows finish at different times.
"""

import pytest
import torch
from torch import nn

from implementation import beam_search, greedy_decode, make_model, subsequent_mask

START, END = 1, 2


class Table(nn.Module):
    """A model whose next token depends on the source's first token and on everything said so far.

    It counts how often it is asked, and refuses masks that are not those of decoding.
    """

    def __init__(self, vocab, max_len, rows, seed, sharpness=2.0, dtype=torch.float64):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        shape = rows, max_len, vocab ** (max_len - 1), vocab
        logits = sharpness * torch.randn(shape, generator=draw, dtype=torch.float64)
        self.log_probs = logits.log_softmax(-1).to(dtype)
        self.vocab, self.asked = vocab, 0
        self.src = torch.arange(rows).unsqueeze(1)
        self.src_mask = torch.ones(rows, 1, 1, dtype=torch.bool)

    def encode(self, src, src_mask):
        """The memory is which row of the table to look into."""
        return src.unsqueeze(-1).to(self.log_probs.dtype)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        """Log-probabilities after each beginning, which is read as a number of base V."""
        self.asked += 1
        rows, t = tgt.shape
        assert torch.equal(tgt_mask, torch.tril(torch.ones(1, t, t)).bool())
        assert src_mask.shape == (rows, 1, 1)
        row = memory[:, 0, 0].long()
        beginning = torch.zeros(rows, dtype=torch.long)
        states = []
        for i in range(t):
            if i > 0:
                beginning = beginning * self.vocab + tgt[:, i]
            states.append(self.log_probs[row, i, beginning])
        return torch.stack(states, dim=1)

    def generator(self, states):
        return states

    def following(self, row, said):
        """In plain Python: the log-probabilities of one row after the tokens `said` since the start."""
        beginning = 0
        for token in said:
            beginning = beginning * self.vocab + token
        return self.log_probs[row, len(said), beginning].tolist()


def real_model(seed, vocab):
    """A small Transformer in float64, its matrices doubled so that the source has a say in what it says."""
    torch.manual_seed(seed)
    model = make_model(vocab, vocab, 2, 16, 32, 2, 0.0, norm="pre").double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2 if parameter.dim() == 2 else 1
    return model


def draw_source(seed, vocab):
    """Three sources, two of them padded."""
    src = torch.randint(1, vocab, (3, 6), generator=torch.Generator().manual_seed(seed))
    src[1, 4:] = src[2, 1:] = 0
    return src, (src != 0).unsqueeze(1)


class Row:
    """One row of a real model, asked as a table is: without batch, padding or memory kept."""

    def __init__(self, model, src):
        self.model, self.src = model, src[src != 0].unsqueeze(0)

    @torch.no_grad()
    def following(self, _, said):
        tokens = torch.tensor([[START, *said]])
        states = self.model(self.src, tokens, None, subsequent_mask(tokens.size(1)))
        return self.model.generator(states)[0, -1].tolist()


def filled(rows):
    """Rows of different lengths as one list of lists, filled up with 0 to the longest."""
    longest = max(map(len, rows))
    return [row + [0] * (longest - len(row)) for row in rows]


def greedy_row(model, row, max_len, end):
    """Greedy decoding of a single row, a list that grows."""
    said = []
    while len(said) < max_len - 1 and (end is None or end not in said):
        log_probs = model.following(row, said)
        said.append(log_probs.index(max(log_probs)))
    return [START, *said]


def worth(log_prob, n, alpha):
    """Wu et al. 2016, eq. 14: the score of a hypothesis of n tokens."""
    return log_prob / (((5 + n) / (5 + 1)) ** alpha)


def hypotheses(model, row, vocab, max_len, said=(), log_prob=0.0):
    """All there are, with their log-probabilities: those that end, and those cut off at max_len."""
    for token, more in enumerate(model.following(row, said)[:vocab]):
        if token == END or len(said) == max_len - 2:
            yield log_prob + more, (*said, token)
        else:
            yield from hypotheses(model, row, vocab, max_len, (*said, token), log_prob + more)


def exhaustive_row(model, row, vocab, max_len, alpha):
    """The best of all hypotheses."""
    everything = hypotheses(model, row, vocab, max_len)
    _, best = max((worth(log_prob, len(said), alpha), said) for log_prob, said in everything)
    return [START, *best]


def beam_row(model, row, vocab, max_len, beam, alpha):
    """Beam search of a single row that goes on to max_len whatever has been found.

    Of all continuations the `beam` best are kept; those that end leave the beam and are remembered.
    """
    alive, ended = [(0.0, [])], []
    for n in range(1, max_len):
        continuations = []
        for log_prob, said in alive:
            following = model.following(row, said)
            continuations += [(log_prob + following[v], [*said, v]) for v in range(vocab)]
        best = sorted(continuations, reverse=True)[:beam]
        over = [pair for pair in best if pair[1][-1] == END or n == max_len - 1]
        ended += [(worth(log_prob, n, alpha), said) for log_prob, said in over]
        alive = [pair for pair in best if pair not in over]
    return [START, *max(ended)[1]]


# --- Day 19 · Greedy decoding --------------------------------------------------------------------


@pytest.mark.parametrize("end", [END, None])
@pytest.mark.parametrize("seed", range(20))
def test_greedy_decoding_is_a_loop_over_rows(seed, end):
    """Rows side by side say what each says alone, up to its end, and are filled up with 0."""
    model = Table(4, 6, rows=5, seed=seed)
    decoded = greedy_decode(model, model.src, model.src_mask, 6, START, end)
    assert decoded.dtype == torch.int64
    assert decoded.tolist() == filled([greedy_row(model, row, 6, end) for row in range(5)])


@pytest.mark.parametrize("search", [greedy_decode, beam_search])
def test_what_follows_the_end_is_padding(search):
    model = Table(4, 6, rows=5, seed=1)
    text, padded = (
        search(model, model.src, model.src_mask, 6, START, END, pad=pad) for pad in (0, 9)
    )
    ended = (text == END).cumsum(dim=1) - (text == END).int() > 0
    assert ended.any() and torch.equal(padded, text.masked_fill(ended, 9))


@pytest.mark.parametrize("end", [END, None])
@pytest.mark.parametrize("seed", range(8))
def test_greedy_decoding_of_a_transformer(seed, end):
    """The same of a real model: neither the other rows nor the padding of the source have a part in it."""
    model, (src, src_mask) = real_model(seed, vocab=8), draw_source(seed, vocab=8)
    decoded = greedy_decode(model, src, src_mask, 8, START, end)
    expected = [greedy_row(Row(model, row), None, 8, end) for row in src]
    assert decoded.tolist() == filled(expected)


def test_without_an_end_every_row_is_as_long_as_can_be():
    """With `end=None` the result is exactly (B, max_len), and 2 is a token like any other."""
    model = Table(3, 7, rows=4, seed=0)
    decoded = greedy_decode(model, model.src, model.src_mask, 7, START)
    assert decoded.shape == (4, 7)
    assert (decoded[:, 1:-1] == END).any()


def test_greedy_decoding_stops_when_all_rows_have_ended():
    """No row is asked for a token after the longest has ended."""
    model = Table(3, 8, rows=4, seed=3)
    decoded = greedy_decode(model, model.src, model.src_mask, 8, START, END)
    assert model.asked == decoded.size(1) - 1 < 7


@pytest.mark.parametrize("search", [greedy_decode, beam_search])
def test_a_length_of_one_is_the_start_symbol(search):
    """`max_len` counts the start symbol: with 1 there is nothing to say, and nobody is asked."""
    model = Table(3, 3, rows=4, seed=0)
    assert search(model, model.src, model.src_mask, 1, START, END).tolist() == [[START]] * 4
    assert model.asked == 0


@pytest.mark.parametrize("search", [greedy_decode, beam_search])
def test_decoding_keeps_no_gradient(search):
    """Memory and states are made without gradient, whatever the model's parameters want."""
    model, (src, src_mask) = real_model(0, vocab=8), draw_source(0, vocab=8)
    grads = []
    model.generator.register_forward_hook(lambda *call: grads.append(call[2].requires_grad))
    model.encoder.register_forward_hook(lambda *call: grads.append(call[2].requires_grad))
    search(model, src, src_mask, 4, START, END)
    assert grads
    assert not any(grads)


# --- Day 20 · Beam search ------------------------------------------------------------------------

ALPHAS = pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])


@ALPHAS
@pytest.mark.parametrize(("vocab", "max_len"), [(3, 5), (4, 4), (3, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_is_exhaustive_search(seed, vocab, max_len, alpha):
    """A beam that holds everything finds the best of all hypotheses, in rows that end at different times."""
    model = Table(vocab, max_len, rows=6, seed=seed)
    found = beam_search(
        model, model.src, model.src_mask, max_len, START, END, vocab**max_len, alpha
    )
    expected = [exhaustive_row(model, row, vocab, max_len, alpha) for row in range(6)]
    assert found.dtype == torch.int64
    assert found.tolist() == filled(expected)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_over_a_transformer_is_exhaustive_search(seed, alpha):
    """The same of a real model, its rows asked one by one, without padding, for every hypothesis."""
    model, (src, src_mask) = real_model(seed, vocab=5), draw_source(seed, vocab=5)
    found = beam_search(model, src, src_mask, 4, START, END, beam=125, alpha=alpha)
    expected = [exhaustive_row(Row(model, row), None, 5, 4, alpha) for row in src]
    assert found.tolist() == filled(expected)


@pytest.mark.parametrize("seed", range(40))
def test_a_beam_of_one_is_greedy(seed):
    """With a single place there is no choice: the result is greedy decoding's, whatever α."""
    model = Table(4, 6, rows=5, seed=seed)
    arguments = model, model.src, model.src_mask, 6, START, END
    found = beam_search(*arguments, beam=1, alpha=seed / 20)
    assert found.tolist() == greedy_decode(*arguments).tolist()


@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_one_over_a_transformer_is_greedy(seed):
    """The same of a real model."""
    arguments = real_model(seed, vocab=8), *draw_source(seed, vocab=8), 8, START, END
    assert beam_search(*arguments, beam=1).tolist() == greedy_decode(*arguments).tolist()


@ALPHAS
@pytest.mark.parametrize("beam", [2, 3, 4, 7])
@pytest.mark.parametrize("seed", range(6))
def test_stopping_early_changes_nothing(seed, beam, alpha):
    """The result is that of a beam search that goes on to the end, wider and narrower than the vocabulary."""
    model = Table(4, 6, rows=5, seed=seed, sharpness=1.5)
    found = beam_search(model, model.src, model.src_mask, 6, START, END, beam, alpha)
    assert found.tolist() == filled([beam_row(model, r, 4, 6, beam, alpha) for r in range(5)])


def test_beam_search_does_stop_early():
    """Where ending at once is all but certain, nothing is asked twice."""
    model = Table(3, 6, rows=3, seed=0)
    model.log_probs = torch.tensor([0.01, 0.01, 0.98]).log().expand(model.log_probs.shape)
    found = beam_search(model, model.src, model.src_mask, 6, START, END, beam=3)
    assert found.tolist() == [[START, END]] * 3
    assert model.asked == 1


def test_beam_and_alpha_are_the_papers_by_default():
    """Beam 4, α = 0.6: any other beam or penalty gives another result in some row."""
    model = Table(4, 6, rows=400, seed=0, sharpness=1.0)
    arguments = model, model.src, model.src_mask, 6, START, END
    default = beam_search(*arguments).tolist()
    assert default == beam_search(*arguments, beam=4, alpha=0.6).tolist()
    for beam, alpha in [(3, 0.6), (5, 0.6), (4, 0.5), (4, 0.7)]:
        assert beam_search(*arguments, beam=beam, alpha=alpha).tolist() != default


def test_the_length_penalty_by_hand():
    """log ½ for ending at once, log 0.4 for saying 0 first: α = 0 prefers the short one, α = 1 the long.

    −0.693 / (6/6) and −0.916 / (7/6) = −0.785: still the short; at α = 2, −0.673: the long.
    """
    model = Table(3, 3, rows=1, seed=0)
    model.log_probs = torch.full((1, 3, 9, 3), -20.0, dtype=torch.float64)
    model.log_probs[0, 0, 0] = torch.tensor([0.4, 1e-9, 0.5]).double().log()
    model.log_probs[0, 1, 0, END] = 0.0
    for alpha, expected in [(0, [START, END]), (1, [START, END]), (2, [START, 0, END])]:
        found = beam_search(model, model.src, model.src_mask, 3, START, END, 9, alpha)
        assert found.tolist() == [expected]


def test_a_hypothesis_cut_off_competes_on_equal_terms():
    """At `max_len` a hypothesis without an end wins over one with it where it is worth more."""
    model = Table(3, 4, rows=1, seed=0)
    model.log_probs = torch.tensor([0.9, 0.05, 0.05]).log().expand(1, 4, 27, 3)
    assert beam_search(model, model.src, model.src_mask, 4, START, END).tolist() == [
        [START, 0, 0, 0]
    ]


class Forgetful(nn.Module):
    """A model in bfloat16 whose next token depends on the position alone, and which never wants to end."""

    def __init__(self, vocab, max_len):
        super().__init__()
        logits = torch.randn(max_len, vocab)
        logits[:, END] = -30
        self.log_probs = logits.log_softmax(-1).bfloat16()

    def encode(self, src, src_mask):
        return torch.zeros(*src.shape, 1, dtype=torch.bfloat16)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        return self.log_probs[: tgt.size(1)].expand(len(tgt), -1, -1)

    def generator(self, states):
        return states


def test_scores_in_bfloat16_keep_their_digits():
    """The sum of many log-probabilities is not kept in a half, where the last token would not show in it.

    Where the past has no influence the best hypothesis is the best token of each position.
    """
    model = Forgetful(vocab=30, max_len=40)
    src, src_mask = torch.ones(1, 1, dtype=torch.long), torch.ones(1, 1, 1, dtype=torch.bool)
    found = beam_search(model, src, src_mask, 40, START, END, beam=4)
    said = model.log_probs[:39].gather(1, found[0, 1:].unsqueeze(1)).squeeze(1)
    assert torch.equal(said, model.log_probs[:39].max(-1).values)
