"""The page of decoding: what it shows is what the references compute, or the learner's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.bigrams import END, NUMBER, SAID, START, Bigrams, searched
from explorer.decoding import UNLIKELY
from explorer.page import OWN
from explorer.topics import topic_of
from implementation import beam_search, greedy_decode
from tests.browser import sync_api
from tests.explorer.test_bigrams import ASKED, spoken
from variants.sampling import distribution

Open = Callable[..., sync_api.Page]
MODEL = Bigrams()
BEAM = "decoding/?way=beam+search"


def expected(last: str, temperature: float, top_k: int, top_p: float) -> list[list[str]]:
    """Each word, the likeliest first, with its share probability and what it is after the cuts."""
    logits = MODEL.log_probs[NUMBER[last], 1:]
    before = distribution(logits, temperature)
    few = distribution(logits, temperature, top_k)
    after = distribution(logits, temperature, top_k, top_p)
    rows = []
    for number in logits.argsort(descending=True, stable=True).tolist():
        left = f"{after[number]:.3f}"
        if not after[number] and before[number]:
            left = "cut by top-p" if few[number] else "cut by top-k"
        rows.append([SAID[number], f"{before[number]:.3f}", left])
    return rows


def shows(page: sync_api.Page, rows: list[list[str]]) -> None:
    flat = [text for row in rows for text in row]
    sync_api.expect(page.locator(".choices tbody :is(th, .number)")).to_have_text(flat)


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


def press(page: sync_api.Page, name: str) -> None:
    page.get_by_role("button", name=name).press("Enter")


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p"])
def test_every_slider_moves_the_distribution(opened: Open, name: str) -> None:
    # After "the" three words are likely, so that each cut has something to do.
    start = {"temperature": 1.2, "top_k": 3, "top_p": 0.75}
    moved = {"temperature": 1.1, "top_k": 2, "top_p": 0.7}
    address = "&".join(f"{key}={value}" for key, value in start.items())
    page = opened(f"decoding/?said=the&{address}")
    shows(page, expected("the", **start))
    page.get_by_role("slider").nth(list(start).index(name)).press("ArrowLeft")
    page.wait_for_url(f"**{name}={moved[name]}**")
    assert expected("the", **start | {name: moved[name]}) != expected("the", **start)
    shows(page, expected("the", **start | {name: moved[name]}))


@pytest.mark.parametrize("name", ["beam", "alpha", "most"])
def test_every_slider_moves_the_search(opened: Open, name: str) -> None:
    start = {"beam": 3, "alpha": 1.0, "most": 4}
    moved = {"beam": 2, "alpha": 0.9, "most": 3}
    address = "&".join(f"{key}={value}" for key, value in start.items())
    page = opened(f"{BEAM}&{address}")
    rows = page.locator(".ended tbody :is(th, td)")
    for settings in (start, start | {name: moved[name]}):
        beam, alpha, most = settings.values()
        flat = [text for row in found(beam, alpha, most) for text in row]
        best = beam_search(*ASKED, most + 1, NUMBER[START], NUMBER[END], beam, alpha)
        assert flat[0] == " ".join(spoken(best))
        sync_api.expect(rows).to_have_text(flat)
        if settings is start:
            page.get_by_role("slider").nth(list(start).index(name)).press("ArrowLeft")
            page.wait_for_url(f"**{name}={moved[name]}**")


def test_the_tree_shows_what_became_of_each_beginning(opened: Open) -> None:
    page = opened(f"{BEAM}&beam=2&alpha=0.6&most=7")
    rounds, best = searched(MODEL, 2, 0.6, 7)
    for fate in ("kept", "ended", "cut"):
        expected = [
            f"{branch.words[-1]}−{-branch.log_prob:.2f}"
            for noted in rounds
            for branch in noted[: 2 + 3]
            if branch.fate == fate
        ]
        nodes = page.locator(f".tree g.{fate}").all_text_contents()
        assert sorted(nodes) == sorted(expected + [START] * (fate == "kept")), fate
    assert page.locator(".tree g.best text:first-of-type").all_text_contents() == list(best)
    greedy = spoken(greedy_decode(*ASKED, 8, NUMBER[START], NUMBER[END]))
    sync_api.expect(page.locator(".legend")).to_contain_text(" ".join(greedy))
    assert page.locator(".tree path.greedy").count() == len(greedy)


def test_without_heat_the_words_drawn_are_those_of_greedy_decoding(opened: Open) -> None:
    page = opened("decoding/?temperature=0")
    greedy = spoken(greedy_decode(*ASKED, 10, NUMBER[START], NUMBER[END]))
    said(page)
    press(page, "Sample a word")
    said(page, *greedy[:1])
    page.wait_for_url(f"**said={greedy[0]}")
    press(page, "Sample to the end")
    said(page, *greedy)
    sync_api.expect(page.locator(".drawn")).to_contain_text("The text is complete")
    press(page, "Undo")
    said(page, *greedy[:-1])
    press(page, "Start over")
    said(page)


def test_a_top_k_of_1_is_greedy_decoding(opened: Open) -> None:
    page = opened("decoding/?temperature=2&top_k=1")
    press(page, "Sample to the end")
    said(page, *spoken(greedy_decode(*ASKED, 10, NUMBER[START], NUMBER[END])))


def test_after_the_end_a_new_text_begins(opened: Open) -> None:
    page = opened("decoding/?said=the+</s>&top_k=1")
    press(page, "Sample to the end")
    said(page, *spoken(greedy_decode(*ASKED, 10, NUMBER[START], NUMBER[END])))


@pytest.mark.parametrize(("top_p", "slips_in"), [(1.0, True), (0.5, False)])
def test_what_the_suggestion_promises(top_p: float, slips_in: bool) -> None:
    """At temperature 2, after each word: whether an unlikely one can be drawn."""
    assert "temperature to 2" in topic_of("decoding").suggestion
    assert "top-p at 0.5" in topic_of("decoding").suggestion
    for row in MODEL.log_probs[:-1, 1:]:
        left = distribution(row, 2.0, None, top_p) > 0
        assert bool((row[left].exp() < UNLIKELY).any()) == slips_in


def test_unlikely_words_are_marked(opened: Open) -> None:
    page = opened("decoding/?said=the+cat+mouse")
    sync_api.expect(page.locator(".said .rare")).to_have_text("mouse 0.01")


def test_only_what_is_not_cut_is_drawn(opened: Open) -> None:
    page = opened("decoding/?temperature=5&top_k=2&top_p=1")
    press(page, "Sample to the end")
    page.wait_for_url("**said=**")
    words = page.locator(".said li").all_inner_texts()
    words = [word.split()[0] for word in words if word != "…" and "enough" not in word]
    for last, word in itertools.pairwise(words):
        following = MODEL.log_probs[NUMBER[last], 1:]
        second = following.topk(2).values[-1]  # which may have equals
        assert following[SAID.index(word)] >= second


def test_an_address_is_a_view(opened: Open) -> None:
    page = opened("decoding/?said=a+mouse&temperature=0.5")
    said(page, "a", "mouse")
    shows(page, expected("mouse", 0.5, 9, 1.0))
    sync_api.expect(page.locator(".cells .marked th")).to_have_text("mouse")


@pytest.mark.parametrize(
    ("address", "left"),
    [
        ("said=the+elephant+sleeps", ["the"]),
        ("said=the+cat+sleeps+</s>+the+cat", ["the", "cat", "sleeps", END]),
        ("said=<s>", []),
        ("said=12", []),
        ("temperature=-1&top_k=0&top_p=2&way=guessing", []),
    ],
)
def test_an_address_that_says_nothing_is_passed_over(
    opened: Open, address: str, left: list[str]
) -> None:
    page = opened(f"decoding/?{address}")
    said(page, *left)
    if left[-1:] != [END]:
        shows(page, expected(left[-1] if left else START, 1.0, 9, 1.0))


def test_a_text_without_an_end_stops_somewhere(opened: Open) -> None:
    page = opened(f"decoding/?said={'+'.join(['the'] * 2000)}")
    sync_api.expect(page.locator(".said")).to_contain_text("16 words")
    press(page, "Sample to the end")
    page.wait_for_url("**said=the**")
    sync_api.expect(page.locator(".said li")).to_have_count(18)


def written(result: str) -> str:
    start = "import torch\ndef distribution(logits, temperature=1.0, top_k=None, top_p=None):\n"
    return f"{start}    {result}\n"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (written("return (logits / temperature).softmax(-1)"), "differs from the reference"),
        (written("return logits / temperature"), "returned no probabilities"),
        (written("return torch.zeros_like(logits)"), "returned no probabilities"),
        (written("return logits.exp() / 0"), "infinite or NaN"),
    ],
    ids=["uncut", "logits", "zeros", "infinite"],
)
def test_the_learners_own_answer(opened: Open, answers: Path, source: str, told: str) -> None:
    (answers / "day24_sampling.py").write_text(source, encoding="utf-8")
    page = opened("decoding/?top_p=0.9")
    page.get_by_role("combobox").select_option(OWN)
    sync_api.expect(page.locator(".compared, .failed")).to_contain_text(told)
    press(page, "Sample a word")
    page.wait_for_url("**said=**")
    drawn = page.locator(".said li")
    if "differs" in told:
        sync_api.expect(drawn).to_have_count(3)
    else:
        sync_api.expect(drawn).to_have_count(0)
