"""Induction heads: segments come twice as they should, scores are right, and looking changes nothing."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from torch import Tensor

from implementation import attention, subsequent_mask
from laboratory.report import induction_picture, induction_text
from laboratory.running.cell import Experiment
from laboratory.study import induction
from laboratory.study.description import REPEATS, Cell
from laboratory.study.induction import (
    ABLATIONS,
    attention_weights,
    attentions,
    figures,
    look,
    losses,
    prefix_matching,
    previous_token,
    replaced,
    said_again,
)
from laboratory.study.model import Composed, Recipe, build
from laboratory.study.repeats import SYMBOLS, Repeated, Repeats, repeated
from laboratory.study.results import CellResult, Results
from training.data.batches import Rows, draws
from training.devices import ProcessContext
from training.errors import Refused
from training.loop.run_folder import Run
from training.settings import Settings

CPU = torch.device("cpu")


def settings(**changes: object) -> Settings:
    usual = {
        **{"task": "text", "layers": 2, "d_model": 16, "heads": 4, "d_ff": 32, "context": 24},
        **{"dropout": 0.1, "smoothing": 0.0, "norm": "pre", "batch": 8, "seed": 3},
        **{"steps": 6, "warmup": 3, "validate_every": 2, "save_every": 6},
    }
    return Settings(**(usual | changes))  # type: ignore[arg-type]


def model_of(recipe: Recipe | None = None, **changes: object) -> Composed:
    torch.manual_seed(0)
    chosen = settings(**changes)
    model = build(recipe or Recipe(positions="rope"), chosen, Repeats(chosen).languages)
    return model.eval()


def rows(count: int = 200, width: int = 25, symbols: int = SYMBOLS) -> Repeated:
    return repeated(count, width, symbols, draws("test"))


# --- What is learned -------------------------------------------------------------------------------


def test_a_segment_comes_twice_and_does_not_overlap() -> None:
    segments = rows()
    for tokens, second, lag, length in zip(
        segments.tokens,
        segments.second.tolist(),
        segments.lag.tolist(),
        segments.length.tolist(),
        strict=True,
    ):
        first = second - lag
        assert 0 <= first <= first + length <= second
        assert second + length <= 25
        assert 25 // 4 <= length <= 25 // 2
        assert torch.equal(tokens[first : first + length], tokens[second : second + length])


def test_places_lengths_and_distances_differ() -> None:
    segments = rows(2000)
    assert set(segments.length.tolist()) == set(range(6, 13))
    assert (segments.second - segments.lag).min() == 0
    assert (segments.second + segments.length).max() == 25
    assert set(segments.lag.tolist()) >= set(range(6, 19))


def test_every_symbol_is_as_likely_wherever_it_stands() -> None:
    tokens = rows(8000, 24, 4).tokens
    for position in (0, 11, 23):
        counts = tokens[:, position].bincount(minlength=4)
        assert (counts - 2000).abs().max() < 4 * math.sqrt(8000 * 0.25 * 0.75)


def test_a_batch_depends_on_its_number_and_the_seed_alone() -> None:
    task = Repeats(settings())
    first = task.batch(5).target
    task.batch(6)
    assert torch.equal(task.batch(5).target, first)
    assert torch.equal(Repeats(settings()).batch(5).target, first)
    assert first.shape == (8, 25)
    assert not torch.equal(task.batch(6).target, first)
    assert not torch.equal(Repeats(settings(seed=4)).batch(5).target, first)


def test_nothing_of_what_is_held_out_is_learned() -> None:
    task = Repeats(settings(batch=512, context=16))

    def of(some: list[Rows]) -> list[tuple[int, ...]]:
        return [tuple(row) for batch in some for row in batch.target.tolist()]

    validation, test = (of(task.held_out(split)) for split in task.splits)
    learned = of([task.batch(number) for number in range(20)])
    every = [*validation, *test, *learned]
    assert len(set(every)) == len(every)
    other = Repeats(settings(seed=9, context=16))
    assert of(other.held_out("test")) == test


def test_who_draws_otherwise_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Repeats(settings())
    assert task.fingerprint == Repeats(settings(seed=4)).fingerprint
    assert task.fingerprint != Repeats(settings(context=25)).fingerprint
    monkeypatch.setattr("laboratory.study.repeats.SYMBOLS", 33)
    assert task.fingerprint != Repeats(settings()).fingerprint


def test_a_short_context_is_refused() -> None:
    with pytest.raises(Refused, match="context must be at least 16 for repeats, and is 15"):
        Repeats(settings(context=15))


# --- Scores ---------------------------------------------------------------------------------------


def pointing(segments: Repeated, by: int) -> Tensor:
    """A head that looks, from a repeated symbol, `by` places after its first one; else at itself."""
    width = segments.tokens.size(1)
    weights = torch.eye(width).repeat(len(segments.tokens), 1, 1)
    for row, second, lag, length in zip(
        weights,
        segments.second.tolist(),
        segments.lag.tolist(),
        segments.length.tolist(),
        strict=True,
    ):
        for position in range(second, second + length):
            row[position] = 0
            row[position, position - lag + by] = 1
    return weights.unsqueeze(1)


@pytest.mark.parametrize(("by", "score"), [(0, 0.0), (1, 1.0), (2, 0.0)])
def test_a_head_that_always_looks_there_has_a_score_of_1(by: int, score: float) -> None:
    segments = rows()
    assert prefix_matching(pointing(segments, by), segments).tolist() == [score]


def test_equal_weights_have_a_score_of_one_over_t() -> None:
    segments = rows()
    weights = torch.full((200, 2, 25, 25), 1 / 25)
    torch.testing.assert_close(prefix_matching(weights, segments), torch.full((2,), 1 / 25))


def test_heads_are_scored_one_by_one_and_without_the_last_symbol() -> None:
    segments = rows()
    both = torch.cat([pointing(segments, 0), pointing(segments, 1)], dim=1)[..., :-1, :-1]
    assert prefix_matching(both, segments).tolist() == [0.0, 1.0]


def test_a_symbol_that_stands_elsewhere_before_is_not_asked_about() -> None:
    #                 first place ↓           ↓ again: 1 stands twice before it, 2 once, 3 has no next
    tokens = torch.tensor([[1, 2, 3, 9, 1, 8, 1, 2, 3, 7]])
    segments = Repeated(tokens, torch.tensor([6]), torch.tensor([6]), torch.tensor([3]))
    weights = torch.zeros(1, 1, 10, 10)
    weights[0, 0, 7, 2] = 0.25  # from the 2 that comes again to what came after it
    weights[0, 0, 6, 1] = weights[0, 0, 8, 3] = 1.0
    assert prefix_matching(weights, segments).tolist() == [0.25]


def test_previous_token_scores() -> None:
    before = torch.zeros(3, 5, 5)
    before[:, torch.arange(1, 5), torch.arange(4)] = 1
    weights = torch.stack([before, torch.eye(5).expand(3, 5, 5), before / 4], dim=1)
    assert previous_token(weights).tolist() == [1.0, 0.0, 0.25]


def test_losses_are_taken_where_something_tells_what_is_next() -> None:
    #                          first: 1 to 3 (of which the first is not counted), again: 5 to 7
    segments = Repeated(
        torch.zeros(1, 9, dtype=torch.long), torch.tensor([5]), torch.tensor([4]), torch.tensor([3])
    )
    loss = torch.tensor([[1.0, 2, 4, 8, 16, 32, 64, 128]])  # of the symbols 1 to 8
    assert said_again(loss, segments) == ((2 + 4) / 2, (32 + 64) / 2)


# --- Looking into a model -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "recipe",
    [Recipe(positions="rope"), Recipe(), Recipe(positions="rope", attention="grouped", groups=2)],
    ids=["rope", "sinusoid", "grouped"],
)
def test_the_weights_are_those_that_values_are_mixed_by(recipe: Recipe) -> None:
    model, tokens = model_of(recipe), rows().tokens[:4]
    mixtures = []
    for layer in attentions(model):
        layer.w_o.register_forward_pre_hook(lambda _, inputs: mixtures.append(inputs[0]))
    weights = attention_weights(model, tokens)
    entered: list[Tensor] = []
    attentions(model)[1].register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
    model(tokens)
    layer = attentions(model)[1]
    value = layer.project(entered[0])[2].repeat_interleave(4 // layer.n_kv_heads, dim=1)
    torch.testing.assert_close(weights[1].sum(-1), torch.ones(4, 4, 25))
    mixed = (weights[1] @ value).transpose(1, 2).flatten(-2)
    torch.testing.assert_close(mixed, mixtures[1])
    query, key, _ = layer.project(entered[0])
    key = layer.rotate(key).repeat_interleave(4 // layer.n_kv_heads, dim=1)
    _, expected = attention(layer.rotate(query), key, value, subsequent_mask(25))
    torch.testing.assert_close(weights[1], expected)


def test_a_head_with_zeros_is_one_whose_columns_of_the_projection_are_0() -> None:
    model, tokens = model_of(), rows().tokens
    layer = attentions(model)[1]
    full = losses(model, tokens)
    with replaced(layer, 2, ABLATIONS["zero"]):
        off = losses(model, tokens)
    torch.testing.assert_close(losses(model, tokens), full, rtol=0, atol=0)
    assert not torch.allclose(off, full)
    with torch.no_grad():
        layer.w_o.weight[:, 8:12] = 0  # d_k is 4
    torch.testing.assert_close(losses(model, tokens), off)


@pytest.mark.parametrize("way", ABLATIONS)
def test_one_head_is_replaced_and_the_others_are_not(way: str) -> None:
    model, tokens = model_of(), rows().tokens
    layer = attentions(model)[1]
    seen: list[Tensor] = []
    with layer.w_o.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
        model(tokens)
    with (
        replaced(layer, 2, ABLATIONS[way]),
        layer.w_o.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])),
    ):
        model(tokens)
    before, after = (output.unflatten(-1, (4, 4)).unbind(dim=2) for output in seen)
    for head in (0, 1, 3):
        assert torch.equal(before[head], after[head])
    expected = {
        "zero": torch.zeros(4),
        "mean": before[2].flatten(0, 1).mean(dim=0),
        "position": before[2].mean(dim=0),
        "resampled": torch.cat([before[2][-1:], before[2][:-1]]),
    }[way]
    torch.testing.assert_close(after[2], expected.expand_as(before[2]))


def test_a_head_is_on_again_after_an_error() -> None:
    model, tokens = model_of(), rows().tokens[:2]
    full = losses(model, tokens)
    with pytest.raises(RuntimeError), replaced(attentions(model)[0], 0, torch.zeros_like):
        raise RuntimeError
    assert torch.equal(losses(model, tokens), full)


def test_figures_are_of_the_head_that_was_best() -> None:
    model, task = model_of(), Repeats(settings())
    examined = {"step": 10, **look(model, task, CPU)}
    examined["prefix"] = [[0.1, 0.2, 0.0, 0.0], [0.0, 0.3, 0.7, 0.1]]
    examined["previous"] = [[0.1, 0.2, 0.0, 0.9], [1.0, 0.0, 0.0, 0.0]]
    result = figures(model, task, [examined], CPU)
    rows_again, layer = task.repeated("test"), attentions(model)[0]
    for way, replacement in ABLATIONS.items():
        for name, heads in (("0_3", (3,)), ("both", (3, 1)), ("control", (3, 2))):
            with ExitStack() as hooks:
                for head in heads:
                    hooks.enter_context(replaced(layer, head, replacement))
                off = said_again(losses(model, rows_again.tokens), rows_again)[1]
            assert result[f"{way}_{name}"] == off - result["again"] != 0
    assert result["in_context"] == result["again"] - result["first"]
    test = task.repeated("test")
    weights = attention_weights(model, test.tokens[:, :-1])
    assert result["prefix_matching"] == float(prefix_matching(weights[1], test)[2])
    assert result["formed_at"] == 10.0
    assert "fell_at" not in result  # an untrained model has learned nothing


def test_a_single_layer_has_nobody_to_carry_anything() -> None:
    model, task = model_of(layers=1), Repeats(settings())
    result = figures(model, task, [{"step": 1, **look(model, task, CPU)}], CPU)
    assert "zero_both" not in result
    assert "formed_at" not in result


def test_when_is_the_first_time() -> None:
    half = math.log(SYMBOLS) / 2
    looks = [
        {"step": step, "prefix": [[0.0], [score]], "again": again}
        for step, score, again in ((1, 0.4, 3.0), (2, 0.5, half), (3, 0.3, 1.0), (4, 0.9, 0.1))
    ]
    assert induction._when(looks) == {"formed_at": 2.0, "fell_at": 2.0}
    assert induction._when(looks[:1]) == {}


@pytest.mark.parametrize(
    "recipe",
    [Recipe(positions="alibi"), Recipe(attention="linear"), Recipe(attention="window")],
    ids=["alibi", "linear", "window"],
)
def test_other_attention_is_refused(recipe: Recipe) -> None:
    with pytest.raises(Refused, match="attention=full"):
        look(model_of(recipe), Repeats(settings()), CPU)


# --- Looking changes nothing ----------------------------------------------------------------------


def trained(folder: Path, watched: bool, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    chosen = settings()
    cell = Cell("v", (), 3, REPEATS, chosen, Recipe(positions="rope"), ())
    experiment = Experiment(cell, Repeats(chosen), Run.begin(folder, chosen), ProcessContext(CPU))
    with monkeypatch.context() as patch:
        if not watched:
            patch.setattr(induction, "look", lambda *_: {})
        experiment.train(None)
    return experiment


def test_looking_does_not_change_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = trained(tmp_path / "watched", True, monkeypatch)
    alone = trained(tmp_path / "alone", False, monkeypatch)
    assert [entry["step"] for entry in watched.looks] == [2, 4, 6]
    assert len(watched.looks[0]["prefix"]) == 2
    for name, weight in watched.model.named_parameters():
        assert torch.equal(weight, dict(alone.model.named_parameters())[name]), name


# --- What is told of it ---------------------------------------------------------------------------


def cell_of(seed: int, formed: int | None, variant: str = "two", best: float = 1.0) -> CellResult:
    """A cell with two layers of two heads, the last of which forms at a step, or never."""
    looks = [
        {
            "step": step,
            "prefix": [[0.1, 0.0], [0.2, 0.9 if formed is not None and step >= formed else 0.1]],
            "previous": [[0.2, 0.8], [0.1, 0.1]],
            **{"first": 3.5, "again": 0.5, "score": -1.0},
        }
        for step in (25, 50, 75)
    ]
    figures = {
        **{"loss": 2.0, "parameters": 1.0, "prefix_matching": 0.9, "first": 3.5},
        **{"again": 0.5, "in_context": -3.0 + seed / 10},
    }
    for way, cost in zip(ABLATIONS, (1.1, 0.7, 0.05, 0.25), strict=True):
        figures |= {f"{way}_0_0": 0.25, f"{way}_0_1": 2.0, f"{way}_1_0": cost, f"{way}_1_1": best}
        figures |= {f"{way}_both": 2.25, f"{way}_control": 2.25}
    if formed is not None:
        figures |= {"formed_at": float(formed), "fell_at": formed + 25.0 * (seed - 1)}
    return CellResult(variant, {}, seed, figures, extra={"looks": looks})


def results(cells: list[CellResult]) -> Results:
    return Results("induction", {}, cells)


def test_what_formed_is_told_with_its_step_and_what_came_beside_it() -> None:
    _, _, *sentences = induction_text.paragraphs(
        results([cell_of(2, 75), cell_of(0, 50, best=0.9), cell_of(1, 50, best=1.2)])
    )
    assert "a head formed in 3 of 3 seeds" in sentences[0]
    assert "at steps 50 to 75" in sentences[0]
    assert "that was at −25, 0, +25 steps (the model was examined every 25 steps)" in sentences[1]
    assert "is 3.50 ± 0.00 nats per symbol, and 0.50 ± 0.00 where it repeats" in sentences[2]


def test_heads_are_told_by_kind_and_way() -> None:
    cells = [cell_of(seed, 50, best=best) for seed, best in ((0, 0.9), (2, 1.0), (1, 1.2))]
    summary, details, _, below, heads = induction_text.paragraphs(results(cells))[6:]
    assert summary.splitlines()[2:] == [
        "| induction heads (3) | 1.03 (0.90 to 1.20) | 1.03 (0.90 to 1.20) | 1.03 (0.90 to 1.20) "
        "| 1.03 (0.90 to 1.20) |",
        "| other heads (3) | 1.10 (1.10 to 1.10) | 0.70 (0.70 to 0.70) | 0.05 (0.05 to 0.05) "
        "| 0.25 (0.25 to 0.25) |",
        "| difference, paired by seed (3 seeds) | −0.1 (−0.4 to +0.3) | +0.3 (0.0 to +0.7) "
        "| **+1.0 (+0.6 to +1.4)** | **+0.8 (+0.4 to +1.2)** |",
        "| seeds of 3 where an induction head costs most | 1 | 3 | 3 | 3 |",
    ]
    assert details.splitlines()[4:6] == [
        "| induction heads | 2 | 2 | 0.90 | 1.00 | 1.00 | 1.00 | 1.00 |",
        "| other heads | 0 | 1 | 0.20 | 1.10 | 0.70 | 0.05 | 0.25 |",
    ]
    assert below.splitlines()[2].startswith("| first (3) | 2.00 (2.00 to 2.00) |")
    assert "| both | 0 | 2 / 1 | 0.80 / 0.20 | 2.25 | 2.25 | 2.25 | 2.25 |" in heads


def test_what_did_not_form_is_told_too() -> None:
    _, _, *sentences = induction_text.paragraphs(
        results([cell_of(seed, 50 if seed == 2 else None) for seed in range(3)])
    )
    assert "formed in 1 of 3 seeds" in sentences[0]
    assert "no head formed in 2 of 3 seeds" in sentences[2]
    # of the one seed in which there is such a head
    assert any("| induction heads (1) | 1.00 (1.00 to 1.00) |" in text for text in sentences)
    _, _, *none = induction_text.paragraphs(results([cell_of(seed, None) for seed in range(3)]))
    assert "no head formed in 3 of 3 seeds" in none[0]
    assert "the context helps without an induction head as well, by 2.65 to 3.15" in none[2]
    assert "| other heads (6) | 1.05 (1.00 to 1.10) |" in none[4]
    assert len(none) == 5


def test_the_picture_is_the_same_in_any_order_and_has_no_date(tmp_path: Path) -> None:
    cells = [cell_of(seed, 50, variant) for seed in range(3) for variant in ("one", "two")]
    files = []
    for folder, some in (("a", cells), ("b", cells[::-1]), ("c", cells[:4])):
        (tmp_path / folder).mkdir()
        induction_picture.draw(results(some), tmp_path / folder)
        names = ("heads.svg", "ablations.svg")
        files.append("".join((tmp_path / folder / name).read_text() for name in names))
    assert "<dc:date>" not in files[0]
    assert files[1] == files[0]
    assert files[2] != files[0]
