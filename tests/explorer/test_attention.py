"""The page of attention: what it shows is what days 2 and 3 compute, whatever is typed or clicked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import traitlets

import numpy_reference
from explorer.attention import MAX_WORDS, SENTENCE, masks_of, scores_of, vectors_of, words_of
from explorer.grid import MaskGrid
from explorer.page import OWN, REFERENCE
from tests.browser import PHONE, sync_api
from tests.explorer.conftest import View

Open = Callable[..., sync_api.Page]
WORDS = words_of(SENTENCE)


def expected(
    mask: np.ndarray, words: list[str] = WORDS, positions: bool = False
) -> tuple[list[list[float]], list[list[float]]]:
    """Output and weights."""
    x = vectors_of(words, positions)
    output, weights = numpy_reference.attention(x, x, x, mask)
    return output.tolist(), weights.tolist()


def cell(page: sync_api.Page, query: int, key: int) -> sync_api.Locator:
    """One of the grid, both counted from 1."""
    return page.get_by_role("button", name=f" ({query}) attends to ").nth(key - 1)


def sees(
    page: sync_api.Page,
    mask: np.ndarray,
    query: int,
    words: list[str] = WORDS,
    positions: bool = False,
) -> None:
    """The page shows these weights, and the steps of this query, counted from 1."""
    output, weights = expected(mask, words, positions)
    shown = [
        "" if not may else f"{weight:.2f}"
        for row, allowed in zip(weights, mask, strict=True)
        for weight, may in zip(row, allowed, strict=True)
    ]
    sync_api.expect(page.locator("td button")).to_have_text(shown)
    sync_api.expect(page.locator(".steps caption")).to_contain_text(f"({query})")
    sync_api.expect(page.locator(".steps tbody .weight")).to_have_text(
        [f"{weight:.3f}" for weight in weights[query - 1]]
    )
    sync_api.expect(page.locator(".steps tfoot td:not(.weight)")).to_have_text(
        [f"{number:.2f}".replace("-", "−") for number in output[query - 1]]
    )


SENTENCES = (
    "one",
    "🦜 says 👩\u200d👩\u200d👧 🦜",
    "שלום עולם שלום",
    "<b>&amp; \"'</b> <i>",
    "W" * 3000,
    "<pad> 12 null",
    "x " * 2000,
)
START = "import numpy as np\ndef attention(query, key, value, mask=None):\n"
START += "    s = query @ key.swapaxes(-2, -1) / query.shape[-1] ** 0.5\n"
FORGETS_THE_MASK = f"""{START}
    w = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
    return w @ value, w
"""
# It is right where every query has a key.
DIVIDES = f"""{START}
    e = np.exp(s) * mask
    w = e / e.sum(-1, keepdims=True)
    return w @ value, w
"""


def test_every_control_changes_what_is_drawn(opened: Open, answers: Path) -> None:
    page = opened("attention/")
    masks = masks_of(WORDS)
    sees(page, masks["padding"], 5)
    causal = page.get_by_role("button", name="causal", exact=True)
    nothing = page.get_by_role("button", name="nothing for")
    for name in ("none", "causal", "both", "padding"):
        page.get_by_role("button", name=name, exact=True).click()
        sees(page, masks[name], 5)

    page.get_by_role("button", name="query chases (3)").click()
    sees(page, masks["padding"], 3)

    clicked = masks["padding"].copy()
    cell(page, 6, 2).click()
    clicked[5, 1] = False
    sees(page, clicked, 6)
    cell(page, 6, 11).click()
    clicked[5, 10] = True
    sees(page, clicked, 6)

    nothing.click()
    clicked[5] = False
    sees(page, clicked, 6)
    sync_api.expect(page.locator(".drawn")).to_contain_text("exactly 0")

    page.get_by_role("switch").click()
    sees(page, clicked, 6, positions=True)

    causal.click()
    nothing.click()  # which leaves the mask of the other queries
    sync_api.expect(causal).to_have_attribute("aria-pressed", "true")
    sync_api.expect(nothing).to_have_attribute("aria-pressed", "true")
    nothing.click()  # and back
    sees(page, masks["causal"], 6, positions=True)
    sync_api.expect(nothing).to_have_attribute("aria-pressed", "false")

    file = answers / "day02_attention.py"
    file.write_text(FORGETS_THE_MASK, encoding="utf-8")
    page.get_by_role("combobox").select_option(OWN)
    sync_api.expect(page.locator(".compared")).to_contain_text("differs from the reference by up")
    sync_api.expect(cell(page, 1, 11)).not_to_be_empty()  # a forbidden key with a weight
    file.write_text(DIVIDES, encoding="utf-8")
    nothing.click()
    sync_api.expect(page.locator(".failed")).to_contain_text("its output have to be 0")
    sync_api.expect(cell(page, 1, 1)).to_be_empty()
    causal.click()
    page.get_by_role("combobox").select_option(REFERENCE)
    sees(page, masks["causal"], 6, positions=True)

    page.get_by_role("textbox").fill("a rose is a rose")
    page.get_by_role("textbox").press("Enter")
    words = words_of("a rose is a rose")
    sees(page, masks_of(words)["causal"], 6, words, positions=True)


def test_the_grid_by_keyboard_and_on_a_phone(opened: Open) -> None:
    page = opened("attention/", PHONE)
    last = page.locator("thead th", has_text="<pad>").last.bounding_box()
    assert last is not None
    assert last["x"] + last["width"] <= PHONE
    mask = masks_of(WORDS)["padding"].copy()
    page.get_by_role("button", name="query cat (5)").focus()
    for key in ("ArrowRight", "ArrowDown", "Space"):
        page.keyboard.press(key)
    mask[5, 0] = False
    sees(page, mask, 6)
    for key in ("ArrowRight", "Enter", "ArrowLeft", "ArrowLeft", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    mask[5, 1] = False
    sees(page, mask, 5)


def test_an_address_is_a_view(opened: Open) -> None:
    page = opened("attention/?sentence=no+no+12&mask=10000-11000-11100-00000-11011&query=3")
    words = words_of("no no 12")
    mask = np.tril(np.ones((5, 5), dtype=bool))
    mask[3], mask[4, 2] = False, False
    sees(page, mask, 4, words)
    cell(page, 5, 3).click()
    page.wait_for_url("**mask=10000-11000-11100-00000-11111**")
    cell(page, 4, 1).click()
    for key in (2, 3, 4):
        cell(page, 4, key).click()
    page.wait_for_url("**mask=causal**")
    page.get_by_role("button", name="padding", exact=True).click()
    for sentence in ("", *SENTENCES, "one more"):
        page.get_by_role("textbox").fill(sentence)
        page.get_by_role("textbox").press("Enter")
        if not sentence:
            sync_api.expect(page.locator(".drawn")).to_contain_text("There is no word")
            continue
        words = words_of(sentence)
        # The query stays where it was, as long as there is such a word.
        sees(page, masks_of(words)["padding"], 4 if len(words) > 3 else 1, words)
        note = page.get_by_text("Of 2,000 words the first 10 are shown")
        assert note.count() == (len(sentence.split()) > MAX_WORDS), sentence


def test_a_mask_and_a_query_are_in_the_address(viewed: Callable[[str], View]) -> None:
    grid = viewed("attention/?mask=causal&query=3").names["grid"].widget
    assert (grid.mask, grid.query) == ("causal", 3)


def test_equal_words_have_equal_vectors_until_places_count() -> None:
    apart, placed = (
        vectors_of(["The", "dog", "the"], False),
        vectors_of(["The", "dog", "the"], True),
    )
    assert (apart[0] == apart[2]).all()
    assert not np.allclose(apart[0], apart[1])
    assert not np.allclose(placed[0], placed[2])
    assert np.allclose(placed - apart, numpy_reference.positional_encoding(*apart.shape))


def test_scores_are_those_of_the_paper() -> None:
    x = vectors_of(WORDS, True)
    assert np.allclose(scores_of(x), x @ x.T / np.sqrt(x.shape[1]))


def test_a_grid_takes_masks_of_its_own_size_only() -> None:
    words = words_of("a b")
    grid = MaskGrid(words, masks_of(words), "causal", 0)
    assert (grid.allowed == np.tril(np.ones((4, 4), dtype=bool))).all()
    grid.mask = "1111-0000-1010-0101"
    assert grid.allowed.sum() == 8
    for nonsense in ("", "11-11", "1111-0000-1010-010x", "acausal"):
        with pytest.raises(traitlets.TraitError, match="not a mask of 4 words"):
            grid.mask = nonsense
    with pytest.raises(traitlets.TraitError, match="there is no word 4"):
        grid.query = 4
