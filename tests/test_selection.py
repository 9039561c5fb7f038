"""What `make quick`, `make test` and `make thorough` run: by what changed, what has passed, and the turn."""

import shutil
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import nbformat
import pytest

from course.curriculum import DAYS, ROOT
from tests import affected, changes, costs, record, selection, thorough
from tests.affected import Plan, plan
from tests.imports import needed_by
from tests.notebooks import compare
from tests.selection import SHARE, Whole, left_out

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
    assert "training/loop/training_loop.py" in needs(
        "tests/training/test_processes.py"
    )  # `-m`, in a string
    assert "variants/rope.py" in needs("lessons/day32_llama.ipynb")  # through variants/llama.py
    assert "course/judging/judge.py" not in needs("lessons/day32_llama.ipynb")


@pytest.mark.parametrize(
    "path",
    [
        "tests/days/misconceptions/day08_attention.toml",
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
    assert not made.unknown


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("laboratory/report/statistics.py", "tests/laboratory/test_statistics.py"),
        ("laboratory/report/statistics.py", "tests/laboratory/test_report.py"),
        ("explorer/page.css", "tests/explorer/test_pages.py"),
        ("explorer/page.css", "tests/explorer/test_flash.py"),
        ("explorer/softmax.py", "tests/explorer/test_softmax.py"),
        ("training/loop/training_loop.py", "tests/training/test_kill.py"),
        ("course/grading/sandbox.py", "tests/course/hostile/test_hostile.py"),
        ("course/judging/known_messages.txt", "tests/course/grading/test_feedback.py"),
        ("course/desk/doctor.py", "tests/course/desk/test_learner_commands.py"),
        ("training/configs/copy.yaml", "tests/training/test_settings.py"),
        ("laboratory/studies/norms/results.json", "tests/laboratory/test_studies.py"),
        ("tests/explorer/conftest.py", "tests/explorer/test_memory.py"),
        ("variants/rope.py", "tests/variants/test_rope.py"),
    ],
)
def test_a_file_affects_the_tests_that_import_or_read_it(path, test):
    made = plan([path])
    assert test in made.tests
    assert not made.unknown


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("variants/gpt.py", "tests/training/test_training_loop.py"),
        ("course/judging/comparison.py", "tests/explorer/test_flash.py"),
        ("training/loop/training_loop.py", "tests/laboratory/test_running.py"),
    ],
)
def test_other_rooms_that_use_a_file_have_their_turn(path, test):
    assert test not in plan([path]).tests


def test_what_decides_every_verdict_affects_every_day():
    assert plan(["course/judging/comparison.py"]).days == set(DAYS)
    assert plan(["course/workers/process.py"]).days == set()


def test_every_file_is_imported_or_declared():
    """The gate passes over no change by oversight."""
    tracked = (changes.git("ls-files") or "").splitlines()
    assert plan(tracked).unknown <= {"pyproject.toml"}
    assert plan(["README.md", "something.new"]).unknown == {"something.new"}


def test_every_declared_reader_is_there():
    for pattern, readers in affected.READ.items():
        assert any(ROOT.glob(pattern)), pattern
        assert all((ROOT / one).exists() for one in readers), pattern


def test_a_changed_exercise_affects_its_day_alone():
    changed = {"implementation.py": {"attention"}}
    assert plan(changed, changed).days == {DAYS[7]}
    helper = {"implementation.py": {"attention", "_check_rate"}}
    assert plan(helper, helper).days > {DAYS[7], DAYS[21]}


# --- Turns ----------------------------------------------------------------------------------------


class Item:
    """A test, and its marker's arguments if it is chosen by turn."""

    def __init__(self, nodeid, *marks):
        self.nodeid = nodeid
        self.mark = SimpleNamespace(args=marks[0]) if marks else None

    def get_closest_marker(self, _):
        return self.mark


NOTHING = Whole(frozenset(), frozenset())


def run_at(items, number, whole=NOTHING):
    gone = left_out(items, whole, number)
    return [one.nodeid for one in items if one not in gone]


def test_each_has_been_run_after_as_many_turns_as_its_share():
    items = [Item(f"tests/laboratory/test_one.py::test_{n}", ()) for n in range(10)]
    items.append(Item("tests/laboratory/test_one.py::test_cheap"))
    share = SHARE["tests/laboratory"]
    runs = [run_at(items, number) for number in range(share)]
    assert all("tests/laboratory/test_one.py::test_cheap" in run for run in runs)
    counts = [sum(one.nodeid in run for run in runs) for one in items[:-1]]
    assert counts == [1] * 10
    assert run_at(items, 0) == run_at(items, share)


def test_what_belongs_together_has_one_turn():
    days = [
        Item(f"tests/course/test_days.py::test_{name}[day{n:02}_a-b]", ("day",))
        for name in ("x", "y")
        for n in range(1, 9)
    ]
    runs = [run_at(days, number) for number in range(4)]
    assert [len(run) for run in runs] == [4] * 4
    for run in runs:
        assert len({selection.day_of(nodeid) for nodeid in run}) == 2


def test_what_is_affected_or_named_is_run_wholly():
    items = [Item(f"tests/training/test_{n}.py::test_it", ()) for n in "abcdef"]
    days = [Item(f"tests/course/test_days.py::test_x[{day.stem}]", ("day",)) for day in DAYS[:8]]
    plan = Plan({"tests/training/test_a.py"}, {DAYS[2]}, {"softmax"})
    whole = Whole.of(plan, ["tests/training/test_b.py::x"])
    assert "tests/explorer/test_pages.py::test_a_page[softmax]" in whole
    assert "tests/explorer/test_pages.py::test_a_page[memory]" not in whole
    for number in range(12):
        run = run_at(items + days, number, whole)
        assert {"tests/training/test_a.py::test_it", "tests/training/test_b.py::test_it"} <= set(
            run
        )
        assert days[2].nodeid in run


def test_where_git_knows_no_parent_the_turn_is_0_and_nothing_is_affected(repository):
    repository.commit(first="1")
    assert selection.turn() == 0
    affected.now.cache_clear()
    try:
        assert affected.now() == Plan()
    finally:
        affected.now.cache_clear()
    repository.commit(first="2")
    assert selection.turn() == 2


def test_what_costs_too_much_is_named(monkeypatch):
    monkeypatch.setattr(costs, "BUDGET", {"tests/variants": 10, "tests/training": 10})
    monkeypatch.setattr(costs, "ENDED", Counter({"tests/variants": 14, "tests/training": 16}))
    assert costs.over() == ["tests/training"]


# --- Notebooks, and what has passed ---------------------------------------------------------------


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))


def stems(chosen):
    return {f"{file.parent.name}/{file.stem[:5]}" for file in chosen}


def test_every_notebook_has_its_turn(monkeypatch):
    monkeypatch.setattr(compare, "differing", lambda commit: set())
    turns = [set(compare.chosen(Plan(), number)) for number in range(len(compare.batches()))]
    assert set.union(*turns) == {notebook for _, notebook in compare.notebooks()}
    assert compare.chosen(Plan(), None) == {}


def test_notebooks_of_an_affected_day_are_run_and_those_that_only_use_it_are_not(monkeypatch):
    monkeypatch.setattr(compare, "differing", lambda commit: {"variants/rope.py"})
    run = stems(compare.chosen(plan(["variants/rope.py"]), None))
    assert run == {"lessons/day29", "solutions/day29"}
    monkeypatch.setattr(compare, "differing", lambda commit: {"lessons/day32_llama.ipynb"})
    assert stems(compare.chosen(Plan(), None)) == {"lessons/day32"}


def test_what_has_passed_is_not_run_again_until_an_input_changes(monkeypatch):
    monkeypatch.delenv(compare.QUICK, raising=False)
    monkeypatch.setattr(compare, "differing", lambda commit: {compare.name_of(DAYS[4].lesson)})
    [(notebook, now)] = compare.chosen(Plan(), None).items()
    record.note(compare.record_of(notebook), now)
    assert compare.chosen(Plan(), None) == {}
    record.note(compare.record_of(notebook), "what it was with other inputs")
    assert set(compare.chosen(Plan(), None)) == {DAYS[4].lesson}
    monkeypatch.setenv(compare.QUICK, "1")  # with fewer seeds it is another run
    assert compare.chosen(Plan(), None)[notebook] != now


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


@pytest.mark.by_turn
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


def test_thorough_is_all_that_has_its_turn():
    """Every folder of tests, every day and page, the mutants, the attacks and the notebooks have a part."""
    commands = [" ".join(command) for part in thorough.PARTS.values() for command in part.values()]
    for file in (ROOT / "tests").rglob("test_*.py"):
        name = compare.name_of(file)
        if file.parent.name != "days" and name != "tests/course/test_mutants.py":
            mine = [one for one in commands if any(name.startswith(part) for part in one.split())]
            assert any("--thorough" in one for one in mine), name
    for day in DAYS:
        assert f"-m tests.mutants {day.number}" in commands
        assert any(day.stem in one for one in commands if "test_days" in one)
    assert "-m tests.notebooks.compare" in commands
