"""A report says what the numbers allow, and no more: from results that are made up."""

from __future__ import annotations

import dataclasses
import math
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from laboratory.report import document, report_pictures
from laboratory.report.claims import headline
from laboratory.report.comparison import Compared
from laboratory.report.digits import number, places, signed, significant
from laboratory.study import description
from laboratory.study.description import Study
from laboratory.study.results import CellResult, Results, read, write
from training.errors import Refused

NAN = math.nan
MADE: dict[str, str | int | float] = {
    **{"torch": "2.13.0", "machine": "x86_64 AVX2", "device": "cpu", "threads": 1},
    **{"commit": "0123456789ab", "data": "fedcba"},
}
ASKED: dict[str, Any] = {
    "question": "Does width help?",
    "task": "shakespeare",
    "settings": {"dropout": 0.0, "smoothing": 0.0},
    "baseline": "narrow",
    "variants": {"narrow": {}, "wide": {"d_ff": 4096}, "deep": {"layers": 8}},
    "grid": {"warmup": [10, 50]},
    "seeds": [0, 1, 2],
    "equal": "tokens",
    "held": "All read the same batches.",
    "figures": {
        "loss": {
            **{"words": "loss", "unit": "nats per character", "better": "lower"},
            **{"digits": 3, "margin": 0.01},
        },
        "accuracy": {"words": "accuracy", "better": "higher", "digits": 3},
        "cache": {"words": "bytes kept", "better": "lower", "digits": 0},
        "pace": {"words": "tokens a second", "better": "higher", "digits": 0, "timed": True},
    },
    "pictures": [
        {"kind": "against", "x": "warmup", "y": "loss", "logx": True},
        {"kind": "differences", "y": "loss"},
        {"kind": "curves", "y": "loss"},
        {"kind": "scatter", "x": "loss", "y": "accuracy"},
        {"kind": "lengths", "y": "read"},
    ],
    "why": {"accuracy": "Nobody counted."},
}
THOUSAND = {**ASKED["settings"], "steps": 1000}
LANGUAGE = {**ASKED["settings"], "data": "text.txt"}
# Of each seed: what the seed does to all variants, and what else it does to this one.
SHARED = (0.00, 0.05, -0.04)
OWN = {"narrow": (0.0, 0.0, 0.0), "wide": (0.001, -0.001, 0.0), "deep": (0.002, -0.02, 0.017)}
SHIFT = {"narrow": 0.0, "wide": -0.1, "deep": 0.0}


def asked(**changes: Any) -> Study:
    return description.of({**ASKED, **changes}, "width", Path("study.yaml"))


def simple(**changes: Any) -> Study:
    """The same study at a single point."""
    pictures = [picture for picture in ASKED["pictures"] if picture["kind"] != "against"]
    return asked(**{"grid": {}, "pictures": pictures, **changes})


Change = Callable[[str, int, dict[str, float]], None]


def results(study: Study, change: Change | None = None) -> Results:
    cells = []
    for cell in study.cells:
        name, seed = cell.variant, cell.seed
        loss = 2 + SHIFT[name] + SHARED[seed] + OWN[name][seed]
        figures = {"loss": loss, "accuracy": 1 - loss / 4, "cache": 1024.0, "parameters": 1000.0}
        figures |= {"read_64": loss, "read_128": loss + 0.1}
        figures["cache"] *= {"narrow": 1, "wide": 2, "deep": 4}[name]
        if change is not None:
            change(name, seed, figures)
        curve = [(10, figures["loss"] + 1), (20, figures["loss"])]
        timed = {"pace": 12_345.0 + 1000 * seed}
        cells.append(CellResult(name, dict(cell.point), seed, figures, timed, curve))
    return Results("width", MADE, cells)


def diverge(name: str, seeds: int) -> Change:
    def change(variant: str, seed: int, figures: dict[str, float]) -> None:
        if variant == name and seed < seeds:
            figures.clear()
            figures |= {"loss": NAN, "parameters": 1000.0}

    return change


# --- What is said ---------------------------------------------------------------------------------


def test_a_difference_is_claimed_with_its_size_and_interval() -> None:
    study = simple()
    text = document.report(study, results(study))
    assert "better than `narrow`: `wide` by 0.100 (0.098 to 0.102)" in text
    assert "- `wide`: better by 0.100 (0.098 to 0.102)." in text
    assert "**−0.100 (−0.102 to −0.098)**" in text


def test_higher_is_better_where_it_is_said_to_be() -> None:
    study = simple()
    text = document.report(study, results(study))
    paragraph = text[text.index("**Accuracy** (higher is better)") :]
    assert "- `wide`: better by 0.025 " in paragraph


def test_what_three_seeds_do_not_decide_is_open() -> None:
    study = simple()
    text = document.report(study, results(study))
    assert "**Open:** `deep`." in text
    assert "- `deep`: open: 0.00 (−0.05 to +0.05)." in text
    row = next(line for line in text.splitlines() if line.startswith("| `deep` | 2.00"))
    assert "**" not in row


def test_a_small_interval_is_bounded_by_the_margin() -> None:
    def change(variant: str, seed: int, figures: dict[str, float]) -> None:
        if variant == "deep":
            figures["loss"] = 2 + SHARED[seed] + (0.001, -0.002, 0.0015)[seed]

    study = simple()
    text = document.report(study, results(study, change))
    assert "**Bounded** (the same to within 0.01 nats per character): `deep`." in text
    assert "- `deep`: the same to within 0.01 nats per character: " in text
    assert "1 bounded" in text
    without = simple(figures={"loss": {"words": "loss"}})
    assert "**Open:** `deep`." in document.report(without, results(without, change))


def test_a_claimed_difference_within_the_margin_says_so() -> None:
    def change(variant: str, seed: int, figures: dict[str, float]) -> None:
        if variant == "deep":
            figures["loss"] = 2 + SHARED[seed] + 0.001 + 0.0001 * seed

    study = simple()
    assert "`deep` by 0.0011 (0.0009 to 0.0013, within the margin)" in document.report(
        study, results(study, change)
    )


def test_intervals_are_over_seeds_and_text_where_losses_have_blocks() -> None:
    study = simple()
    plain = results(study)
    text = np.random.default_rng(0).normal(0, 0.5, 100)  # what the text does to `wide` alone

    def blocks(cell: CellResult) -> dict[str, list[float]]:
        moved = cell.figures["loss"] + (text - text.mean() if cell.variant == "wide" else 0 * text)
        return {"loss": moved.tolist()}

    cells = [dataclasses.replace(cell, blocks=blocks(cell)) for cell in plain.cells]
    report = document.report(study, dataclasses.replace(plain, cells=cells))
    assert "The intervals of loss are over seeds and text" in report
    assert "- `wide`: open: −0.10 (−0.20 to 0.00)." in report
    assert "`wide` 0.15 (no number of seeds)" in report
    few = dataclasses.replace(plain, cells=[plain.cells[0], *cells[1:]])
    assert "over seeds alone" in document.report(study, few)


def test_the_headline_carries_units_rates_seeds_and_the_caveat() -> None:
    study = simple(caveat="All end at the bigram level.")
    text = document.answer(study, results(study))
    assert text.startswith(
        "Loss in nats per character. **Claimed:** better than `narrow`: `wide` by "
    )
    assert text.endswith(
        "All are trained at one learning rate, with 3 seeds. All end at the bigram level."
    )
    assert "| variant | loss in nats per character |" in document.report(study, results(study))
    tuned = simple(learning_rates=[0.5, 1, 2])
    text = document.answer(tuned, results(tuned))
    assert "Each variant is trained at the best of 3 learning rates, with 3 seeds." in text


def test_below_an_answer_in_words_differences_are_listed_once() -> None:
    plain = simple(caveat="Small.")
    assert "**Claimed:**" in document.report(plain, results(plain))
    study = simple(answer="Wide ones are better.", caveat="Small.")
    text = document.report(study, results(study))
    assert (
        "Wide ones are better.\n\nAll are trained at one learning rate, with 3 seeds. Small.\n\n"
        in text
    )
    assert "**Claimed:**" not in text
    assert "\n- `wide`: better by " in text


def test_the_report_begins_with_the_size_and_ends_open_rows_with_their_power() -> None:
    study = simple(variants={**ASKED["variants"], "deep": {"layers": 8, "steps": 40}})
    text = document.report(study, results(study))
    base = study.cells[0].settings
    assert (
        f"Layers: {base.layers} to 8; width: {base.d_model}; steps: 40 to {base.steps:,};" in text
    )
    deep = next(
        side.against
        for side in Compared(study, results(study)).sides("loss")
        if side.variant == "deep"
    )
    assert deep is not None and not deep.claimed
    size, count = deep.detectable(2), deep.seeds_to_bound(0.01)
    assert f"`deep` {size:.2f} ({count})." in text
    assert "an open row's true difference" not in document.report(
        study,
        results(
            study, lambda _, seed, figures: figures.update(loss=2 + SHARED[seed], accuracy=0.5)
        ),
    )


def test_chosen_learning_rates_are_listed() -> None:
    study = simple(task="text", settings=LANGUAGE, learning_rates=[0.5, 1, 2])
    tuned_results = dataclasses.replace(
        results(study), rates={"narrow": 1.0, "wide": 2.0, "deep": 0.5}
    )
    text = document.report(study, tuned_results)
    assert "Learning rates: each variant has the best of the factors 0.5, 1, 2, by" in text
    assert "`narrow` 1, `wide` 2 (the largest tried), `deep` 0.5 (the smallest tried)." in text
    assert "Learning rates" not in document.report(study, results(study))


def test_what_is_the_same_to_the_last_digit_is_more_than_bounded() -> None:
    def change(variant: str, seed: int, figures: dict[str, float]) -> None:
        if variant == "deep":
            figures["loss"] = 2 + SHARED[seed]

    study = simple()
    text = document.report(study, results(study, change))
    assert "**Identical** to `narrow` in every seed: `deep`." in text
    assert "- `deep`: the same in every seed." in text
    assert "Bounded" not in text


def test_an_interval_that_is_claimed_does_not_seem_to_hold_0() -> None:
    def change(variant: str, seed: int, figures: dict[str, float]) -> None:
        if variant == "wide":
            figures["loss"] = 2 + SHARED[seed] + 0.001 + 0.0003 * seed

    study = simple()
    text = document.report(study, results(study, change))
    assert "- `wide`: worse by 0.0013 (0.0006 to 0.0020, within the margin)." in text
    assert "**+0.0013 (+0.0006 to +0.0020)**" in text


def test_comparisons_are_counted_by_what_is_said_of_them() -> None:
    study = simple()
    text = document.report(study, results(study))
    # Two variants and two figures that seeds change; the bytes kept are no matter of chance.
    assert "4 comparisons depend on the seeds: 2 claimed, 0 bounded, 2 open." in text


def test_claims_are_corrected_for_the_comparisons_of_a_figure() -> None:
    """The same difference is claimed among two and open among many."""

    def change(variant: str, seed: int, figures: dict[str, float]) -> None:
        figures["loss"] = 2 + SHARED[seed] + OWN[variant][seed]
        if variant == "wide":
            figures["loss"] = 2 + SHARED[seed] + (0.08, 0.1, 0.13)[seed]

    alone = simple(variants={"narrow": {}, "wide": {}})
    assert "`wide` by " in document.answer(alone, results(alone, change))
    many = asked(grid={"warmup": [10, 50, 90, 130, 170, 210]})
    text = document.answer(many, results(many, change))
    assert "**Claimed:** nothing. **Open:** `wide` and `deep`." in text


def test_points_are_told_apart() -> None:
    study = asked()
    mixed = results(study)
    for cell in mixed.cells:
        if cell.variant == "wide" and cell.point["warmup"] == 50:
            cell.figures["loss"] += 0.1  # then there is nothing between the two
    text = document.report(study, mixed)
    told_of = headline(Compared(study, mixed))
    assert "better than `narrow`: `wide` at warmup 10 by" in told_of
    assert (
        "**Bounded** (the same to within 0.01 nats per character): `wide` (at 1 of 2 points)"
        in told_of
    )
    assert "better at warmup 10 by 0.100" in text
    assert "the same to within 0.01 nats per character at warmup 50" in text


def test_what_no_seed_changes_is_told_as_a_multiple() -> None:
    study = simple()
    text = document.report(study, results(study))
    assert "in multiples of `narrow`: `wide` 2.0, `deep` 4.0." in text
    assert "| `deep` | 4,096 |" in text


def test_timed_figures_stand_apart_and_claim_nothing() -> None:
    study = simple()
    text = document.report(study, results(study))
    before, _, after = text.partition("## Measured times")
    assert "tokens a second" not in before
    assert "**These figures vary**" in after
    assert "| `wide` | 12,300 to 14,300 |" in after


def test_it_can_be_repeated() -> None:
    study = simple()
    text = document.report(study, results(study))
    assert text.startswith("# Does width help?\n")
    assert "Equal in all variants: tokens. All read the same batches." in text
    for value in ("torch 2.13.0", "x86_64 AVX2", "threads 1", "commit 0123456789ab", "data fedcba"):
        assert value in text
    assert "\ncourse study width\n" in text
    assert "reading.md" in text


@pytest.mark.parametrize(
    ("machine", "alone"), [("x86_64 AVX2", True), ("x86_64 AVX512, AuthenticAMD", False)]
)
def test_seeds_of_another_machine_cannot_be_repeated_on_one(machine: str, alone: bool) -> None:
    added = f"seeds 3, 4 with commit 89ab, machine {machine}, torch 2.13.0"
    study = simple()
    original = results(study)
    text = document.report(
        study, dataclasses.replace(original, provenance={**original.provenance, "extended": added})
    )
    assert ("On the same CPU model, the command below" in text) == alone
    assert ("No single CPU model gives all of these numbers" in text) == (not alone)


def test_runs_are_counted_with_their_seeds() -> None:
    study = simple()
    assert "9 runs: 3 variants (`narrow`, `wide`, `deep`), with 3 seeds." in document.report(
        study, results(study)
    )
    assert "All are trained at one learning rate, with 3 seeds." in document.report(
        study, results(study)
    )


# --- What went wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_what_diverged_is_told_and_not_averaged_away(seeds: int) -> None:
    study = simple()
    text = document.report(study, results(study, diverge("wide", seeds)))
    assert f"- `wide`: diverged in {seeds} of 3 seeds." in text
    assert f"| `wide` | diverged in {seeds} of 3 |" in text
    assert "**Diverged** in some runs: `wide`" in text
    assert "nan" not in text
    assert "better" not in headline(Compared(study, results(study, diverge("wide", seeds))))


def test_with_a_baseline_that_diverged_nothing_is_compared() -> None:
    study = simple()
    text = document.report(study, results(study, diverge("narrow", 1)))
    assert "- `narrow`: diverged in 1 of 3 seeds." in text
    assert "**Claimed:** nothing" in text and "better by" not in text


def test_a_figure_that_a_variant_lacks_is_a_dash_with_its_reason() -> None:
    def change(variant: str, seed: int, figures: dict[str, float]) -> None:
        if variant == "deep":
            del figures["accuracy"]

    study = simple()
    text = document.report(study, results(study, change))
    assert "| `deep` | — |" in text
    assert "- `deep`: not compared: nobody counted." in text
    assert "— marks a figure that a variant does not have. Accuracy: Nobody counted." in text
    assert "Nobody counted" not in document.report(study, results(study))


def test_missing_runs_are_named() -> None:
    study = simple()
    full = results(study)
    text = document.report(study, dataclasses.replace(full, cells=full.cells[:-1]))
    assert (
        "**This report covers a part of the study.** 1 of 9 runs are missing: `deep,seed=2`."
        in text
    )
    assert "part of the study" not in document.report(study, full)


def test_nothing_is_claimed_of_two_seeds() -> None:
    study = simple()
    full = results(study)
    text = document.report(
        study, dataclasses.replace(full, cells=[cell for cell in full.cells if cell.seed < 2])
    )
    assert "better by" not in text and "**Claimed:** nothing" in text


def test_a_variant_that_was_not_run_is_said_to_be_missing() -> None:
    study = simple()
    full = results(study)
    some = [cell for cell in full.cells if cell.variant != "deep"]
    text = document.report(study, dataclasses.replace(full, cells=some))
    assert "| `deep` | not run |" in text


def test_results_of_something_else_are_refused() -> None:
    study = simple()
    full = results(study)
    with pytest.raises(Refused, match="results of depth, not of width"):
        document.report(study, dataclasses.replace(full, study="depth"))
    with pytest.raises(Refused, match=r"wide.*does not ask for any more"):
        document.report(simple(variants={"narrow": {}, "deep": {}}), full)


# --- Pictures -------------------------------------------------------------------------------------


def drawn(study: Study, tuned_results: Results, folder: Path) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    report_pictures.draw(study, tuned_results, folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_all_that_the_report_shows_is_drawn(tmp_path: Path) -> None:
    study = asked(task="text", settings=LANGUAGE, learning_rates=[1, 2])
    tried = {
        f"{variant},warmup={warmup}": {1.0: [2.0, 2.1], 2.0: [NAN, 1.9]}
        for variant in study.variants
        for warmup in (10, 50)
    }
    tuned_results = dataclasses.replace(results(study), trials=tried)
    files = drawn(study, tuned_results, tmp_path)
    assert sorted(files) == sorted(
        picture.file for picture in report_pictures.pictures(study, tuned_results)
    )
    text = document.report(study, tuned_results)
    assert all(f"]({name})" in text for name in files)
    assert "loss_by_rate.svg" in files
    assert "loss_by_rate.svg" not in drawn(study, results(study), tmp_path / "untuned")


@pytest.mark.slow
def test_the_same_results_are_the_same_bytes(tmp_path: Path) -> None:
    study = asked()
    first, again = (drawn(study, results(study), tmp_path / name) for name in ("first", "again"))
    assert first == again
    assert not any(b"dc:date" in body for body in first.values())


def test_pictures_are_text_on_white(tmp_path: Path) -> None:
    study = asked()
    for name, body in drawn(study, results(study), tmp_path).items():
        texts = [node.text for node in ET.fromstring(body).iter("{http://www.w3.org/2000/svg}text")]
        assert any("deep" in (text or "") for text in texts), name
        assert b"fill: #ffffff" in body, name
        assert len(body) < 100_000, name


@pytest.mark.slow
def test_what_is_not_drawn_is_named(tmp_path: Path) -> None:
    study = asked()
    files = drawn(study, results(study, diverge("wide", 2)), tmp_path)
    for name in ("loss_against_warmup.svg", "accuracy_against_loss.svg"):
        assert b"not drawn: wide" in files[name], name
    entire = drawn(study, results(study), tmp_path / "entire")
    assert b"not drawn" not in entire["accuracy_against_loss.svg"]


@pytest.mark.slow
def test_what_counting_gives_is_in_every_picture_of_a_loss(tmp_path: Path) -> None:
    study = asked()
    counted = dataclasses.replace(results(study), counted={"unigram": 3.35, "bigram": 2.2})
    files = drawn(study, counted, tmp_path)
    for name, body in files.items():
        y = name.partition("_")[0]
        assert (b"bigram" in body) == (y in ("loss", "read") and "differences" not in name), name
    assert not any(
        b"bigram" in body for body in drawn(study, results(study), tmp_path / "b").values()
    )


def test_a_part_of_the_study_can_be_drawn(tmp_path: Path) -> None:
    study = asked()
    full = results(study)
    files = drawn(study, dataclasses.replace(full, cells=full.cells[:1]), tmp_path)
    assert len(files) == len(study.pictures)
    assert len(drawn(study, dataclasses.replace(full, cells=[]), tmp_path / "none")) == len(files)


# --- Files ----------------------------------------------------------------------------------------


@pytest.fixture
def studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of studies with one in it."""
    monkeypatch.setattr(description, "STUDIES", tmp_path)
    monkeypatch.setattr(document, "STUDIES", tmp_path)
    folder = tmp_path / "width"
    folder.mkdir()
    (folder / "study.yaml").write_text(yaml.safe_dump(ASKED))
    write(results(description.read("width")), folder)
    return tmp_path


def test_report_pictures_and_the_page_of_all_are_written(studies: Path) -> None:
    study = description.read("width")
    path = document.write(study, read(study.folder))
    assert path.read_text(encoding="utf-8") == document.report(study, results(study))
    page = (studies / "README.md").read_text(encoding="utf-8")
    assert page == document.index()
    assert "## Does width help?" in page
    assert document.answer(study, results(study)) in page
    assert "](width/loss_against_warmup.svg)](width/report.md)" in page
    assert (studies / "width" / "loss_against_warmup.svg").exists()


def test_results_that_no_longer_fit_are_told_on_the_page_and_do_not_stop_the_others(
    studies: Path,
) -> None:
    changed = {**ASKED, "question": "And with other seeds?", "seeds": [0, 1, 3]}
    (studies / "again").mkdir()
    (studies / "again" / "study.yaml").write_text(yaml.safe_dump(changed))
    mixed = dataclasses.replace(results(description.read("width")), study="again")
    write(mixed, studies / "again")
    study = description.read("width")
    document.write(study, read(study.folder))
    page = (studies / "README.md").read_text(encoding="utf-8")
    assert document.answer(study, results(study)) in page
    assert (
        "## And with other seeds?\n\nThere is no answer just now. The results of again have" in page
    )
    assert "](again/report.md)" not in page


def test_results_with_more_seeds_are_reported_with_all_of_them(studies: Path) -> None:
    """As `course study width --seeds 4` leaves them."""
    three = read(studies / "width")
    more = [dataclasses.replace(cell, seed=3) for cell in three.cells if cell.seed == 0]
    write(dataclasses.replace(three, cells=[*three.cells, *more]), studies / "width")
    study = document.found_for("width")
    assert study.seeds == (0, 1, 2, 3)
    assert "with 4 seeds" in document.write(study, read(study.folder)).read_text(encoding="utf-8")
    assert "4 seeds." in (studies / "README.md").read_text(encoding="utf-8")


def test_a_study_without_results_is_not_on_the_page(studies: Path) -> None:
    (studies / "width" / "results.json").unlink()
    assert "Does width help?" not in document.index()


# --- At equal time --------------------------------------------------------------------------------


def timed(study: Study, seconds: dict[str, float], change: Change | None = None) -> Results:
    base = results(study, change)
    cells = [
        dataclasses.replace(cell, timed={"step_core_seconds": seconds[cell.variant]})
        for cell in base.cells
    ]
    return dataclasses.replace(base, cells=cells)


def lower(variant: str, seed: int, figures: dict[str, float]) -> None:
    figures["loss"] = 2 + SHARED[seed] - {"narrow": 0.0, "wide": 0.1, "deep": 0.2}[variant]


def test_a_difference_is_told_at_equal_time_as_well() -> None:
    study = simple(twice="deep", variants={"narrow": {}, "wide": {"d_ff": 4096}}, settings=THOUSAND)
    text = document.report(study, timed(study, {"narrow": 0.1, "wide": 0.4, "deep": 0.1}, lower))
    assert "the loss of `narrow` is lower by 0.200 (0.200 to 0.200)" in text
    # Half a doubling; at four times the time the baseline would have gained two doublings.
    assert "| `wide` | 1.4 | 4.00 | +0.300 (+0.300 to +0.300) |" in text
    assert "- `deep`" not in text and "`deep` by" not in text


def test_seconds_of_a_core_are_not_compared_with_the_clock() -> None:
    """A variant that was added later has both; the baseline has the clock alone."""
    study = simple(twice="deep", variants={"narrow": {}, "wide": {"d_ff": 4096}}, settings=THOUSAND)
    clock = {"narrow": 10.0, "wide": 20.0, "deep": 20.0}
    timed_results = timed(study, {"narrow": 0.1, "wide": 0.1, "deep": 0.1}, lower)
    cells = [
        dataclasses.replace(
            cell,
            timed={"seconds": clock[cell.variant]}
            | (cell.timed if cell.variant != "narrow" else {}),
        )
        for cell in timed_results.cells
    ]
    text = document.report(study, dataclasses.replace(timed_results, cells=cells))
    assert "| `wide` | 1.4 | not measured | — |" in text


def test_without_twice_the_steps_their_worth_is_said_to_be_unmeasured() -> None:
    study = simple()
    assert "is worth was not measured." in document.report(study, results(study))


def test_what_a_multiple_of_the_best_rate_adds_is_compared() -> None:
    study = asked(grid={"times_rate": [1, 8]}, pictures=[], learning_rates=[1, 2])

    def slower(cell: CellResult) -> CellResult:
        rise = {"narrow": 0.5, "wide": 0.3, "deep": 0.5 + OWN["deep"][cell.seed]}[cell.variant]
        loss = cell.figures["loss"] + (rise if cell.point["times_rate"] == 8 else 0)
        return dataclasses.replace(cell, figures={**cell.figures, "loss": loss})

    plain = results(study)
    text = document.report(study, dataclasses.replace(plain, cells=[*map(slower, plain.cells)]))
    assert "- `wide` at times_rate 8: better: −0.200 (−0.200 to −0.200)." in text
    assert "- `deep` at times_rate 8: open: 0.00 (−0.05 to +0.05)." in text


def test_a_pair_is_compared_as_well() -> None:
    study = simple(pairs={"deep": "wide"})
    text = document.report(study, results(study))
    assert "- `deep` against `wide`: worse: +0.10 (+0.05 to +0.14)." in text


def test_trials_are_told_with_what_is_nearly_best() -> None:
    study = simple(task="text", settings=LANGUAGE, learning_rates=[1, 2, 4])
    trials = {"narrow": {1.0: [2.0, 2.2], 2.0: [2.1, 2.18], 4.0: [NAN, 2.0]}}
    tuned_results = dataclasses.replace(results(study), rates={"narrow": 1.0}, trials=trials)
    assert "| `narrow` | 2.10 | 2.14 | — | 1, 2 |" in document.report(study, tuned_results)


# --- Digits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spread", "most", "expected"),
    [
        (0.0041, 5, 3),
        (0.0012, 5, 4),
        (0.0012, 3, 3),
        (0.3, 3, 1),
        (25.0, 3, -1),
        (0.0, 3, 3),
        (NAN, 3, 3),
        (0.002, 5, 3),
    ],
)
def test_a_number_has_the_digits_that_its_spread_allows(
    spread: float, most: int, expected: int
) -> None:
    assert places(spread, most) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (number(1234567.0, 0), "1,234,567"),
        (number(1234567.0, -4), "1,230,000"),
        (number(-0.0001, 3), "0.000"),
        (number(-1.5, 1), "−1.5"),
        (number(NAN, 1), "—"),
        (number(-math.inf, 1), "−∞"),
        (signed(0.5, 1), "+0.5"),
        (signed(0.0001, 2), "0.00"),
        (signed(-0.5, 1), "−0.5"),
        (significant(0.01234), "0.012"),
        (significant(123456.0, 3), "123,000"),
    ],
)
def test_numbers_as_they_are_told(text: str, expected: str) -> None:
    assert text == expected
