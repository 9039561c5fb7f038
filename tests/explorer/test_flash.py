"""The page of flash attention: what it shows of a tile is what the whole softmax says of the same keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from explorer.flash import Tile, tiles_of, vectors
from implementation import attention
from tests.browser import PHONE, sync_api
from tests.explorer.conftest import View
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
        values = {
            "scores": scores[tile.rows, tile.columns],
            "highest": highest,
            "weights": weights[:, tile.columns],
            "total": weights.sum(-1, keepdim=True),
            "mixed": weights @ inputs[2, : tile.columns.stop].double(),
            "shrink": shrink,
        }
        for name, value in values.items():
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
    """What the table shows, by the numbers of its steps."""
    inputs = vectors(length, draw)
    now = tiles_of(inputs, block, causal)[tile - 1]
    query, key, value = inputs
    met = scores_of(length, draw, causal)[now.rows, : now.columns.stop].isfinite()
    output, _ = attention(query[now.rows], key[: now.columns.stop], value[: now.columns.stop], met)
    return {
        "1": written(now.scores),
        "3": written(now.weights),
        "5": written(now.mixed),
        "6": written(output),
    }


def written(numbers: torch.Tensor) -> list[str]:
    return [
        "−∞" if number == -torch.inf else f"{number:z.2f}".replace("-", "−") if number else "·"
        for number in numbers.flatten().tolist()
    ]


def shows(page: sync_api.Page, **settings: int | bool) -> None:
    for step, numbers in expected(**(SETTINGS | settings)).items():
        sync_api.expect(page.locator(f"td[data-step='{step}']")).to_have_text(numbers)


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
    page.goto(page.url.partition("?")[0] + "?tile=16")
    shows(page, tile=16)
    # The tile that a button left is where the slider goes on.
    page.get_by_role("button", name="next tile").click()  # there is none
    page.get_by_role("button", name="previous tile").click()
    shows(page, tile=15)
    slider.nth(3).press("ArrowLeft")
    shows(page, tile=14)
    assert page.get_by_role("button", name="previous tile").is_enabled()
    # On a phone the steps stay in sight.
    page.set_viewport_size({"width": PHONE, "height": 844})
    page.locator("td[data-step='6']").last.scroll_into_view_if_needed()
    sync_api.expect(page.get_by_role("button", name="next tile")).to_be_in_viewport()


def test_after_the_last_tile_it_is_day_8s_attention(viewed: Callable[[str], View]) -> None:
    view = viewed("flash/?tile=10&causal=true")
    [fact] = [text for text in view.texts(".facts div") if "all outputs differ by at most" in text]
    assert float(fact.rpartition(" ")[2].removeprefix("most")) < 1e-5


def test_the_words_tell_whose_maximum_rises(viewed: Callable[[str], View]) -> None:
    tile = tiles_of(vectors(12, 1), 3, False)[5]
    assert tile.shrink[0] == 1
    rise = ", ".join(f"query {4 + row} by {tile.shrink[1 + row, 0]:.2f}" for row in range(2))
    assert rise in viewed("flash/?tile=6").text(".happens")


def test_an_address_is_a_view(viewed: Callable[[str], View]) -> None:
    view = viewed("flash/?tile=10&causal=true")
    for step, numbers in expected(**(SETTINGS | {"tile": 10, "causal": True})).items():
        assert view.texts(f"td[data-step='{step}']") == numbers
