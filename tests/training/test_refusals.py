"""What is refused before anything takes long, as its users type it; in this process, which is faster."""

import pytest
from typer.testing import CliRunner

from course.cli import app
from tests.training.conftest import CPU, QUIET, small
from training.data import tasks
from training.loop.run_folder import Run
from training.loop.training_loop import Trainer


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder of its own to work in."""
    monkeypatch.chdir(tmp_path)


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "300"})
    assert done.exit_code == 2, done.output
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["copy", "--set", "xyz=2"], "no setting 'xyz' (did you mean"),
        (
            ["copy", "--set", "task=sorting"],
            "task cannot be changed by --set: use course train TASK",
        ),
        (["copy", "--source", "de"], "source is for translation only, got task copy"),
        (
            ["sorting", "--data", "f"],
            "data is for text, chat and translation only, got task sorting",
        ),
        (
            ["copy", "--answers", ".", "--set", "fused=true"],
            "fused=true would not call your own attention",
        ),
        (
            ["translation", "--data", "short.txt"],
            "short.txt must have a sentence, a tab and its translation in each line, and line 1 is "
            "'so short'",
        ),
        (
            ["translation", "--data", "short.txt", "--source", "de"],
            "a file's pairs are read from left to right",
        ),
        (["copy", "--answers", "."], "No part of this model is yours"),
        (["text", "--data", "short.txt", "--out", "mine"], "The text is too short"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_start_that_is_refused_leaves_nothing_behind(tmp_path, arguments, words):
    (tmp_path / "short.txt").write_text("so short", encoding="utf-8")
    llama = small("shakespeare", model="llama", dropout=0.0, fused=True)
    (tmp_path / "fused.yaml").write_text(llama.as_yaml(), encoding="utf-8")
    assert words in refused("train", *arguments)
    assert not list(tmp_path.glob("runs/*")) and not (tmp_path / "mine").exists()


def test_an_empty_folder_of_somebody_s_stays(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "short.txt").write_text("so short", encoding="utf-8")
    for _ in range(2):  # nothing is in the way of the next try
        assert "too short" in refused("train", "text", "--data", "short.txt", "--out", "mine")
    assert not list((tmp_path / "mine").iterdir())


@pytest.fixture
def run(tmp_path):
    settings = small(steps=2)
    created = Run.begin(tmp_path / "a run", settings)
    task = tasks.load(settings, QUIET)
    created.keep_languages(task.languages)
    Trainer(settings, task, created, CPU).train(None)
    return created


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["translate", "RUN", "nofile.txt"], "The file nofile.txt does not exist"),
        (["translate", "RUN", "no/file"], "The file no/file does not exist"),
        (["translate", "RUN", "RUN"], "is a folder"),
        (["translate", "RUN", " "], "The text must not be empty"),
        (["translate", "RUN", "1 2", "--beam", "65"], "equal to 64"),
        (["attention", "RUN", "1 2", "--out", "picture"], "must end in one of .png, .svg, .pdf"),
        (["attention", "RUN", "1 2", "--out", "p.jpg"], "must end in one of .png, .svg, .pdf"),
        (["attention", "RUN", "1 2", "--out", "RUN"], "got the folder"),
        (["train", "sorting", "--out", "RUN"], "course train copy --resume '"),
        (["train", "copy", "--resume", "RUN", "--set", "clip=1"], "keeps its settings"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_with_a_run_is_refused(run, arguments, words):
    assert words in refused(*(str(run.folder) if word == "RUN" else word for word in arguments))
    assert run.trained


@pytest.mark.parametrize("text", ["1 2", "3"])
def test_a_text_is_no_file(run, text):
    done = CliRunner().invoke(app, ["translate", str(run.folder), text])
    assert (done.exit_code, bool(done.stdout.strip())) == (0, True), done.output


@pytest.mark.parametrize("text", ["Hello.", "e.g. this/that"])
def test_a_text_with_dots_and_slashes_is_no_file_either(run, text):
    assert "is not in the model's vocabulary" in refused("translate", str(run.folder), text)
