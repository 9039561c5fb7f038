"""The checks checked: solutions, stubs, wrong answers, accepted answers, hints, for every day."""

import ast
import functools
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from course.checks.answer_files import begun, build_answer, read_answer
from course.checks.arrays import PRACTICE, as_numpy, dtype_of, is_array
from course.checks.loading import CORE, WATERTIGHT, load_checks
from course.checks.seeing import check_inputs, see, takes_tensors
from course.curriculum import ANSWER_TAG, DAYS, ROOT
from course.desk.hints import read_hints
from course.judging.closed_words import known, pattern
from course.judging.comparison import compare
from course.judging.judge import Judge, Outcome
from course.judging.misconceptions import load_misconceptions
from course.references.imports import redacted_imports
from course.references.patched import reference_module
from course.references.redacted import redacted_references
from course.references.stubs import stub_text
from course.workers.checking import day_steps
from course.workers.pool import WorkerPool
from course.workers.worker import run_to_end
from tests.draws import faults

READY = [day for day in DAYS if day.ready]


# Exercises that take tensors and return none that could be on a GPU.
NOT_THERE: set[str] = set()

USUAL = 0  # the seed of `course check`


@functools.cache
def judge_of(day, seed=USUAL):
    """Return the judge of a day, which remembers what it has observed."""
    judge = Judge(day, seed)
    if seed == USUAL:
        usual.append(judge)
    return judge


usual = []


@pytest.fixture(scope="session", autouse=True)
def kept():
    """Write what was observed at the usual seed to the user's cache, for the next run of the tests.

    Not at the process's exit: pytest-xdist does not wait for that.
    """
    yield
    for judge in usual:
        judge.keep()


each_day = pytest.mark.parametrize("day", READY, ids=lambda day: day.stem)
slow = pytest.mark.slow
NAMED_AT_ONCE = 2  # known wrong answers of a day that `make test` runs; all others are slow


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(spares=1) as pool:
        yield pool


@each_day
def test_solution_passes(day):
    """The worked answer passes every check, from its tagged cells alone."""
    assert wrong_in(day.solution, judge_of(day)) == []


@slow
@each_day
def test_solution_passes_in_a_worker(day, pool):
    """What a worker's verdict on it says and counts, on the CPU and on the practice GPU."""
    result = run_to_end(day_steps(judge_of(day), ROOT / "solutions", pool)).finish()
    messages = [(check.name, check.message) for check in result.checks]
    assert (result.status, result.watertight) == ("passed", True), messages
    repeated = [check for check in judge_of(day).checks if check.on_practice]
    assert result.passed + result.passed_watertight == len(judge_of(day).checks) + len(repeated)
    assert sum(check.device == PRACTICE for check in result.checks) == len(repeated)


@each_day
def test_untouched_stub_is_not_started(day, tmp_path):
    """Every check of a stub says that it is not started."""
    path = tmp_path / f"{day.stem}.py"
    path.write_text(stub_text(day), encoding="utf-8")
    assert {status for status, _ in verdicts(path, judge_of(day)).values()} == {"not_started"}


@slow
@each_day
def test_untouched_stub_is_not_started_in_a_worker(day, pool, tmp_path):
    """Every check of a stub says that it is not started, and so does the day."""
    (tmp_path / f"{day.stem}.py").write_text(stub_text(day), encoding="utf-8")
    result = run_to_end(day_steps(judge_of(day), tmp_path, pool)).finish()
    assert {check.status for check in result.checks} == {"not_started"}
    assert result.status == "not_started"
    assert not result.begun


@each_day
def test_stub_has_only_what_a_stub_may_have(day):
    """Signatures and docstrings are there, and neither steps nor code of the answer."""
    for node in ast.parse(stub_text(day)).body:
        if isinstance(node, ast.FunctionDef):
            assert ast.get_docstring(node)
            assert [ast.unparse(line) for line in node.body[1:]] == ["raise NotImplementedError"]
    for name in day.exercises:
        assert f"def {name}(" in stub_text(day) or f"class {name}" in stub_text(day)
    assert not re.search(r"^ *#", stub_text(day), re.MULTILINE)


WRONG = [(day, wrong) for day in READY for wrong in load_misconceptions(day)]


def each_wrong(at_once):
    """Parametrize a test with all known wrong answers, of which so many of a day are not slow."""
    return pytest.mark.parametrize(
        ("day", "wrong"),
        [
            pytest.param(day, wrong, marks=() if index < at_once else slow)
            for day in READY
            for index, wrong in enumerate(load_misconceptions(day))
        ],
        ids=lambda value: getattr(value, "stem", None) or value.key,
    )


@functools.cache
def failures_of(day, wrong):
    """The verdicts on a known wrong answer that are bad ones."""
    judge = judge_of(day)
    outcomes = {check.name: Outcome(judge.truth.wrong(check, wrong).run) for check in judge.checks}
    results = judge.results(outcomes)
    return [result for result in results if result.status in ("failed", "error")]


@each_wrong(NAMED_AT_ONCE)
def test_misconception_is_caught_and_named(day, wrong):
    """A known wrong answer fails, and is named as itself in every check that it fails and no other."""
    failed = failures_of(day, wrong)
    assert failed, "no check fails"
    of_its_own = [result for result in failed if result.exercise == wrong.definition] or failed
    assert {result.misconception for result in of_its_own} == {wrong.id}
    assert {result.misconception for result in failed} <= {wrong.id, None}
    assert wrong.tell in of_its_own[0].message
    for result in failed:  # where it shows in another exercise, it is said where it comes from
        if result.misconception and result.exercise != wrong.definition:
            assert result.message.startswith(f"This comes from `{wrong.definition}`.")


@slow
@each_day
def test_what_known_mistakes_raise_can_be_told(day):
    """In grading an exception's own words are shown where they are on the list: theirs are."""
    judge = judge_of(day)
    truth = judge.truth
    wrong = [
        truth.wrong(check, mistake) for check in judge.checks for mistake in truth.misconceptions
    ]
    raised = [run.run.raised for run in wrong]
    messages = {error.message.partition("\n")[0] for error in raised if error}
    assert not {pattern(words) for words in messages if words} - known()


# Where published code that trains well differs from a contract, and the day is about something else.
PUBLISHED = {
    24: ("one_axis_in_front", "dropout_on"),
    25: ("counted_too_soon",),
    26: ("padding_index", "as_many_in_each_row"),
    27: ("mask_with_a_row_for_each_query_as_it_is",),
    28: ("rms_rounded_before_the_gain", "swiglu_starts_small"),
    29: ("four_axes_only", "offset_only_an_int", "halves_rotated_as_they_are"),
    31: ("keys_repeated",),
}


@slow
@pytest.mark.parametrize(
    ("day", "wrong"),
    [(day, wrong) for day, wrong in WRONG if wrong.id in PUBLISHED.get(day.number, ())],
    ids=lambda value: getattr(value, "stem", None) or value.id,
)
def test_published_code_passes_the_core(day, wrong):
    """Nobody fails a day by what published code does: that is watertight at most."""
    assert {result.tier for result in failures_of(day, wrong)} == {WATERTIGHT}


def on_practice(day):
    """Return the judge of what is observed on the practice GPU without being asked."""
    practice = judge_of(day).practice
    if practice is None:
        pytest.skip("nothing of this day is observed on the practice GPU")
    return practice


WRONG_THERE = [
    (day, wrong) for day in READY if day.uses_torch for wrong in load_misconceptions(day, PRACTICE)
]


@slow
@pytest.mark.parametrize(
    ("day", "wrong"), WRONG_THERE, ids=lambda value: getattr(value, "stem", None) or value.key
)
def test_mistake_about_devices_is_caught_and_named(day, wrong):
    """It is right on the CPU; what is observed on the practice GPU without being asked names it."""
    judge, practice = judge_of(day), on_practice(day)
    module = wrong.module(day)
    own = [check for check in judge.checks if check.exercise == wrong.definition]
    assert all(judge.truth.passes(check, module) for check in own)
    outcomes = {
        check.name: Outcome(practice.truth.wrong(check, wrong).run) for check in practice.checks
    }
    failed = [
        result for result in practice.results(outcomes) if result.status in ("failed", "error")
    ]
    of_its_own = [result for result in failed if result.exercise == wrong.definition]
    assert of_its_own
    assert {result.misconception for result in of_its_own} == {wrong.id}
    assert {result.misconception for result in failed} <= {wrong.id, None}


@slow
@each_day
def test_exercises_are_observed_on_the_practice_gpu(day):
    """Each exercise one of whose core checks takes tensors has one or two checks there; they pass."""
    practice, reference = judge_of(day).practice, reference_module(day)
    checks = practice.checks if practice else []
    counts = Counter(check.exercise for check in checks)
    taking = [check for check in load_checks(day) if check.tier == CORE and takes_tensors(check)]
    assert set(counts.values()) <= {1, 2}
    assert set(counts) >= {check.exercise for check in taking} - NOT_THERE
    assert all(practice.truth.passes(check, reference) for check in checks)


@each_wrong(0)
def test_misconception_is_caught_at_another_seed(day, wrong, seed):
    """What tells a wrong answer is no accident of the usual inputs."""
    judge = judge_of(day, seed)
    module = wrong.module(day)
    telling = {result.name for result in failures_of(day, wrong)}
    likely_first = sorted(judge.checks, key=lambda check: check.name not in telling)
    assert not all(judge.truth.passes(check, module) for check in likely_first)


@each_day
def test_there_are_enough_of_each(day):
    """At least six misconceptions, two accepted answers, three hints beside the steps."""
    ids = {wrong.id for wrong in load_misconceptions(day)}
    assert len(ids) >= 6
    assert len(list(day.accepted.glob("*.py"))) >= 2
    hints = read_hints(day)
    assert list(hints) == list(day.exercises)
    for texts in hints.values():
        assert len(texts) >= 3
        assert all(len(text) > 40 for text in texts)


def no_own_part(name, day):
    """All references are here, so that nothing of a learner's own has to stand in for one."""
    raise AssertionError(name)


ACCEPTED = [(day, path) for day in READY for path in sorted(day.accepted.glob("*.py"))]


@each_day
def test_an_accepted_answer_passes(day):
    """A right answer written differently passes, both tiers, with the usual inputs: a library's own, where
    there is one."""
    paths = [path for home, path in ACCEPTED if home == day]
    assert wrong_in(min(paths, key=lambda path: path.stem != "published"), judge_of(day)) == []


@slow
@pytest.mark.parametrize(("day", "path"), ACCEPTED, ids=lambda v: getattr(v, "stem", None))
def test_accepted_answer_passes(day, path, seed):
    """Each of them passes at other seeds, and on the practice GPU."""
    assert wrong_in(path, judge_of(day, seed), judge_of(day, seed).practice) == []


def wrong_in(path, *judges):
    """Return the checks that an answer, built in this process, does not pass, with their messages."""
    return [
        (name, message)
        for judge in judges
        if judge
        for name, (status, message) in verdicts(path, judge).items()
        if status != "passed"
    ]


def verdicts(path, judge):
    """Return status and message of each check of an answer that is built in this process."""
    day = judge.day
    with redacted_imports(redacted_references(day), day.number, no_own_part):
        answer = build_answer(str(path), read_answer(path))
    results = judge.results(judge.outcomes(answer, str(path)))
    return {result.name: (result.status, result.message) for result in results}


@slow
@each_day
def test_the_reference_passes(day, seed):
    """Its own observation in the inputs' dtype lies within the tolerance that was derived from it."""
    judge = judge_of(day, seed)
    for check in judge.checks:
        run = judge.truth.run(check, reference_module(day))
        assert run.raised is None
        assert compare(run.observation, judge.truth.right(check)) is None, check.name


@slow
@each_day
def test_inputs_can_be_drawn(day, seed):
    """At this seed and the next no fixture raises."""
    assert list(faults(day.number, range(seed, seed + 2))) == []


@slow
@each_day
def test_checks_leave_their_inputs_alone(day):
    """The reference changes no input, so whatever is changed with it was changed by the check itself."""
    reference = reference_module(day)
    changed = {}
    for check in load_checks(day):
        inputs = check_inputs(check, USUAL)
        before = contents(inputs)
        check.function(answer=reference, **inputs)
        if contents(inputs) != before:
            changed[check.name] = [
                name for name in inputs if contents(inputs)[name] != before[name]
            ]
    assert not changed


def contents(value):
    """Everything in nested inputs, to be compared: keys, lengths, words and numbers."""
    if isinstance(value, dict):
        return {name: contents(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [contents(item) for item in value]
    if is_array(value):
        array = as_numpy(value)
        return dtype_of(value), array.shape, array.tobytes()
    return repr(value) if isinstance(value, bool | int | float | str | None) else type(value)


@slow
@each_day
def test_checks_observe_something_that_varies(day):
    """No check returns nothing; what is the same for every seed is declared, and never is all of it."""
    for check in load_checks(day):
        observations = [see(check, reference_module(day), seed).observation for seed in range(6)]
        assert observations[0], f"{check.name} returns nothing"
        values = {
            path: [
                repr((o[path].shape, np.asarray(o[path].value).tolist()))
                for o in observations
                if path in o
            ]
            for path, leaf in observations[0].items()
            if leaf.is_array or leaf.value is not None
        }
        same = {path for path, several in values.items() if len(set(several)) == 1}
        assert same == set(check.constant), (
            f"{check.name}: {same} never change, {set(check.constant)} are declared"
        )
        assert set(values) - same, f"{check.name} observes nothing that varies"


@slow
@each_day
def test_each_check_is_failed_by_a_wrong_answer(day):
    """No check is there in vain: some known wrong answer fails it."""
    wrongs = [wrong for home, wrong in WRONG if home == day]
    failed = {result.name for wrong in wrongs for result in failures_of(day, wrong)}
    assert failed == {check.name for check in judge_of(day).checks}


@each_day
def test_checks_speak_to_the_learner(day):
    """Each has a docstring of one sentence, and never makes an array itself."""
    for check in load_checks(day):
        assert check.says.endswith("."), check.name
        assert len(check.says) < 160, check.name
        used = {
            name
            for name in check.function.__code__.co_names
            if hasattr(np.random, name) or name == "random"
        }
        assert not used & {"random", "default_rng", "normal"}, check.name


@each_day
def test_every_exercise_has_a_core(day):
    """No exercise passes without a check, and what goes beyond its core has its reason."""
    core = {check.exercise for check in judge_of(day).checks if check.tier == CORE}
    assert core == set(day.exercises)
    reasons = {check.beyond for check in judge_of(day).checks if check.tier == WATERTIGHT}
    assert not [why for why in reasons if why.strip(" .") != why]  # they are read within a sentence


@slow
@each_day
def test_answer_is_not_changed_by_a_shared_state(day):
    """An observation is the same when it is made twice, in another order."""
    judge = judge_of(day)
    reference = reference_module(day)
    for check in reversed(judge.checks):
        run = judge.truth.run(check, reference)
        assert compare(run.observation, judge.truth.right(check)) is None


@each_day
def test_stub_is_formatted(day):
    """ruff has nothing to say about a stub, but that its answer will need the imports, and of its shapes."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--ignore", "F401,F722,F821"], ["format", "--check"]):
        done = subprocess.run(
            [*ruff, *command, "--config", str(ROOT / "pyproject.toml"), "-"],
            input=stub_text(day),
            capture_output=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stdout


@each_day
def test_stub_alone_is_not_begun(day):
    """The stub differs from itself in nothing, and from the solution in every exercise."""
    assert begun(stub_text(day), stub_text(day), day.exercises) == []
    assert begun(read_answer(day.solution), stub_text(day), day.exercises) == list(day.exercises)
    assert ANSWER_TAG in day.solution.read_text(encoding="utf-8")
