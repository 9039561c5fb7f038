"""A known wrong answer is not run where a check cannot reach what it changes: it is as if it had been run."""

import dataclasses
import textwrap

import pytest

from course.checks.loading import load_checks
from course.curriculum import DAYS, Day, find_day
from course.judging import truth as truths
from course.judging.misconceptions import load_misconceptions, may_show, module_with
from course.judging.observation_cache import ObservationCache
from course.judging.truth import Truth
from course.references.text import used_for

FEW = (3, 21, 30)  # a second together


@pytest.fixture(
    params=[
        pytest.param(day, id=day.stem, marks=() if day.number in FEW else pytest.mark.slow)
        for day in DAYS
        if day.ready
    ]
)
def paired(request) -> Day:
    return request.param


def pairs(day, checks, mistakes):
    """The pairs of a check and a mistake that it cannot reach."""
    return [
        (check, mistake)
        for check in checks
        for mistake in mistakes
        if not may_show(mistake, check, day)
    ]


def test_what_is_not_reached_makes_no_difference(paired, tmp_path):
    """Each such pair, run nevertheless, gives the reference's run to the last bit."""
    mistakes = load_misconceptions(paired)
    truth = Truth(paired, 0, "cpu", mistakes, ObservationCache(tmp_path / "none.zip"))
    checks = [truth.check(outline) for outline in truth.outlines()]
    for check, mistake in pairs(paired, checks, mistakes):
        run = truth._run(check, (mistake,))
        assert truths._same(run, truth.observe_reference(check)), (check.name, mistake.id)


def test_it_is_not_run(tmp_path, monkeypatch):
    """Neither alone nor beside another, and it gives the run that it would have given."""
    day = find_day("3")
    mistakes = load_misconceptions(day)
    truth = Truth(day, 0, "cpu", mistakes, ObservationCache(tmp_path / "none.zip"))
    check, hidden = pairs(day, truth.outlines(), mistakes)[0]
    shown = next(
        other for other in mistakes if may_show(other, check, day) and other.id != hidden.id
    )
    alone = truth.wrong(check, shown).expected
    right = truth.right(check)
    both = module_with((shown, hidden), day)
    run = truth.run(check, both)
    monkeypatch.setattr(truths, "see", None)
    assert truth.together(check, (shown, hidden)) is alone
    assert truths._same(alone.run, run)
    assert not truth.wrong(check, hidden).fails
    assert truth.wrong(check, hidden).expected.run == right.run


def test_tolerances_wait_until_a_mistake_makes_a_difference(tmp_path, monkeypatch):
    """What is the same to the last bit passes without them."""
    day = find_day("2")
    truth = Truth(day, 0, "cpu", load_misconceptions(day), ObservationCache(tmp_path / "none.zip"))
    check = truth.outlines()[0]
    same = [
        mistake
        for mistake in truth.misconceptions
        if truths._same(truth._run(check, (mistake,)), truth.observe_reference(check))
    ]
    derivations = []
    derived = truths.expect
    monkeypatch.setattr(
        truths, "expect", lambda *arguments: derivations.append(1) or derived(*arguments)
    )
    assert not any(truth.wrong(check, mistake).fails for mistake in same)
    assert not derivations
    assert any(truth.wrong(check, mistake).fails for mistake in truth.misconceptions)
    assert derivations == [1]
    assert same


REFERENCE = """
    TABLE = [entry(1)]

    def entry(x, scale=None):
        return x

    def alone(x):
        return x

    class Part:
        kind = alone

    class Whole(Part):
        def forward(self, x):
            return TABLE[x]
"""


@pytest.mark.parametrize(
    ("name", "reached"),
    [
        ("alone", {"alone"}),
        ("Part", {"Part", "alone"}),  # an attribute of a class was made with it
        ("Whole", {"Whole", "Part", "alone", "TABLE", "entry"}),  # a base, and a value at the top
    ],
)
def test_what_a_definition_is_made_of_is_reached(name, reached, tmp_path):
    """What it calls, inherits, has as an attribute or was computed from."""
    (tmp_path / "reference.py").write_text(textwrap.dedent(REFERENCE))
    day = Day(1, "made", "Made", ("alone",), (str(tmp_path / "reference.py"),))
    assert used_for(day, frozenset({name})) >= reached
    assert used_for(day, frozenset({name})).isdisjoint({"alone", "Part", "Whole"} - reached)


@pytest.mark.parametrize(
    ("body", "uses"),
    [
        ("return answer.softmax", {"softmax"}),
        ("return [answer.softmax, run(answer)]", {"softmax", "log_softmax"}),
        ("return getattr(answer, 'softmax')", {"softmax", "log_softmax"}),
    ],
)
def test_a_check_that_hands_its_answer_on_may_use_all_of_it(body, uses, tmp_path):
    """Where it goes from there is not followed."""

    class Elsewhere(Day):
        checks = tmp_path / "test_day01_elsewhere.py"

    Elsewhere.checks.write_text(f'def test_it(answer):\n    """It is."""\n    {body}\n')
    [check] = load_checks(Elsewhere(**dataclasses.asdict(DAYS[0])))
    assert check.uses == uses
