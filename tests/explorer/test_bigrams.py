"""The small language, and what is heard of the reference's search in it."""

from __future__ import annotations

import itertools

import pytest
import torch

from explorer.bigrams import END, NUMBER, SAID, START, VOCABULARY, Bigrams, searched
from implementation import beam_search, greedy_decode

MODEL = Bigrams()
ASKED = (MODEL, torch.zeros(1, 1), torch.ones(1, 1, 1, dtype=torch.bool))
SETTINGS = list(itertools.product((1, 2, 3, 5), (0.0, 0.6, 2.0), (1, 2, 5, 8)))


def spoken(tokens: torch.Tensor) -> tuple[str, ...]:
    return tuple(VOCABULARY[token] for token in tokens[0, 1:].tolist())


def log_prob(words: tuple[str, ...]) -> float:
    pairs = itertools.pairwise((START, *words))
    return sum(MODEL.log_probs[NUMBER[last], NUMBER[word]].item() for last, word in pairs)


def test_every_word_is_followed_by_something() -> None:
    shares = MODEL.log_probs[:-1, 1:].exp()
    assert shares.shape == (len(VOCABULARY) - 1, len(SAID))
    torch.testing.assert_close(shares.sum(dim=-1), torch.ones(len(shares)).double())
    assert (shares > 0).all()


@pytest.mark.parametrize(("beam", "alpha", "most"), SETTINGS)
def test_what_is_heard_is_what_the_search_does(beam: int, alpha: float, most: int) -> None:
    rounds, best = searched(MODEL, beam, alpha, most)
    expected = beam_search(*ASKED, most + 1, NUMBER[START], NUMBER[END], beam, alpha)
    assert best == spoken(expected)
    followed = {()}
    for number, branches in enumerate(rounds, start=1):
        assert {branch.words[:-1] for branch in branches} == followed
        assert len(branches) == len(followed) * len(SAID)
        assert all(branch.log_prob == pytest.approx(log_prob(branch.words)) for branch in branches)
        chosen = [branch for branch in branches if branch.fate != "cut"]
        assert chosen == branches[:beam]
        assert [branch.fate == "ended" for branch in chosen] == [
            branch.words[-1] == END or number == most for branch in chosen
        ]
        followed = {branch.words for branch in chosen if branch.fate == "kept"}
    assert not followed, "what is kept is followed, and the last round keeps nothing"
    ended = [branch for branches in rounds for branch in branches if branch.fate == "ended"]
    for branch in ended:
        penalty = ((5 + len(branch.words)) / 6) ** alpha
        assert branch.worth == pytest.approx(branch.log_prob / penalty)
    assert max(ended, key=lambda branch: branch.worth).words == best


@pytest.mark.parametrize("most", [1, 3, 8])
def test_a_beam_of_one_is_greedy(most: int) -> None:
    greedy = greedy_decode(*ASKED, most + 1, NUMBER[START], NUMBER[END])
    assert searched(MODEL, 1, 0.6, most)[1] == spoken(greedy)


def test_the_language_is_one_in_which_all_of_it_matters() -> None:
    """Greedy decoding misses the likeliest sentence, and a larger penalty's exponent prefers a longer one."""
    greedy, short, long = (searched(MODEL, *how, 7)[1] for how in ((1, 0.6), (2, 0.6), (2, 1.0)))
    assert log_prob(greedy) < log_prob(long) < log_prob(short)
    assert len(long) == len(short) + 1
