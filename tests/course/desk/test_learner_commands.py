"""The `course` command through its real command line."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import nbformat
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from course.checks.loading import load_checks
from course.checks.seeing import check_inputs
from course.cli import COMMANDS, app
from course.curriculum import DAYS, LAST_DAY, NoSuchDay, find_day, find_days
from course.desk import jupyter
from course.desk.hints import read_hints
from tests.course.conftest import ROOT

TEXT = {"type": "string"}
SECONDS = {"type": "number", "minimum": 0}
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="nothing more is needed elsewhere")
BROKEN = ["error", "timed_out", "out_of_memory"]


def thing(**properties):
    """A JSON object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


CHECK = thing(
    name=TEXT,
    exercise=TEXT,
    tier={"enum": ["core", "watertight"]},
    device={"enum": ["cpu", "cuda", "mps"]},
    status={"enum": ["passed", "failed", "not_started", "skipped", *BROKEN]},
    message=TEXT,
    misconception={"type": ["string", "null"]},
    seconds=SECONDS,
)
DAY = thing(
    day={"type": "integer", "minimum": 1, "maximum": LAST_DAY},
    stem=TEXT,
    status={"enum": ["passed", "failed", "error", "not_started", "in_progress", "skipped"]},
    watertight={"type": "boolean"},
    seconds=SECONDS,
    checks={"type": "array", "items": CHECK, "minItems": 1},
)
COUNT = {"type": "integer", "minimum": 0}
REPORT = thing(
    version={"const": 2},
    passed=COUNT,
    total=COUNT,
    passed_watertight=COUNT,
    total_watertight=COUNT,
    days={"type": "array", "items": DAY},
)


def answers_in(project, **texts):
    """Folders of the project, each with an answer to day 2."""
    for folder, text in texts.items():
        (project.root / folder).mkdir()
        (project.root / folder / project.exercise.name).write_text(text, encoding="utf-8")


def test_json_follows_the_schema(project, answer):
    """One object on standard output and nothing else there, whatever the verdict."""
    answers_in(project, right=answer, wrong=answer.replace("math.sqrt", ""), broken="import")
    commands = [
        ("check", "1", "2", "--json", "--answers", name) for name in ("right", "wrong", "broken")
    ]
    for done in project.courses(*commands):
        report = json.loads(done.stdout)
        jsonschema.validate(report, REPORT)
        assert [day["day"] for day in report["days"]] == [1, 2]
        checks = sum(len(day["checks"]) for day in report["days"])
        assert report["total"] + report["total_watertight"] == checks
        assert done.returncode == 1


def test_the_core_is_enough(project, loose):
    """Exit 0 and `passed` where only watertight checks fail; these are there, and say so."""
    project.exercise.write_text(loose, encoding="utf-8")
    day = project.check()
    assert (day["status"], day["watertight"]) == ("passed", False)
    wrong = [check for check in day["checks"] if check["status"] != "passed"]
    assert {(check["tier"], check["status"]) for check in wrong} == {("watertight", "failed")}


@pytest.mark.slow
def test_solutions_pass_from_the_command_line(project):
    """`course check --answers solutions` passes in NumPy, in torch, and where the compiler is imported."""
    done = project.course("check", "2", "8", "30", "--answers", "solutions", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert {(day["status"], day["watertight"]) for day in report["days"]} == {("passed", True)}
    assert report["passed"] == report["total"] > 0
    assert report["passed_watertight"] == report["total_watertight"] > 0


def test_another_seed_gives_other_inputs(project, answer):
    """A seed changes what is drawn, and a right answer passes at any."""
    answers_in(project, right=answer, wrong=answer.replace("math.sqrt(query.shape[-1])", "1"))
    first, other, right = project.courses(
        *(("check", "2", "--json", "--answers", "wrong", "--seed", seed) for seed in ("0", "1")),
        ("check", "2", "--answers", "right", "--seed", "12345"),
    )
    messages = {
        json.loads(finished.stdout)["days"][0]["checks"][0]["message"]
        for finished in (first, other)
    }
    assert len(messages) == 2
    assert right.returncode == 0


def here(*arguments, **environment):
    """Run a command in this process: what is refused or only printed needs no other."""
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": None}
    done = CliRunner().invoke(app, arguments, env=plain | environment, prog_name="course")
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "99"], f"the days are 1 to {LAST_DAY}"),
        (["check", "0"], f"the days are 1 to {LAST_DAY}"),
        (["check", "unicorn"], "No day is called 'unicorn'"),
        (["check", "attention"], "2 (day02_attention)"),
        (["check", "2", "--answers", "nowhere"], "nowhere"),
        (["check", "2", "--seed", "-1"], "greater than or equal to 0"),
        (["check", "2", "--device", "toaster"], "toaster"),
        (["check", "2", "--case", "scales"], "the nearest is 'test_scale'"),
        (["check", "2-3", "--case", "scale"], "one check of one day"),
        (["hint", "2", "softmax"], "it has attention"),
        (["watch", "unicorn"], "unicorn"),
        (["fly"], "fly"),
        (["chek"], "Did you mean 'check'"),
        (["99"], f"the days are 1 to {LAST_DAY}"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_exit_2(arguments, words):
    """What cannot be asked is named, with what can, on standard error."""
    done = here(*arguments, COLUMNS="300")
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "extra", "missing"),
    [
        ("train copy", "train", "tensorboard"),
        ("study norms", "train", "scipy"),
        ("assemble llama", "train", "gguf"),
        ("explore softmax", "explore", "marimo"),
        pytest.param("grade nowhere --out out", "grade", "pyseccomp", marks=ON_LINUX),
    ],
)
def test_a_command_without_its_extra_says_how_to_install_it(
    arguments, extra, missing, monkeypatch, tmp_path
):
    """In one line, before anything is done; its help is still shown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nowhere").mkdir()
    monkeypatch.setitem(sys.modules, missing, None)
    done = here(*arguments.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith(
        f' needs {missing}, which is not installed here: pip install -e ".[{extra}]"\n'
    )
    assert done.stderr.count("\n") == 1
    assert here(arguments.split()[0], "--help").exit_code == 0


@pytest.mark.slow
def test_days_alone_are_checked(project):
    """`course 1` is `course check 1`, options and ranges included."""
    short = project.course("2")
    commands = (["2"], ["day02"], ["1-2", "--seed", "3"])
    outputs = project.courses(*commands, *(["check", *command] for command in commands))
    assert short.stdout == outputs[0].stdout
    for short_form, full in zip(outputs[:3], outputs[3:], strict=True):
        assert (short_form.returncode, short_form.stdout) == (full.returncode, full.stdout)
        assert "Day 2 · Attention" in short_form.stdout


def test_help_is_in_plain_words():
    """-h is --help, the version is shown, commands are grouped, and no name of a type in Python is shown."""
    shown = here("-h").stdout
    assert shown == here("--help").stdout
    panels = ["─ Learn ─", "─ Train and measure models ─", "─ Teach and grade ─", "─ Contribute ─"]
    places = [shown.index(panel) for panel in panels]
    assert places == sorted(places)
    for name in COMMANDS:
        assert f"│ {name} " in shown
    assert re.fullmatch(r"course \d+(\.\d+)+\n", here("--version").stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_options_say_what_to_type(name):
    """What takes a value says so by a word in capitals, a range or its choices, never by a type of Python."""
    group = get_command(app)
    with group.make_context("course", [], resilient_parsing=True) as outer:
        command = group.get_command(outer, name)
        with command.make_context(name, [], parent=outer, resilient_parsing=True) as context:
            for parameter in command.get_params(context):
                words = parameter.display_type_rich(context)
                if parameter.param_type_name == "argument":
                    words = parameter.display_name_raw
                assert re.fullmatch(r"|[A-Z|]+(=VALUE)?|[a-z|]+|[NX]≥\d+|[\d.]+…[\d.]+", words), (
                    f"{parameter.name} takes {words}"
                )


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("course ", {"check", "train", "grade"}),
        ("course check 3", {"3", "30"}),
        ("course watch --", {"--seed"}),
    ],
)
def test_completion(typed, offered):
    """A shell that completes is offered commands, days and options, and nothing is written about it."""
    last = str(len(typed.split(" ")) - 1)
    done = here(_COURSE_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=last)
    assert offered <= set(done.stdout.split())
    assert done.stderr == ""


def test_a_shell_completes(project):
    """The same from the command itself."""
    done = project.course(
        _COURSE_COMPLETE="complete_bash", COMP_WORDS="course check 3", COMP_CWORD="2"
    )
    assert ({"3", "30"} <= set(done.stdout.split()), done.stderr) == (True, "")


@pytest.mark.slow
def test_a_case_can_be_drawn_again(project, answer):
    """The printed lines run as they are, and give what the check was given; what differs is told."""
    wrong = answer.replace("math.sqrt(query.shape[-1])", "query.shape[-1]")
    project.exercise.write_text(wrong, encoding="utf-8")
    done = project.course("check", "2", "--case", "scale", "--seed", "7")
    assert done.returncode == 1
    assert "; it should be 0." in done.stdout and "Inputs: query " in done.stdout
    lines = [
        line[4:] for line in done.stdout.splitlines() if line.startswith(("    from", "    wide"))
    ]
    code = "\n".join([*lines, "print(sorted(wide), float(wide['query'].sum()))"])
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
    )
    [check] = [
        candidate for candidate in load_checks(find_day("2")) if candidate.name == "test_scale"
    ]
    inputs = check_inputs(check, 7)["wide"]
    assert output.stdout.decode().strip() == f"{sorted(inputs)} {float(inputs['query'].sum())}"
    project.exercise.write_text(answer, encoding="utf-8")
    assert project.course("check", "2", "--case", "test_scale").returncode == 0


@pytest.mark.slow
def test_a_day_that_an_edition_leaves_out(project):
    """A day without checks is not on the board, and a command that names it says which days are here."""
    last = DAYS[-1]
    (project.root / last.checks.relative_to(ROOT)).unlink()
    done = project.course("check", str(last.number), COLUMNS="300")
    assert done.returncode == 2
    assert f"Day {last.number} ({last.title}) is not in this edition" in done.stderr
    board = project.course().stdout
    assert f"0 of {len(DAYS) - 1} days" in board
    assert last.title not in board


def test_days_are_found_by_number_name_and_topic():
    """`8`, `day08`, the stem, or a topic that fits one day."""
    assert find_day("8") is find_day("day08") is find_day("08") is find_day("day08_attention")
    assert find_day("decoder").number == 13
    assert find_day("label smoothing").number == 16
    assert [find_day(day.stem) for day in DAYS] == list(DAYS)
    with pytest.raises(NoSuchDay, match=r"2 \(day02_attention\).*34"):
        find_day("attention")


def test_ranges_of_days():
    """`8-14` is seven days; a day alone is a range of itself; what ends before it begins is refused."""
    assert [day.number for day in find_days("8-14")] == [8, 9, 10, 11, 12, 13, 14]
    assert find_days("day02-day03") == [DAYS[1], DAYS[2]]
    assert find_days("decoder") == [DAYS[12]]
    with pytest.raises(NoSuchDay, match="did you mean 8-14"):
        find_days("14-8")
    with pytest.raises(NoSuchDay, match="There is no day 99"):
        find_days("40-99")
    assert find_days("1 - 2, decoder,40") == [DAYS[0], DAYS[1], DAYS[12], DAYS[39]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1-99999999", f"There is no day 99999999: the days are 1 to {LAST_DAY}."),
        ("1-9999999999", f"There is no day 9999999999: the days are 1 to {LAST_DAY}."),
        (f"1-{'9' * 5000}", f"There is no day {'9' * 40}…: the days are 1 to {LAST_DAY}."),
        ("9999999999-1", f"There is no day 9999999999: the days are 1 to {LAST_DAY}."),
        ("0-3", f"There is no day 0: the days are 1 to {LAST_DAY}."),
        *(
            (wrong, f"Days are given as 8, 8-14 or 1-3,8, from 1 to {LAST_DAY}, got '{wrong}'.")
            for wrong in ("8-", "-3", "-", "8..10", "1-2-3", "8:10", "")
        ),
    ],
    ids=lambda value: value[:20],
)
def test_wrong_ranges_of_days(text, words):
    """One sentence, which says what is allowed; nothing is as large as the number that was asked for."""
    with pytest.raises(NoSuchDay) as refused:
        find_days(text)
    assert str(refused.value) == words


def test_a_range_where_one_day_is_wanted():
    """`course watch 1-3` is refused for what it is."""
    with pytest.raises(NoSuchDay, match=r"One day is wanted, such as 8 or day08, got '1-3'\."):
        find_day("1-3")


def without_privileges(project, *commands):
    """Run commands as a user whom permissions stop; root's privileges are dropped."""
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
    if drop and shutil.which("setpriv") is None:
        pytest.skip("root's privileges cannot be dropped here")
    return project.courses(*commands, prefix=drop, COLUMNS="300")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_a_file_that_cannot_be_read(project):
    """One sentence for the day whose file it is; the board, reset and sync live with it."""
    project.exercise.chmod(0)
    checked, board, reset, synced = without_privileges(
        project, ("check", "2"), (), ("reset", "2"), ("sync", "--check")
    )
    assert checked.returncode == 1
    assert checked.stdout.count("day02_attention.py cannot be read: Permission denied.") == 1
    assert board.returncode == 0
    assert reset.returncode == 1
    assert "day02_attention.py cannot be read, so it cannot be kept. Nothing" in reset.stderr
    assert "day02_attention.py: not readable (Permission denied), and so left" in synced.stdout


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
@pytest.mark.parametrize(
    ("permissions", "words"),
    [(0o000, "is not readable"), (0o444, "The files in 'closed' cannot be opened")],
)
def test_a_folder_without_permission(project, permissions, words):
    """It is refused before anything is checked, whichever permission is missing."""
    closed = project.root / "closed"
    shutil.copytree(project.root / "exercises", closed)
    closed.chmod(permissions)
    commands = (["check", "1-3"], ["watch", "2"], ["assemble"])
    for done in without_privileges(
        project, *([*command, "--answers", "closed"] for command in commands)
    ):
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stdout == ""
    closed.chmod(0o755)


def test_board_of_a_fresh_clone(project):
    """All days, nothing started, and what to do next."""
    done = project.course()
    assert done.returncode == 0
    for day in DAYS:
        assert f"{day.number} {day.title}" in done.stdout
    assert f"0 of {len(DAYS)} days" in done.stdout
    assert "Next: day 1 · Softmax" in done.stdout
    assert "course watch 1" in done.stdout


def test_board_shows_what_passes_and_where_it_failed(project, answer):
    """A passed day, the next one, and the last failure with its place."""
    project.exercise.write_text(answer, encoding="utf-8")
    assert f"1 of {len(DAYS)} days" in project.course().stdout
    project.exercise.write_text(answer.replace("math.sqrt", ""), encoding="utf-8")
    board = project.course().stdout
    assert f"0 of {len(DAYS)} days" in board
    assert "Day 2 fails in test_output_and_weights" in board
    assert "Your scores are divided by d_k itself" in board


@pytest.mark.slow
def test_board_gives_stars(project, answer, loose):
    """A day that is passed has its mark, and a star if it is watertight; both count, and both go on."""
    for text, mark in ((answer, "★"), (loose, "✔")):
        project.exercise.write_text(text, encoding="utf-8")
        for board in project.courses((), ()):  # the second time from memory
            assert f"{mark}  2 Attention" in board.stdout
            assert f"1 of {len(DAYS)} days" in board.stdout
            assert "fails in" not in board.stdout


@pytest.mark.slow
def test_a_memory_of_before_is_no_memory(project, loose):
    """What was remembered before checks had tiers is judged anew."""
    project.exercise.write_text(loose, encoding="utf-8")
    first = project.course().stdout
    memory = project.root / ".course" / "results.json"
    table = json.loads(memory.read_text(encoding="utf-8"))
    for check in table["day02_attention"]["checks"]:
        del check["tier"]
    memory.write_text(json.dumps(table), encoding="utf-8")
    assert project.course().stdout == first
    assert '"tier"' in memory.read_text(encoding="utf-8")


@pytest.mark.slow
def test_board_remembers_and_forgives(project, answer):
    """The memory may be broken or impossible: the board is only slower."""
    project.exercise.write_text(answer, encoding="utf-8")
    first = project.course().stdout
    memory = project.root / ".course" / "results.json"
    assert "day02_attention" in memory.read_text(encoding="utf-8")
    memory.write_text('{"day02_attention": 7, "x": [', encoding="utf-8")
    assert project.course().stdout == first
    shutil.rmtree(memory.parent)
    memory.parent.write_text("a file where the folder should be", encoding="utf-8")
    assert project.course().stdout == first


@pytest.mark.slow
def test_every_width_of_terminal(project, answer):
    """Nothing is cut off or sticks out, from 40 columns up."""
    project.exercise.write_text(answer.replace("math.sqrt", ""), encoding="utf-8")
    commands = [
        (*arguments, {"COLUMNS": width})
        for width in ("40", "80", "120", "200")
        for arguments in ((), ("check", "2"), ("hint", "2"))
    ]
    commands.append(("doctor", {"COLUMNS": "40"}))
    for (*arguments, environment), done in zip(commands, project.courses(*commands), strict=True):
        assert max(map(len, done.stdout.splitlines())) <= int(environment["COLUMNS"])
        assert "…" not in re.sub(r"\(…|, …\)", "", done.stdout)  # which code in hints has
        words = " ".join(done.stdout.split())
        assert arguments or all(day.title.split()[0] in words for day in DAYS)


@pytest.mark.slow
def test_no_color(project, answer):
    """With NO_COLOR, and without a terminal, not a single escape sequence is printed."""
    project.exercise.write_text(answer, encoding="utf-8")
    assert "\x1b" not in project.course(TERM="xterm-256color").stdout
    for done in project.courses(("check", "2"), ("hint", "2"), TERM="xterm-256color"):
        assert "\x1b" not in done.stdout


def test_hints_come_one_by_one(project):
    """The next each time, up to the last, which says where the answer is; then all of them."""
    total = len(read_hints(DAYS[1])["attention"])
    *outputs, last = project.courses(*[("hint", "2")] * (total + 1), ("hint", "2", "attention"))
    assert [done.stdout.count("Hint ") for done in outputs] == [*[1] * total, total]
    assert "course solution 2" in last.stdout


@pytest.mark.slow
def test_a_hint_begins_with_what_the_last_check_found(project, answer):
    """On the first exercise that does not pass; a passing day has nothing to repeat."""
    project.exercise.write_text(answer.replace("math.sqrt", ""), encoding="utf-8")
    _, named, other, first = project.courses(
        ("check", "2"), ("hint", "2"), ("hint", "1"), ("hint", "2", "attention")
    )
    for output in (named, first):
        found_line, _, rest = output.stdout.partition("Hint ")
        assert "Your last check found:" in found_line and "scaled_by_d_k" in found_line
        assert "Your last check" not in rest
    assert "Your last check" not in other.stdout
    project.exercise.write_text(answer, encoding="utf-8")
    assert "Your last check" not in project.courses(("check", "2"), ("hint", "2"))[1].stdout


def test_reset_keeps_the_old_file(project, answer):
    """The stub again; the old file is named and holds every byte; twice in a second as well."""
    stub = project.exercise.read_bytes()
    for text in (answer, answer + "# second"):
        project.exercise.write_text(text, encoding="utf-8")
        done = project.course("reset", "2")
        assert done.returncode == 0
        assert project.exercise.read_bytes() == stub
        backup = project.root / done.stdout.split("kept as ")[1].split()[0].rstrip(".")
        assert backup.read_text(encoding="utf-8") == text
    assert len(list((project.root / "my" / "kept").iterdir())) == 2
    assert "is already the stub" in project.course("reset", "2").stdout


def test_reset_where_nothing_can_be_written(project, answer):
    """Where the old file cannot be kept, it is left where it is."""
    project.exercise.write_text(answer, encoding="utf-8")
    (project.root / "my").write_text("a file where the folder should be", encoding="utf-8")
    done = project.course("reset", "2")
    assert done.returncode == 1
    assert "Nothing was changed" in done.stderr
    assert project.exercise.read_text(encoding="utf-8") == answer


def test_lesson_and_solution_open_copies(project):
    """A copy under my/, made once and never overwritten."""
    kinds = {"lesson": "lessons", "solution": "solutions"}
    first = project.courses(*((command, "2") for command in kinds for _ in range(2)))
    for index, folder in enumerate(kinds.values()):
        opened, again = first[2 * index : 2 * index + 2]
        assert opened.returncode == 0
        assert f"my/{folder}/day02_attention.ipynb" in opened.stdout
        assert "worked in" not in again.stdout
        assert ("minutes to read" in opened.stdout) == (folder == "lessons")
        (project.root / "my" / folder / "day02_attention.ipynb").write_text("mine")
    for done, folder in zip(
        project.courses(*((c, "2") for c in kinds)), kinds.values(), strict=True
    ):
        assert "You have worked in this copy" in done.stdout
        assert (project.root / "my" / folder / "day02_attention.ipynb").read_text() == "mine"


def test_a_lesson_is_copied_before_it_was_run(project):
    """Its outputs would answer what is to be predicted; a solution keeps its own."""
    project.courses(("lesson", "2"), ("solution", "2"))
    for command, folder in (("lesson", "lessons"), ("solution", "solutions")):
        original, copy = (
            nbformat.read(root / folder / "day02_attention.ipynb", as_version=4)
            for root in (project.root, project.root / "my")
        )
        nbformat.validate(copy)
        code = [
            [cell.source for cell in book.cells if cell.cell_type == "code"]
            for book in (original, copy)
        ]
        assert code[0] == code[1]
        outputs = [cell.outputs for cell in copy.cells if cell.cell_type == "code"]
        assert any(outputs) == (command == "solution")


def test_links_of_a_copy_lead_to_the_same_files(project):
    """The copy's folder is one deeper. The exercise's file is a link as well."""
    notes = project.root / "paper_notes"
    shutil.copytree(ROOT / "paper_notes", notes)
    project.course("lesson", "2")
    folder = project.root / "my" / "lessons"
    copy = nbformat.read(folder / "day02_attention.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in copy.cells if cell.cell_type == "markdown")
    targets = {(folder / link).resolve() for link in re.findall(r"\]\((\.\.[^)]*)\)", text)}
    assert targets == {notes / "attention_is_all_you_need.md", project.exercise}


def test_root_may_open_notebooks(monkeypatch):
    """Jupyter refuses root unless it is told to; nobody else is to tell it so."""
    for user, allowed in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user, raising=False)
        assert ("--allow-root" in jupyter.command(Path("x.ipynb"), 8888)) == allowed


@pytest.mark.slow
def test_jupyter_does_not_listen_elsewhere_than_is_said():
    """Where another process has taken the port, that is said, and no wrong address is printed."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        command = jupyter.command(
            ROOT / "lessons" / "day02_attention.ipynb", other.getsockname()[1]
        )
        ended = subprocess.run([*command, "--no-browser"], capture_output=True, encoding="utf-8")
    assert ended.returncode
    assert "is not available" in ended.stderr


def test_reset_gives_the_hints_back(project):
    """The first hint comes first again, of that day alone, whether or not the stub was touched."""
    outputs = [
        done.stdout
        for done in project.courses(
            *[("hint", "2"), ("hint", "1")] * 3,
            *[("reset", "2")] * 2,
            *[("hint", "2"), ("hint", "1")],
        )
    ]
    assert "The hints start over with the first." in outputs[6]
    assert "first hint" not in outputs[7]
    assert "Hint 1 of" in outputs[8] and "Hint 4 of" in outputs[9]


def test_code_in_hints_is_never_broken(project):
    """Every line of it is one line, however narrow the terminal; prose is wrapped."""
    total, widths = len(read_hints(DAYS[8])["MultiHeadedAttention"]), ("40", "60", "100")
    all_but_one = [("hint", "9")] * (total - 1)
    commands = [("hint", "9", {"COLUMNS": width}) for width in widths]
    code = "    q = self.w_q(query).unflatten(-1, (..., -1)).transpose(..., ...)"
    for width, done in zip(widths, project.courses(*all_but_one, *commands)[-3:], strict=True):
        assert f"  {code}" in done.stdout.splitlines()
        prose = done.stdout.partition(f"Hint {total} of")[0]
        assert max(map(len, prose.splitlines())) <= int(width)


def test_threads_wait_passively(tmp_path):
    """In all that is started from the command, before torch is imported, unless the user says otherwise."""
    program = (
        "import os, sys, course.cli as cli; assert 'torch' not in sys.modules; "
        "cli.app = lambda **_: print(os.environ['OMP_WAIT_POLICY']); cli.main()"
    )
    clean = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for own, policy in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        done = subprocess.run(
            [sys.executable, "-c", program], env=clean | own, capture_output=True, text=True
        )
        assert done.stdout.strip() == policy, done.stderr


@pytest.mark.slow
@pytest.mark.slow
def test_line_ends_of_windows_are_no_drift(project):
    """Git may write them, into a stub and its digest alike."""
    stub = project.exercise.read_bytes()
    project.exercise.write_bytes(stub.replace(b"\n", b"\r\n"))
    checked = project.course("sync", "--check")
    assert project.exercise.name not in checked.stdout


def test_sync_leaves_begun_work_alone(project, answer):
    """A begun stub is named and untouched; a drifted one is written anew; a drifted solution fails."""
    project.exercise.write_text(answer, encoding="utf-8")
    checked, _ = project.courses(("sync", "--check"), ("sync",))
    assert checked.returncode == 0
    assert "left alone" in checked.stdout
    assert project.exercise.read_text(encoding="utf-8") == answer

    project.exercise.unlink()
    checked, _ = project.courses(("sync", "--check"), ("sync",))
    assert checked.returncode == 1
    older = project.exercise.read_bytes()
    reference = project.root / "numpy_reference.py"
    text = reference.read_text(encoding="utf-8")
    reference.write_text(
        text.replace("each query's output is a weighted mean", "each query averages"),
        encoding="utf-8",
    )
    checked, _ = project.courses(("sync", "--check"), ("sync",))
    assert checked.returncode == 1
    assert "exercises/day02_attention.py" in checked.stdout
    assert "solutions/day02_attention.ipynb" in checked.stdout
    newer = project.exercise.read_bytes()
    assert b"each query averages" in newer
    project.exercise.write_bytes(older)  # of an earlier version of the course, and nobody's work
    checked, _ = project.courses(("sync", "--check"), ("sync",))
    assert checked.returncode == 1
    assert project.exercise.read_bytes() == newer
    assert project.course("sync", "--check").returncode == 0


@pytest.mark.slow
def test_sync_names_a_wrong_answer_that_no_longer_fits(project):
    """A reference whose step has changed, or an edit with a wrong step, fails with the id and the step."""
    reference = project.root / "implementation.py"
    text = reference.read_text(encoding="utf-8")
    assert text.count(".masked_fill(~mask, 0.0)") == 1
    changed = text.replace(".masked_fill(~mask, 0.0)", ".where(mask, 0.0)")
    reference.write_text(changed, encoding="utf-8")
    edits = project.root / "tests/days/misconceptions/day09_multi_head_attention.toml"
    text = edits.read_text(encoding="utf-8")
    edits.write_text(text.replace('"4: return _"', '"1: return _"'), encoding="utf-8")
    _, done = project.courses(("sync",), ("sync", "--check"))  # stubs and solutions follow
    assert done.returncode == 1
    output = " ".join(done.stdout.split())
    for words in (
        "drifted tests/days/misconceptions/day08_attention.toml: mask_inverted no longer fits attention: "
        "'~mask' must be found once in step 4, got 0 times",
        "residual_inside no longer fits MultiHeadedAttention: "
        "'return _' must be found once in step 1, got 0 times",
    ):
        assert words in output


@pytest.mark.slow
def test_doctor(project):
    """What is there is listed; what is missing makes it fail."""
    done = project.course("doctor")
    assert done.returncode == 0
    for word in ("Python", "torch", "numpy", "Worker", "starts in"):
        assert word in done.stdout
    project.exercise.unlink()
    assert project.course("doctor").returncode == 1


def test_it_works_from_any_folder(project, tmp_path, answer):
    """The exercises are found where the course lies, not where one stands."""
    (tmp_path / "random.py").write_text("raise RuntimeError('shadowed')", encoding="utf-8")
    project.exercise.write_text(answer, encoding="utf-8")
    done = project.course("check", "2", PYTHONSAFEPATH="1")
    assert done.returncode == 0
    assert project.root != ROOT


def test_a_hint_says_that_the_day_has_passed(project, answer):
    project.exercise.write_text(answer, encoding="utf-8")
    first, _, then = project.courses(("hint", "2"), ("check", "2"), ("hint", "2"))
    assert "has passed" not in first.stdout
    assert "Day 2 has passed." in then.stdout
