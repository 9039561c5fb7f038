"""What was seen is kept: found again, never out of date, and made anew where it is damaged."""

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from course.checks.observation import flatten
from course.checks.seeing import CheckRun
from course.curriculum import DAYS, ROOT, find_day
from course.grading.job import course_digest
from course.judging import digests, observation_cache, truth
from course.judging.comparison import matches
from course.judging.digests import observation_digest, verdict_digest
from course.judging.judge import Judge
from course.judging.observation_cache import ObservationCache, cache_of

SEEN = [({"number": 1}, flatten({"y": np.arange(6.0)})), ({"number": 2}, {})]
DAY = find_day("2")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "observed" / "day.zip"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    return tmp_path / "observed"


def written(path, **members):
    cached = ObservationCache(path)
    for name, frames in members.items():
        cached.add(name, frames)
    cached.write()
    return cached


def numbers(frames):
    return frames and [message["number"] for message, _ in frames]


def test_what_is_written_is_read(path):
    """Messages, observations and their order come back, in a later process too."""
    written(path, a=SEEN)
    later = ObservationCache(path)
    assert "a" in later
    assert "b" not in later
    assert numbers(later.read("a")) == [1, 2]
    assert np.array_equal(later.read("a")[0][1]["y"].value, np.arange(6.0))
    assert later.read("b") is None


def test_others_may_read_it(path):
    """A recording is part of an edition that is handed out."""
    written(path, a=SEEN)
    assert path.stat().st_mode & 0o777 == 0o644


def test_two_who_write_lose_nothing(path):
    """What another has added since the file was read stays."""
    first, other = ObservationCache(path), ObservationCache(path)
    assert "a" not in first
    first.add("a", SEEN)
    other.add("b", SEEN[:1])
    first.write()
    other.write()
    assert [numbers(ObservationCache(path).read(name)) for name in "ab"] == [[1, 2], [1]]


@pytest.mark.parametrize("where", [0, 40, -30, -1])
def test_a_damaged_file_is_made_anew(path, where):
    """No byte of it that is not what it was changes what is read: it is right, or it is not there."""
    written(path, a=SEEN)
    data = bytearray(path.read_bytes())
    data[where] ^= 0xFF
    path.write_bytes(data)
    cached = ObservationCache(path)
    assert numbers(cached.read("a")) in (None, [1, 2])
    cached.add("a", SEEN[1:])
    cached.write()
    assert numbers(ObservationCache(path).read("a")) == [2]


@pytest.mark.parametrize("length", [0, 1, 50, -1])
def test_a_file_that_was_cut_off(path, length):
    """Half a file is none."""
    written(path, a=SEEN)
    path.write_bytes(path.read_bytes()[:length])
    assert ObservationCache(path).read("a") is None


def test_a_kill_while_writing(path):
    """Whenever it comes, what is there before or after is whole."""
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.course.judging.test_observation_cache import SEEN, written\n"
        "while True: written(Path(sys.argv[1]), a=SEEN, b=SEEN); print('written', flush=True)"
    )
    for wait in (0, 3, 7):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE
        ) as writer:
            for _ in range(1 + wait):
                writer.stdout.readline()
            writer.kill()
        assert (
            numbers(ObservationCache(path).read("a"))
            == numbers(ObservationCache(path).read("b"))
            == [1, 2]
        )


def test_a_file_that_cannot_be_replaced_leaves_no_draft(path, monkeypatch):
    """On Windows, while another program reads it."""
    written(path, a=SEEN)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(type(path), "replace", refuse)
    written(path, b=SEEN)
    assert list(path.parent.iterdir()) == [path]


def test_it_is_bounded(path, monkeypatch):
    """The files that were used longest ago go first."""
    written(path, a=SEEN)
    monkeypatch.setattr(observation_cache, "MAX_CACHE_BYTES", int(2.5 * path.stat().st_size))
    for number in range(3):
        older = path.with_name(f"{number}.zip")
        written(older, a=SEEN)
        os.utime(older, (number, number))
    os.utime(path, (10, 10))
    written(path.with_name("new.zip"), a=SEEN)
    assert sorted(file.name for file in path.parent.glob("*.zip")) == ["day.zip", "new.zip"]


def test_a_folder_that_cannot_be_written(tmp_path):
    """Then nothing is kept, and nothing is the matter."""
    (tmp_path / "file").write_text("x")
    assert "a" in written(tmp_path / "file" / "day.zip", a=SEEN)


def test_nothing_out_of_date_is_found(tmp_path, cache):
    """Another seed, device, text of the checks or of the wrong answers: another file."""
    day = DAY
    paths = {cache_of(day, *which)._path for which in [(0, "cpu"), (1, "cpu"), (0, "cuda")]}
    assert len(paths) == 3

    class Elsewhere(type(day)):
        checks = tmp_path / "test_day02_attention.py"

    Elsewhere.checks.write_text(day.checks.read_text() + "\n")
    other = Elsewhere(*replace(day).__dict__.values())
    assert cache_of(other, 0, "cpu")._path not in paths


@pytest.fixture
def changed(monkeypatch):
    """Pretend that a line of a file has changed; returns the days that are cold, and those judged anew."""
    caches = (digests._at_first, digests._imported_at_first, digests._rooms, digests.code_of)

    def forget():
        for cache in caches:
            cache.cache_clear()

    def marks():
        forget()
        return {
            day.number: (observation_digest(day, 0, "cpu"), verdict_digest(day, day.solution))
            for day in map(find_day, map(str, EVERY))
        }

    def change(name):
        before, read = marks(), digests._contents
        with monkeypatch.context() as patch:
            other = ROOT / name
            patch.setattr(
                digests, "_contents", lambda path: read(path) + b"\n# more" * (path == other)
            )
            after = marks()
        return [{day for day in before if before[day][of] != after[day][of]} for of in (0, 1)]

    yield change
    forget()


EVERY = {2, 8, 24, 25, 32, 37}  # of these days


@pytest.mark.parametrize(
    ("name", "cold", "judged"),
    [
        ("variants/mamba.py", {37}, {37}),
        ("variants/sampling.py", {24, 25, 32}, {24, 25, 32}),
        ("tests/days/test_day08_attention.py", {8}, {8}),
        ("tests/days/misconceptions/day08_attention.toml", {8}, {8}),
        ("course/judging/messages.py", set(), EVERY),
        ("course/judging/known_messages.txt", set(), EVERY),
        ("course/checks/tensors.py", EVERY, EVERY),
        ("course/judging/expected.py", EVERY, EVERY),
        ("course/desk/board.py", set(), set()),
    ],
)
def test_a_change_makes_cold_what_depends_on_it(name, cold, judged, changed):
    """What was observed is kept while all that it depends on is as it was; verdicts depend on more."""
    assert changed(name) == [cold, judged]


@pytest.mark.parametrize(
    "text",
    [
        "from variants import rope",
        "    import variants.rope as r",
        '["from variants.rope import (\\n", "    apply_rope)\\n"]',
    ],
)
def test_a_verdict_depends_on_what_the_answer_imports(text, tmp_path):
    """However it is written, in a notebook too."""
    (tmp_path / "answer").write_text(text)
    assert digests._imported_by(tmp_path / "answer") == [ROOT / "variants" / "rope.py"]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_grade_depends_on_the_libraries(library, monkeypatch):
    """A class that is graded on with another version of torch is graded anew."""
    version = digests.importlib.metadata.version
    before = course_digest()
    digests.environment.cache_clear()
    monkeypatch.setattr(
        digests.importlib.metadata, "version", lambda name: version(name) + "+" * (name == library)
    )
    after = course_digest()
    digests.environment.cache_clear()
    assert before != after


def test_a_verdict_of_an_edition_depends_on_earlier_answers(tmp_path, monkeypatch):
    """A learner's own parts stand in for references that are not there."""
    answer, earlier = (tmp_path / f"{day.stem}.py" for day in (DAY, DAYS[0]))
    answer.write_text("x = 1\n")
    earlier.write_text("y = 1\n")
    digests = [verdict_digest(DAY, answer)]
    monkeypatch.setattr("course.references.editions.WHOLE", False)
    monkeypatch.setattr("course.references.editions.is_recorded", lambda day: True)
    digests.append(verdict_digest(DAY, answer))
    for path in (earlier, answer):
        path.write_text("z = 2\n")
        digests.append(verdict_digest(DAY, answer))
    assert len(set(digests)) == len(digests)


def test_a_judge_observes_nothing_twice(cache, monkeypatch):
    """A second judge of the day runs neither the reference nor a wrong answer."""
    first = Judge(DAY)
    for _ in first.prepare():
        pass
    monkeypatch.setattr("course.judging.truth.see", None)
    monkeypatch.setattr("course.judging.expected.see", None)
    second = Judge(DAY)
    assert sum(1 for _ in second.prepare()) == len(second.checks)
    for check in second.checks:
        theirs, ours = first.truth.right(check), second.truth.right(check)
        assert theirs.tolerance == ours.tolerance
        assert second.truth.accepts(check, theirs.run)


def test_what_a_search_has_tried_is_not_tried_anew(cache):
    """A search may be cut short: what was seen with the mistakes so far is there for the next judge."""
    first = Judge(DAY)
    check = first.checks[0]
    tried = first.truth.misconceptions[:3]
    for mistake in tried:
        first.truth.wrong(check, mistake)
    first.keep()

    second = Judge(DAY)
    assert not second.truth.knows(check)
    assert set(second.truth._known(check)) == {other.id for other in tried}
    for mistake in second.truth.misconceptions:
        second.truth.wrong(check, mistake)
    second.keep()
    assert Judge(DAY).truth.knows(check)


def test_a_recording_has_fewer_digits_of_wrong_answers():
    """A wrong answer still agrees with its recorded run, and what differs in the fourth digit does not;
    a number that is as large as any stays finite."""
    values = np.array([1 / 3, -2 / 3, 1.0, np.inf, np.nan])
    largest = np.array([np.finfo(np.float32).max], np.float32)
    observed = CheckRun(flatten({"y": values, "z": largest}))
    right = truth.ExpectedRun(CheckRun(flatten({"y": np.zeros(5)})), {}, defaultdict(float))
    run = truth.WrongAnswerRun(observed, True, lambda: truth._with_tolerance(right, observed))
    rounded = truth._rounded(run, right)
    near = rounded.run.observation
    assert not np.array_equal(near["y"].value, values, equal_nan=True)
    assert near["z"].value.dtype == np.float32
    assert np.isfinite(near["z"].value).all()
    assert matches(observed, rounded.expected)
    other = CheckRun(flatten({"y": values * (1 + 1e-4), "z": largest}))
    assert not matches(other, rounded.expected)


def test_a_recording_keeps_the_digits_in_which_a_mistake_lies():
    """An answer that was rounded to float32 differs from the right one in its last digits alone."""
    values = np.array([1 / 3, -2 / 3, 1.0])
    right = truth.ExpectedRun(CheckRun(flatten({"y": values})), {}, defaultdict(float))
    observed = CheckRun(flatten({"y": values.astype(np.float32).astype(np.float64)}))
    run = truth.WrongAnswerRun(observed, True, lambda: truth._with_tolerance(right, observed))
    near = truth._rounded(run, right)
    assert np.array_equal(near.run.observation["y"].value, observed.observation["y"].value)
    assert not matches(CheckRun(flatten({"y": values * (1 + 1e-7)})), near.expected)
