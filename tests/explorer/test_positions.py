"""The page of positions: what it shows is what the references compute, or the learner's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote_plus

import numpy as np
import pytest
import torch

import numpy_reference
from explorer.page import OWN
from explorer.positions import ADDED, DAY, KEY, LIKED, PRICED, QUERY, SLIDERS, TURNED
from tests.browser import PATIENCE, sync_api
from variants.alibi import alibi_bias, alibi_slopes
from variants.rope import apply_rope, rope_angles

Open = Callable[..., sync_api.Page]
START = {
    ADDED: {"place": 5, "width": 16},
    TURNED: {"query": 9, "key": 4, "base": 10_000},
    PRICED: {"heads": 8, "reader": 20, "liking": 3},
}
# One step to the left of where each slider starts.
MOVED = {
    "place": 4,
    "width": 14,
    "query": 8,
    "key": 3,
    "base": 1000,
    "heads": 7,
    "reader": 19,
    "liking": 2,
}


def at(way: str) -> str:
    return f"positions/?way={quote_plus(way)}"


def numbers(text: str) -> list[float]:
    """Those with a point, and a minus in front where there is one."""
    found = re.findall(r"(?<![\w.])[-+−]?\d+\.\d+", text)
    return [float(number.replace("−", "-")) for number in found]


def told(page: sync_api.Page) -> list[float]:
    """The numbers on the page: those below the dials, those at the rows of a grid, and the facts."""
    seen = page.locator(
        ".clock figcaption div, .heat text:not(.legend), .facts dd"
    ).all_text_contents()
    return numbers(" ".join(seen))


def sinusoids(place: int, width: int) -> list[float]:
    return numpy_reference.positional_encoding(place + 1, width)[place].tolist()


def rotations(query: int, key: int, base: float) -> list[float]:
    """Of each pair the degrees a step and the product; then both scores."""
    angles = rope_angles(8, 64, base)
    q, k = (
        apply_rope(torch.tensor(vector, dtype=torch.float64).unsqueeze(0), angles, place)[0]
        for vector, place in ((QUERY, query), (KEY, key))
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


def shows(page: sync_api.Page, expected: list[float]) -> None:
    """The page comes to show these numbers, as far as it prints them."""
    wanted = pytest.approx(expected, rel=0.002, abs=0.0051)
    for _ in range(PATIENCE // 50):
        if told(page) == wanted:
            return
        page.wait_for_timeout(50)
    assert told(page) == wanted


@pytest.mark.parametrize(
    ("way", "name"), [(way, name) for way, names in SLIDERS.items() for name in names]
)
def test_every_slider_moves_what_is_drawn(opened: Open, way: str, name: str) -> None:
    page = opened(at(way))
    shows(page, EXPECTED[way](**START[way]))
    before = page.locator(".drawn").inner_html()
    page.get_by_role("slider").nth(SLIDERS[way].index(name)).press("ArrowLeft")
    page.wait_for_url(f"**{name}={MOVED[name]}**")
    shows(page, EXPECTED[way](**START[way] | {name: MOVED[name]}))
    assert page.locator(".drawn").inner_html() != before


def test_one_goes_from_way_to_way_and_back(opened: Open) -> None:
    page = opened("positions/?place=7")
    for way in (TURNED, PRICED):
        page.get_by_role("radio", name=way).click()
        shows(page, EXPECTED[way](**START[way]))
    page.get_by_role("radio", name=ADDED).press("Space")
    shows(page, sinusoids(7, 16))


def test_hands_point_where_the_numbers_say(opened: Open) -> None:
    page = opened("positions/?place=2&width=4")
    ends = [
        [float(hand.get_attribute("x2")), float(hand.get_attribute("y2"))]
        for hand in page.locator(".hand").all()
    ]
    hands = np.array(sinusoids(2, 4)).reshape(2, 2) * [46, -46]  # sine to the right, cosine upwards
    np.testing.assert_allclose(ends, hands, atol=0.06)


def test_the_score_stays_where_both_words_move(opened: Open) -> None:
    near = told(opened(f"{at(TURNED)}&query=9&key=4"))
    assert told(opened(f"{at(TURNED)}&query=49&key=44")) == near
    assert told(opened(f"{at(TURNED)}&query=49&key=43")) != near


@pytest.mark.parametrize("address", ["way=somewhere", "place=-1&width=15", "place=first", "way=[]"])
def test_an_address_that_says_nothing_is_passed_over(opened: Open, address: str) -> None:
    shows(opened(f"positions/?{address}"), sinusoids(5, 16))


SINUSOIDS = """
import numpy as np
def positional_encoding(max_len, d_model):
    angles = np.arange(max_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.{joined}
"""
ROTATION = """
import torch
def rope_angles(head_dim, max_len, base=10000.0):
    theta = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / {width})
    return torch.outer(torch.arange(max_len, dtype=torch.float64), theta)
"""
SLOPES = """
import torch
def alibi_slopes(n_heads):
    return torch.{value}
def alibi_bias(n_heads, t_q, t_k):
    raise NotImplementedError
"""


@pytest.mark.parametrize(
    ("way", "stem", "source", "said"),
    [
        (
            ADDED,
            "day05_positional_encoding",
            SINUSOIDS.format(
                joined="stack([np.sin(angles), np.cos(angles)], -1).reshape(max_len, -1)"
            ),
            "positional_encoding is right here",
        ),
        (
            ADDED,
            "day05_positional_encoding",
            SINUSOIDS.format(joined="concatenate([np.sin(angles), np.cos(angles)], -1)"),
            "positional_encoding differs from the reference",
        ),
        (TURNED, "day29_rope", ROTATION.format(width="head_dim"), "`apply_rope` is yours to write"),
        (
            PRICED,
            "day30_alibi",
            SLOPES.format(value="zeros(3)"),
            "returned the shape (3,), not (8,)",
        ),
        (
            PRICED,
            "day30_alibi",
            SLOPES.format(value="ones(n_heads)"),
            "`alibi_bias` is yours to write",
        ),
    ],
    ids=["right", "joined", "unfinished", "shape", "not begun"],
)
def test_the_learners_own_answer(
    opened: Open, answers: Path, way: str, stem: str, source: str, said: str
) -> None:
    (answers / f"{stem}.py").write_text(source, encoding="utf-8")
    page = opened(at(way))
    page.get_by_role("combobox").select_option(OWN)
    sync_api.expect(page.locator(".compared, .failed")).to_contain_text(said)


def test_every_day_of_the_page_has_its_way() -> None:
    assert tuple(DAY.values()) == (5, 29, 30)
