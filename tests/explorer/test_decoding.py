"""The page of decoding: what it shows is what the references compute, or the learner's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.bigrams import END, NUMBER, SAID, START, Bigrams, searched
from explorer.decoding import MAX_WORDS, UNLIKELY
from explorer.page import OWN
from explorer.topics import topic_of
from implementation import greedy_decode
from tests.browser import sync_api
from tests.explorer.conftest import View
from tests.explorer.test_bigrams import ASKED, spoken
from variants.sampling import distribution

Open = Callable[..., sync_api.Page]
MODEL = Bigrams()
View_ = Callable[[str], View]
CHOICES = ".choices tbody :is(th, .number)"
UNCUT = (1.0, 9, 1.0)  # temperature, top-k, top-p


def expected(last: str, temperature: float, top_k: int, top_p: float) -> list[list[str]]:
    """Each word, the likeliest first, with its share probability and what it is after the cuts."""
    logits = MODEL.log_probs[NUMBER[last], 1:]
    before = distribution(logits, temperature)
    few = distribution(logits, temperature, top_k)
    after = distribution(logits, temperature, top_k, top_p)
    rows = []
    for number in logits.argsort(descending=True, stable=True).tolist():
        cell = f"{after[number]:.3f}"
        if not after[number] and before[number]:
            cell = "cut by top-p" if few[number] else "cut by top-k"
        rows.append([SAID[number], f"{before[number]:.3f}", cell])
    return rows


def found(beam: int, alpha: float, most: int) -> list[list[str]]:
    """All that the search ends with, the best first."""
    rounds, _ = searched(MODEL, beam, alpha, most)
    ended = [branch for noted in rounds for branch in noted if branch.fate == "ended"]
    return [
        [
            " ".join(branch.words),
            f"−{-branch.log_prob:.3f}",
            str(len(branch.words)),
            f"−{-branch.worth:.3f}",
        ]
        for branch in sorted(ended, key=lambda branch: -branch.worth)
    ]


def said(page: sync_api.Page, *words: str) -> None:
    listed = [START, *words] + ([] if words[-1:] == (END,) else ["…"])
    sync_api.expect(page.locator(".said li")).to_have_count(len(listed))
    sync_api.expect(page.locator(".said li")).to_contain_text(listed)


def drawn_words(page: sync_api.Page) -> list[str]:
    words = [item.split()[0] for item in page.locator(".said li").all_inner_texts()]
    return [word for word in words if word not in ("…", str(MAX_WORDS))]


def press(page: sync_api.Page, name: str) -> None:
    page.get_by_role("button", name=name).press("Enter")


def greedy(most: int = 9) -> tuple[str, ...]:
    return spoken(greedy_decode(*ASKED, most + 1, NUMBER[START], NUMBER[END]))


# After "the" three words are likely, so that each cut has something to do.
SETTINGS = {"temperature": 1.2, "top_k": 3, "top_p": 0.75, "beam": 3, "alpha": 1.0, "most": 4}
MOVED = {"temperature": 1.1, "top_k": 2, "top_p": 0.7, "beam": 2, "alpha": 0.9, "most": 3}


def test_every_slider_moves_the_distribution_or_the_search(opened: Open) -> None:
    address = "&".join(f"{name}={value}" for name, value in SETTINGS.items())
    page = opened(f"decoding/?said=the&{address}")
    now = dict(SETTINGS)

    def shows() -> list[list[str]]:
        temperature, top_k, top_p, *search = now.values()
        if index < 3:
            rows, cells = expected("the", temperature, top_k, top_p), CHOICES
        else:
            rows, cells = found(*search), ".ended tbody :is(th, td)"
            assert rows[0][0] == " ".join(searched(MODEL, *search)[1])
        flat = [text for row in rows for text in row]
        sync_api.expect(page.locator(cells)).to_have_text(flat)
        return rows

    # Of two cuts the second has something to do only where the first has left it something.
    for name in ("top_p", "top_k", "temperature", "beam", "alpha", "most"):
        index = list(SETTINGS).index(name)
        if name == "beam":
            page.get_by_role("radio", name="beam search").click()
        before = shows()
        page.get_by_role("slider").nth(index % 3).press("ArrowLeft")
        page.wait_for_url(f"**{name}={MOVED[name]}**")
        now[name] = MOVED[name]
        assert shows() != before, name


def test_the_tree_shows_what_became_of_each_beginning(viewed: View_) -> None:
    view = viewed("decoding/?way=beam+search&beam=2&alpha=0.6&most=7")
    rounds, best = searched(MODEL, 2, 0.6, 7)
    for fate in ("kept", "ended", "cut"):
        expected = [
            f"{branch.words[-1]}−{-branch.log_prob:.2f}"
            for noted in rounds
            for branch in noted[: 2 + 3]
            if branch.fate == fate
        ]
        nodes = view.texts(f".tree g.{fate}")
        assert sorted(nodes) == sorted(expected + [START] * (fate == "kept")), fate
    assert view.texts(".tree g.best text:first-of-type") == list(best)
    assert " ".join(greedy(7)) in view.text(".legend")
    assert len(view.html.select(".tree path.greedy")) == len(greedy(7))


def test_without_heat_the_words_drawn_are_those_of_greedy_decoding(opened: Open) -> None:
    page = opened("decoding/?temperature=0&said=the+</s>")
    press(page, "Sample to the end")  # after the end a new text begins
    said(page, *greedy())
    sync_api.expect(page.locator(".drawn")).to_contain_text("The text is complete")
    press(page, "Undo")
    said(page, *greedy()[:-1])
    press(page, "Start over")
    said(page)
    press(page, "Sample a word")
    said(page, *greedy()[:1])
    page.wait_for_url(f"**said={greedy()[0]}")
    press(page, "Sample to the end")
    said(page, *greedy())


def test_only_what_is_not_cut_is_drawn(opened: Open, answers: Path) -> None:
    page = opened(f"decoding/?temperature=5&top_k=2&said={'+'.join(['a mouse'] * 1000)}")
    sync_api.expect(page.locator(".said")).to_contain_text(f"{MAX_WORDS} words")
    before = page.locator(".said").text_content()
    press(page, "Sample to the end")  # a text without an end stops somewhere, and another begins
    sync_api.expect(page.locator(".said")).not_to_have_text(before)
    words = drawn_words(page)
    for last, word in itertools.pairwise(words):
        following = MODEL.log_probs[NUMBER[last], 1:]
        second = following.topk(2).values[-1]  # which may have equals
        assert following[SAID.index(word)] >= second
    page.get_by_role("slider").nth(1).press("ArrowLeft")
    press(page, "Start over")  # at once: a slider leaves the buttons as they are
    page.wait_for_url("**top_k=1**")
    said(page)
    press(page, "Sample to the end")
    said(page, *greedy())
    # A learner's own is drawn from, if it gives probabilities.
    press(page, "Start over")
    said(page)
    start = "def distribution(logits, temperature=1.0, top_k=None, top_p=None):\n    return "
    file = answers / "day24_sampling.py"
    file.write_text(f"{start}(logits / temperature).softmax(-1)\n", encoding="utf-8")
    page.get_by_role("combobox").select_option(OWN)
    sync_api.expect(page.locator(".compared")).to_contain_text("differs from the reference")
    press(page, "Sample a word")
    state = page.wait_for_function("new URLSearchParams(location.search).get('said')")
    said(page, state.json_value())  # which the page shows after its address does
    file.write_text(f"{start}logits / temperature\n", encoding="utf-8")
    press(page, "Start over")
    sync_api.expect(page.locator(".failed")).to_contain_text("returned no probabilities")
    press(page, "Sample a word")
    page.wait_for_timeout(1000)
    assert not page.evaluate("new URLSearchParams(location.search).get('said')")


@pytest.mark.parametrize(("top_p", "slips_in"), [(1.0, True), (0.5, False)])
def test_what_the_suggestion_promises(top_p: float, slips_in: bool) -> None:
    """At temperature 2, after each word: whether an unlikely one can be drawn."""
    assert "temperature to 2" in topic_of("decoding").suggestion
    assert "top-p at 0.5" in topic_of("decoding").suggestion
    for row in MODEL.log_probs[:-1, 1:]:
        allowed = distribution(row, 2.0, None, top_p) > 0
        assert bool((row[allowed].exp() < UNLIKELY).any()) == slips_in


def test_unlikely_words_are_marked(viewed: View_) -> None:
    assert viewed("decoding/?said=the+cat+mouse").texts(".said .rare") == ["mouse 0.01"]


@pytest.mark.parametrize(
    ("address", "shown_words", "settings"),
    [
        ("said=a+mouse&temperature=0.5", ["a", "mouse"], (0.5, 9, 1.0)),
        ("said=the+elephant+sleeps", ["the"], UNCUT),
        ("said=the+cat+sleeps+</s>+the+cat", ["the", "cat", "sleeps", END], UNCUT),
    ],
)
def test_an_address_is_a_view_as_far_as_it_says_something(
    viewed: View_, address: str, shown_words: list[str], settings: tuple[float, int, float]
) -> None:
    view = viewed(f"decoding/?{address}")
    assert [item.split()[0] for item in view.texts(".said li")] == [
        START,
        *shown_words,
        *["…"] * (shown_words[-1:] != [END]),
    ]
    if shown_words[-1:] != [END]:
        last = shown_words[-1] if shown_words else START
        rows = expected(last, *settings)
        assert view.texts(CHOICES) == [text for row in rows for text in row]
        assert view.texts(".cells .marked th") == [last]
