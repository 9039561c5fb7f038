"""The page of heads: what it shows is what the shipped model computes, with the heads that are on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from explorer.heads import HEADS, MAX_TOKENS, MISSED, SENTENCE
from explorer.shipped_model import Head, Trained
from tests.browser import sync_api
from tests.explorer.conftest import View

Open = Callable[..., sync_api.Page]
View_ = Callable[[str], View]
ANSWERS = ".facts dd"
COSTS = ".three .cells td:not(:empty)"
OTHER = "The young girl does not see the black cat."
CHOSEN = 1  # the encoder's second layer, which the page begins with
MISSING = [MISSED]  # what is off at first


@pytest.fixture(scope="module")
def model() -> Trained:
    return Trained()


def answers_of(model: Trained, sentence: str, off: Collection[Head]) -> list[str]:
    """Both translations."""
    return [model.translation(sentence), model.translation(sentence, off)]


def costs_of(model: Trained, sentence: str, off: Collection[Head]) -> list[str]:
    """What each token of the first translation costs, with all heads and with some off."""
    translation = model.translation(sentence)
    before, now = model.losses(sentence, translation), model.losses(sentence, translation, off)
    rows = [*zip(before.each, now.each, strict=True), (before.mean, now.mean)]
    return [f"{loss:.2f}" if loss else "·" for row in rows for loss in row]


def expect_drawn(
    page: sync_api.Page, model: Trained, sentence: str = SENTENCE, off: Collection[Head] = ()
) -> None:
    sync_api.expect(page.locator(ANSWERS)).to_have_text(answers_of(model, sentence, off))
    sync_api.expect(page.locator(COSTS)).to_have_text(costs_of(model, sentence, off))


def weights_of(model: Trained, chosen: int, heads: Collection[int]) -> list[float]:
    """Those of an attention that are seen, each as a line."""
    attention = list(model.maps(SENTENCE, MISSING).values())[chosen]
    return [
        weight
        for row in range(len(attention.rows))
        for head in heads
        for weight in attention.weights[head - 1, row].tolist()
        if weight >= 0.01
    ]


def about(weights: list[float]) -> Any:
    return pytest.approx(weights, abs=0.0051)


def expect_lines(page: sync_api.Page, model: Trained, chosen: int, heads: Collection[int]) -> None:
    """A line for each weight that is seen, as opaque as the weight."""
    weights = weights_of(model, chosen, heads)
    paths = page.locator(".looks path")
    sync_api.expect(paths).to_have_count(len(weights))
    opacities = paths.evaluate_all("paths => paths.map((one) => +one.getAttribute('opacity'))")
    assert opacities == about(weights)


def told(cost: float) -> str:
    """The number on a head's button: a dot where it is less than 0.005."""
    return "·" if abs(cost) < 0.005 else f"{cost:.2f}".replace("-", "−")


def test_every_head_can_be_switched_off(opened: Open, model: Trained) -> None:
    page = opened("heads/")
    expect_drawn(page, model, off=MISSING)
    page.get_by_role("button", name="all on").click()
    expect_drawn(page, model)
    buttons = page.locator(".heads button")
    sync_api.expect(buttons).to_have_count(len(model.heads))
    costs = model.costs(SENTENCE, model.translation(SENTENCE))
    sync_api.expect(page.locator(".heads span")).to_have_text([*map(told, costs.values())])
    states = ["1"] * len(model.heads)
    for number, button in enumerate(buttons.all()):
        button.click()
        sync_api.expect(button).to_have_attribute("aria-pressed", "false")
        states[number] = "0"
        rows = ["".join(states[row : row + 4]) for row in range(0, len(states), 4)]
        page.wait_for_url(f"**on={'-'.join(rows)}**")
        if number % 4 == 3:  # those of one attention
            expect_drawn(page, model, off=model.heads[: number + 1])


def test_every_attention_and_every_head_can_be_looked_at(opened: Open, model: Trained) -> None:
    page = opened("heads/")
    expect_lines(page, model, CHOSEN, [3])

    # A row that is pointed at, or has the focus, is seen alone.
    row = page.get_by_role("img", name="␣it attends to ␣car")
    for show in (row.locator("rect").hover, row.focus):
        page.mouse.move(0, 0)
        sync_api.expect(page.locator(".looks path").first).to_be_visible()
        show()
        sync_api.expect(page.locator(".looks").first.locator("path").first).to_be_hidden()
        sync_api.expect(row.locator(".told").first).to_be_visible()
    page.mouse.move(0, 0)

    # The keyboard moves on the board, and keeps its place.
    page.locator(".look").nth(CHOSEN).focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect_drawn(page, model)
    page.keyboard.press("Space")
    expect_drawn(page, model, off=MISSING)

    for heads in (HEADS, *([number] for number in HEADS)):
        page.get_by_role("combobox").select_option("all" if heads == HEADS else str(heads[0]))
        expect_lines(page, model, CHOSEN, heads)
    for chosen, button in enumerate(page.locator(".look").all()):
        button.click()
        expect_lines(page, model, chosen, [4])

    page.get_by_role("textbox").fill(OTHER)
    page.get_by_role("textbox").press("Enter")
    expect_drawn(page, model, OTHER, MISSING)
    cost = model.costs(OTHER, model.translation(OTHER))[model.heads[-1]]
    sync_api.expect(page.locator(".heads span").last).to_have_text(told(cost))


def test_an_address_is_a_view(opened: Open, model: Trained) -> None:
    page = opened(f"heads/?sentence={OTHER}&place=5&on=1111-1101-1111-1111-1111-0000")
    off = [head for index, head in enumerate(model.heads) if index == 6 or index >= 20]
    expect_drawn(page, model, OTHER, off)
    sync_api.expect(page.locator(".card.marked .look")).to_have_text("cross-attention, 2")
    page.locator(".heads button").nth(6).click()
    page.wait_for_url("**on=1111-1111-1111-1111-1111-0000**")


def test_the_page_begins_with_what_is_lost_without_a_head(viewed: View_) -> None:
    view = viewed("heads/")
    with_all, without = view.html.select(ANSWERS)
    assert " elle " in with_all.get_text()
    assert [mark.get_text() for mark in without.select("mark")] == ["il"]


def test_what_is_off_is_in_the_address(viewed: View_, model: Trained) -> None:
    view = viewed("heads/?place=5&on=1111-1101-1111-1111-1111-0000")
    off = [head for index, head in enumerate(model.heads) if index == 6 or index >= 20]
    assert view.texts(ANSWERS) == answers_of(model, SENTENCE, off)
    assert view.names["board"].widget.place == 5


@pytest.mark.parametrize(("address", "heads"), [("head=2", [2]), ("head=all", HEADS)])
def test_whose_lines_are_drawn_is_in_the_address(
    viewed: View_, model: Trained, address: str, heads: Collection[int]
) -> None:
    lines = viewed(f"heads/?{address}").html.select(".looks path")
    assert [float(line["opacity"]) for line in lines] == about(weights_of(model, CHOSEN, heads))


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("", "There is no sentence"),
        ("old " * 2000, f"tokens, and this page draws at most {MAX_TOKENS}"),
        ("I see the 🙂 cat.", "with all heads"),
        ("שלום, כלב.", "with all heads"),
    ],
    ids=["empty", "long", "emoji", "right to left"],
)
def test_any_text_is_answered(viewed: View_, sentence: str, words: str) -> None:
    assert words in viewed(f"heads/?sentence={sentence}").text()
