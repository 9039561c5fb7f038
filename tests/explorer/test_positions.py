"""The page of positions: what it shows is what the references compute, or the learner's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pytest
import torch

import numpy_reference
from explorer.positions import ADDED, DAY, KEY, LIKED, PRICED, QUERY, SLIDERS, TURNED
from tests.browser import PATIENCE, sync_api
from tests.explorer.conftest import View
from variants.alibi import alibi_bias, alibi_slopes
from variants.rope import apply_rope, rope_angles

Open = Callable[..., sync_api.Page]
View_ = Callable[[str], View]
START = {
    ADDED: {"place": 5, "width": 16},
    TURNED: {"query": 9, "key": 4, "base": 10_000},
    PRICED: {"heads": 8, "reader": 20, "liking": 3},
}
# One step to the left of where each slider starts.
MOVED = {"width": 14, "query": 8, "key": 3, "base": 1000, "heads": 7, "reader": 19, "liking": 2}


def at(way: str) -> str:
    return f"positions/?way={quote_plus(way)}"


def numbers(text: str) -> list[float]:
    """Those with a point, and a minus in front where there is one."""
    matches = re.findall(r"(?<![\w.])[-+−]?\d+\.\d+", text)
    return [float(number.replace("−", "-")) for number in matches]


# The numbers on the page: those below the dials, those at the rows of a grid, and the facts.
TOLD = ".clock figcaption div, .heat text:not(.legend), .facts dd"


def sinusoids(position: int, width: int) -> list[float]:
    return numpy_reference.positional_encoding(position + 1, width)[position].tolist()


def rotations(query: int, key: int, base: float) -> list[float]:
    """Of each pair the degrees a step and the product; then both scores."""
    angles = rope_angles(8, 64, base)
    q, k = (
        apply_rope(torch.tensor(vector, dtype=torch.float64).unsqueeze(0), angles, position)[0]
        for vector, position in ((QUERY, query), (KEY, key))
    )
    products = (q * k).view(4, 2).sum(dim=-1)
    steps = angles[1].rad2deg()
    dials = torch.stack([steps, products], dim=-1).flatten().tolist()
    return [*dials, float(q @ k), float(np.dot(QUERY, KEY))]


def prices(heads: int, reader: int, liking: float) -> list[float]:
    """All slopes and the extreme ones; and the extreme weights of the key that is liked."""
    slopes = alibi_slopes(heads)
    scores = torch.zeros(reader + 1)
    scores[LIKED] = liking
    weights = (alibi_bias(heads, 1, reader + 1)[:, 0] + scores).softmax(dim=-1)[:, LIKED]
    ends = [slopes.max(), slopes.min(), *weights.aminmax()]
    return [*slopes.tolist(), *(end.item() for end in ends)]


EXPECTED = {ADDED: sinusoids, TURNED: rotations, PRICED: prices}


def about(expected: list[float]) -> Any:
    """The same numbers, as far as they are printed."""
    return pytest.approx(expected, rel=0.002, abs=0.0051)


def shows(page: sync_api.Page, way: str, settings: dict[str, float]) -> None:
    """The page comes to show these numbers."""
    for _ in range(PATIENCE // 50):
        shown = numbers(" ".join(page.locator(TOLD).all_text_contents()))
        if shown == about(EXPECTED[way](**settings)):
            return
        page.wait_for_timeout(50)
    assert shown == about(EXPECTED[way](**settings))


def test_every_slider_moves_what_is_drawn_of_every_way(opened: Open) -> None:
    page = opened("positions/?place=7")
    start = START | {ADDED: {"place": 7, "width": 16}}
    for way, names in SLIDERS.items():
        page.get_by_role("radio", name=way).click()
        settings = dict(start[way])
        shows(page, way, settings)
        for slider, name in enumerate(names):
            before = page.locator(".drawn").inner_html()
            page.get_by_role("slider").nth(slider).press("ArrowLeft")
            settings[name] = 6 if name == "place" else MOVED[name]
            page.wait_for_url(f"**{name}={settings[name]}**")
            shows(page, way, settings)
            assert page.locator(".drawn").inner_html() != before, name
    page.get_by_role("radio", name=ADDED).press("Space")  # whose sliders are where they were
    shows(page, ADDED, {"place": 6, "width": 14})


def test_hands_point_where_the_numbers_say(viewed: View_) -> None:
    hands = viewed("positions/?place=2&width=4").html.select(".hand")
    ends = [[float(hand["x2"]), float(hand["y2"])] for hand in hands]
    # Sine to the right, cosine upwards.
    np.testing.assert_allclose(ends, np.array(sinusoids(2, 4)).reshape(2, 2) * [46, -46], atol=0.06)


def test_the_score_stays_where_both_words_move(viewed: View_) -> None:
    near = viewed(f"{at(TURNED)}&query=9&key=4").texts(TOLD)
    assert viewed(f"{at(TURNED)}&query=49&key=44").texts(TOLD) == near
    assert viewed(f"{at(TURNED)}&query=49&key=43").texts(TOLD) != near


def test_every_day_of_the_page_has_its_way() -> None:
    assert tuple(DAY.values()) == (5, 29, 30)
