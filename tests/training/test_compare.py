"""Runs beside each other: `course compare`, its figures, its picture, and what it refuses."""

import json
import shutil
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from course.cli import app
from tests.training.conftest import CPU, POETRY, QUIET, small
from training.data import tasks
from training.inference import overlaid_curves
from training.inference.compare import equal, interpolated
from training.inference.curves import read, tokens_of_a_step
from training.loop.monitor import Monitor, read_metrics
from training.loop.run_folder import Run
from training.loop.training_loop import Trainer

RECORDS = "step,seconds,loss,perplexity,validation_loss,validation_perplexity,learning_rate,gradient_norm,"
RECORDS += "tokens_per_second,memory_bytes,mfu\n"


def trained(folder, settings):
    """A run, trained to its end."""
    task = tasks.load(settings, QUIET)
    run = Run.begin(folder, settings)
    run.keep_languages(task.languages)
    trainer = Trainer(settings, task, run, CPU)
    monitor = Monitor(run, settings.steps, 0, QUIET)
    with monitor.showing():
        trainer.train(monitor)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Four runs, of which one is of another task, and one stopped earlier."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "poem.txt").write_text(POETRY, encoding="utf-8")
    text = small("text", data=str(folder / "poem.txt"), context=16, steps=24, dropout=0.0)
    trained(folder / "post", text)
    trained(folder / "pre", text.replace({"norm": "pre", "seed": 3}))
    trained(folder / "_short$", text.replace({"steps": 15, "batch": 4, "accumulate": 3}))
    trained(folder / "copy", small())
    return folder


@pytest.fixture
def course(home, monkeypatch, tmp_path):
    """Run `course compare` where the runs are; pictures go elsewhere."""
    monkeypatch.chdir(home)

    def run(*arguments, out=tmp_path / "compare.png"):
        return CliRunner().invoke(app, ["compare", *map(str, arguments), "--out", str(out)])

    return run


def written(folder, home, *rows):
    """A run whose metrics are these rows of step, seconds, loss, and validation loss or nothing."""
    folder.mkdir()
    for name in ("config.yaml", "vocabulary.json"):
        shutil.copy(home / "post" / name, folder)
    lines = [f"{step},{at},{loss},1,{val_loss},,1,1,1,,\n" for step, at, loss, val_loss in rows]
    (folder / "metrics.csv").write_text(RECORDS + "".join(lines))
    return folder


# --- Figures --------------------------------------------------------------------------------------


def test_the_object_holds_what_the_metrics_do(course, home, tmp_path):
    done = course("post", "pre", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["settings"] == {"norm": ["post", "pre"], "seed": [0, 3]}
    assert report["picture"] == str(tmp_path / "compare.png")
    for entry, name in zip(report["runs"], ("post", "pre"), strict=True):
        rows = read_metrics(Run(home / name))
        assert entry["name"] == name and entry["task"] == "text"
        assert entry["steps"] == 24 and entry["tokens"] == 24 * 8 * 16
        assert entry["seconds"] == rows[-1]["seconds"]
        assert entry["last_training"]["loss"] == rows[-1]["loss"]
        by_loss = {row["validation_loss"]: row["step"] for row in rows if row["validation_loss"]}
        assert entry["best_validation"]["loss"] == min(by_loss)
        assert entry["best_validation"]["steps"] == by_loss[min(by_loss)]
        assert entry["last_validation"]["loss"] == rows[-1]["validation_loss"]
    assert {losses["amount"] for losses in report["equal"]["training"]} == {
        "steps",
        "tokens",
        "seconds",
    }
    assert not any("Not comparable" in note for note in report["notes"])


def test_losses_are_taken_where_all_have_reached(home):
    """The shorter run read 12 sequences a step, the longer one 8."""
    long, short = read([home / "post", home / "_short$"])
    steps, tokens, seconds = equal([long, short], "validation")
    assert (steps.at, tokens.at) == (15, 15 * 12 * 16)
    ends = [read_metrics(Run(home / name)) for name in ("post", "_short$")]
    assert steps.losses == [
        next(row["validation_loss"] for row in rows if row["step"] == 15) for rows in ends
    ]
    assert tokens.losses[1] == ends[1][-1]["validation_loss"]
    around = {row["step"]: row["validation_loss"] for row in ends[0]}
    assert tokens.losses[0] == pytest.approx(around[20] + (around[24] - around[20]) * 2.5 / 4)
    assert seconds.at == min(rows[-1]["seconds"] for rows in ends)


def test_between_rows_a_straight_line_is_taken(home, tmp_path):
    slow = written(tmp_path / "slow", home, (10, 10.0, 4.0, 5.0), (20, 20.0, 3.0, 4.0))
    fast = written(
        tmp_path / "fast", home, (10, 1.0, 4.0, ""), (20, 2.0, 2.0, 3.0), (40, 24.0, 1.0, 2.0)
    )
    runs = read([slow, fast])
    steps, tokens, seconds = equal(runs, "training")
    assert (steps.at, steps.losses) == (20, [3.0, 2.0])
    assert (tokens.at, tokens.losses) == (20 * 8 * 16, [3.0, 2.0])
    assert seconds.at == 20.0 and seconds.losses == [3.0, pytest.approx(2.0 - 18 / 22)]
    late = written(tmp_path / "late", home, (50, 90.0, 1.0, 1.0))
    assert equal(read([slow, late]), "training")[0].losses == [3.0, None]
    assert (
        equal(read([slow, written(tmp_path / "none", home, (9, 9.0, 1.0, ""))]), "validation") == []
    )


def test_a_line_through_points_ends_with_them():
    curve = [(1.0, 4.0), (3.0, 2.0), (3.0, 1.0)]
    assert [interpolated(curve, x) for x in (0.9, 1, 2, 3, 3.1)] == [None, 4.0, 3.0, 1.0, None]


@pytest.mark.parametrize("task", ["copy", "sorting", "text"])
def test_tokens_of_a_step_are_those_of_its_batches(task, poem):
    changes = {"data": str(poem), "context": 7} if task == "text" else {}
    settings = small(task, batch=5, accumulate=3, **changes)
    loaded = tasks.load(settings, QUIET)
    counts = [loaded.batch(number).tokens for number in range(9)]
    assert {sum(counts[i : i + 3]) for i in (0, 3, 6)} == {tokens_of_a_step(settings)}


@pytest.mark.parametrize("task", ["arithmetic", "translation"])
def test_tokens_of_sequences_of_any_length_are_not_known(task):
    settings = small(task)
    loaded = tasks.load(settings, QUIET)
    assert len({loaded.batch(number).tokens for number in range(6)}) > 1
    assert tokens_of_a_step(settings) is None


# --- What is shown --------------------------------------------------------------------------------


def test_the_table_has_what_differs_and_no_more(course, home):
    done = course("post", "pre", "_short$")
    assert done.exit_code == 0
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    assert rows["norm"] == ["post", "pre", "post"] and rows["batch"] == ["8", "8", "4"]
    assert not {"layers", "d_model", "data"} & rows.keys()
    assert "at 15 steps" in done.stdout and "at 2,880 tokens" in done.stdout
    assert done.stdout.rstrip().endswith("compare.png")


def test_many_runs_are_shown_in_several_tables(course, home, tmp_path):
    names = [f"a-rather-long-name-{n}" for n in range(8)]
    folders = [
        written(tmp_path / name, home, (10, 1.0, n + 0.5, n + 0.25)) for n, name in enumerate(names)
    ]
    shown = course(*folders).stdout
    paths = ("metrics.csv", str(tmp_path))  # are as long as they are, and never cut
    lines = [line for line in shown.splitlines() if not any(path in line for path in paths)]
    assert max(map(len, lines)) <= 80
    assert all(shown.count(f"{n}.5000") == 4 for n in range(8))


def test_runs_of_one_name_are_told_apart_by_their_folders(course, home, tmp_path):
    (tmp_path / "other").mkdir()
    other = written(tmp_path / "other" / "post", home, (10, 1.0, 2.0, 2.0))
    report = json.loads(course("post", other, "--json").stdout)
    assert [entry["name"] for entry in report["runs"]] == ["post", str(other)]
    assert report["settings"] == {}


def test_losses_of_other_data_are_said_not_to_be_comparable(course, home, tmp_path):
    assert "Not comparable: losses are per token" in course("post", "copy").output
    poem = tmp_path / "poem.txt"
    poem.write_text(POETRY, encoding="utf-8")
    text = Run(home / "post").settings()
    trained(tmp_path / "moved", text.replace({"data": str(poem), "steps": 5}))
    assert (
        "Not comparable" not in course("post", tmp_path / "moved").output
    )  # the same text elsewhere
    poem.write_text(POETRY.replace("green", "brown"), encoding="utf-8")
    trained(tmp_path / "changed", text.replace({"data": str(poem), "steps": 5}))
    assert "Not comparable" in course("post", tmp_path / "changed").output


def test_unknown_tokens_are_said_to_be(course, tmp_path):
    trained(tmp_path / "sums", small("arithmetic"))
    shown = course("copy", tmp_path / "sums").output
    assert "unknown" in shown and "vary in sums" in shown
    assert (
        "at 12 steps" in shown
        and " tokens" not in shown.split("at 12 steps", 1)[1].split("Equal")[0]
    )


# --- The picture ----------------------------------------------------------------------------------


@pytest.fixture
def drawn_figure(monkeypatch, tmp_path):
    """The figure that runs are drawn as."""

    def draw(runs):
        figures = []
        monkeypatch.setattr(
            overlaid_curves, "write_figure", lambda figure, path: figures.append(figure)
        )
        overlaid_curves.draw(runs, tmp_path / "any.png")
        return figures[0]

    return draw


def test_the_picture_holds_every_row(drawn_figure, home):
    runs = read([home / "post", home / "_short$"])
    figure = drawn_figure(runs)
    assert [panel.get_title("left").split()[0] for panel in figure.axes] == [
        "training",
        "validation",
    ]
    for panel, column in zip(figure.axes, ("loss", "validation_loss"), strict=True):
        for line, run in zip(panel.lines, runs, strict=True):
            rows = [row for row in read_metrics(Run(home / run.name)) if row[column] is not None]
            assert list(line.get_xdata()) == [row["step"] for row in rows]
            assert list(line.get_ydata()) == [row[column] for row in rows]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["post", "./_short$"]


def test_eight_runs_are_told_apart_without_color(drawn_figure, home, tmp_path):
    rows = [(step, step / 10, 3.0, 3.0) for step in range(10, 1000, 10)]
    figure = drawn_figure(read([written(tmp_path / f"run{n}", home, *rows) for n in range(8)]))
    lines = figure.axes[0].lines
    assert len({line.get_marker() for line in lines}) == 8
    assert len({line.get_color() for line in lines}) == 8
    assert all(line.get_linestyle() != other.get_linestyle() for line, other in pairwise(lines))
    marked = [set(range(len(rows))[slice(line.get_markevery()[0], None, 12)]) for line in lines]
    assert not set.intersection(*marked)  # equal curves do not hide each other's marks


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_runs_are_the_same_picture(course, tmp_path, ending):
    first, second = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    for path in (first, second):
        assert course("post", "_short$", out=path).exit_code == 0
    assert first.stat().st_size > 5000
    if ending != "svg":  # whose ids are drawn anew each time
        assert first.read_bytes() == second.read_bytes()


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["post"], "needs at least two runs"),
        (["post", "nowhere"], "nowhere contains no run"),
        (["post", "pre", "./post"], "post is named twice"),
        (["post", "pre", "--out", "picture.gif"], "must end in one of .png, .svg, .pdf"),
        (["post", "pre", "--out", "."], "got the folder"),
        (["post", "pre", "--out", "poem.txt/picture.png"], "cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_compared_is_refused_in_words(home, monkeypatch, arguments, words):
    monkeypatch.chdir(home)
    done = CliRunner().invoke(app, ["compare", *arguments])
    assert done.exit_code == 2 and words in done.output
    assert not list(home.rglob("compare.png"))


def test_the_picture_goes_to_the_first_run(home, monkeypatch, tmp_path):
    """Not to wherever somebody happens to be."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(home / "post", tmp_path / "runs" / "post")
    arguments = ["compare", "runs/post", str(home / "pre"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert json.loads(done.stdout)["picture"] == "runs/post/compare.png"
    assert (tmp_path / "runs" / "post" / "compare.png").exists()
    assert not (tmp_path / "compare.png").exists()


def test_a_run_without_rows_is_refused(course, home, tmp_path):
    Run.begin(tmp_path / "new", small())
    empty = written(tmp_path / "empty", home)
    for folder in (tmp_path / "new", empty):
        done = course("post", folder)
        assert done.exit_code == 2 and "has no rows yet" in done.output


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("20,2.0,3.0", "20,2.0,many", "line 3"),
        ("20,2.0,3.0", "20,2.0,nan", "line 3"),
        ("20,2.0,3.0", "20,2.0,", "line 3"),
        ("20,2.0,3.0", "10,2.0,3.0", "line 3"),
        ("20,2.0,3.0", "20,0.5,3.0", "line 3"),
        ("30,3.0,2.0,1,2.0,,1,1,1,,", "30,3.0,2.0", "line 4"),
        ("step,seconds", "steps,seconds", "line 2"),
        ("20,2.0", "\xff\xfe", "cannot be read"),
    ],
)
def test_damaged_metrics_are_refused(course, home, tmp_path, old, new, where):
    rows = [(10, 1.0, 4.0, 4.0), (20, 2.0, 3.0, 3.0), (30, 3.0, 2.0, 2.0)]
    folder = written(tmp_path / "damaged", home, *rows)
    assert course("post", folder).exit_code == 0
    metrics = folder / "metrics.csv"
    metrics.write_bytes(metrics.read_text().replace(old, new).encode("latin-1"))
    done = course("post", folder)
    assert done.exit_code == 2 and "metrics.csv" in done.output and where in done.output


def test_a_row_that_a_kill_cut_short_is_left_out(home, tmp_path):
    folder = written(tmp_path / "killed", home, (10, 1.0, 4.0, 4.0), (20, 2.0, 3.0, 3.0))
    metrics = folder / "metrics.csv"
    text = metrics.read_text()
    for cut in range(1, 20):  # each but the first takes figures away that look whole
        metrics.write_text(text[:-cut])
        assert read([folder, home / "post"])[0].reached.steps == 10


def test_settings_that_nobody_can_read_are_refused(course, home, tmp_path):
    folder = written(tmp_path / "damaged", home, (10, 1.0, 4.0, 4.0))
    (folder / "config.yaml").write_text("task: text\nlayrs: 2\n")
    assert "There is no setting 'layrs'" in course("post", folder).output
