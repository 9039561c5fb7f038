"""The page of attention: what it shows is what days 2 and 3 compute, whatever is typed or clicked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import traitlets

import numpy_reference
from explorer.attention import MOST, SENTENCE, masks_of, scores_of, vectors_of, words_of
from explorer.grid import MaskGrid
from explorer.page import OWN, REFERENCE
from tests.browser import PHONE, sync_api

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


def test_every_control_changes_what_is_drawn(opened: Open) -> None:
    page = opened("attention/")
    masks = masks_of(WORDS)
    sees(page, masks["padding"], 5)
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

    page.get_by_role("button", name="nothing for").click()
    clicked[5] = False
    sees(page, clicked, 6)
    sync_api.expect(page.locator(".drawn")).to_contain_text("exactly 0")

    page.get_by_role("switch").click()
    sees(page, clicked, 6, positions=True)

    page.get_by_role("textbox").fill("a rose is a rose")
    page.get_by_role("textbox").press("Enter")
    words = words_of("a rose is a rose")
    sees(page, masks_of(words)["padding"], 6, words, positions=True)


def test_a_query_without_keys_leaves_the_mask_of_the_others(opened: Open) -> None:
    page = opened("attention/")
    causal = page.get_by_role("button", name="causal", exact=True)
    nothing = page.get_by_role("button", name="nothing for")
    causal.click()
    mask = masks_of(WORDS)["causal"].copy()
    sees(page, mask, 5)
    nothing.click()
    sync_api.expect(causal).to_have_attribute("aria-pressed", "true")
    sync_api.expect(nothing).to_have_attribute("aria-pressed", "true")
    nothing.click()  # and back
    sees(page, mask, 5)
    sync_api.expect(nothing).to_have_attribute("aria-pressed", "false")


def test_the_grid_by_keyboard(opened: Open) -> None:
    page = opened("attention/")
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


@pytest.mark.parametrize(
    "address", ["mask=101-111-111", "mask=upside-down&query=99", "query=cat&mask=7", "query=true"]
)
def test_an_address_that_says_nothing_is_passed_over(opened: Open, address: str) -> None:
    sees(opened(f"attention/?{address}"), masks_of(WORDS)["padding"], 5)


SENTENCES = {
    "one": "one",
    "emoji": "🦜 says 👩\u200d👩\u200d👧 🦜",
    "right to left": "שלום עולם שלום",
    "markup": "<b>&amp; \"'</b> <i>",
    "long word": "W" * 3000,
    "padding": "<pad> 12 null",
    "many words": "x " * 2000,
}


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_a_sentence_of_any_kind(opened: Open, sentence: str) -> None:
    page = opened("attention/")
    page.get_by_role("textbox").fill(sentence)
    page.get_by_role("textbox").press("Enter")
    words = words_of(sentence)
    sees(page, masks_of(words)["padding"], (len(words) - 2) // 2 + 1, words)
    said = page.get_by_text("Of 2,000 words the first 10 are shown")
    assert said.count() == (len(sentence.split()) > MOST)


def test_no_word_and_a_word_again(opened: Open) -> None:
    page = opened("attention/?sentence=+")
    sync_api.expect(page.locator(".drawn")).to_contain_text("There is no word")
    page.get_by_role("textbox").fill("one more")
    page.get_by_role("textbox").press("Enter")
    words = words_of("one more")
    sees(page, masks_of(words)["padding"], 2, words)


def written(*body: str) -> str:
    lines = "\n    ".join(["def attention(query, key, value, mask=None):", *body])
    return f"import numpy as np\n{lines}\n"


SCORES = "s = query @ key.swapaxes(-2, -1) / query.shape[-1] ** 0.5"
WEIGHTS = "w = np.exp(s) / np.exp(s).sum(-1, keepdims=True)"
RIGHT = written(
    SCORES,
    "e = np.exp(s) * mask",
    "w = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)",
    "return w @ value, w",
)
FORGETS_THE_MASK = written(SCORES, WEIGHTS, "return w @ value, w")
ONE_RESULT = written(SCORES, WEIGHTS, "return w @ value")
NAN = written(SCORES, "w = s * np.nan", "return w @ value, w")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (RIGHT, "attention is right here"),
        (FORGETS_THE_MASK, "differs from the reference by up to"),
        (ONE_RESULT, "not a tuple of 2"),
        (NAN, "infinite or NaN"),
        (written("while True: pass"), "endless loop"),
        (written("raise NotImplementedError"), "yours to write"),
    ],
    ids=["right", "wrong", "one result", "nan", "loops", "not begun"],
)
def test_the_learners_own_answer(opened: Open, answers: Path, source: str, said: str) -> None:
    (answers / "day02_attention.py").write_text(source, encoding="utf-8")
    page = opened("attention/")
    page.get_by_role("combobox").select_option(OWN)
    sync_api.expect(page.locator(".compared, .failed")).to_contain_text(said)
    if source == FORGETS_THE_MASK:  # a forbidden key with a weight is seen to have one
        sync_api.expect(cell(page, 1, 11)).not_to_be_empty()
    page.get_by_role("combobox").select_option(REFERENCE)
    sees(page, masks_of(WORDS)["padding"], 5)


def test_an_answer_without_numbers_for_a_query_without_keys(opened: Open, answers: Path) -> None:
    divides = written(
        SCORES, "e = np.exp(s) * mask", "w = e / e.sum(-1, keepdims=True)", "return w @ value, w"
    )
    (answers / "day02_attention.py").write_text(divides, encoding="utf-8")
    page = opened("attention/?answers=my+exercises")
    sync_api.expect(page.locator(".compared")).to_contain_text("is right here")
    page.get_by_role("button", name="nothing for").click()
    sync_api.expect(page.locator(".failed")).to_contain_text("its output have to be 0")
    sync_api.expect(cell(page, 1, 1)).to_be_empty()
    page.get_by_role("button", name="causal", exact=True).click()
    sees(page, masks_of(WORDS)["causal"], 5)


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


def test_the_padding_is_in_sight_on_a_phone(opened: Open) -> None:
    page = opened("attention/", PHONE)
    last = page.locator("thead th", has_text="<pad>").last.bounding_box()
    assert last is not None
    assert last["x"] + last["width"] <= PHONE
