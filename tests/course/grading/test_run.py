"""A class graded: turns, retries, what is kept, and what is refused before anything begins."""

import contextlib
import io
import json
import signal
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from course.checks.answer_files import read_answer
from course.checks.tensors import missing_device
from course.cli import app
from course.curriculum import DAYS, ROOT
from course.grading import grade_command, job, pools
from course.grading import run as running
from course.grading.gradebook import GRADED, GRADER_FAULT, LearnerResult, Weights
from course.grading.instructions import Policy
from course.grading.job import Plan, course_digest
from course.grading.pools import WorkerDied
from course.grading.run import ClassRun, InUse, grade_all, seed_of, sole_use
from course.grading.submission.sources import Source
from course.workers.limits import MAX_DAY_SECONDS

DAYS_HERE = [DAYS[0], DAYS[7]]
PLAN = Plan((1, 8), 5, "cpu", False, "edition")
LEARNERS = ("ann", "bob", "cem", "dee")


class Scripted:
    """A pool in which whatever a test says becomes of each learner; it notes who is at work together."""

    width = 2

    def __init__(self, script=None, broken=()):
        self.script = script or {}
        self.broken = set(broken)
        self.seen = Counter()
        self.known = {}
        self.at_work = []
        self.together = []

    def submit(self, task):
        entry = json.loads(task)
        learner = entry["source"]["learner"]
        self.seen[learner] += 1
        self.known[learner] = entry["known"]
        self.at_work.append(learner)
        self.together.append(list(self.at_work))
        future = Future()
        future.set_result(learner)
        return future

    def result(self, future):
        learner = future.result()
        company = list(self.at_work)
        self.at_work.remove(learner)
        if self.broken & set(company):
            raise WorkerDied("it died")
        outcome = self.script.get(learner)
        if outcome is None:
            return json.dumps(graded(learner).as_json(Weights(DAYS_HERE)))
        return outcome(self.seen[learner])


def task_of(plan, source):
    """What a pool is asked for, where no earlier result is known."""
    known = {"known": "", "rows": []}
    return json.dumps({"plan": plan.as_json(), "source": source.as_json()} | known)


def graded(learner, digest="d"):
    verdict = {"status": "passed", "watertight": True, "checks": []}
    submitted = {"handed_in": True, "late": False, "file": ""}
    days = [{"day": day.number, "stem": day.stem} | verdict | submitted for day in DAYS_HERE]
    return LearnerResult(learner, GRADED, days, digest=digest)


def fault(learner):
    return json.dumps({"learner": learner, "verdict": GRADER_FAULT, "reason": "disk"})


@pytest.fixture
def run(tmp_path):
    sources = [Source(name, (tmp_path / name,), (name,)) for name in LEARNERS]
    return ClassRun(tmp_path / "out", PLAN, Weights(DAYS_HERE), sources)


def grade(run, pool, resume=True):
    by_learner = {}
    grade_all(
        run,
        pool,
        resume,
        lambda result, reused: by_learner.update({result.learner: (result, reused)}),
    )
    return by_learner


def test_everybody_once(run):
    """Each submission is graded once, no more at a time than fit, and its result is on the disk."""
    pool = Scripted()
    by_learner = grade(run, pool)
    assert pool.seen == {"ann": 1, "bob": 1, "cem": 1, "dee": 1}
    assert max(map(len, pool.together)) == 2
    assert [result.learner for result in run.results()] == ["ann", "bob", "cem", "dee"]
    assert not any(kept for _, kept in by_learner.values())


def test_a_death_is_blamed_on_nobody_else(run):
    """Who kills the process thrice, the last two times alone, is not graded; the others are."""
    pool = Scripted(broken={"bob"})
    by_learner = grade(run, pool)
    verdicts = {learner: result.verdict for learner, (result, _) in by_learner.items()}
    assert verdicts == {"ann": GRADED, "bob": GRADER_FAULT, "cem": GRADED, "dee": GRADED}
    assert pool.seen["bob"] == running.MAX_TRIES
    assert by_learner["bob"][0].reason == "it died\nit died\nit died"
    again = [company for company in pool.together if "bob" in company][1:]
    assert again == [["bob"], ["bob"]]


def test_a_fault_that_passes(run):
    """A fault of ours is tried again, and a later success stands."""
    right = json.dumps(graded("cem").as_json(run.weights))
    pool = Scripted({"cem": lambda time: fault("cem") if time == 1 else right})
    assert grade(run, pool)["cem"][0].verdict == GRADED
    assert pool.seen["cem"] == 2


def test_what_is_known_is_offered(run):
    """A later run hands on the digest of each result, and keeps what is still so; a new one does not."""
    grade(run, Scripted())
    pool = Scripted(dict.fromkeys(LEARNERS, lambda time: "null"))
    by_learner = grade(run, pool)
    assert pool.known == dict.fromkeys(LEARNERS, "d")
    assert all(kept for _, kept in by_learner.values())
    pool = Scripted()
    grade(run, pool, resume=False)
    assert pool.known == dict.fromkeys(LEARNERS, "")


def test_new_weights_reach_what_is_kept(run):
    """Points are counted anew, though nothing is graded anew."""
    grade(run, Scripted())
    dearer = ClassRun(run.folder, PLAN, Weights(DAYS_HERE, {8: 3}), run.sources)
    grade(dearer, Scripted(dict.fromkeys(LEARNERS, lambda time: "null")))
    assert json.loads(run.path("ann").read_text())["max_points"] == 4


@pytest.mark.parametrize("change", [{"version": 1}, None], ids=["of before", "damaged"])
def test_a_result_that_cannot_be_used_is_graded_again(run, change):
    """A result that cannot be read counts as none; so does one of the first version, which knows no tiers."""
    grade(run, Scripted())
    text = run.path("bob").read_text(encoding="utf-8")
    used = json.dumps(json.loads(text) | change) if change else text[:30]
    run.path("bob").write_text(used, encoding="utf-8")
    pool = Scripted()
    grade(run, pool)
    assert (pool.known["ann"], pool.known["bob"]) == ("d", "")
    assert run.kept("bob").verdict == GRADED


def test_the_seed_stays(tmp_path):
    """A run that resumes keeps the seed, and refuses another, with which all would be graded again."""
    assert seed_of(tmp_path, 3, True) == 3
    assert seed_of(tmp_path, None, True) != seed_of(tmp_path, None, True)
    running.remember(tmp_path, PLAN)
    assert seed_of(tmp_path, None, True) == seed_of(tmp_path, PLAN.seed, True) == PLAN.seed
    assert seed_of(tmp_path, 8, False) == 8
    assert seed_of(tmp_path, None, False) != PLAN.seed
    (tmp_path / "class" / "ann").mkdir(parents=True)
    out = tmp_path / "out"
    running.remember(out, PLAN)
    output = refused(tmp_path / "class", "--out", out, "--seed", PLAN.seed + 1)
    assert f"{out} was graded with seed {PLAN.seed}. Leave --seed out" in output


def test_the_digest_tells_all_that_matters():
    """Other files, days, seeds, devices or checks give another digest; the order of files does not."""
    files = {"a.py": b"1", "b.py": b"2"}
    variations = [
        Plan((1, 9), 5, "cpu", False, "edition"),
        Plan((1, 8), 6, "cpu", False, "edition"),
        Plan((1, 8), 5, "cuda", False, "edition"),
        Plan((1, 8), 5, "cpu", False, "another"),
    ]
    digests = [plan.digest(files) for plan in (PLAN, *variations)]
    digests += [PLAN.digest({"a.py": b"2", "b.py": b"1"}), PLAN.digest({"a.py": b"1"})]
    digests += [PLAN.digest(files, "late"), replace(PLAN, unsafe=True).digest(files)]
    assert len(set(digests)) == len(digests)
    assert PLAN.digest(dict(reversed(files.items()))) == PLAN.digest(files)


def test_a_night_has_a_bound(run):
    """As many turns as it takes, each of a submission that uses all of its time."""
    hours = run.longest(4) * 3600
    assert hours == PLAN.computing + job.SLEEPING + MAX_DAY_SECONDS
    assert run.longest(2) * 3600 == 2 * hours
    assert run.longest(3) == run.longest(2)
    console = Console(file=io.StringIO(), width=200)
    grade_command._print_bound(console, run, 4)
    assert console.file.getvalue().startswith(f"This takes {hours / 3600:.1f} hours at most")


def test_ctrl_c_is_answered_at_once():
    """While the submissions in progress are still being graded."""
    console = Console(file=io.StringIO(), width=200)
    with pytest.raises(KeyboardInterrupt), grade_command._shown(console, 2):
        raise KeyboardInterrupt
    assert "Stopping once the submissions in progress are done." in console.file.getvalue()


def test_what_was_not_as_planned_is_reported_once(run):
    """Days that the grader failed on, and inputs that were drawn at another seed, whoever met them."""
    days = [
        graded("").days[0] | {"drawn_at": {"test_dtype": 6}},
        graded("").days[1] | {"fault": "IndexError: 33"},
    ]
    for name in ("ann", "bob"):
        run.keep(replace(graded(name), days=days))
    assert run._unusual(run.results()) == [
        "test_dtype of day 1 was graded with seed 6: its inputs cannot be drawn with seed 5.",
        "Day 8 was not graded for some: IndexError: 33.",
    ]
    console = Console(file=io.StringIO(), width=200)
    assert grade_command._print_summary(console, run.folder, run.results()) == 2
    assert "2 with a day on which the grader failed" in console.file.getvalue()


class Here:
    """A pool that grades in this process."""

    width = 1

    def submit(self, task):
        future = Future()
        future.set_result(job.grade_as_json(task))
        return future

    def result(self, future):
        return future.result()


@pytest.mark.slow
def test_grades_of_weaker_walls_do_not_stay(real_sandbox, tmp_path, monkeypatch):
    """A thief who got a point without walls has none with them; with other walls all is graded again."""
    thief = tmp_path / "class" / "thief"
    thief.mkdir(parents=True)
    reference = str(ROOT / "numpy_reference.py")
    stolen = f"exec(open({reference!r}).read())\n"
    (thief / DAYS[0].stub.name).write_text(stolen, encoding="utf-8")
    source = Source("thief", (thief,), ("thief",))
    weaker = (
        replace(real_sandbox, groups=None)
        if real_sandbox.groups
        else replace(real_sandbox, filter=None)
    )
    outcomes = []
    for unsafe, sandbox in (
        (True, real_sandbox),
        (False, real_sandbox),
        (False, real_sandbox),
        (False, weaker),
    ):
        monkeypatch.setattr(job, "open_sandbox", lambda here=sandbox: contextlib.nullcontext(here))
        plan = Plan((1,), 5, "cpu", unsafe, course_digest())
        run = ClassRun(tmp_path / "out", plan, Weights(DAYS[:1]), [source])
        [(result, reused)] = grade(run, Here()).values()
        job._grader(plan).close()
        job._grader.cache_clear()
        outcomes.append((run.weights.total(result), reused))
    assert outcomes == [(1, False), (0, False), (0, True), (0, False)]


def test_another_week_grades_its_days_alone(tmp_path, monkeypatch):
    """With more days, those that were graded before keep their verdicts, unless their file has changed; and
    then the better of both may count."""
    ran = []
    of_a_day = job.Grader._day

    def counted(self, judge, *rest):
        ran.append(judge.day.number)
        return of_a_day(self, judge, *rest)

    monkeypatch.setattr(job.Grader, "_day", counted)
    folder = tmp_path / "class" / "ann"
    folder.mkdir(parents=True)
    weeks = []
    for numbers, written, mistake in (
        ((1,), 1, ""),
        ((1, 2), 2, ""),
        ((1, 2), 2, ""),
        ((1, 2), 1, "softmax = None"),
    ):
        write_answer(folder, DAYS[written - 1], mistake)
        days = [DAYS[number - 1] for number in numbers]
        plan = Plan(numbers, 5, "cpu", True, course_digest())
        source = Source("ann", (folder,), ("ann",))
        run = ClassRun(tmp_path / "out", plan, Weights(days), [source])
        [(result, _)] = grade(run, Here()).values()
        assert result.fingerprints and not result.unseen
        job._grader(plan).close()
        job._grader.cache_clear()
        weeks.append(([day["status"] for day in result.days], list(ran)))
        ran.clear()
    assert weeks == [
        (["passed"], [1]),
        (["passed", "passed"], [2]),
        (["passed", "passed"], []),
        (["error", "passed"], [1]),
    ]
    for policy, points in ((Policy(), 1.5), (Policy(keep_best=True), 2)):
        [counted_one] = replace(run, weights=Weights(days, policy=policy)).results()
        assert run.weights.total(counted_one) == points


def write_answer(folder, day, mistake):
    text = f"{read_answer(day.solution)}\n{mistake}\n"
    (folder / day.stub.name).write_text(text, encoding="utf-8")


def test_threads_of_one_process_take_turns(monkeypatch):
    """A Dask worker has a thread for each core, but judges, seeds and given names are the process's."""
    at_work, together = set(), []

    def grade_one(source, known_digest, known_days):
        at_work.add(source.learner)
        threading.Event().wait(0.01)
        together.append(len(at_work))
        at_work.remove(source.learner)
        return

    monkeypatch.setattr(job, "_grader", lambda plan: SimpleNamespace(grade=grade_one))
    tasks = [task_of(PLAN, Source(name, (), ())) for name in "abcd"]
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(job.grade_as_json, tasks)) == {"null"}
    assert together == [1, 1, 1, 1]


def test_one_run_a_folder(tmp_path):
    """While one run writes, another is refused; afterwards it is not."""
    with (
        sole_use(tmp_path),
        pytest.raises(InUse, match="another `course grade`"),
        sole_use(tmp_path),
    ):
        pass
    with sole_use(tmp_path):
        pass


def refused(*arguments, **environment):
    """The words with which the command refuses to begin."""
    runner = CliRunner(env={"COLUMNS": "300"} | environment)
    done = runner.invoke(app, ["grade", *map(str, arguments)])
    assert done.exit_code == 2, done.output
    return " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--days", "0"], "no day 0"),
        (["--days", "1-99"], "no day 99"),
        (["--days", "1-99999999"], "no day 99999999"),
        (["--days", "9-2"], "did you mean 2-9"),
        (["--days", "first"], "No day is called 'first'"),
        (["--device", "tpu"], "'tpu' is not one of 'cpu', 'cuda', 'mps', 'practice'"),
        (["--jobs", "0"], "should be greater than or equal to 1"),
        (["--watertight", "1.1"], "'1.1' must be a number from 0 to 1"),
        (["--watertight", "nan"], "'nan' must be a number from 0 to 1"),
    ],
)
def test_wrong_usage(tmp_path, arguments, words):
    """Exit 2, and a sentence that says what is allowed; nothing is written."""
    (tmp_path / "class" / "ann").mkdir(parents=True)
    assert words in refused(tmp_path / "class", "--out", tmp_path / "out", *arguments)
    assert not (tmp_path / "out" / "grades.csv").exists()


@pytest.mark.parametrize(
    ("device", "words"), [("cuda", "no CUDA GPU here"), ("mps", "no Apple GPU (mps) here")]
)
def test_no_such_device(tmp_path, device, words):
    """Where a device is not, nothing is graded, for all of it would be skipped and earn nothing: exit 2."""
    if missing_device(device) is None:
        pytest.skip(f"{device} is here")
    (tmp_path / "class" / "ann").mkdir(parents=True)
    output = refused(tmp_path / "class", "--out", tmp_path / "out", "--device", device)
    assert f"Device '{device}': {words}. Nothing was graded or written." in output
    assert not (tmp_path / "out").exists()


def test_a_second_ctrl_c_does_not_wait(monkeypatch):
    """While the pool waits for submissions in progress, another Ctrl-C ends their processes."""
    killed = []
    children = [SimpleNamespace(kill=lambda name=name: killed.append(name)) for name in "ab"]
    monkeypatch.setattr(pools.multiprocessing, "active_children", lambda: children)

    def shutdown(**options):
        raise KeyboardInterrupt

    pool = pools.ProcessPool(1)
    monkeypatch.setattr(pool, "_pool", SimpleNamespace(shutdown=shutdown))
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    assert killed == ["a", "b"]


def test_ctrl_c_keeps_what_was_in_progress(run, monkeypatch):
    """Once that is done; what fails is graded again."""

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "wait", stopped)
    with pytest.raises(KeyboardInterrupt):
        grade(run, Scripted({"bob": lambda tries: fault("bob")}))
    assert [learner for learner in LEARNERS if run.kept(learner)] == ["ann"]


def test_ctrl_c_is_the_parents_to_handle(monkeypatch):
    """From the first moment of a process that grades; here it is answered as before."""
    ours = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(pools, "grade_as_json", signal.getsignal)
    with contextlib.closing(pools.ProcessPool(1)) as pool:
        assert pool.result(pool.submit(signal.SIGINT)) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) == ours


def test_no_such_device_on_another_machine(monkeypatch):
    """A machine of a cluster without the device fails, which is no learner's fault."""
    monkeypatch.setattr(job, "lacking_device", lambda device: f"no {device} here")
    plan = Plan((1,), 5, "cuda", False, course_digest())
    result = json.loads(job.grade_as_json(task_of(plan, Source("ann", (), ()))))
    assert result["verdict"] == GRADER_FAULT
    assert "no cuda here" in result["reason"]


def test_who_is_gone_is_put_aside(run):
    """Results and pages of learners who are no more in the class are moved, not left and not lost; where
    all are still there, no folder is made."""
    grade(run, Scripted())
    run.report([])
    assert run.put_aside(datetime.now(UTC))[1] == 0
    assert not (run.folder / "gone").exists()
    old = run.path("bob").read_bytes()
    (run.folder / "results" / ".draft").write_bytes(b"")
    smaller = ClassRun(
        run.folder, PLAN, run.weights, [source for source in run.sources if source.learner != "bob"]
    )
    aside, count = smaller.put_aside(datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC))
    assert (aside, count) == (run.folder / "gone" / "2026-03-01T09-05-07Z", 1)
    moved = sorted(str(path.relative_to(aside)) for path in aside.rglob("*") if path.is_file())
    assert moved == ["feedback/bob.html", "gradescope/bob.json", "results/bob.json"]
    assert (aside / "results" / "bob.json").read_bytes() == old
    assert run.kept("bob").as_json(run.weights) == json.loads(old)  # for when bob is back
    remaining = {
        path.name for kind in ("results", "feedback") for path in (run.folder / kind).iterdir()
    }
    assert remaining == {
        *(f"{n}{e}" for n in ("ann", "cem", "dee") for e in (".json", ".html")),
        ".draft",
    }


def test_no_class(tmp_path):
    """An empty folder is no class, and reports cannot go among the submissions: exit 2."""
    (tmp_path / "class").mkdir()
    output = refused(tmp_path / "class", "--out", tmp_path / "out", "--unsafe")
    assert "holds no submission" in output
    output = refused(tmp_path / "class", "--out", tmp_path / "class" / "out", "--unsafe")
    assert "The reports cannot go into the folder of the submissions" in output
    assert not (tmp_path / "class" / "out").exists()


def test_no_sandbox(tmp_path):
    """Where there is no bubblewrap, nothing is graded: exit 2, and how to have it."""
    (tmp_path / "class" / "ann").mkdir(parents=True)
    output = refused(tmp_path / "class", "--out", tmp_path / "out", PATH=str(tmp_path))
    assert "bubblewrap is not there" in output
    assert "--unsafe" in output
