"""The page of experts: its routes are those of the layer of day 35, drawn choice by choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
import torch

from explorer.experts import MOST, TEXT, Routes, descent, routed, vectors
from explorer.page import OWN
from tests.browser import sync_api
from variants.moe import load_balancing_loss

Open = Callable[..., sync_api.Page]

SETTINGS = {"text": TEXT, "experts": 4, "k": 2, "capacity": 1.0, "skew": 1.0, "step": 0}


def routes_of(text: str, experts: int, k: int, capacity: float, skew: float, step: int) -> Routes:
    tokens = vectors(text.split()[:MOST])
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
    kept = {position for taken in routes.taken for position in taken}
    assert routes.lost == [one for one in range(length) if one not in kept]


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


def shows(page: sync_api.Page, **changed: float | str) -> None:
    """The table, the lines and the loss of the settings."""
    routes = routes_of(**(SETTINGS | changed))
    chosen = [int((routes.chosen == expert).sum()) for expert in range(len(routes.taken))]
    rows = [
        f"{number}{len(taken)}{number / routes.chosen.numel():.2f}{p:.2f}"
        for number, taken, p in zip(
            chosen, routes.taken, routes.probs.mean(0).tolist(), strict=True
        )
    ]
    table = page.locator(".shares tbody tr")
    sync_api.expect(table).to_have_text(
        [f"expert {number}{row}" for number, row in enumerate(rows)]
    )
    dropped = routes.chosen.numel() - sum(map(len, routes.taken))
    sync_api.expect(page.locator(".route.dropped")).to_have_count(dropped)
    sync_api.expect(page.locator(".route")).to_have_count(routes.chosen.numel())
    sync_api.expect(page.locator(".routes .lost")).to_have_count(len(routes.lost))
    loss = load_balancing_loss(routes.probs, routes.chosen).item()
    sync_api.expect(page.locator(".facts dd").first).to_have_text(f"{loss:.3f}")


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
    page.get_by_role("textbox").fill("one two two three")
    page.get_by_role("textbox").press("Enter")
    shows(page, text="one two two three", **changed)
    page.wait_for_url("**step=1**")


def test_an_address_is_a_view(opened: Open) -> None:
    shows(
        opened("experts/?text=to+be+or+not+to+be&experts=3&k=1&capacity=0.5&skew=2.5&step=12"),
        **{"text": "to be or not to be", "experts": 3, "k": 1, "capacity": 0.5, "skew": 2.5},
        step=12,
    )


@pytest.mark.parametrize(
    "text", ["😀 🙂 😀", "שלום עולם שלום", "<b>bold</b> &amp; 'quoted'", "x" * 3000]
)
def test_tokens_of_any_kind(opened: Open, text: str) -> None:
    page = opened(f"experts/?text={quote(text)}")
    shows(page, text=text)
    words = [word if len(word) < 13 else f"{word[:12]}…" for word in text.split()]
    sync_api.expect(page.locator(".routes text[text-anchor=end]")).to_have_text(words)


def test_too_many_tokens_and_none(opened: Open) -> None:
    page = opened("experts/")
    field = page.get_by_role("textbox")
    field.fill("word " * 2000)
    field.press("Enter")
    told = page.locator(".happens")
    sync_api.expect(told).to_contain_text("The first 16 of 2,000 tokens")
    field.fill("   ")
    field.press("Enter")
    sync_api.expect(told).to_have_text("There is no token to route: type a word.")
    field.fill("back again")
    field.press("Enter")
    shows(page, text="back again")


RIGHT = """def load_balancing_loss(probs, experts):
    n = probs.size(-1)
    f = (experts.flatten()[:, None] == __import__("torch").arange(n)).double().mean(0)
    return (n * (f * probs.flatten(0, -2).double().mean(0)).sum()).to(probs.dtype)
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (RIGHT, "load_balancing_loss is right here"),
        (RIGHT.replace("n * (f", "(f"), "differs from the reference by up to"),
        (RIGHT.replace("return", "return probs.nothing or"), "has no attribute 'nothing'"),
    ],
    ids=["right", "wrong", "raises"],
)
def test_the_learners_own_answer(opened: Open, answers: Path, source: str, said: str) -> None:
    (answers / "day35_mixture_of_experts.py").write_text(source, encoding="utf-8")
    page = opened("experts/")
    page.get_by_role("combobox").select_option(OWN)
    sync_api.expect(page.locator(".compared, .failed")).to_contain_text(said)
