"""A study is read as it is written, and what is wrong in one is named."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from laboratory.study import description
from training.errors import Refused

SMALL = {
    "question": "Does width help?",
    "task": "shakespeare",
    "settings": {"layers": 1, "d_model": 8, "heads": 2, "d_ff": 16, "smoothing": 0, "steps": 3},
    "baseline": "narrow",
    "variants": {"narrow": {}, "wide": {"d_ff": 32}},
    "seeds": [0, 1, 2],
    "equal": "tokens",
    "held": "Both read the same batches.",
    "figures": {"loss": {"words": "loss per character", "better": "lower"}},
}
PATH = Path("laboratory/studies/width/study.yaml")


def changed(**changes: object) -> dict[str, object]:
    return {**copy.deepcopy(SMALL), **changes}


def of(definition: object) -> description.Study:
    return description.of(definition, "width", PATH)


def test_every_variant_at_every_point_with_every_seed() -> None:
    study = of(changed(grid={"layers": [1, 2], "warmup": [1, 10]}))
    assert len(study.cells) == 2 * 2 * 2 * 3 == len({cell.name for cell in study.cells})
    assert len(study.points) == 4
    cell = next(cell for cell in study.cells if cell.name == "wide,layers=2,warmup=10,seed=1")
    assert (cell.settings.layers, cell.settings.warmup, cell.settings.seed) == (2, 10, 1)
    assert (cell.settings.d_ff, cell.settings.d_model) == (32, 8)


def test_multiples_of_the_best_rate_are_run_at_the_rate_that_the_place_has_chosen() -> None:
    grid = {"layers": [1, 2], "times_rate": [1, 8]}
    study = of(changed(grid=grid, learning_rates=[1, 2]))
    tried = {(trial.tuned_at, trial.settings.factor) for trial in study.trials}
    places = {f"{variant},layers={layers}" for variant in study.variants for layers in (1, 2)}
    assert tried == {(place, factor) for place in places for factor in (1.0, 2.0)}
    tuned = study.at(dict.fromkeys(places, 2.0))
    assert {(cell.point[1][1], cell.settings.factor) for cell in tuned.cells} == {
        (1, 2.0),
        (8, 16.0),
    }


def test_what_is_left_out() -> None:
    study = of(
        changed(grid={"layers": [1, 2]}, leave_out=[{"variant": "wide", "layers": 2}, {"seed": 2}])
    )
    assert {cell.name.rpartition(",")[0] for cell in study.cells} == {
        *("narrow,layers=1", "narrow,layers=2", "wide,layers=1")
    }
    assert {cell.seed for cell in study.cells} == {0, 1}


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ([1, 2], "must be a mapping"),
        (changed(sedes=[1]), "no 'sedes'"),
        ({"question": "Why?"}, "lacks baseline, equal"),
        (changed(baseline="slim"), "baseline must be one of narrow, wide, not 'slim'"),
        (changed(pairs={"wide": "slim"}), "pairs must be one of narrow, wide, not 'slim'"),
        (changed(twice="wide"), "twice must be the name of a new variant, not 'wide'"),
        (changed(equal="luck"), "one of parameters, tokens, compute, time, not 'luck'"),
        (changed(task="juggling"), "task must be one of"),
        (changed(seeds=[0, 1]), "at least 3 different ones"),
        (changed(seeds=[0, 1, 1]), "at least 3 different ones"),
        (changed(seeds="many"), "list of whole numbers"),
        (changed(variants={"narrow": {"layer": 2}}), "did you mean 'layers'"),
        (changed(variants={"narrow": {"layers": 0}}), "layers must be at least 1"),
        (changed(variants={"narrow": {"layers": "two"}}), "layers must be a whole number"),
        (changed(grid={"layers": 2}), "grid: layers must be a list"),
        (changed(figures={"loss": {"word": "loss"}}), "figures: loss has no 'word'"),
        (changed(figures={"loss": {"words": "x", "better": "more"}}), "better must be one of"),
        (changed(pictures=[{"kind": "pie", "y": "loss"}]), "kind must be one of"),
        (changed(learning_rates=[1, 0]), "list of factors above 0"),
        (changed(task="copy"), "task must be one of shakespeare, text, chat, repeats"),
        (changed(task="repeats", learning_rates=[1, 2]), "the task repeats lacks"),
        (changed(measures=["charm"]), "no measure 'charm'"),
        (changed(recipe={"positions": 3}), "positions must be of type str"),
        (changed(recipe={"positions": "left"}), "positions must be one of"),
        (changed(recipe={"longer": "yarn"}), "is for positions=rope and attention=full"),
    ],
)
def test_what_is_wrong_is_named(definition: object, message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        of(definition)
    assert str(PATH) in str(refused.value)


def test_a_name_that_is_nearly_right() -> None:
    with pytest.raises(Refused, match="did you mean 'norms'"):
        description.read("norm")


@pytest.mark.parametrize("name", description.names())
def test_shipped_studies_can_be_read(name: str) -> None:
    study = description.read(name)
    assert study.question.endswith("?")
    assert study.controls.endswith(".")
    assert any(cell.variant == study.baseline for cell in study.cells)
