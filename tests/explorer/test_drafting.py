"""The page of speculative decoding: its rounds are `accept_draft`'s, and its words the target's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from explorer.bigrams import END, START
from explorer.drafting import ROUNDS, SAID, TARGET, counted, draft_of, round_after
from tests.explorer.conftest import View

View_ = Callable[[str], View]


@pytest.mark.parametrize("words", [(), ("the",), ("the", "cat", "sleeps")])
@pytest.mark.parametrize("quality", [0.0, 0.6, 1.0])
def test_a_round_is_what_its_coins_say(words: tuple[str, ...], quality: float) -> None:
    lengths = set()
    for draw in range(40):
        round_ = round_after(words, 3, quality, draw)
        tokens = [SAID.index(word) for word in round_.proposed]
        chances = [
            round_.target[index, token] / round_.draft[index, token]
            for index, token in enumerate(tokens)
        ]
        accepted = 0
        while accepted < len(tokens) and round_.coins[accepted] < chances[accepted]:
            accepted += 1
        assert accepted == round_.accepted
        assert round_.output[:accepted] == round_.proposed[:accepted]
        assert END not in round_.output[:-1]
        lengths.add(len(round_.output))
    assert len(lengths) > 1 and (quality < 1 or round_.accepted == len(round_.proposed))


@pytest.mark.parametrize("quality", [0.0, 0.6, 1.0])
def test_the_counted_words_are_the_targets(quality: float) -> None:
    """Five standard deviations, of 10 words and three drafts: the page's seed is fixed."""
    for last in (0, 1, 5):
        words = () if last == 0 else (SAID[last - 1],)
        target = TARGET[last]
        shares = torch.tensor(counted(words, quality), dtype=target.dtype)
        deviation = (target * (1 - target) / ROUNDS).sqrt()
        assert ((shares - target).abs() <= 5 * deviation).all()
    draft = draft_of(TARGET[0], 0.0)
    assert ((draft - TARGET[0]).abs() > 5 * (draft * (1 - draft) / ROUNDS).sqrt()).any()


def test_the_page_shows_the_round(viewed: View_) -> None:
    view = viewed("drafting/?said=the&k=4&quality=0.4&drawn=2")
    round_ = round_after(("the",), 4, 0.4, 2)
    assert view.texts(".ended tbody th") == round_.proposed
    fates = view.texts(".ended tbody td:last-child")
    assert fates[: round_.accepted] == ["accepted"] * round_.accepted
    assert fates[round_.accepted :][:1] == ["rejected"][: len(fates) - round_.accepted]
    assert [item.split()[0] for item in view.texts(".said li")] == [START, "the", *round_.output]


def test_a_complete_text_is_not_continued(viewed: View_) -> None:
    assert "The text is complete" in viewed("drafting/?said=the+cat+sleeps+</s>").text()
