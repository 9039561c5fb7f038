"""What `make quick`, `make test` and `make thorough` run: chosen by what changed and by what has passed."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest

from course.curriculum import DAYS, ROOT
from tests import affected, changes, record, thorough
from tests.affected import plan
from tests.imports import needed_by
from tests.notebooks import compare

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


# --- What git knows -------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty repository in place of ours, and how to commit what is written there."""

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        git("add", "--all")
        git("commit", "--message", "more", "--allow-empty")

    git("init", "--initial-branch", "main")
    monkeypatch.setattr(changes, "ROOT", tmp_path)
    return SimpleNamespace(root=tmp_path, git=git, commit=commit)


def test_the_seed_is_of_the_whole_tree(repository):
    seeds = []
    for number in range(3):
        repository.commit(explorer=str(number))
        seeds.append(changes.seed())
    assert len(set(seeds)) == 3
    repository.commit()
    assert changes.seed() == seeds[-1]


def test_without_git_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "ROOT", tmp_path)
    for path in (tmp_path, "/nowhere"):  # no repository, and no program
        monkeypatch.setenv("PATH", str(path))
        assert changes.seed() == 0
        assert changes.parent() is changes.base() is changes.tree() is None
        assert changes.changed_since(changes.parent()) is None


def test_what_differs_from_where_a_branch_left_main(repository):
    repository.commit(first="1", second="2", gone="3")
    assert changes.base() is None
    repository.commit(first="other")
    assert changes.changed_since(changes.base()) == {"first.py"}
    repository.git("checkout", "-b", "branch")
    repository.commit(second="other")
    repository.commit()
    repository.git("rm", "gone.py")
    (repository.root / "größe.py").write_text("")
    assert changes.changed_since(changes.base()) == {"second.py", "gone.py", "größe.py"}


def test_the_tree_is_what_lies_there(repository):
    repository.commit(first="1")
    before = changes.tree()
    (repository.root / "new.py").write_text("")
    assert changes.tree() != before
    (repository.root / "new.py").unlink()
    assert changes.tree() == before


def test_changed_definitions_are_named(repository, monkeypatch):
    text = "import math\n\ndef f(x):\n    return x\n\ndef g(x):\n    return f(x)\n"
    repository.commit(one=text)
    monkeypatch.setattr(affected, "ROOT", repository.root)
    for new, names in (
        (text.replace("return f(x)", "return f(x) + 1"), {"g"}),
        (text.replace("import math", "import cmath"), {""}),
        (text + "\n# a comment\n", set()),
        (text.replace("def g(x)", "def h(x)"), {"g", "h"}),
    ):
        (repository.root / "one.py").write_text(new)
        assert affected.changed_definitions("one.py", "HEAD") == names


# --- What a change affects ------------------------------------------------------------------------


def test_imports_are_followed_through_others_and_through_strings():
    def needs(name):
        return {compare.name_of(file) for file in needed_by(ROOT / name)}

    assert "laboratory/report/panels.py" in needs("tests/laboratory/test_report.py")
    assert "training/loop/trainer.py" in needs(
        "tests/training/test_processes.py"
    )  # `-m`, in a string
    assert "variants/rope.py" in needs("lessons/day32_llama.ipynb")  # through variants/llama.py
    assert "course/judging/judge.py" not in needs("lessons/day32_llama.ipynb")


@pytest.mark.parametrize(
    "path",
    [
        "tests/days/misconceptions/day08_attention.py",
        "tests/days/test_day08_attention.py",
        "tests/days/accepted/day08_attention/loops.py",
        "exercises/day08_attention.py",
        "exercises/hints/day08_attention.md",
        "lessons/day08_attention.ipynb",
        "solutions/day08_attention.ipynb",
    ],
)
def test_a_days_files_affect_that_day(path):
    made = plan([path])
    assert made.days == {DAYS[7]}
    assert not made.everything


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("laboratory/report/statistics.py", "tests/laboratory/test_statistics.py"),
        ("laboratory/report/statistics.py", "tests/laboratory/test_report.py"),
        ("explorer/page.css", "tests/explorer/test_pages.py"),
        ("explorer/softmax.py", "tests/explorer/test_pages.py"),
        ("course/judging/known_messages.txt", "tests/course/grading/test_feedback.py"),
        ("course/desk/doctor.py", "tests/course/desk/test_learner_commands.py"),
        ("configs/copy.yaml", "tests/training/test_settings.py"),
        ("studies/norms/results.json", "tests/laboratory/test_studies.py"),
        ("tests/explorer/conftest.py", "tests/explorer/test_memory.py"),
        ("variants/rope.py", "tests/variants/test_rope.py"),
    ],
)
def test_a_file_affects_the_tests_that_import_or_read_it(path, test):
    made = plan([path])
    assert test in made.tests
    assert not made.everything


def test_a_file_that_nobody_declared_runs_everything():
    assert plan(["README.md", "something.new"]).everything
    assert plan(["pyproject.toml"]).everything
    assert not plan(["NOTES.md"]).everything


def test_every_file_is_imported_or_declared():
    """Nothing runs everything by oversight."""
    tracked = (changes.git("ls-files") or "").splitlines()
    assert {path for path in tracked if plan([path]).everything} <= {"pyproject.toml"}


def test_every_declared_reader_is_there():
    for patterns in (affected.READ, dict.fromkeys(affected.SLOW, ())):
        for pattern, readers in patterns.items():
            assert any(ROOT.glob(pattern)), pattern
            assert all((ROOT / one).exists() for one in readers), pattern


def test_a_changed_exercise_affects_its_day_alone():
    changed = {"implementation.py": {"attention"}}
    assert plan(changed, changed).days == {DAYS[7]}
    helper = {"implementation.py": {"attention", "_check_rate"}}
    assert plan(helper, helper).days > {DAYS[7], DAYS[21]}


def test_what_is_slow_is_left_and_named():
    made = plan(["training/loop/trainer.py"])
    assert "tests/training/test_kill.py" in made.left
    assert "tests/training/test_trainer.py" in made.tests
    assert "tests/training/test_kill.py" in plan(["tests/training/test_kill.py"]).tests


# --- Notebooks, and what has passed ---------------------------------------------------------------


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))


def stems(chosen):
    return {f"{file.parent.name}/{file.stem[:5]}" for file in chosen}


def test_without_a_record_a_third_of_the_lessons_and_what_changed_is_run():
    thirds = [stems(compare.chosen(set(), number)) for number in range(3)]
    assert set.union(*thirds) == {f"lessons/day{day.number:02d}" for day in DAYS}
    assert sum(map(len, thirds)) == len(DAYS)
    more = stems(compare.chosen({"variants/rope.py"}, 0)) - thirds[0]
    assert (
        more >= {"lessons/day29", "solutions/day29", "lessons/day32", "solutions/day32"} - thirds[0]
    )
    assert "solutions/day08" not in more
    assert len(compare.chosen(None, 0)) == 2 * len(DAYS)


def test_what_has_passed_is_not_run_again_until_an_input_changes():
    for notebook, now in compare.chosen(None, 0).items():
        record.note(compare.record_of(notebook), now)
    assert compare.chosen(None, 0) == {}
    record.note(compare.record_of(DAYS[4].solution), "what it was with other inputs")
    assert set(compare.chosen(set(), 0)) == {DAYS[4].solution}


def test_only_what_can_change_an_output_counts():
    cells = [nbformat.v4.new_markdown_cell("Prose."), nbformat.v4.new_code_cell("print(1)")]
    notebook = nbformat.v4.new_notebook(cells=cells)

    def meaning():
        return compare.meaning("a.ipynb", nbformat.writes(notebook))

    before = meaning()
    cells[0].source = "Other prose."
    assert meaning() == before
    cells[1].outputs = [nbformat.v4.new_output("stream", text="1\n")]
    assert meaning() != before
    code = 'def f():\n    """One."""\n    return 1  # one\n'
    same = code.replace("One.", "Two.").replace("# one", "# two")
    assert compare.meaning("a.py", same) == compare.meaning("a.py", code)
    assert compare.meaning("a.py", code.replace("1", "2")) != compare.meaning("a.py", code)


def test_a_notebook_is_recorded_where_no_cell_failed():
    one, other, unseen = DAYS[0].lesson, DAYS[1].lesson, DAYS[2].lesson

    def run(exitstatus):
        recorder = compare.Recorder(dict.fromkeys((one, other, unseen), "now"))
        for name, failed in (("one", False), ("other", True), ("other", False)):
            nodeid = f"{compare.name_of(one if name == 'one' else other)}::Cell 1"
            recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=nodeid, failed=failed))
        recorder.pytest_sessionfinish(exitstatus)
        return [record.passed(compare.record_of(file)) for file in (one, other, unseen)]

    assert run(pytest.ExitCode.INTERRUPTED) == [None, None, None]
    assert run(pytest.ExitCode.TESTS_FAILED) == ["now", None, None]


def test_kernels_of_notebooks_open_no_port(tmp_path):
    """Another process can take a port between Jupyter's finding it free and the kernel's opening it."""
    asked = (
        "from ipykernel import get_connection_info\nget_connection_info(unpack=True)['transport']"
    )
    said = nbformat.v4.new_output("execute_result", {"text/plain": "'ipc'"}, execution_count=1)
    cell = nbformat.v4.new_code_cell(asked, outputs=[said], execution_count=1)
    notebook = tmp_path / "one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), notebook)
    command = [sys.executable, "-m", "pytest", "-n", "1", *compare.NBVAL, str(notebook)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def test_a_record_is_of_this_machine(monkeypatch):
    before = record.digest_of(["same"])
    monkeypatch.setattr(record, "_machine", lambda: "another CPU")
    assert record.digest_of(["same"]) != before


# --- make thorough --------------------------------------------------------------------------------


def test_a_part_that_passed_is_not_repeated(repository, monkeypatch, tmp_path):
    log = tmp_path / "cache.log"
    write = f"open({str(log)!r}, 'a').write"
    parts = {
        "good": {"good-1": ("-c", f"{write}('1')"), "good-2": ("-c", f"{write}('2')")},
        "bad": {"bad": ("-c", f"{write}('b'); raise SystemExit(1)")},
    }
    monkeypatch.setattr(thorough, "PARTS", parts)
    (repository.root / ".gitignore").write_text("cache*\n")
    repository.commit(one="")

    def run(*asked):
        log.write_text("")
        return thorough.main(list(asked)), log.read_text()

    assert run("good") == (0, "12")
    assert run() == (1, "b")
    assert run("good") == (0, "")
    (repository.root / "one.py").write_text("changed")
    assert run() == (1, "12b")
    assert run("worse") == (2, "")


def test_thorough_is_all_that_is_sampled():
    """The marker, the seeds, the mutants, the attacks and the notebooks each have their part."""
    commands = [" ".join(command) for part in thorough.PARTS.values() for command in part.values()]
    pages = [compare.name_of(file) for file in (ROOT / "tests" / "explorer").glob("test_*.py")]
    for file in (*pages, "tests/course/test_days.py", "tests/course/hostile"):
        assert any("--thorough" in one and file in one for one in commands), file
    for day in DAYS:
        assert f"-m tests.mutants {day.number}" in commands
        assert any(day.stem in one for one in commands if "test_days" in one)
    assert "-m tests.notebooks.compare --all" in commands
