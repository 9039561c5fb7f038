"""The page of flash attention: what it shows of a tile is what the whole softmax says of the same keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from explorer.flash import Tile, tiles_of, vectors
from explorer.page import OWN
from implementation import attention
from tests.browser import PHONE, sync_api
from variants.flash import flash_attention

Open = Callable[..., sync_api.Page]

SETTINGS = {"length": 12, "block": 3, "draw": 1, "causal": False, "tile": 1}


def scores_of(length: int, draw: int, causal: bool) -> torch.Tensor:
    """All scores, in float64."""
    query, key, _ = vectors(length, draw).double()
    scores = query @ key.T / query.size(-1) ** 0.5
    later = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf) if causal else scores


@pytest.mark.parametrize(
    ("length", "block", "causal"),
    [(12, 3, False), (12, 3, True), (7, 4, True), (5, 1, False), (5, 1, True), (4, 4, True)],
)
def test_what_is_heard_is_what_the_whole_softmax_says_of_the_keys_so_far(
    length: int, block: int, causal: bool
) -> None:
    inputs = vectors(length, 2)
    tiles = tiles_of(inputs, block, causal)
    scores = scores_of(length, 2, causal)
    for tile in tiles:
        met = scores[tile.rows, : tile.columns.stop]
        highest = met.amax(-1, keepdim=True)
        weights = (met - highest).exp()
        before = met[:, : tile.columns.start]
        shrink = (before.amax(-1, keepdim=True) - highest).exp() if before.numel() else highest * 0
        wanted = {
            "scores": scores[tile.rows, tile.columns],
            "highest": highest,
            "weights": weights[:, tile.columns],
            "total": weights.sum(-1, keepdim=True),
            "mixed": weights @ inputs[2, : tile.columns.stop].double(),
            "shrink": shrink,
        }
        for name, value in wanted.items():
            torch.testing.assert_close(
                getattr(tile, name).double(), value, rtol=1e-4, atol=1e-5, msg=name
            )
    ends = [
        tile for tile, after in zip(tiles, [*tiles[1:], None], strict=True) if last(tile, after)
    ]
    output = torch.cat([tile.mixed / tile.total for tile in ends])
    torch.testing.assert_close(output, flash_attention(*inputs, block, causal))


def last(tile: Tile, after: Tile | None) -> bool:
    return after is None or after.rows != tile.rows


def expected(length: int, block: int, draw: int, causal: bool, tile: int) -> dict[str, list[str]]:
    """What the tables show, by their captions' numbers."""
    inputs = vectors(length, draw)
    now = tiles_of(inputs, block, causal)[tile - 1]
    query, key, value = inputs
    met = scores_of(length, draw, causal)[now.rows, : now.columns.stop].isfinite()
    output, _ = attention(query[now.rows], key[: now.columns.stop], value[: now.columns.stop], met)
    return {
        "1.": written(now.scores),
        "3.": written(now.weights),
        "5.": written(now.mixed),
        "6.": written(output),
    }


def written(numbers: torch.Tensor) -> list[str]:
    return [
        "−∞" if number == -torch.inf else f"{number:z.2f}".replace("-", "−") if number else "·"
        for number in numbers.flatten().tolist()
    ]


def shows(page: sync_api.Page, **settings: int | bool) -> None:
    for caption, numbers in expected(**(SETTINGS | settings)).items():
        table = page.locator("table", has=page.locator("caption", has_text=caption))
        sync_api.expect(table.locator("td:not(thead td)")).to_have_text(numbers)


def test_every_control_changes_the_tile(opened: Open) -> None:
    page = opened("flash/")
    shows(page)
    slider = page.get_by_role("slider")
    slider.nth(3).press("ArrowRight")
    shows(page, tile=2)
    page.get_by_role("button", name="next tile").click()
    shows(page, tile=3)
    page.get_by_role("button", name="next tile").click()
    shows(page, tile=4)
    page.get_by_role("button", name="previous tile").click()
    shows(page, tile=3)
    page.get_by_role("switch").click()
    shows(page, tile=3, causal=True)
    slider.nth(0).press("ArrowRight")
    shows(page, tile=3, causal=True, length=13)
    slider.nth(1).press("ArrowLeft")
    shows(page, tile=3, causal=True, length=13, block=2)
    slider.nth(2).press("ArrowRight")
    shows(page, tile=3, causal=True, length=13, block=2, draw=2)
    page.wait_for_url("**draw=2**")


def test_the_steps_stay_in_sight_on_a_phone(opened: Open) -> None:
    page = opened("flash/", PHONE)
    page.locator("table", has_text="6. O").scroll_into_view_if_needed()
    sync_api.expect(page.get_by_role("button", name="next tile")).to_be_in_viewport()


def test_the_tile_that_a_button_left_is_where_the_slider_goes_on(opened: Open) -> None:
    page = opened("flash/?tile=16")
    page.get_by_role("button", name="next tile").click()  # there is none
    page.get_by_role("button", name="previous tile").click()
    shows(page, tile=15)
    page.get_by_role("slider").nth(3).press("ArrowLeft")
    shows(page, tile=14)
    assert page.get_by_role("button", name="previous tile").is_enabled()


def test_after_the_last_tile_it_is_day_8s_attention(opened: Open) -> None:
    page = opened("flash/?tile=10&causal=true")
    shows(page, tile=10, causal=True)
    told = page.locator(".facts div", has_text="all outputs differ by at most").locator("dd")
    assert float(told.inner_text()) < 1e-5


def test_the_words_tell_whose_maximum_rises(opened: Open) -> None:
    page = opened("flash/?tile=6")
    tile = tiles_of(vectors(12, 1), 3, False)[5]
    assert tile.shrink[0] == 1
    rise = ", ".join(f"query {4 + row} by {tile.shrink[1 + row, 0]:.2f}" for row in range(2))
    sync_api.expect(page.locator(".happens")).to_contain_text(rise)


@pytest.mark.parametrize("address", ["tile=99", "tile=0&block=9&length=2000", "causal=later"])
def test_an_address_that_says_nothing_is_passed_over(opened: Open, address: str) -> None:
    shows(opened(f"flash/?{address}"))


WHOLE = """import torch
def flash_attention(query, key, value, block=64, causal=False):
    scores = query @ key.mT / query.size(-1) ** 0.5
    if causal:
        later = torch.ones(scores.shape, dtype=torch.bool).triu(key.size(-2) - query.size(-2) + 1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ value
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (WHOLE, "flash_attention is right here"),
        (WHOLE.replace("** 0.5", "** 1.0"), "differs from the reference by up to"),
        (WHOLE.replace("return", "return key.nothing or"), "has no attribute 'nothing'"),
    ],
    ids=["right", "wrong", "raises"],
)
def test_the_learners_own_answer(opened: Open, answers: Path, source: str, said: str) -> None:
    (answers / "day33_flash_attention.py").write_text(source, encoding="utf-8")
    page = opened("flash/?tile=16&causal=true")
    page.get_by_role("combobox").select_option(OWN)
    sync_api.expect(page.locator(".compared, .failed")).to_contain_text(said)
