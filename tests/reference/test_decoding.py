"""`beam_search` against a search in plain Python that never stops early, and the padding of both searches.

The model is a table: the log-probabilities of the next token are drawn for every row and every beginning, so
that rows finish at different times.
"""

import pytest
import torch
from torch import nn

from implementation import beam_search, greedy_decode

START, END = 1, 2


class Table(nn.Module):
    """A model whose next token depends on the source's first token and on all earlier tokens.

    It refuses masks that are not those of decoding.
    """

    def __init__(self, vocab, max_len, rows, seed, sharpness=2.0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shape = rows, max_len, vocab ** (max_len - 1), vocab
        logits = sharpness * torch.randn(shape, generator=generator, dtype=torch.float64)
        self.log_probs = logits.log_softmax(-1)
        self.vocab = vocab
        self.src = torch.arange(rows).unsqueeze(1)
        self.src_mask = torch.ones(rows, 1, 1, dtype=torch.bool)

    def encode(self, src, src_mask):
        """The memory is the row of the table."""
        return src.unsqueeze(-1).double()

    def decode(self, memory, src_mask, tgt, tgt_mask):
        """Log-probabilities after each beginning, which is read as a number of base V."""
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

    def following(self, row, tokens):
        """In plain Python: the log-probabilities of one row after the tokens since the start."""
        beginning = 0
        for token in tokens:
            beginning = beginning * self.vocab + token
        return self.log_probs[row, len(tokens), beginning].tolist()


def score(log_prob, n, alpha):
    """Wu et al. 2016, eq. 14: the score of a hypothesis of n tokens."""
    return log_prob / (((5 + n) / (5 + 1)) ** alpha)


def beam_row(model, row, vocab, max_len, beam, alpha):
    """Beam search of a single row that continues to max_len whatever has ended.

    Of all continuations the `beam` best are kept; those that end leave the beam and are remembered.
    """
    alive, ended = [(0.0, [])], []
    for n in range(1, max_len):
        continuations = []
        for log_prob, tokens in alive:
            following = model.following(row, tokens)
            continuations += [(log_prob + following[v], [*tokens, v]) for v in range(vocab)]
        best = sorted(continuations, reverse=True)[:beam]
        over = [pair for pair in best if pair[1][-1] == END or n == max_len - 1]
        ended += [(score(log_prob, n, alpha), tokens) for log_prob, tokens in over]
        alive = [pair for pair in best if pair not in over]
    return [START, *max(ended)[1]]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("beam", [1, 2, 3, 4, 7, 4**4])
@pytest.mark.parametrize("seed", range(4))
def test_stopping_early_changes_nothing(seed, beam, alpha):
    """Beams narrower and wider than the vocabulary, and a beam that holds all hypotheses."""
    max_len = 4 if beam == 4**4 else 6
    model = Table(4, max_len, rows=5, seed=seed, sharpness=1.5)
    output = beam_search(model, model.src, model.src_mask, max_len, START, END, beam, alpha)
    expected = [beam_row(model, row, 4, max_len, beam, alpha) for row in range(5)]
    longest = max(map(len, expected))
    assert output.tolist() == [row + [0] * (longest - len(row)) for row in expected]


@pytest.mark.parametrize("search", [greedy_decode, beam_search])
def test_what_follows_the_end_is_padding(search):
    model = Table(4, 6, rows=5, seed=1)
    text, padded = (
        search(model, model.src, model.src_mask, 6, START, END, pad=pad) for pad in (0, 9)
    )
    ended = (text == END).cumsum(dim=1) - (text == END).int() > 0
    assert ended.any() and torch.equal(padded, text.masked_fill(ended, 9))
