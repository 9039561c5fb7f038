"""The page of experts: its routes are those of the layer of day 35, drawn choice by choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
import torch

from explorer.experts import MAX_TOKENS, TEXT, Routes, descent, routed, vectors
from tests.browser import sync_api
from tests.explorer.conftest import View
from variants.moe import load_balancing_loss

Open = Callable[..., sync_api.Page]

SETTINGS = {"text": TEXT, "experts": 4, "k": 2, "capacity": 1.0, "skew": 1.0, "step": 0}


def routes_of(text: str, experts: int, k: int, capacity: float, skew: float, step: int) -> Routes:
    tokens = vectors(text.split()[:MAX_TOKENS])
    return routed(tokens, descent(tokens, experts, k, skew)[step], k, capacity)


@pytest.mark.parametrize(("experts", "k", "capacity"), [(4, 2, 1.0), (3, 1, 0.5), (8, 3, 1.25)])
def test_an_expert_takes_the_first_that_choose_it(experts: int, k: int, capacity: float) -> None:
    routes = routes_of(TEXT, experts, k, capacity, 1.0, 3)
    length = len(TEXT.split())
    assert routes.room == min(math.ceil(capacity * length * k / experts), length)
    for expert, taken in enumerate(routes.taken):
        wanting = [
            position for position, chosen in enumerate(routes.chosen.tolist()) if expert in chosen
        ]
        assert taken == wanting[: routes.room]
    processed = {position for taken in routes.taken for position in taken}
    assert routes.lost == [token for token in range(length) if token not in processed]


def test_the_router_does_not_see_positions() -> None:
    tokens = vectors(["again"] * 5)
    for weight in descent(tokens, 4, 2, 0.0)[::10]:
        probs = routed(tokens, weight, 2, 3.0).probs
        torch.testing.assert_close(probs, probs[:1].expand_as(probs), rtol=0, atol=0)


def test_training_spreads_the_tokens() -> None:
    losses = [
        load_balancing_loss(routes.probs, routes.chosen)
        for routes in (routes_of(TEXT, 8, 2, 1.0, 1.0, step) for step in (0, 40))
    ]
    assert losses[0] > 2 > 1.2 > losses[1]


def test_what_the_page_says_of_a_skew() -> None:
    """Of the text and the settings that it begins with."""
    lost = {}
    for skew, step in ((1.0, 0), (1.0, 40), (3.0, 0), (2.0, 40), (3.0, 40)):
        routes = routes_of(TEXT, 4, 2, 1.0, skew, step)
        lost[skew, step] = routes.chosen.numel() - sum(map(len, routes.taken))
        assert (3 in routes.chosen) == (skew == 1), (
            "from a skew of 2 on the last expert stays empty"
        )
    assert lost[1.0, 40] < lost[1.0, 0]
    assert lost[3.0, 0] == 12
    assert routes.chosen.numel() == 26


def expected(**changed: float | str) -> dict[str, list[str] | int]:
    """What is seen of the settings, by selector: texts, or how many there are."""
    routes = routes_of(**(SETTINGS | changed))
    total, rows = routes.chosen.numel(), []
    for expert, (taken, p) in enumerate(
        zip(routes.taken, routes.probs.mean(0).tolist(), strict=True)
    ):
        number = int((routes.chosen == expert).sum())
        rows.append(f"expert {expert}{number}{len(taken)}{number / total:.2f}{p:.2f}")
    loss = load_balancing_loss(routes.probs, routes.chosen).item()
    return {
        ".shares tbody tr": rows,
        ".route.dropped": total - sum(map(len, routes.taken)),
        ".route": total,
        ".routes .lost": len(routes.lost),
        ".facts div:first-child dd": [f"{loss:.3f}"],
    }


def shows(page: sync_api.Page, **changed: float | str) -> None:
    for selector, value in expected(**changed).items():
        expect = sync_api.expect(page.locator(selector))
        expect.to_have_count(value) if isinstance(value, int) else expect.to_have_text(value)


def test_every_control_changes_the_routes(opened: Open) -> None:
    page = opened("experts/")
    shows(page)
    changed: dict[str, float | str] = {}
    slider = page.get_by_role("slider")
    for index, (name, value) in enumerate(
        {"experts": 5, "k": 3, "capacity": 1.25, "skew": 1.25, "step": 1}.items()
    ):
        slider.nth(index).press("ArrowRight")
        changed[name] = value
        shows(page, **changed)
    page.get_by_role("textbox").fill("   ")
    page.get_by_role("textbox").press("Enter")
    message = page.locator(".happens")
    sync_api.expect(message).to_have_text("There is no token to route: type a word.")
    page.get_by_role("textbox").fill("one two two three")
    page.get_by_role("textbox").press("Enter")
    shows(page, text="one two two three", **changed)
    page.wait_for_url("**step=1**")


TEXTS = ("😀 🙂 😀", "שלום עולם שלום", "<b>bold</b> &amp; 'quoted'", "x" * 3000)


@pytest.mark.parametrize(
    ("address", "settings"),
    [
        (
            "&experts=3&k=1&capacity=0.5&skew=2.5&step=12",
            {"experts": 3, "k": 1, "capacity": 0.5, "skew": 2.5, "step": 12},
        ),
        *((f"&text={quote(text)}", {"text": text}) for text in TEXTS),
    ],
    ids=["all", "emoji", "right to left", "markup", "long"],
)
def test_an_address_is_a_view(
    viewed: Callable[[str], View], address: str, settings: dict[str, Any]
) -> None:
    view = viewed(f"experts/?{address}")
    for selector, value in expected(**settings).items():
        texts = [element.get_text() for element in view.html.select(selector)]
        assert (len(texts) if isinstance(value, int) else texts) == value, selector
    words = (SETTINGS | settings)["text"].split()
    words = [word if len(word) < 13 else f"{word[:12]}…" for word in words]
    assert view.texts(".routes text[text-anchor=end]") == words


def test_of_too_many_tokens_the_first_are_routed(viewed: Callable[[str], View]) -> None:
    view = viewed(f"experts/?text={'word+' * 2000}")
    assert "The first 16 of 2,000 tokens" in view.text(".happens")
    assert view.texts(".routes text[text-anchor=end]") == ["word"] * 16
