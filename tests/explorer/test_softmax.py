"""The page of softmax and temperature: what it shows is what the reference computes, or the learner's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numpy_reference
from explorer.charts import ABOVE, BELOW, HEIGHT, curves
from explorer.page import OWN
from explorer.softmax import TEMPERATURES
from tests.browser import sync_api

Open = Callable[..., sync_api.Page]
START = [2.0, 1.0, 0.5, -1.0]


def expected(scores: list[float], temperature: float) -> list[str]:
    shares = numpy_reference.softmax(np.array(scores) / temperature)
    return [f"{share:.3f}" for share in shares]


def numbers(page: sync_api.Page) -> list[str]:
    return page.locator(".bars .number").all_inner_texts()


def test_every_slider_moves_what_is_drawn(opened: Open) -> None:
    page = opened("softmax/")
    scores, temperature = list(START), 1.0
    assert numbers(page) == expected(scores, temperature)
    for index, slider in enumerate(page.get_by_role("slider").all()):
        before = numbers(page)
        slider.press("ArrowLeft")
        if index == 0:
            temperature = TEMPERATURES[TEMPERATURES.index(temperature) - 1]
        else:
            scores[index - 1] -= 0.25
        page.wait_for_function(
            "before => document.querySelector('.bars').innerText.includes(before) === false",
            arg="\t".join(before),
        )
        sync_api.expect(page.locator(".bars .number")).to_have_text(expected(scores, temperature))


def test_the_names_of_lines_are_at_their_ends_and_do_not_touch() -> None:
    ends = {"top": 1.0, "upper": 0.51, "lower": 0.50, "bottom": 0.0}
    drawn = curves(range(2), {name: [0.0, end] for name, end in ends.items()}, "x", "y")
    top, upper, lower, bottom = map(float, re.findall(r'"name [^>]*y="([\d.]+)"', drawn))
    room = HEIGHT - BELOW - ABOVE
    assert lower - upper == pytest.approx(16, abs=0.1)
    assert (upper + lower) / 2 == pytest.approx(ABOVE + 0.495 * room + 4, abs=0.1)
    assert top == pytest.approx(ABOVE + 4)
    assert bottom <= HEIGHT - BELOW


def test_an_address_is_a_view(opened: Open) -> None:
    page = opened("softmax/?temperature=4.642&cat=-2.5")
    assert numbers(page) == expected([-2.5, 1.0, 0.5, -1.0], 4.642)
    page.get_by_role("slider").first.press("ArrowLeft")
    page.wait_for_url("**temperature=3.831**")


@pytest.mark.parametrize("address", ["temperature=warm", "temperature=-1&cat=1e9", "answers=his"])
def test_an_address_that_says_nothing_is_passed_over(opened: Open, address: str) -> None:
    assert numbers(opened(f"softmax/?{address}")) == expected(START, 1.0)


def written(*body: str) -> str:
    return "\n    ".join(["import os, numpy as np\ndef softmax(x, axis=-1):", *body]) + "\n"


RIGHT = written("e = np.exp(x)", "return e / e.sum(axis, keepdims=True)")
WRONG = written("e = np.exp(x)", "return e / e.sum()")
RAISES = written("return x.nothing")
LOOPS = written("while True: pass")
PRINTS = written("while True: print('again and again')")
SHAPE = written("return x[:1]")
ENDS = written("os._exit(3)")
SYNTAX = "def softmax(x, axis=-1:\n"
DTYPE = written("return x + 1j")
IMPORTS = "from numpy_reference import softmax\n"


def test_an_answer_that_is_yet_to_be_written(opened: Open, answers: Path) -> None:
    file = answers / "day01_softmax.py"
    file.unlink(missing_ok=True)
    page = opened("softmax/?answers=my+exercises")
    told = page.locator(".failed")
    sync_api.expect(told).to_contain_text("There is no day01_softmax.py in")
    file.write_text(written("raise NotImplementedError"), encoding="utf-8")
    page.get_by_role("slider").first.press("ArrowLeft")
    sync_api.expect(told).to_contain_text(f"`softmax` is yours to write: {file} (`course watch 1`)")
    sync_api.expect(told).not_to_contain_text("Your answer")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (RIGHT, "softmax is right here"),
        (WRONG, "differs from the reference by up to"),
        (RAISES, "has no attribute 'nothing'"),
        (LOOPS, "endless loop"),
        (PRINTS, "again and again"),
        (SHAPE, "returned the shape (1,), not (4,)"),
        (ENDS, "exit code 3"),
        (SYNTAX, "day01_softmax.py"),
        (DTYPE, "returned the dtype complex128, not float64"),
        (IMPORTS, "your file imports it"),
    ],
    ids=[
        "right",
        "wrong",
        "raises",
        "loops",
        "prints",
        "shape",
        "ends",
        "syntax",
        "dtype",
        "imports",
    ],
)
def test_the_learners_own_answer(opened: Open, answers: Path, source: str, said: str) -> None:
    (answers / "day01_softmax.py").write_text(source, encoding="utf-8")
    page = opened("softmax/")
    page.get_by_role("combobox").select_option(OWN)
    sync_api.expect(page.locator(".compared, .failed")).to_contain_text(said)
    page.get_by_role("combobox").select_option("the reference")
    sync_api.expect(page.locator(".bars .number").first).to_have_text(expected(START, 1.0)[0])
