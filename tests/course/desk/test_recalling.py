"""`course recall`: whose questions it asks on which date, and how; the lessons have three each."""

import json
from datetime import date, timedelta

import pytest
from typer.testing import CliRunner

from course.cli import app
from course.curriculum import DAYS
from course.desk import learner_commands, recalling, state
from course.desk.board import board_svg
from course.judging.results import CheckResult, DayResult

TODAY = date(2026, 11, 27)


@pytest.fixture
def on(tmp_path, monkeypatch):
    """Runs `course recall` on the day that is so many days from today."""
    monkeypatch.setattr(state, "FOLDER", tmp_path)

    def run(days, *arguments):
        class Calendar(date):
            @classmethod
            def today(cls):
                return TODAY + timedelta(days=days)

        monkeypatch.setattr(learner_commands, "date", Calendar)
        done = CliRunner().invoke(app, ["recall", *arguments])
        assert done.exit_code == 0
        return done.stdout

    return run


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.stem)
def test_every_lesson_ends_with_three_questions(day):
    items = recalling.questions(day)
    assert len(items) == 3
    for question in items:
        assert len(question.text) > 30 and question.answer
        assert not set("$\\{}") & set((question.text + question.answer).replace(r"\_", ""))


def test_formulas_are_plain_text():
    text = recalling._in_plain_text(r"$1/\sqrt{d_{model}}$, $\tfrac12 \cdot 2{,}048$, $e^{S-L}$")
    assert text == r"1/√d\_model, 1/2 · 2,048, e^(S-L)"


def test_a_lesson_is_asked_the_day_after_then_after_3_7_and_21_days(on):
    assert "Open a lesson first" in on(0)
    recalling.begin(DAYS[1], TODAY)
    recalling.begin(DAYS[1], TODAY + timedelta(days=9))  # opened again: the date stays
    assert "Nothing is due today. Next: day 2, Saturday, 28 November 2026" in on(0)
    at = 1
    for interval in (3, 7, 21, 21):
        output = on(at)
        assert "Day 2 · Attention" in output and output.index("Question 3") < output.index(
            "Answer 1"
        )
        at += interval
        assert f"Next time: {learner_commands._on(TODAY + timedelta(days=at))}" in output
        assert "Nothing is due today" in on(at - 1)
    early = on(at - 1, "2")  # asked for by its number: its date stays
    assert learner_commands._on(TODAY + timedelta(days=at)) in early
    assert json.loads((state.FOLDER / "recall.json").read_text())[DAYS[1].stem]["asked"] == 4


def test_of_several_the_last_lesson_comes_first(on):
    for day in DAYS[:2]:
        recalling.begin(day, TODAY)
    assert "Also due: day 1 (course recall 1)" in on(1)
    assert "Day 1 · Softmax" in on(1)


def test_a_day_that_passes_needs_no_lesson_opened_here(on):
    state.keep_result(DayResult(DAYS[0], (CheckResult("c", "softmax", "passed"),)), "mark")
    assert "Day 1 · Softmax" in on(0)


def test_answers_are_folded_until_they_are_asked_for(capsys):
    """What is printed before each press of Enter holds the question, and no answer of it."""
    from course.terminal.display import console

    printed = []
    recalling.ask(DAYS[24], console(), lambda: printed.append(capsys.readouterr().out))
    for number, question in enumerate(recalling.questions(DAYS[24])):
        assert question.text.split()[0] in printed[number]
        assert question.answer[:30] not in printed[number]
    assert len(printed) == 3 and "The weights are 1,557.6 million" in capsys.readouterr().out


def test_a_schedule_of_nonsense_is_none(on):
    (state.FOLDER / "recall.json").write_text(f'{{"{DAYS[0].stem}": {{"next": "soon"}}}}')
    assert "Open a lesson first" in on(0)


def test_the_board_as_a_picture():
    core, rest = (CheckResult("c", "x", status) for status in ("passed", "failed"))
    results = {day.number: DayResult(day, (core,)) for day in DAYS[:2]}
    results[3] = DayResult(DAYS[2], (core, rest))
    svg = board_svg(results)
    assert svg.count("<rect") == len(DAYS)
    assert f"2 of {len(DAYS)} days, 2 watertight ★" in svg
    assert 'class="day begun"><title>Day 3, Masks: failed' in svg
    assert "prefers-color-scheme: dark" in svg
