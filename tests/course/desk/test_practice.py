"""What is observed on the practice GPU after the CPU: in verdicts, in JSON, and by `--device practice`."""

import io
import json

import pytest
from rich.console import Console

from course.checks.answer_files import read_answer
from course.checks.arrays import PRACTICE
from course.checks.loading import CORE
from course.checks.tensors import missing_device
from course.curriculum import BY_NUMBER, DAYS
from course.desk.verdicts import LOOKING, verdict
from course.desk.watching import Watch
from course.judging.judge import Judge
from course.judging.misconceptions import load_misconceptions
from course.judging.observation_cache import ObservationCache
from course.judging.practice_truth import PracticeTruth
from course.judging.recorded import record
from course.judging.results import RUNNING
from course.references.patched import reference_module
from course.terminal import display
from course.terminal.display import MARKS
from course.workers.checking import day_steps
from course.workers.pool import WorkerPool
from course.workers.worker import run_to_end

pytestmark = pytest.mark.skipif(
    missing_device(PRACTICE) is not None, reason=str(missing_device(PRACTICE))
)

DAY = DAYS[22]  # GPT
RUNS = "CPU passed, device check running"
MADE_THERE, MADE_ON_CPU = "size(1), device=tokens.device)", "size(1))"


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(1, "cpu") as pool:
        yield pool


@pytest.fixture
def check(tmp_path, pool):
    """Check an answer to day 23: the solution with something replaced."""

    def check(find="", put="", device="cpu"):
        source = read_answer(DAY.solution)
        assert find in source
        answer = tmp_path / f"{DAY.stem}.py"
        answer.write_text(source.replace(find, put), encoding="utf-8")
        return run_to_end(day_steps(Judge(DAY, device=device), tmp_path, pool))

    return check


def there(result):
    return [row for row in result.checks if row.device == PRACTICE]


def in_words(shown):
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(shown)
    return console.export_text()


def test_the_verdict_does_not_wait(check):
    """On the CPU all passes; the day is not passed before the practice GPU was asked."""
    checked = check()
    assert {row.status for row in there(checked.verdict)} == {RUNNING}
    assert (checked.verdict.status, checked.verdict.watertight) == (RUNNING, False)
    assert {row.status for row in checked.verdict.checks} == {"passed", RUNNING}
    assert MARKS["watertight"] not in in_words(verdict(checked.verdict))
    result = checked.finish()
    assert MARKS["watertight"] in in_words(verdict(result))
    assert (result.status, result.watertight) == ("passed", True)
    assert result.passed == result.total == checked.verdict.total
    assert {row.exercise for row in there(result)} == set(DAY.exercises)


def test_a_mistake_about_devices(check):
    """It is named, with the line that made the CPU tensor, and the day is not passed."""
    checked = check(MADE_THERE, MADE_ON_CPU)
    assert {row.status for row in checked.verdict.checks} == {"passed", RUNNING}
    result = checked.finish()
    [wrong] = [row for row in result.checks if row.is_open]
    assert (wrong.device, wrong.misconception) == (PRACTICE, "positions_made_on_the_cpu")
    assert result.status == "error"
    assert "RuntimeError: Expected all tensors to be on the same device" in wrong.message
    line_number = next(
        number
        for number, line in enumerate(read_answer(DAY.solution).splitlines(), 1)
        if MADE_THERE in line
    )
    assert f"The CPU tensor was made in line {line_number}: torch.arange(" in wrong.message


@pytest.mark.slow
def test_other_mistakes_are_named_there(check):
    """Where all checks run on the practice GPU, a mistake that also shows on the CPU has its name."""
    find, put = "F.linear(x, self.embed.weight)", "F.linear(x, self.embed.weight.detach())"
    result = check(find, put, PRACTICE).finish()
    assert "head_detached" in {row.misconception for row in there(result)}


@pytest.mark.slow
def test_what_fails_on_the_cpu_is_not_run_there(check):
    """It counts as wrong there, too, and says the same; what passes is run."""
    checked = check("self.embed(tokens) +", "2 * self.embed(tokens) +")
    before = {row.name: row for row in checked.verdict.checks if row.device == "cpu"}
    again = {row.name: row for row in there(checked.verdict)}
    assert any(row.status == "failed" for row in again.values())
    for name, result in again.items():
        assert result.status == (
            RUNNING if before[name].status == "passed" else before[name].status
        )
    assert {row.status for row in there(checked.finish())} == {"passed", "failed"}


@pytest.mark.slow
@pytest.mark.parametrize(("find", "put", "code"), [("", "", 0), (MADE_THERE, MADE_ON_CPU, 1)])
def test_commands(project, find, put, code):
    """`course check` prints one object of version 2, and waits for the practice GPU before it exits."""
    source = read_answer(DAY.solution).replace(find, put)
    (project.root / "exercises" / f"{DAY.stem}.py").write_text(source, encoding="utf-8")
    done, case, words = project.courses(
        ("check", "23", "--json"),
        ("check", "23", "--device", "practice", "--json"),
        ("check", "23"),
    )
    report = json.loads(done.stdout)
    wrong = report["total"] - report["passed"]
    assert (done.returncode, report["version"], wrong) == (code, 2, code)
    [day] = report["days"]
    assert RUNNING not in {row["status"] for row in day["checks"]}
    assert {row["device"] for row in day["checks"]} == {"cpu", PRACTICE}
    assert case.returncode == code
    assert RUNS not in words.stdout  # one verdict, whose totals are those of the report
    assert f"{report['passed']} of {report['total']} checks pass" in words.stdout


def test_it_says_that_it_looks_for_what_was_misunderstood(tmp_path, pool):
    """In `course watch`, for a mistake about devices as for any other."""
    source = read_answer(DAY.solution).replace(MADE_THERE, MADE_ON_CPU)
    (tmp_path / f"{DAY.stem}.py").write_text(source, encoding="utf-8")
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, theme=display.THEME)
    steps = Watch(DAY, tmp_path, console, as_json=False, seed=0)._work(Judge(DAY), pool)
    while "positions_made_on_the_cpu" not in screen.getvalue():
        next(steps)
    steps.close()
    failing, _, named = screen.getvalue().partition(LOOKING)
    assert "at least two devices" in failing
    assert "positions_made_on_the_cpu" in named


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_order_on_the_screen(tmp_path, pool, is_terminal):
    """`course watch` shows the verdict, that the device check is running, and then what came of it."""
    (tmp_path / f"{DAY.stem}.py").write_text(read_answer(DAY.solution), encoding="utf-8")
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=is_terminal, width=100, theme=display.THEME)
    watch = Watch(DAY, tmp_path, console, as_json=False, seed=0)
    steps = watch._work(Judge(DAY), pool)
    while "Watching" not in screen.getvalue():
        next(steps)
    first = screen.getvalue()
    assert "Passed" not in first and "On the practice GPU" not in first
    assert first.index("checks pass") < first.index(RUNS) < first.index("Watching")
    done = "Passed." if is_terminal else "On the practice GPU 2 of 2 checks pass."  # without keys
    while done not in screen.getvalue():
        next(steps)
    steps.close()
    assert RUNS not in screen.getvalue().removeprefix(first)


@pytest.mark.slow
def test_the_command_that_draws_the_inputs(project):
    """It shows the failure again, and lines that draw the inputs on the practice GPU."""
    answer = project.root / "exercises" / f"{DAY.stem}.py"
    answer.write_text(read_answer(DAY.solution).replace(MADE_THERE, MADE_ON_CPU), encoding="utf-8")
    shown = project.course("check", "23").stdout
    [line] = [line for line in shown.splitlines() if "To draw these inputs" in line]
    command = line.partition("course ")[2].split()
    assert command[:4] == ["check", "23", "--device", "practice"]
    for again in project.courses(command, [*command[:2], *command[4:]]):
        assert again.returncode == 1
        assert "positions_made_on_the_cpu" in again.stdout
        assert "with practice.running():" in again.stdout


@pytest.mark.slow
def test_what_is_wrong_on_the_cpu_is_named_beside(project):
    """What one exercise shows on the practice GPU does not hide the diagnosis of another."""
    answer = project.root / "exercises" / f"{DAY.stem}.py"
    find, put = "F.linear(x, self.embed.weight)", "F.linear(x, self.embed.weight.detach())"
    answer.write_text(read_answer(DAY.solution).replace(find, put), encoding="utf-8")
    shown = project.course("check", "23").stdout
    assert "head_detached" in shown and RUNS not in shown


@pytest.mark.parametrize("number", [29, 39])
def test_a_day_is_not_passed_without_the_practice_gpu(number):
    """Where only checks beyond the core are marked, one of the core is observed there too."""
    day = BY_NUMBER[number]
    on_practice = [row for row in Judge(day).checks if row.on_practice]
    assert {row.exercise for row in on_practice if row.tier == CORE} == {
        row.exercise for row in on_practice
    }


def test_days_in_numpy_have_none():
    """NumPy knows the CPU alone, and its days' workers have no torch."""
    for day in DAYS:
        if not day.uses_torch:
            judge = Judge(day)
            assert (judge.practice, judge.torch_on) == (None, None)


def test_a_stub_is_not_started(tmp_path, pool):
    """Nothing of an untouched stub is run there."""
    (tmp_path / f"{DAY.stem}.py").write_text(DAY.stub.read_text(encoding="utf-8"), encoding="utf-8")
    checked = run_to_end(day_steps(Judge(DAY), tmp_path, pool))
    assert not checked.awaits_practice
    assert {row.status for row in checked.verdict.checks} == {"not_started"}


@pytest.mark.slow
def test_recordings_tell_mistakes_about_devices(tmp_path):
    """A recording has what is seen on the CPU, and of the practice GPU the places and the known mistakes."""
    record(DAY, tmp_path)
    recording = ObservationCache(tmp_path / f"{DAY.stem}.seen")
    mistakes = load_misconceptions(DAY, PRACTICE)
    truth, here = PracticeTruth(DAY, 0, mistakes, recording), Judge(DAY)
    for check in (outline for outline in truth.outlines() if outline.on_practice):
        assert truth.knows(check)
        run = truth.observe_reference(check)
        assert {leaf.device for leaf in run.observation.values()} == {PRACTICE}
        assert truth.accepts(check, here.practice.truth.run(check, reference_module(DAY)))
        for wrong in mistakes:
            assert truth.wrong(check, wrong).fails == here.practice.truth.wrong(check, wrong).fails
