"""Which of several files of one day counts, what is said of the others, and what where there are none."""

import ast
import codecs
import io
import json
import os
import zipfile

import pytest

from course.checks.answer_files import read_answer, source_in
from course.curriculum import BY_NUMBER, DAYS
from course.grading.analysis import gather
from course.grading.submission.choosing import UNDERSTOOD
from course.grading.submission.files import TOO_DEEP
from course.grading.submission.notebooks import as_answer, gathered
from course.grading.submission.sources import find_sources
from course.grading.submission.taking import MAX_LISTED, nothing_found, take
from tests.course.grading.test_submissions import zip_of as plain_zip

DAY1, DAY2 = "day01_softmax.py", "day02_attention.py"
STUB = DAYS[1].stub.read_bytes()
EARLY, LATER = (2026, 3, 1, 12, 0, 0), (2026, 3, 1, 12, 0, 4)


def zip_of(files, time=EARLY):
    """A zip of files by their names, all changed at some time."""
    return plain_zip([(zipfile.ZipInfo(name, time), content) for name, content in files.items()])


@pytest.fixture
def taken(tmp_path):
    """Take what lies in a learner's folder; a file is its bytes, or these and the second of its change."""

    def _take(files, learner="ada"):
        for name, content in files.items():
            content, second = content if isinstance(content, tuple) else (content, 0)
            path = tmp_path / "class" / learner / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))
        (tmp_path / "class" / learner).mkdir(parents=True, exist_ok=True)
        [source] = find_sources(tmp_path / "class")
        return take(source)

    return _take


COPY = "day02_attention (1).py"
V2, V9, V10 = (f"day02_attention_{version}.py" for version in ("v2", "v9", "v10"))
FINAL = "day02_attention_final_v2.py"
CONTESTS = {
    "a stub gives way": ({DAY2: STUB, f"a/b/{COPY}": b"x"}, f"a/b/{COPY}", "is more than the stub"),
    "a stub of Windows": ({DAY2: STUB.replace(b"\n", b"\r\n"), COPY: b"x"}, COPY, "more than the stub"),
    "two stubs": ({DAY2: STUB, COPY: STUB}, DAY2, "is the same"),
    "a begun stub": ({DAY2: (STUB + b"#", 9), COPY: b"x"}, DAY2, "is later"),
    "Python": ({"day02_attention.ipynb": (b"{}", 9), f"a/{DAY2}": b"x"}, f"a/{DAY2}", "is no notebook"),
    "loose": ({"z.zip": zip_of({DAY2: b"1"}), f"a/{DAY2}": b"2"}, f"a/{DAY2}", "is in fewer archives"),
    "archive in archive": (
        {"z.zip": zip_of({"in.zip": zip_of({DAY2: b"1"}, LATER), f"a/{DAY2}": b"2"})},
        f"z.zip/a/{DAY2}",
        "is in fewer archives",
    ),
    "a version": ({DAY2: b"1", FINAL: (b"2", 9)}, FINAL, "is later"),
    "versions at one moment": ({V9: b"1", V10: b"2"}, V10, "is a later version by its name"),
    "a version at one moment": ({DAY2: b"1", V2: b"2"}, V2, "is a later version by its name"),
    "other words": (
        {f"a/{DAY2}": b"1", "plots_day02.py": (b"2", 9)}, f"a/{DAY2}", "has a name nearer to the day's",
    ),
    "an old one": (
        {"a_day02.py": b"1", "a_day02_old.py": (b"2", 9)}, "a_day02.py", "has a name nearer to the day's",
    ),
    "fewer folders": ({f"a/b/{DAY2}": b"1", f"z/{DAY2}": b"2"}, f"z/{DAY2}", "is in fewer folders"),
    "later, and deeper": ({f"a/{DAY2}": b"1", f"b/c/{DAY2}": (b"2", 9)}, f"b/c/{DAY2}", "is later"),
    "exercises": (
        {f"a/{DAY2}": b"1", f"exercises/{COPY}": b"2"}, f"exercises/{COPY}", "is in `exercises`",
    ),
    "later": ({DAY2: b"1", COPY: (b"2", 3)}, COPY, "is later"),
    "earlier": ({DAY2: (b"1", 3), COPY: b"2"}, DAY2, "is later"),
    "at one moment": ({DAY2: b"1", COPY: (b"2", 2)}, DAY2, "has the exact name"),
    "neither exact": ({COPY: b"1", "day2.py": b"2"}, COPY, "comes first by its name"),
    "the same": ({DAY2: b"1", COPY: (b"1", 9)}, COPY, "is the same"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "winner", "why"), CONTESTS.values(), ids=CONTESTS)
def test_which_counts(taken, files, winner, why):
    """One counts by a rule that is stated, and the other is told with the reason."""
    result = taken(files)
    [note], [other] = result.taken, result.ignored
    assert note.path == winner
    assert other.of_several == (why != "is the same")
    assert other.path != winner
    assert other.why == f"{winner!r} was taken, which {why}" or why in other.why
    content = files.get(winner, b"2")
    assert result.files == {DAY2: content[0] if isinstance(content, tuple) else content}
    suffix = f", {UNDERSTOOD}" if note.understood else ""
    assert note.why == ("" if winner.endswith(DAY2) else f"taken as {DAY2}{suffix}")
    assert note.understood == ("day02_attention (1)" not in winner and not winner.endswith(DAY2))


UNKNOWN, BY_NAME = (1980, 1, 1, 0, 0, 0), "is in an archive that is later by its name"
ARCHIVES = {
    "by the archive's time": (
        {"b.zip": zip_of({DAY2: b"1"}, LATER), "a.zip": (zip_of({DAY2: b"2"}), 9)},
        "a.zip", "is in a later archive",
    ),
    "by the files' times": (
        {"b.zip": zip_of({DAY2: b"1"}), "a.zip": zip_of({f"x/{DAY2}": b"2"}, LATER)}, "a.zip", "is later",
    ),
    "by number": (
        {"day10.zip": zip_of({f"x/{DAY2}": b"1"}), "day9.zip": zip_of({DAY2: b"2"})}, "day10.zip", BY_NAME,
    ),
    "without times": (
        {"day1.zip": zip_of({DAY2: b"1"}, LATER), "day2.zip": zip_of({DAY2: b"2"}, UNKNOWN)},
        "day2.zip", BY_NAME,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "winner", "why"), ARCHIVES.values(), ids=ARCHIVES)
def test_archives_are_joined(taken, files, winner, why):
    """What only one has is taken from it; where both have a day, the later one counts, and it is said."""
    for number, (name, content) in enumerate(sorted(files.items())):
        data, second = content if isinstance(content, tuple) else (content, 0)
        file = io.BytesIO(data)
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(zipfile.ZipInfo(f"{DAYS[4 + number].stem}.py", EARLY), b"alone")
        files = files | {name: (file.getvalue(), second)}
    result = taken(files)
    assert [note.name for note in result.taken] == [DAY2, *(f"{DAYS[n].stem}.py" for n in (4, 5))]
    assert result.taken[0].path.startswith(f"{winner}/")
    [loser] = result.ignored
    assert loser.why == f"{result.taken[0].path!r} was taken, which {why}"


def test_three_of_one_day(taken):
    """Each that lost is told by the rule by which it lost, and by what it lost to."""
    result = taken({f"a/{DAY2}": b"1", DAY2: b"2", COPY: (b"3", 60)})
    assert {note.path: note.why for note in result.ignored} == {
        f"a/{DAY2}": f"{COPY!r} was taken, which is later",
        DAY2: f"{COPY!r} was taken, which is later",
    }


def test_what_was_not_taken(taken):
    """Files are told by why they were not: the nearest names first, the course's own last; nothing hidden."""
    result = taken(
        {
            "exercises/day01_softmax.py": b"x",
            "exercises/atention.py": b"x",
            "lessons/day02_attention.ipynb": b"{}",
            ".DS_Store": b"",
            "notes.txt": b"",
            "more.zip": zip_of({"inner.zip": zip_of({"deep.zip": b""}), "b.7z": b"7z"}),
        }
    )
    assert [(note.path, note.name, note.why) for note in result.ignored] == [
        ("exercises/atention.py", DAY2, ""),
        ("notes.txt", "", ""),
        ("lessons/day02_attention.ipynb", "", "it belongs to the course"),
        ("more.zip/b.7z", "", result.ignored[3].why),
        ("more.zip/inner.zip/deep.zip", "", f"it was not opened: {TOO_DEEP}"),
    ]
    assert "it was not opened: 'more.zip/b.7z' cannot be read" in result.ignored[3].why
    assert result.ignored_count == 5


def test_many_files_are_not_all_told(taken):
    """The first are told, and how many there are."""
    result = taken({f"{number:03d}.txt": b"" for number in range(100)} | {"sotfmax.py": b""})
    assert len(result.ignored) == MAX_LISTED
    assert result.ignored_count == 101


def test_a_name_in_no_encoding(taken):
    """Whatever bytes a file's name has, it can be told."""
    try:
        result = taken({os.fsdecode(b"caf\xe9/day1.py"): b"x", os.fsdecode(b"\xff.txt"): b""})
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    assert [note.path for note in (*result.taken, *result.ignored)] == [
        "caf\\udce9/day1.py",
        "\\udcff.txt",
    ]


NOTHING = {
    "an empty folder": ({}, ("The submission is empty. The course expects one file for each day",)),
    "a PDF": ({"essay.pdf": b""}, ("There is 'essay.pdf'. The course expects",)),
    "a near name": ({"softmax.py": b""}, ("There is 'softmax.py' (nearest to day01_softmax.py).",)),
    "another day": (
        {"day08_attention.py": b""},
        ("There is 'day08_attention.py' (a day that is not graded here).",),
    ),
    "many": ({f"{n}.c": b"" for n in range(9)}, ("'4.c'; and 4 more. The course expects",)),
    "what steers": ({"\x1b[2J\u202e.pdf": b""}, (r"There is '\x1b[2J\u202e.pdf'.",)),
}


@pytest.mark.parametrize(("files", "words"), NOTHING.values(), ids=NOTHING)
def test_nothing_found(taken, files, words):
    """What was found, which name is nearest, and what was expected, in words."""
    assert "expects day02_attention.py, by itself" in nothing_found(taken(files), [DAYS[1]])
    message = nothing_found(taken(files), list(DAYS[:2]))
    for word in words:
        assert word in message
    assert "such as day01_softmax.py, by itself, in a folder or in a zip" in message
    assert "day01_softmax.ipynb, whose cells define the exercises" in message
    assert message.isprintable()


# --- A class as it hands in -------------------------------------------------------------------------

GRADED = [BY_NUMBER[number] for number in (1, 2, 3, 8, 13)]  # of two names two days have one each
RIGHT = {day: read_answer(day.solution).encode("ascii", "ignore").decode() for day in GRADED}


def named(pattern):
    """Right answers under names made of the day's."""
    return {
        pattern.format(stem=day.stem, number=day.number): text.encode()
        for day, text in RIGHT.items()
    }


def notebook(cells):
    """A notebook of markdown cells, which begin with `#`, and code cells; of those that begin with a space
    the rest is tagged."""
    entries = [
        {
            "cell_type": "markdown" if cell.startswith("# Day") else "code",
            "metadata": {"tags": ["answer"]} if cell.startswith(" ") else {},
            "source": cell.removeprefix(" "),
        }
        for cell in cells
    ]
    return json.dumps({"cells": entries, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def declared(line, encoding, mark=b""):
    """Right answers with a comment that is no ASCII, in an encoding."""
    return {
        f"{day.stem}.py": mark + f"{line}# für Ada\n{text}".encode(encoding)
        for day, text in RIGHT.items()
    }


DRAFT = "def attention(query, key, value, mask=None):\n    return value, query"
PLAIN = [RIGHT[day] for day in GRADED]
HEADED = [
    cell for day in GRADED for cell in (f"# Day {day.number}: {day.title}", DRAFT, RIGHT[day])
]
TAGGED = [cell for day in GRADED for cell in (DRAFT, f" {RIGHT[day]}", "print(softmax(0))")]
CLASS = {
    "a number before": named("s1234567_{stem}.py"),
    "a number behind": named("{stem}-1234567.py"),
    "a name": named("Lee_Ada_Day{number}.py"),
    "a version": named("{stem}_final_v2.py"),
    "a German copy": named("{stem} - Kopie.py"),
    "a French copy": named("{stem} - Copie (2).py"),
    "a Spanish copy": named("{stem} copia.py"),
    "PEP 263": declared("# -*- coding: cp1252 -*-\n", "cp1252"),
    "PEP 263 in its second line": declared("#!/bin/python\n# vim: fileencoding=latin-1\n", "latin-1"),
    "UTF-16 of Windows": declared("", "utf-16-le", codecs.BOM_UTF16_LE),
    "UTF-16, the other way": declared("", "utf-16-be", codecs.BOM_UTF16_BE),
    "UTF-8 with a mark": declared("", "utf-8", codecs.BOM_UTF8),
    "a zip in a zip": {"a.zip": zip_of({"b/submission.zip": zip_of(named("exercises/{stem}.py"))})},
    "a notebook of all": {"transformers_homework.ipynb": notebook(PLAIN).encode()},
    "a notebook in UTF-16": {"hw.ipynb": notebook(PLAIN).encode("utf-16")},
    "a notebook with headings": {"hw (1).ipynb": notebook(HEADED).encode()},
    "a notebook with tags": {"a.zip": zip_of({"hw.ipynb": notebook(TAGGED).encode()})},
}  # fmt: skip


def made(cells, day):
    """What the grader's worker is asked for."""
    spans = gather(cells, day.exercises)
    return as_answer(cells, spans) if spans else b""


def definitions(day, source):
    """The exercises' definitions, however the file around them is laid out."""
    nodes = {getattr(node, "name", ""): ast.dump(node) for node in ast.parse(source).body}
    return [nodes.get(name) for name in day.exercises]


SWAPPED = [day for day in GRADED if day.number != 2]  # whose `attention` day 8 replaces
CLASS |= {
    line: {f"{day.stem}.py": f"{text}\n{line}\n".encode() for day, text in RIGHT.items()}
    for line in (
        *("exit()", "quit(0)", "unittest.main()", "raise SystemExit", "get_ipython().system('ls')"),
        "!ls",
    )
} | {
    "written by cells": {
        "hw.ipynb": notebook(
            [f"%%writefile {day.stem}.py\n{text}" for day, text in RIGHT.items()]
        ).encode()
    },
    "one script": {"all.py": "\n\n\n".join(PLAIN).encode()},
    "swapped": {
        f"{other.stem}.py": RIGHT[day].encode()
        for day, other in zip(SWAPPED, [*SWAPPED[1:], SWAPPED[0]], strict=True)
    },
}


@pytest.mark.parametrize("files", CLASS.values(), ids=CLASS)
def test_nothing_right_is_lost(taken, files):
    """Right answers come out of whatever a class hands in, and what took reading is noted."""
    result = gathered(taken(files), GRADED, made)
    sources = {name.partition(".")[0]: source_in(data, name) for name, data in result.files.items()}
    for day in SWAPPED if files == CLASS["swapped"] else GRADED:
        assert definitions(day, sources[day.stem]) == definitions(day, RIGHT[day])
    assert result.ignored_count == len(result.ignored) == 0
    for note in result.taken:
        assert bool(note.why) == (note.path.rpartition("/")[2] not in result.files), note


def test_a_stub_gives_way_to_a_notebook_for_several_days(taken):
    """Who hands in all stubs and works in a notebook of their own is graded by that; a begun file counts."""
    files = {f"exercises/{day.stem}.py": day.stub.read_bytes() for day in GRADED}
    begun = f"exercises/{GRADED[0].stem}.py"
    files |= {begun: RIGHT[GRADED[0]].encode(), "hw.ipynb": notebook(PLAIN).encode()}
    result = gathered(taken(files), GRADED, made)
    names = [f"{day.stem}.{'py' if day == GRADED[0] else 'ipynb'}" for day in GRADED]
    assert sorted(result.files) == sorted(names) == sorted(note.name for note in result.taken)
    whys = {note.why for note in result.ignored}
    assert whys == {"'hw.ipynb' was taken, which is more than the stub"}
    assert result.ignored_count == len(result.ignored) == len(GRADED) - 1
