"""The page of heads: what it shows is what the shipped model computes, with the heads that are on."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from explorer.heads import HEADS, MISSED, MOST, SENTENCE
from explorer.trained import Head, Trained
from tests.browser import sync_api

Open = Callable[..., sync_api.Page]
OTHER = "The young girl does not see the black cat."
CHOSEN = 1  # the encoder's second layer, which the page begins with
MISSING = [MISSED]  # what is off at first


@pytest.fixture(scope="module")
def model() -> Trained:
    return Trained()


def expect_drawn(
    page: sync_api.Page, model: Trained, sentence: str = SENTENCE, off: Collection[Head] = ()
) -> None:
    """Both translations, and what each token of the first costs."""
    whole = model.translation(sentence)
    answers = page.locator(".facts dd")
    sync_api.expect(answers).to_have_text([whole, model.translation(sentence, off)])
    before, now = model.losses(sentence, whole), model.losses(sentence, whole, off)
    rows = [*zip(before.each, now.each, strict=True), (before.mean, now.mean)]
    shown = [f"{loss:.2f}" if loss else "·" for row in rows for loss in row]
    sync_api.expect(page.locator(".three .cells td:not(:empty)")).to_have_text(shown)


def told(cost: float) -> str:
    """The number on a head's button: a dot where it is less than 0.005."""
    return "·" if abs(cost) < 0.005 else f"{cost:.2f}".replace("-", "−")


def expect_lines(page: sync_api.Page, model: Trained, chosen: int, heads: Collection[int]) -> None:
    """A line for each weight that is seen, as opaque as the weight."""
    seen = list(model.maps(SENTENCE, MISSING).values())[chosen]
    weights = [
        weight
        for row in range(len(seen.rows))
        for head in heads
        for weight in seen.weights[head - 1, row].tolist()
        if weight >= 0.01
    ]
    drawn = page.locator(".looks path")
    sync_api.expect(drawn).to_have_count(len(weights))
    opacities = drawn.evaluate_all("paths => paths.map((one) => +one.getAttribute('opacity'))")
    assert opacities == pytest.approx(weights, abs=0.0051)


def test_every_head_can_be_switched_off(opened: Open, model: Trained) -> None:
    page = opened("heads/?on=1111-1111-1111-1111-1111-1111")
    expect_drawn(page, model)
    buttons = page.locator(".heads button")
    sync_api.expect(buttons).to_have_count(len(model.heads))
    costs = model.costs(SENTENCE, model.translation(SENTENCE))
    sync_api.expect(page.locator(".heads span")).to_have_text([*map(told, costs.values())])
    off = []
    for head, button in zip(model.heads, buttons.all(), strict=True):
        button.click()
        off.append(head)
        sync_api.expect(button).to_have_attribute("aria-pressed", "false")
        expect_drawn(page, model, off=off)
    page.get_by_role("button", name="all on").click()
    expect_drawn(page, model)


def test_the_page_begins_with_what_is_lost_without_a_head(opened: Open, model: Trained) -> None:
    page = opened("heads/")
    expect_drawn(page, model, off=MISSING)
    with_all, without = page.locator(".facts dd").all()
    assert " elle " in with_all.inner_text()
    assert without.locator("mark").all_inner_texts() == ["il"]
    page.get_by_role("button", name="all on").click()
    expect_drawn(page, model)


def test_every_attention_and_every_head_can_be_looked_at(opened: Open, model: Trained) -> None:
    page = opened("heads/")
    expect_lines(page, model, CHOSEN, [3])
    for heads in (HEADS, *([number] for number in HEADS)):
        page.get_by_role("combobox").select_option("all" if heads == HEADS else str(heads[0]))
        expect_lines(page, model, CHOSEN, heads)
    for chosen, button in enumerate(page.locator(".look").all()):
        button.click()
        expect_lines(page, model, chosen, [4])


def test_another_sentence(opened: Open, model: Trained) -> None:
    page = opened("heads/")
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


@pytest.mark.parametrize(("address", "heads"), [("head=2", [2]), ("head=all", HEADS)])
def test_whose_lines_are_drawn_is_in_the_address(
    opened: Open, model: Trained, address: str, heads: Collection[int]
) -> None:
    expect_lines(opened(f"heads/?{address}"), model, CHOSEN, heads)


@pytest.mark.parametrize("address", ["on=1111", "on=nothing&place=99", "place=first&head=5"])
def test_an_address_that_says_nothing_is_passed_over(
    opened: Open, model: Trained, address: str
) -> None:
    expect_drawn(opened(f"heads/?{address}"), model, off=MISSING)


def test_the_keyboard_moves_on_the_board_and_keeps_its_place(opened: Open, model: Trained) -> None:
    page = opened("heads/")
    page.locator(".look").nth(CHOSEN).focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect_drawn(page, model)
    page.keyboard.press("Space")
    expect_drawn(page, model, off=MISSING)


def test_a_row_that_is_pointed_at_is_seen_alone(opened: Open, model: Trained) -> None:
    page = opened("heads/")
    row = page.get_by_role("img", name="␣it attends to ␣car")
    for show in (row.locator("rect").hover, row.focus):
        page.mouse.move(0, 0)
        sync_api.expect(page.locator(".looks path").first).to_be_visible()
        show()
        sync_api.expect(page.locator(".looks").first.locator("path").first).to_be_hidden()
        sync_api.expect(row.locator(".told").first).to_be_visible()


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("", "There is no sentence"),
        ("old " * 2000, f"tokens, and this page draws at most {MOST}"),
        ("I see the 🙂 cat.", "with all heads"),
        ("שלום, כלב.", "with all heads"),
    ],
    ids=["empty", "long", "emoji", "right to left"],
)
def test_any_text_is_answered(opened: Open, model: Trained, sentence: str, said: str) -> None:
    page = opened("heads/")
    box = page.get_by_role("textbox")
    box.fill(sentence)
    box.press("Enter")
    changed = page.locator(".drawn").filter(has_not_text=model.translation(SENTENCE))
    sync_api.expect(changed).to_contain_text(said)
    box.fill(SENTENCE)
    box.press("Enter")
    expect_drawn(page, model, off=MISSING)
