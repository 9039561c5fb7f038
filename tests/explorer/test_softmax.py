"""The page of softmax and temperature: what it shows is what the reference computes, or the learner's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numpy_reference
from explorer.charts import ABOVE, BELOW, HEIGHT, curves
from explorer.page import OWN, REFERENCE
from explorer.softmax import TEMPERATURES
from tests.browser import sync_api
from tests.explorer.conftest import View

START = [2.0, 1.0, 0.5, -1.0]
NUMBERS = ".bars .number"


def expected(scores: list[float], temperature: float) -> list[str]:
    shares = numpy_reference.softmax(np.array(scores) / temperature)
    return [f"{share:.3f}" for share in shares]


def test_every_control_changes_what_is_drawn(
    opened: Callable[..., sync_api.Page], answers: Path
) -> None:
    """Also an answer that is yet to be written, and is written meanwhile."""
    file = answers / "day01_softmax.py"
    file.unlink(missing_ok=True)
    page = opened("softmax/")
    scores, temperature = list(START), 1.0

    def shows() -> None:
        sync_api.expect(page.locator(NUMBERS)).to_have_text(expected(scores, temperature))

    shows()
    sliders = page.get_by_role("slider").all()
    for index, slider in enumerate(sliders):
        slider.press("ArrowLeft")
        if index == 0:
            temperature = TEMPERATURES[TEMPERATURES.index(temperature) - 1]
            page.wait_for_url(f"**temperature={temperature}**")
        else:
            scores[index - 1] -= 0.25
        shows()
    page.get_by_role("combobox").select_option(OWN)
    message = page.locator(".failed")
    sync_api.expect(message).to_contain_text("There is no day01_softmax.py in")
    for result, words in {
        "raise NotImplementedError": f"`softmax` is yours to write: {file} (`course watch 1`)",
        "return x.nothing": "has no attribute 'nothing'",
        "return np.exp(x) / np.exp(x).sum(axis, keepdims=True)": "softmax is right here",
    }.items():
        source = f"import numpy as np\ndef softmax(x, axis=-1):\n    {result}\n"
        file.write_text(source, encoding="utf-8")
        sliders[1].press("ArrowLeft")
        scores[0] -= 0.25
        sync_api.expect(page.locator(".compared, .failed")).to_contain_text(words)
        if "NotImplemented" in result:
            sync_api.expect(message).not_to_contain_text("Your answer")
    page.get_by_role("combobox").select_option(REFERENCE)
    sync_api.expect(page.locator(".compared")).to_have_count(0)
    shows()


def test_the_names_of_lines_are_at_their_ends_and_do_not_touch() -> None:
    ends = {"top": 1.0, "upper": 0.51, "lower": 0.50, "bottom": 0.0}
    svg = curves(range(2), {name: [0.0, end] for name, end in ends.items()}, "x", "y")
    top, upper, lower, bottom = map(float, re.findall(r'"name [^>]*y="([\d.]+)"', svg))
    room = HEIGHT - BELOW - ABOVE
    assert lower - upper == pytest.approx(16, abs=0.1)
    assert (upper + lower) / 2 == pytest.approx(ABOVE + 0.495 * room + 4, abs=0.1)
    assert top == pytest.approx(ABOVE + 4)
    assert bottom <= HEIGHT - BELOW


def test_an_address_is_a_view(viewed: Callable[[str], View]) -> None:
    view = viewed("softmax/?temperature=4.642&cat=-2.5")
    assert view.texts(NUMBERS) == expected([-2.5, 1.0, 0.5, -1.0], 4.642)


def test_a_hundred_draws_are_in_proportion(viewed: Callable[[str], View]) -> None:
    squares = viewed("softmax/").html.select(".hundred rect")
    shares = numpy_reference.softmax(np.array(START))
    counts = [sum(f"hue-{word}" in square["class"] for square in squares) for word in range(4)]
    assert sum(counts) == 100
    assert np.abs(np.array(counts) - 100 * shares).max() <= 1
