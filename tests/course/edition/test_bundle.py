"""The student edition: what is not in it, and that it tells a learner what the whole course would."""

import ast
import json
import subprocess
import sys
import zipfile
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from course.checks.answer_files import read_answer
from course.checks.loading import load_checks
from course.checks.seeing import check_inputs, see
from course.cli import app
from course.curriculum import BY_NUMBER, DAYS, LAST_DAY, ROOT, YOURS, day_of_definition, module_of
from course.edition import bundle_command as commands
from course.edition.bundle import NO_HINTS, UNFINISHED, _without_answers, bundle
from course.judging import recorded, truth
from course.judging.judge import Judge
from course.judging.misconceptions import load_misconceptions
from course.judging.recorded import record
from course.judging.truth import Truth
from course.references import editions
from course.references.editions import released_part
from course.references.stubs import stub_text
from course.references.text import definition_text
from course.terminal.arguments import listed_days
from tests.course.conftest import SEVERAL, said_by
from tests.course.edition.verdicts import chosen, recorded_in_haste, verdicts

READY = [day for day in DAYS if day.ready]
SHORT = 3  # statements of a body that say nothing by themselves, such as `return x + y`


# The tests of a whole run share one edition, of which eleven more days are recorded: that takes minutes.
pytestmark = pytest.mark.timeout(1800)

# Days whose checks import parts of earlier days.
BUILT_ON_OTHERS = (14, 18, 19, 20, 23, 24, 26, 27, 32, 36, 39)


@pytest.fixture(scope="module")
def edition(tmp_path_factory, request):
    """Nothing released; recorded are days 1, 2 and 8, and of the days that build on others some."""
    folder = tmp_path_factory.mktemp("bundle") / "edition"
    with recorded_in_haste(chosen(request, "built_on_others"), complete=(1, 2, 8)):
        bundle(folder, 0, lambda day: None)
    return folder


def runner(edition):
    """Runs commands of an edition's own, and nothing of this repository's."""
    start = f"import sys; sys.path.insert(0, {str(edition)!r}); "

    def run(*arguments, code="from course.cli import main; main()"):
        return subprocess.run(
            [sys.executable, "-P", "-c", start + code, *map(str, arguments)],
            cwd=edition,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def several(*commands):
        return said_by([sys.executable, "-P", "-c", start + SEVERAL], commands, cwd=edition)

    def write(number, text):
        (edition / "exercises" / f"{BY_NUMBER[number].stem}.py").write_text(text, encoding="utf-8")

    run.several, run.write = several, write
    return run


@pytest.fixture
def run(edition):
    """Runs a command of the edition's own; exercises that it writes are stubs again afterwards."""
    stubs = {path: path.read_bytes() for path in (edition / "exercises").glob("*.py")}
    yield runner(edition)
    for path, data in stubs.items():
        path.write_bytes(data)


def check(run, number):
    return verdicts(run("check", number, "--json"))[number]


def solution(number):
    return read_answer(BY_NUMBER[number].solution)


# --- What is not in it ----------------------------------------------------------------------------


def bodies(tree):
    """Each run of statements in some code, without docstrings: what a function, a branch, a cell does."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and statements:
                yield [ast.dump(statement) for statement in statements if not is_text(statement)]


def is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def withheld():
    """The body of every function of every definition, normalized; and whose it is."""
    for day in READY:
        for name in day.exercises:
            for node in ast.walk(ast.parse(definition_text(day, name))):
                if isinstance(node, ast.FunctionDef):
                    body = [
                        ast.dump(statement) for statement in node.body if not is_text(statement)
                    ]
                    yield f"{day.stem}: {name}.{node.name}", body


def contains(statements, part):
    return any(
        statements[i : i + len(part)] == part for i in range(len(statements) - len(part) + 1)
    )


def code_in(folder):
    """All code of an edition: modules, cells of notebooks, fenced blocks of Markdown."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".py":
            yield path, path.read_text(encoding="utf-8")
        elif path.suffix == ".ipynb":
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
                if cell["cell_type"] == "code":
                    yield path, "".join(cell["source"])
                else:
                    yield from ((path, block) for block in fenced("".join(cell["source"])))
        elif path.suffix == ".md":
            yield from ((path, block) for block in fenced(path.read_text(encoding="utf-8")))


def fenced(text):
    parts = text.split("```")
    return [block.partition("\n")[2] for block in parts[1::2]]


def parsed(text):
    try:
        return ast.parse("\n".join(line for line in text.splitlines() if line[:1] not in "%!"))
    except SyntaxError:
        return None


@pytest.mark.slow
def test_no_withheld_body_is_anywhere(edition):
    """What a day asks for stands in none of its files, whatever comments and layout are around it."""
    secret = {who: body for who, body in withheld() if sum(map(len, body)) > 200}
    assert len(secret) > 40
    leaks = []
    for path, text in code_in(edition):
        tree = parsed(text)
        for statements in bodies(tree) if tree else ():
            leaks += [
                (path.name, who) for who, body in secret.items() if contains(statements, body)
            ]
    assert leaks == []


def test_the_scan_finds_what_is_there(tmp_path):
    """A definition that is renamed, commented and laid out anew is found: the test above can fail."""
    body = definition_text(DAYS[1], "attention").replace("\n", "\n\n").replace("# ", "# my own ")
    (tmp_path / "cell.py").write_text(body.replace("def attention", "def mine"), encoding="utf-8")
    [(_, text)] = code_in(tmp_path)
    secret = dict(withheld())["day02_attention: attention.attention"]
    assert any(contains(statements, secret) for statements in bodies(parsed(text)))


def test_no_solution_no_wrong_answers(edition):
    """Neither worked answers nor edits of the reference are in it, nor the instructor's tools."""
    names = {str(path.relative_to(edition)) for path in edition.rglob("*")}
    for part in ("solutions", "tests/days/misconceptions", "tests/days/accepted", "course/grading"):
        assert part not in names
    for room in ("assembly", "edition"):
        assert f"course/{room}" not in names


@pytest.mark.parametrize(
    "note", sorted((ROOT / "paper_notes").glob("*.md")), ids=lambda note: note.stem
)
def test_a_notes_code_is_released_with_its_days(note):
    """A few lines of a note may be an exercise's answer. Everything else in the note stays."""
    text = note.read_text(encoding="utf-8")
    withheld = _without_answers(text, 0)
    assert "```python" in text and "```python" not in withheld
    assert _without_answers(text, LAST_DAY) == text
    before, after = (set(version.split("\n\n")) for version in (text, withheld))
    assert all("has code here" in paragraph for paragraph in after - before)


def test_the_graders_python_is_named(edition, monkeypatch, tmp_path):
    """In its README; and who has a newer one is warned."""
    version = "{}.{}".format(*sys.version_info)
    assert (edition / "recorded" / "python.txt").read_text(encoding="utf-8") == version
    readme = (edition / "README.md").read_text(encoding="utf-8")
    assert f"graded by Python {version}:" in " ".join(readme.split())
    monkeypatch.setattr(editions, "GRADER", tmp_path / "python.txt")
    messages = []
    for grader in (version, "3.99", "3.9"):
        (tmp_path / "python.txt").write_text(grader, encoding="utf-8")
        messages.append(editions.graders_python())
    assert messages[:2] == ["", ""]
    assert "graded by Python 3.9, which reads no newer syntax" in messages[2]


FILES = sorted({file for day in READY for file in day.references})


@pytest.mark.parametrize("file", FILES)
def test_the_reference_grows_day_by_day(file):
    """Through each day it holds what that day and those before asked for, is Python, and ends whole."""
    days = [day for day in READY if file in day.references]
    names = {name for day in days for name in day.exercises} & defined(parsed_file(file))
    for earlier_day, next_one in pairwise([0, *(day.number for day in days)]):
        before, after = (
            ast.parse(released_part(file, through)) for through in (earlier_day, next_one)
        )
        gained = (defined(after) - defined(before)) & names
        assert gained == (set(BY_NUMBER[next_one].exercises) & names) - defined(before)
    assert released_part(file, LAST_DAY) == (ROOT / file).read_text(encoding="utf-8")


def home_of(file, name):
    """The day that asks for a definition, or for the first one that a helper needs and that is asked for."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    its = next(node for node in tree.body if getattr(node, "name", None) == name)
    used = [name, *(node.id for node in ast.walk(its) if isinstance(node, ast.Name))]
    return next(filter(None, (day_of_definition(file, used_name) for used_name in used)), None)


@pytest.mark.parametrize("through", [0, 13, 24])
@pytest.mark.parametrize("day", READY, ids=lambda day: day.stem)
def test_what_a_stub_imports_is_given_or_an_exercise(day, through):
    """A helper that no day asks for lies in every edition, whatever is released."""
    modules = {module_of(file): file for file in FILES}
    for node in ast.walk(ast.parse(stub_text(day))):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            defined_names = defined(ast.parse(released_part(modules[node.module], through)))
            missing = [alias.name for alias in node.names if alias.name not in defined_names]
            homes = [home_of(modules[node.module], name) for name in missing]
            assert all(home and through < home.number < day.number for home in homes), missing
    for node in ast.walk(ast.parse(day.checks.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            file = modules[node.module]
            defined_names = defined(ast.parse(released_part(file, through)))
            names = {alias.name for alias in node.names} - defined_names
            assert all(day_of_definition(file, name) for name in names), names


@pytest.mark.parametrize(
    "through", [32, *(pytest.param(day, marks=pytest.mark.slow) for day in (0, 24, 38))]
)
def test_what_is_left_of_a_reference_has_the_imports_that_it_needs(tmp_path, through):
    """Each can be imported, unless it asks for an earlier day of the learner's own."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(released_part(file, through), encoding="utf-8")
    (tmp_path / "variants" / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-P", "-c", IMPORTING, str(tmp_path), *map(module_of, FILES)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == str(len(FILES)), done.stderr


IMPORTING = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if not str(error).endswith("first."):
            raise
print(len(sys.argv) - 2)
"""


def parsed_file(file):
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def defined(tree):
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


# --- What it tells --------------------------------------------------------------------------------


def test_the_first_day(run):
    """Untouched it is not started; the right answer passes; the day's first wrong answer is named."""
    assert check(run, 1)["status"] == "not_started"
    run.write(1, solution(1))
    assert check(run, 1)["status"] == "passed"
    wrong = load_misconceptions(DAYS[0])[0]
    run.write(1, f"{solution(1)}\n\n{wrong.text(DAYS[0])}")
    day = check(run, 1)
    assert day["status"] == "failed"
    [named] = {row["misconception"] for row in day["checks"] if row["status"] == "failed"}
    assert named == wrong.id
    assert any(wrong.tell in row["message"] for row in day["checks"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 8])
def test_every_known_wrong_answer_is_named(number, edition):
    """The recording tells all of a day's wrong answers from the right one, as the reference does."""
    day = BY_NUMBER[number]
    judge = Judge(day)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("course.references.editions.FOLDER", edition / "recorded")
        by_heart = Judge(day)
    for wrong in load_misconceptions(day):
        module = wrong.module(day)
        outcomes = judge.outcomes(module)
        by_reference, by_recording = judge.results(outcomes), by_heart.results(outcomes)
        assert [(r.status, r.misconception) for r in by_recording] == [
            (r.status, r.misconception) for r in by_reference
        ]


@pytest.mark.slow
def test_earlier_parts_are_ones_own(run):
    """Day 2 imports softmax from the reference: it finds the learner's, once day 1 is done."""
    run.write(2, solution(2))
    day = check(run, 2)
    assert day["status"] == "error"
    assert "softmax is day 1's exercise" in day["checks"][0]["message"]
    assert "do day 1 first" in day["checks"][0]["message"]
    run.write(1, solution(1))
    assert check(run, 2)["status"] == "passed"
    done = run(code="from numpy_reference import softmax; print(softmax.__module__)")
    assert done.stdout == "answer\n"


def test_todays_part_cannot_be_imported(run):
    """Importing today's exercise fails with the sentence that says why, here too."""
    run.write(8, "from implementation import attention\n")
    message = check(run, 8)["checks"][0]["message"]
    assert "is today's exercise" in message


def test_a_lesson_goes_on_without_the_reference(run, edition, monkeypatch):
    """On its own answer where that passes, with its own earlier part; else on the packed reference."""
    monkeypatch.delenv(
        YOURS, raising=False
    )  # `pytest --nbval` sets it for the lessons that it runs
    code = (
        "import numpy as np; from course import yours; attention = yours('attention', 2); "
        "print(attention(np.eye(2), np.eye(2), np.eye(2))[0].sum())"
    )
    output = run(code=code).stdout
    why = "because exercises/day02_attention.py is not started"
    assert output == f"attention: the reference's, {why}.\n2.0\n"
    run.write(1, solution(1))
    run.write(2, solution(2))
    output = run(code=code).stdout
    assert output == "attention: yours, from exercises/day02_attention.py.\n2.0\n"
    run.write(2, "def attention(")
    packed = edition / "recorded" / "reference.json"
    text = packed.read_text(encoding="utf-8")
    packed.unlink()
    output = run(code=code).stderr
    packed.write_text(text, encoding="utf-8")
    assert output.endswith("This edition has no reference of day 2: attention has to pass first.\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 8])
def test_a_case_can_be_drawn_again(run, number):
    """Without the reference, too: the lines that are printed give the inputs of the check."""
    day = BY_NUMBER[number]
    name = load_checks(day)[0].name
    run.write(number, solution(number))
    done = run("check", number, "--case", name)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert f'case({number}, "{name}")' in done.stdout
    done = run(code=f"from course import case; print(sorted(case({number}, {name!r})))")
    inputs = check_inputs(load_checks(day)[0], 0)
    assert done.stdout.strip() == str(sorted(inputs)), done.stderr


def test_other_seeds_are_not_recorded(run):
    """Another seed is refused in a sentence: exit 2."""
    done = run("check", 1, "--seed", 5)
    assert done.returncode == 2
    assert "checked with seed 0" in " ".join(done.stderr.replace("│", " ").split())


def test_the_board_hints_and_reset(run):
    """The board, a hint, a reset and plain help work; an instructor's commands are not offered."""
    run.write(1, "x = 1\n")
    board, hint, reset, checked, offered = run.several(
        (), ("hint", "1"), ("reset", "1"), ("check", "1", "--json"), ("--help",)
    )
    assert f"{len(DAYS)} days" in board.stdout
    assert "Hint 1 of" in hint.stdout
    assert "is the stub again" in reset.stdout
    assert verdicts(checked)[1]["status"] == "not_started"
    assert "watch" in offered.stdout
    for command in ("grade", "train", "bundle", "sync", "assemble"):
        assert f"│ {command} " not in offered.stdout


def test_an_instructors_command_is_refused(run):
    """A command that is in the whole course alone is refused in a sentence that says so, with exit 2; what
    is no command there either is not said to be one."""
    commands = ("bundle", "assemble", "grade", "sync", "train", "grad")
    *refused, unknown = run.several(*((command, "--out", "anywhere") for command in commands))
    words = [" ".join(done.stderr.replace("│", " ").split()) for done in (*refused, unknown)]
    assert {done.returncode for done in (*refused, unknown)} == {2}
    for command, said in zip(commands, words, strict=False):
        assert (f"'{command}' is not in the student edition" in said) == (command != "grad")
    assert "No such command 'grad'" in words[-1]


@pytest.mark.slow
@pytest.mark.parametrize("built_on_others", BUILT_ON_OTHERS)
def test_days_that_build_on_days_not_done(run, built_on_others):
    """Where its checks need an earlier day that is not done, a stub is not started, and a right answer
    is told which day comes first."""
    number = built_on_others
    day = check(run, number)
    assert day["status"] == "not_started"
    assert f"Day {number} builds on an earlier day." in day["checks"][0]["message"]
    run.write(number, solution(number))
    day = check(run, number)
    assert day["status"] == "error"
    assert {row["status"] for row in day["checks"]} == {"error"}
    assert "first." in day["checks"][0]["message"]


@pytest.mark.slow
def test_an_edition_of_chosen_days(tmp_path, monkeypatch):
    """It holds these alone. What lies between them is given; what comes after is not there, and no hints of
    days that are not released where they were not asked for."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    with recorded_in_haste([23]):
        bundle(tmp_path / "edition", 9, lambda day: None, listed_days("1-9,23"), hints=False)
    edition = tmp_path / "edition"
    stems = {day.stem for day in listed_days("1-9,23")}
    assert {path.stem for path in (edition / "exercises").glob("day*.py")} == stems
    assert {path.stem for path in (edition / "lessons").glob("*.ipynb")} == stems
    assert {path.stem for path in (edition / "solutions").glob("*.ipynb")} == stems - {"day23_gpt"}
    assert "class DecoderLayer" in (edition / "implementation.py").read_text(encoding="utf-8")
    assert "class GPT(" not in (edition / "variants/gpt.py").read_text(encoding="utf-8")
    assert "def rotate" not in (edition / "variants/rope.py").read_text(encoding="utf-8")
    run = runner(edition)
    first, last = run.several(("hint", "9"), ("hint", "23", "GPT"))
    assert NO_HINTS not in " ".join(first.stdout.split())
    assert NO_HINTS in " ".join(last.stdout.split())
    assert check(run, 23)["status"] == "not_started"
    run.write(23, solution(23))
    assert check(run, 23)["status"] == "passed"


# --- Stopped, and asked again ---------------------------------------------------------------------


def test_a_folder_that_is_not_empty(tmp_path):
    """Nothing is written over: it is refused before anything is done."""
    (tmp_path / "mine").write_text("x")
    with pytest.raises(FileExistsError):
        bundle(tmp_path, 0, lambda day: None)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.slow
def test_an_edition_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    """Stopped on the way it leaves nothing that could be taken for one; asked again it is whole, and begins
    with its first day, whichever that is."""
    out = tmp_path / "edition"
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(recorded, "load_checks", lambda day: [])

    def stop(day):
        if day.number == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bundle(out, 7, stop)
    assert [path.name for path in out.iterdir()] == [UNFINISHED]
    bundle(out, 0, lambda day: None, listed_days("8,9"))
    assert not (out / UNFINISHED).exists()
    assert not (out / "solutions").exists()  # of days 1 to 7, which were to be released
    readme, makefile = (
        (out / name).read_text(encoding="utf-8") for name in ("README.md", "Makefile")
    )
    assert "course check 8 " in makefile
    assert "{first}" not in readme + makefile
    assert BY_NUMBER[8].stub.name in readme
    assert (out / "pyproject.toml").exists()


@pytest.mark.slow
def test_a_recording_is_not_made_twice(tmp_path, monkeypatch):
    """A second edition takes it as it is; one of which a piece is lost is made again."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    record(DAYS[0], tmp_path / "one")
    observed = []
    watched = truth.see
    monkeypatch.setattr(
        truth, "see", lambda check, *rest: observed.append(check) or watched(check, *rest)
    )
    record(DAYS[0], tmp_path / "other")
    [first_file], [other] = (list((tmp_path / name).iterdir()) for name in ("one", "other"))
    assert first_file.read_bytes() == other.read_bytes()
    assert observed == []
    [recording] = (tmp_path / "cache" / "recorded").iterdir()
    recording.write_bytes(recording.read_bytes()[:-40])
    record(DAYS[0], tmp_path / "third")
    assert recorded.ObservationCache(tmp_path / "third" / first_file.name).read(recorded.TOLD)


@pytest.mark.slow
def test_a_recording_goes_on(tmp_path, monkeypatch):
    """What was observed before it was stopped is not observed again."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    first, second, *_ = (check.name for check in load_checks(DAYS[0]))
    observed = []

    def watched(check, *rest):
        observed.append(check.name)
        if stops and check.name == second:
            raise KeyboardInterrupt
        return see(check, *rest)

    monkeypatch.setattr(truth, "see", watched)
    stops = True
    with pytest.raises(KeyboardInterrupt):
        recorded.record(DAYS[0], tmp_path / "edition")
    assert set(observed) == {first, second}
    observed.clear()
    stops = False
    recorded.record(DAYS[0], tmp_path / "edition")
    assert first not in observed
    assert second in observed


def test_ctrl_c_is_answered(tmp_path, monkeypatch):
    """Whoever stops it is told that it goes on, and sees no traceback."""

    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "write", stopped)
    done = CliRunner().invoke(app, ["bundle", "--out", str(tmp_path / "edition")])
    assert done.exit_code == 1
    assert "the same command resumes" in done.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--days", "1-3"], "no day is released."),
        (["--days", "1-3,8", "--through", "3"], "days 1 to 3 are released. It includes"),
    ],
)  # fmt: skip
def test_what_an_edition_publishes_is_said(options, said, tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "write", lambda *arguments: None)
    out = str(tmp_path / "edition")
    done = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["bundle", "--out", out, *options])
    printed = " ".join(done.output.split())
    assert said in printed
    assert ("It includes" in printed) == ("It includes" in said)


def test_a_folder_that_cannot_be_written_is_refused_in_words(tmp_path):
    """Without the number of an error."""
    (tmp_path / "file").write_text("")
    done = CliRunner(env={"COLUMNS": "300"}).invoke(
        app, ["bundle", "--out", str(tmp_path / "file" / "edition")]
    )
    assert done.exit_code == 2
    assert "cannot be written: Not a directory." in " ".join(done.stderr.split())
    assert "Errno" not in done.stderr


def test_a_recording_is_whole_whatever_else_writes(tmp_path, monkeypatch):
    """Another process that keeps what it saw of the same day, at the same time, takes nothing away."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    keep = Truth.keep

    def lose(truth):
        keep(truth)
        for file in (tmp_path / "cache").rglob("*.zip"):
            file.unlink()

    monkeypatch.setattr(Truth, "keep", lose)
    record(DAYS[0], tmp_path)
    [file] = tmp_path.glob("*.seen")
    members = set(zipfile.ZipFile(file).namelist())
    checks = load_checks(DAYS[0])
    assert {f"{side}/{check.name}" for side in ("right", "wrong") for check in checks} <= members
