"""The page of the learning rate: its run is the reference's, whoever stops it and whenever."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from explorer.copying import BATCH, EVERY, HELD_OUT, LENGTH, STEPS, VOCAB, CopyRun
from explorer.learning import schedule
from explorer.page import REFERENCE, parts
from implementation import Batch, LabelSmoothing, greedy_decode, make_model, rate, run_epoch
from tests.browser import sync_api
from tests.explorer.conftest import View

Open = Callable[..., sync_api.Page]


def rates(d_model: int = 16, factor: float = 0.5, warmup: int = 100) -> list[float]:
    return [rate(step, d_model, factor, warmup) for step in range(1, STEPS + 1)]


def written_out(
    d_model: int, factor: float, warmup: int, smoothing: float, steps: int
) -> tuple[list[float], list[float], list[int], torch.Tensor]:
    """The same run in one loop of the reference: losses, norms, what it says, where it looks."""
    torch.manual_seed(0)
    model = make_model(VOCAB, VOCAB, n=1, d_model=d_model, d_ff=2 * d_model, h=2, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate(step + 1, d_model, factor, warmup)
    )

    def sequences(number: int, generator: torch.Generator) -> torch.Tensor:
        tokens = torch.randint(1, VOCAB, (number, LENGTH), generator=generator)
        tokens[:, 0] = 1
        return tokens

    held_out = sequences(HELD_OUT, torch.Generator().manual_seed(2))
    measured, data = [Batch(held_out, held_out)], torch.Generator().manual_seed(1)
    plain, smoothed = LabelSmoothing(VOCAB, 0), LabelSmoothing(VOCAB, 0, smoothing)
    losses, norms = [run_epoch(measured, model, plain)], []
    attention = model.decoder.layers[0].src_attn
    for step in range(1, steps + 1):
        tokens = sequences(BATCH, data)
        run_epoch([Batch(tokens, tokens)], model, smoothed, optimizer, scheduler)
        flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        norms.append(flat.norm().item())
        if step % EVERY == 0:
            losses.append(run_epoch(measured, model, plain))
    weights = attention.weights[0]
    output = greedy_decode(
        model, held_out[:1], torch.ones(1, 1, LENGTH, dtype=torch.bool), LENGTH, 1
    )
    return losses, norms, output[0].tolist(), weights


@pytest.mark.slow
def test_the_run_is_the_references() -> None:
    losses, norms, output, weights = written_out(16, 0.5, 100, 0.1, 4 * EVERY)
    torch.manual_seed(99)  # what others draw meanwhile is nothing to it
    run = CopyRun(rates(), 16, 0.1)
    for _ in range(4):
        torch.rand(3)
        run.advance()
    assert run.step == 4 * EVERY
    assert run.losses == pytest.approx(losses, rel=1e-4)
    assert run.norms == pytest.approx(norms, rel=1e-3)
    assert run.said == output
    torch.testing.assert_close(run.weights, weights, rtol=1e-3, atol=1e-4)


def test_a_visitors_seed_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    CopyRun(rates(), 16, 0.1).advance()
    assert torch.rand(2).equal(expected)


@pytest.mark.slow
def test_it_learns_and_a_rate_too_large_does_not() -> None:
    ends = {}
    for factor in (0.5, 8):
        run = CopyRun(rates(32, factor), 32, 0.1)
        while not run.ended:
            run.advance()
        ends[factor] = run.losses[-1]
        assert run.step == STEPS == len(run.norms)
        run.advance()
        assert run.step == STEPS  # there is nothing more to do
    assert ends[0.5] < 0.2
    assert ends[8] > 0.8 * math.log(VOCAB - 1)


def test_numbers_that_are_none_end_it() -> None:
    run = CopyRun([math.nan] * STEPS, 16, 0.1)
    run.advance()
    assert run.ended
    assert run.step == EVERY


def test_the_schedule_is_rate() -> None:
    assert schedule(parts("learning", REFERENCE), 64, 2, 30) == rates(64, 2, 30)


def told(page: sync_api.Page, name: str) -> sync_api.Locator:
    return page.locator(".facts div", has_text=name).locator("dd")


def is_at(page: sync_api.Page, step: int) -> None:
    sync_api.expect(told(page, "step")).to_have_text(f"{step} of {STEPS}")


def stands_at(page: sync_api.Page) -> int:
    """Return the step at which a stopped run stays: a part asked for before may still be done."""
    before = ""
    while (now := told(page, "step").inner_text()) != before:
        before = now
        page.wait_for_timeout(1500)
    return int(now.split()[0])


def button(page: sync_api.Page, name: str) -> sync_api.Locator:
    return page.get_by_role("button", name=name, exact=True)


def test_every_slider_moves_what_is_drawn_and_the_run_is_theirs(opened: Open) -> None:
    """A run is started, stopped, gone on with, and begun anew."""
    page = opened("learning/")
    settings = {"d_model": 32, "factor": 0.5, "warmup": 100}
    moved = {"factor": ("factor", 0.2), "warm-up": ("warmup", 60), "d_model": ("d_model", 16)}
    planned = page.locator(".planned").first
    for name, (setting, value) in moved.items():
        before = planned.get_attribute("points")
        page.get_by_role("slider", name=name).press("ArrowLeft")
        sync_api.expect(planned).not_to_have_attribute("points", before)
        settings[setting] = value
        first = rate(1, settings["d_model"], settings["factor"], settings["warmup"])
        sync_api.expect(told(page, "next learning rate")).to_have_text(f"{first:.2g}")
    page.get_by_role("slider", name="smoothing").press("ArrowRight")
    page.wait_for_url("**smoothing=0.2**")
    button(page, "Start").press("Enter")
    page.wait_for_function("() => parseInt(document.querySelector('.facts dd').innerText) >= 10")
    button(page, "Stop").press("Enter")
    button(page, "Go on").wait_for()
    step = stands_at(page)
    losses, norms, output, _ = written_out(16, 0.2, 60, 0.2, step)
    assert float(told(page, "loss").inner_text()) == pytest.approx(losses[-1], abs=2e-3)
    assert float(told(page, "norm").inner_text()) == pytest.approx(norms[-1], rel=1e-2)
    assert page.locator(".copied code").nth(1).inner_text().split() == [
        str(symbol) for symbol in output
    ]
    button(page, "Go on").press("Enter")
    page.wait_for_function(
        "step => parseInt(document.querySelector('.facts dd').innerText) > step", arg=step
    )
    button(page, "Stop").press("Enter")
    button(page, "Go on").wait_for()
    button(page, "Reset").press("Enter")
    is_at(page, 0)
    button(page, "Start").wait_for()


def test_two_visitors_have_a_run_each(opened: Open) -> None:
    first, other = opened("learning/"), opened("learning/?factor=2")
    button(first, "Start").click()
    sync_api.expect(told(first, "step")).not_to_have_text(f"0 of {STEPS}")
    is_at(other, 0)
    first.close()  # and a page that is left takes nothing with it
    button(other, "Start").click()
    sync_api.expect(told(other, "step")).not_to_have_text(f"0 of {STEPS}")


def test_an_address_is_a_view(viewed: Callable[[str], View]) -> None:
    view = viewed("learning/?factor=2&warmup=30&d_model=64&smoothing=no")
    assert f"{rate(1, 64, 2, 30):.2g}" in view.texts(".facts dd")
    assert view.names["smoothing"].value == 0.1
