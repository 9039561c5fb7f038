"""Everyone's submission is found, the days' files come out of it, and no archive does any harm."""

import bz2
import contextlib
import errno
import gzip
import io
import json
import lzma
import os
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from course.checks.answer_files import MAX_FILE_BYTES, source_in
from course.curriculum import DAYS
from course.grading.reports.lms_tables import Person
from course.grading.submission import files as submitted_files
from course.grading.submission.limits import MAX_UNPACKED_BYTES, SubmissionRefused
from course.grading.submission.names import ANSWERS
from course.grading.submission.sources import UNCLEAR, NothingHandedIn, Source, find_sources
from course.grading.submission.taking import late_days, take

SOFTMAX, ATTENTION = "day01_softmax.py", "day08_attention.py"
WORK = {SOFTMAX: b"one = 1\n", ATTENTION: b"eight = 8\n"}
TARS = {
    ".tar": bytes,
    ".tar.gz": gzip.compress,
    ".tgz": gzip.compress,
    ".tar.bz2": bz2.compress,
    ".tar.xz": lzma.compress,
}


def zip_of(files, method=zipfile.ZIP_DEFLATED):
    """A zip of files by their names, or of (ZipInfo, content) pairs; None is an empty folder."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files.items() if isinstance(files, dict) else files:
            archive.writestr(*((f"{name}/", b"") if content is None else (name, content)))
    return data.getvalue()


def tar_of(files, **options):
    """A tar of files by their names, or of (TarInfo, content) pairs."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", **options) as archive:
        for entry, content in files.items() if isinstance(files, dict) else files:
            info = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(entry)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def write(folder, files):
    """Files by their names; None is an empty folder."""
    for name, content in files.items():
        path = folder / name
        (path if content is None else path.parent).mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
    return folder


@pytest.fixture
def submitted(tmp_path):
    """Take what one learner handed in: an archive's bytes under a name, or files of a folder."""

    def _take(name, content):
        write(
            tmp_path,
            {name: content}
            if isinstance(content, bytes)
            else {f"{name}/{f}": c for f, c in content.items()},
        )
        [source] = find_sources(tmp_path)
        return take(source).files

    return _take


def all_taken(submissions):
    """What each learner of a class handed in; or why it was refused."""
    taken = {}
    for source in find_sources(submissions):
        try:
            sent = json.dumps(source.as_json())
            taken[source.learner] = take(Source.from_json(json.loads(sent))).files
        except SubmissionRefused as error:
            taken[source.learner] = str(error)
    return taken


# --- Finding ----------------------------------------------------------------------------------------


NOWHERE = "should hold a folder or an archive"
NO_CLASS = {
    "nothing": ({"README.txt": b"", ".x/y": b""}, f"holds no submission. It {NOWHERE}"),
    "one learner's folder": ({SOFTMAX: b"", "hints/x.md": b""}, f"{SOFTMAX} is in .* itself"),
    "a notebook too many": ({"day08_attention.ipynb": b"", "ada.zip": b""}, "unclear whose it is"),
    "two of one name": (
        {"Ada Lee_7_assignsubmission_file_": None, "Ada Lee_7": None},
        r"2 submissions in .* are called 'Ada Lee_7'",
    ),
    "missing": (None, "cannot be read: No such file or directory"),
    "empty": (b"", "neither a folder nor a zip"),
    "tar": (tar_of(WORK), "neither a folder nor a zip"),
    "truncated": (zip_of(WORK)[:-30], "neither a folder nor a zip"),
    "empty zip": (zip_of({}), "holds no submission"),
    "one learner's": (zip_of(WORK), "is in .* itself"),
    "odd names": (zip_of({"x": b"", "/": b"", "..": b"", "C:": b""}), "holds no submission"),
}


@pytest.mark.parametrize(("content", "words"), NO_CLASS.values(), ids=NO_CLASS)
def test_no_class(tmp_path, content, words):
    """Where no class is, in a folder or a file, there are words that say what should be."""
    path = tmp_path / "class"
    if isinstance(content, dict):
        write(path, content)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(NothingHandedIn, match=words):
        find_sources(path)


CANVAS = {
    "leeada_340934_208490284_day01_softmax.py": b"old",
    "leeada_340934_208490290_day01_softmax-1.py": b"older",
    "leeada_340934_208490285_day01_softmax-10.py": b"new",
    "leeada_340934_208490291_day08_attention.py": b"eight",
    "leeada_340934_208490292_essay.pdf": b"",
    "o_neillbo_LATE_340935_208490300_My Work (final)_1_2_x.zip": zip_of({f"x/{SOFTMAX}": b"bo"}),
    "müllercem_340936_208490301_hand_in-1.tar.gz": gzip.compress(tar_of({SOFTMAX: b"old"})),
    "müllercem_340936_208490302_hand_in-2.tar.gz": gzip.compress(tar_of({SOFTMAX: b"cem"})),
    "_340937_208490303_day01_softmax-7.py": b"seven",
    "_340937_208490304_day01_softmax-0b1ce4ee-5d2c-4b0c-9d3b-0b1ce4ee5d2c.py": b"eighth",
    "anon_aB3dE_208490305_day01_softmax.py": b"anonymous",
    "LATE_anon_Zz9_208490306_day01_softmax.py": b"late",
    "pagedee_340938_text.html": b"typed into the page",
    "linkeve_LATE_340941_link.html": b"a link",
    "pdfeve_340939_208490307_essay.pdf": b"",
    "leeada_340940_208490308_work.rar": b"Rar!\x1a\x07\x01\x00",
}
FROM_CANVAS = {
    "_340937": {SOFTMAX: b"eighth"},
    "anon_Zz9": {SOFTMAX: b"late"},
    "anon_aB3dE": {SOFTMAX: b"anonymous"},
    "leeada_340934": {SOFTMAX: b"new", ATTENTION: b"eight"},
    "leeada_340940": "'work.rar' cannot be read: it is broken or of the wrong kind. Allowed are .zip, .tar,"
    " .tar.gz, .tgz, .tar.bz2, .tar.xz.",
    "müllercem_340936": {SOFTMAX: b"cem"},
    "o_neillbo_340935": {SOFTMAX: b"bo"},
    "pagedee_340938": {},
    "linkeve_340941": {},
    "pdfeve_340939": {},
}
MOODLE = {
    f"Ada Lee_101_assignsubmission_file/{SOFTMAX}": b"ada",
    f"Ada Lee_101_assignsubmission_file/part 2/{ATTENTION}": b"eight",
    "Ada Lee_101_assignsubmission_onlinetext/onlinetext.html": b"typed",
    "Bo O Neill_102_assignsubmission_file_/work.zip": zip_of({f"exercises/{SOFTMAX}": b"bo"}),
    "Bo O Neill_102_assignsubmission_file_/report.pdf": b"",
    "Cem Müller_103_assignsubmission_onlinetext_/onlinetext.html": b"typed",
    "Dee_104_assignsubmission_file_day01_softmax.py": b"flat",
    "Dee_104_assignsubmission_file_day08_attention.ipynb": b"{}",
    f"Default group_assignsubmission_file/{SOFTMAX}": b"together",
    f"Eve_105_assignsubmission_file_Ada Lee_101_assignsubmission_file_{SOFTMAX}": b"forged",
}
FROM_MOODLE = {
    "Ada Lee_101": {SOFTMAX: b"ada", ATTENTION: b"eight"},
    "Bo O Neill_102": {SOFTMAX: b"bo"},
    "Cem Müller_103": {},
    "Dee_104": {SOFTMAX: b"flat", "day08_attention.ipynb": b"{}"},
    "Default group": {SOFTMAX: b"together"},
    "Eve_105": {SOFTMAX: b"forged"},
}
BRIGHTSPACE = {
    f"111-900 - Ada Lee - Nov 20, 2026 1147 PM/{SOFTMAX}": b"old",
    f"111-900 - Ada Lee - Nov 20, 2026 1147 PM/{ATTENTION}": b"eight",
    f"111-900 - Ada Lee - Nov 21, 2026 909 AM/{SOFTMAX}": b"new",
    "113-900 - Bo - 9 - Jr - 13 September 2026 310 PM/hw.zip": zip_of({f"x/{SOFTMAX}": b"bo"}),
    f"114-900 - Cem Müller - 3 März 2026 1510 - {SOFTMAX}": b"flat",
    "index.html": b"",
}
FROM_BRIGHTSPACE = {
    "Ada Lee": {SOFTMAX: b"new", ATTENTION: b"eight"},
    "Bo - 9 - Jr": {SOFTMAX: b"bo"},
    "Cem Müller": {SOFTMAX: b"flat"},
}
BLACKBOARD = {
    f"HW_1_a_lee_attempt_2026-11-21-11-00-00_{SOFTMAX}": b"new",
    "HW_1_a_lee_attempt_2026-11-21-11-00-00.txt": b"Name: Ada Lee (a_lee)",
    f"HW_1_a_lee_attempt_2026-11-20-11-00-00_{SOFTMAX}": b"old",
    f"HW_1_a_lee_attempt_2026-11-20-11-00-00_{ATTENTION}": b"eight",
    f"HW_1_b_lee_attempt_2026-11-20-10-00-00_a_lee_attempt_2026-11-22-00-00-00_{SOFTMAX}": b"bo",
    "HW_1_cem_attempt_2026-11-20-10-00-00_hw.zip": zip_of({SOFTMAX: b"cem"}),
    "HW_1_dee_attempt_2026-11-20-10-00-00.txt": b"typed",
}
FROM_BLACKBOARD = {
    "a_lee": {SOFTMAX: b"new", ATTENTION: b"eight"},
    "b_lee": {SOFTMAX: b"bo"},
    "cem": {SOFTMAX: b"cem"},
    "dee": {},
}
PLAIN = {
    f"cem/{SOFTMAX}": b"c",
    "cem/notes.txt": b"",
    "Ada.zip": zip_of(WORK),
    "bo.tar.gz": gzip.compress(tar_of(WORK)),
    "empty": None,
    "Thumbs.db": b"",
    "README.txt": b"",
    ".git/config": b"",
    "to_1_2_do.txt": b"",  # makes no download from Canvas of it
}
FROM_PLAIN = {"Ada": WORK, "bo": WORK, "cem": {SOFTMAX: b"c"}, "empty": {}}
# An archive keeps its ending where its name without it is someone else's.
ENDINGS = ["ada.zip", "bo.zip", "bo.tar", "cem.TGZ", "ada.zip.zip", "dee.tar.xz"]
FROM_ENDINGS = ["ada", "ada.zip", "ada.zip.zip", "bo.tar", "bo.zip", "cem", "dee"]
# One archive that Canvas would not name so, and all are their learners' by their whole names.
NUMBERED = ["team_1_2_x.zip", "team_1_3_x.zip", "ada.zip", "to_1_2_do.txt"]
NO_CODE = {"adalee_101_900_essay.pdf": b"", "bo_LATE_102_text.html": b"", ".x": b""}
DOWNLOADS = {
    "Canvas": (CANVAS, FROM_CANVAS),
    "Canvas without code": (NO_CODE, {"adalee_101": {}, "bo_102": {}}),
    "Moodle": (MOODLE, FROM_MOODLE),
    "Brightspace": (BRIGHTSPACE, FROM_BRIGHTSPACE),
    "Blackboard": (BLACKBOARD, FROM_BLACKBOARD),
    "plain": (PLAIN, FROM_PLAIN),
    "endings": ({"ada": None} | dict.fromkeys(ENDINGS, zip_of({})), {name: {} for name in FROM_ENDINGS}),
    "numbers": (
        dict.fromkeys(NUMBERED, zip_of({})), {"ada": {}, "team_1_2_x": {}, "team_1_3_x": {}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True], ids=["unpacked", "zip"])
@pytest.mark.parametrize(("files", "expected"), DOWNLOADS.values(), ids=DOWNLOADS)
def test_downloads(tmp_path, files, expected, packed):
    """A download gives the same, in the order of names, be it a zip or unpacked."""
    path = tmp_path / "class"
    files = files | {"__MACOSX/._x": b"", ".DS_Store": b""}
    path.write_bytes(zip_of(files)) if packed else write(path, files)
    taken = all_taken(path)
    assert taken == expected
    assert list(taken) == sorted(taken)


def test_late_is_what_was_handed_in_late(tmp_path):
    """Only days whose files Canvas calls late are late; of a file that came twice, the last one counts."""
    work = zip_of({"day03_masks.py": b"masks", "day04_multi_head_attention.py": b"heads"})
    files = {
        f"ada_LATE_7_100_{SOFTMAX}": b"softmax",
        "ada_7_99_day02_attention.py": b"attention",
        "ada_LATE_7_101_work.zip": work,
        "ada_LATE_7_102_day05_positional_encoding.py": b"late",
        "ada_7_103_day05_positional_encoding-1.py": b"moved to before the deadline",
        "bo_LATE_8_text.html": b"typed",
    }
    ada, bo = find_sources(write(tmp_path, files))
    assert late_days(take(ada), ada.late) == [1, 3, 4]
    assert bo.late == ("text.html",)


FORGED = zip_of({SOFTMAX: b"wrong"})


@pytest.mark.parametrize("packed", [False, True], ids=["unpacked", "zip"])
def test_a_name_that_imitates_canvas_takes_nobodys_place(tmp_path, packed):
    """A learner whose name has another's numbers is neither that one, nor has that one's number."""
    files = {
        f"victim_123_208490284_{SOFTMAX}": b"right",
        "victim_123_208490999_x_77_208490290_work.zip": FORGED,
        "victim_LATE_123_208490998_x_77_208490291_text.html": b"typed",
        "mean_77_208490300_victim_123_208490997_work.zip": FORGED,
        f"ann_55_208490301_hand_in_1_2_{SOFTMAX}": b"ann",
    }
    path = tmp_path / "class"
    path.write_bytes(zip_of(files)) if packed else write(path, files)
    sources = {source.learner: source for source in find_sources(path)}
    taken = all_taken(path)
    assert taken.pop("victim_123") == {SOFTMAX: b"right"}
    assert (sources["victim_123"].late, sources["victim_123"].unclear) == ((), ())
    assert taken.pop("ann_55") == {SOFTMAX: b"ann"}  # with a name of her own
    forged = [name for name in files if "_77_" in name]
    assert sorted(taken) == sorted(f"{UNCLEAR}{name}" for name in forged)
    for learner in taken:
        assert "victim_123" in " ".join(sources[learner].unclear)
        assert Person.of(learner, "Canvas").id == sources[learner].back == ""


@pytest.mark.parametrize("ending", ["", "_7_assignsubmission_file"])
def test_a_name_in_no_encoding_can_be_written_down(tmp_path, ending):
    """Whatever bytes a folder's name has, its learner's name is text, and it is found again."""
    folder = os.fsencode(tmp_path) + b"/caf\xe9" + ending.encode()
    try:
        os.mkdir(folder)  # noqa: PTH102
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    write(Path(os.fsdecode(folder)), {SOFTMAX: b"x"})
    assert all_taken(tmp_path) == {"caf\\udce9" + ending[:2]: {SOFTMAX: b"x"}}


def test_a_source_is_found_from_anywhere(tmp_path, monkeypatch):
    """As JSON it does not depend on where we are."""
    write(tmp_path, {f"class/ada/{SOFTMAX}": b"x"})
    monkeypatch.chdir(tmp_path)
    [source] = find_sources(Path("class"))
    sent = json.dumps(source.as_json())
    monkeypatch.chdir("/")
    assert take(Source.from_json(json.loads(sent))).files == {SOFTMAX: b"x"}


# --- Taking -----------------------------------------------------------------------------------------

JUNK = {
    f"__MACOSX/{SOFTMAX}": b"junk",
    f"._{SOFTMAX}": b"junk",
    f".venv/{SOFTMAX}": b"junk",
    "exercises/stubs.json": b"{}",
    "exercises/day99_nothing.py": b"",
    "exercises/attention.py": b"",
    "empty/x": b"",
}
LAYOUTS = {
    "top": (WORK, WORK),
    "exercises": ({f"exercises/{name}": data for name, data in WORK.items()} | JUNK, WORK),
    "deep": ({f"a/b c/ü/{SOFTMAX}": b"deep"}, {SOFTMAX: b"deep"}),
    "shallowest": ({f"z/{SOFTMAX}": b"1", f"a/exercises/{SOFTMAX}": b"2"}, {SOFTMAX: b"1"}),
    "exercises first": ({f"a/{SOFTMAX}": b"1", f"exercises/{SOFTMAX}": b"2"}, {SOFTMAX: b"2"}),
    "first by name": ({f"b/{SOFTMAX}": b"1", f"a/{SOFTMAX}": b"2"}, {SOFTMAX: b"2"}),
    "Python first": ({"day01_softmax.ipynb": b"{}", f"a/{SOFTMAX}": b"1"}, {SOFTMAX: b"1"}),
    "notebook": ({"day01_softmax.ipynb": b"{}"}, {"day01_softmax.ipynb": b"{}"}),
    "empty file": ({SOFTMAX: b""}, {SOFTMAX: b""}),
    "nothing": ({"notes.txt": b"", "inner.py": b""}, {}),
    "the whole course": (
        {
            f"course/exercises/{SOFTMAX}": b"theirs",
            "course/solutions/day02_attention.ipynb": b"ours",
            "course/my/solutions/day02_attention.ipynb": b"ours",
            "course/tests/days/misconceptions/day02_attention.toml": b"ours",
        },
        {SOFTMAX: b"theirs"},
    ),
    "solutions of one's own": ({f"solutions/{SOFTMAX}": b"theirs"}, {SOFTMAX: b"theirs"}),
    "too large": ({SOFTMAX: b"#" * 3_000_000}, {SOFTMAX: b"#" * (MAX_FILE_BYTES + 1)}),
}


@pytest.mark.parametrize("ending", ["", ".zip", *TARS])
@pytest.mark.parametrize(("files", "expected"), LAYOUTS.values(), ids=LAYOUTS)
def test_days_are_found_wherever_they_lie(submitted, files, expected, ending):
    """The days' files and nothing else, from a folder or any archive."""
    content = (
        files if not ending else zip_of(files) if ending == ".zip" else TARS[ending](tar_of(files))
    )
    assert submitted(f"ada{ending}", content) == expected


def test_archives_as_programs_write_them(submitted, tmp_path):
    """Entries for folders, names that begin with `./`, long ones, and what is told of the whole archive."""
    long = "long folder " * 15
    folder = tarfile.TarInfo("./")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
    files = [
        (folder, b""),
        *WORK.items(),
        (f"./{long}/day02_attention.py", b"2"),
        ("ü/day03_masks.py", b"3"),
    ]
    expected = WORK | {"day02_attention.py": b"2", "day03_masks.py": b"3"}
    for format_ in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        data = tar_of(files, format=format_, pax_headers={"comment": "c0ffee"})
        assert submitted("ada.tar", data) == expected
        assert (
            submitted(
                "ada.tar", gzip.compress(data[:2000]) + gzip.compress(data[2000:]) + bytes(99)
            )
            == expected
        )
    zipped = [
        (zipfile.ZipInfo("./x/"), b""),
        *((f"./x//{name}", content) for name, content in expected.items()),
    ]
    assert submitted("ada.tar", zip_of(zipped)) == expected  # what it is shows from its content


def test_an_archive_in_a_folder_counts_as_a_folder(submitted):
    """Who zips all of it, or a part, within a folder, has handed it in; what lies outside is first."""
    files = {
        "work/all.zip": zip_of(WORK | {"exercises/day02_attention.py": b"2"}),
        SOFTMAX: b"newer",
    }
    assert submitted("ada", files) == WORK | {SOFTMAX: b"newer", "day02_attention.py": b"2"}


def test_archives_within_archives(submitted):
    """They are opened, one level; what is unsafe, broken, large or deeper stays closed, and costs nothing."""
    inner = {
        "data.tgz": gzip.compress(tar_of(dict.fromkeys("abcd", bytes(26_000_000))), 1),
        "inner.zip": zip_of(
            WORK | {"plot.png": bytes(100_000), "deeper.zip": zip_of({"day02.py": b"2"})}
        ),
        "data.tar": b"broken",
        "link.tar": tar_of([(tar_entry("day03_masks.py", tarfile.SYMTYPE, "/etc/passwd"), b"")]),
        "my.rar": b"Rar!",
    }
    assert submitted("ada.zip", zip_of(inner | {SOFTMAX: b"newer"})) == WORK | {SOFTMAX: b"newer"}


def test_nothing_is_written(submitted, tmp_path, monkeypatch):
    """Neither beside the archive, nor where programs keep temporary files, nor where we are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert submitted("ada.zip", zip_of(WORK)) == WORK
    assert [path.name for path in tmp_path.rglob("*")] == ["ada.zip"]


# --- What is refused --------------------------------------------------------------------------------


def zip_entry(name, *, mode=0, method=zipfile.ZIP_DEFLATED):
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    info.compress_type = method
    return info


def edited(data, find, put):
    """An archive with some of its bytes changed."""
    assert find in data
    return data.replace(find, put)


def directory_edited(data, offset, layout, value):
    """A zip in whose directory one number of the last entry is another."""
    data = bytearray(data)
    struct.pack_into(layout, data, data.rindex(b"PK\1\2") + offset, value)
    return bytes(data)


def overlapping():
    """A zip whose two entries are one in its file."""
    data = zip_of({"a": b"x" * 100, "b": b"x" * 100}, zipfile.ZIP_STORED)
    return directory_edited(edited(data, b"b", b"a"), 42, "<L", 0)


def with_large_directory():
    """A zip of entries that are only in its directory, which alone is 3 MB."""
    entry = zip_of({"a": b""}, zipfile.ZIP_STORED)
    header, directory = entry[:31], entry[31:-22]
    count = 3_000_000 // len(directory)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, count * len(directory), len(header), 0)
    return header + count * directory + end


ZIPS = {
    "absolute": ({"/etc/x": b""}, "'/etc/x' leads out of the archive, or may"),
    "up": ({"a/../../x": b""}, "names of entries must be relative"),
    "up from a hidden folder": ({".x/../../x": b""}, "leads out"),
    "backslash": ({"a\\..\\x": b""}, "leads out"),
    "drive": ({"c:x": b""}, "leads out"),
    "link": ([(zip_entry(f"a/{SOFTMAX}", mode=stat.S_IFLNK), b"/")], f"'a/{SOFTMAX}' is a symbolic link"),
    "link to elsewhere": ([(zip_entry("x", mode=stat.S_IFLNK), b"a")], "only files and folders are allowed"),
    "device": ([(zip_entry("x", mode=stat.S_IFBLK), b"")], "'x' is a device"),
    "deep": ({"a/" * 40 + "x": b""}, "is too deep: 32 folders"),
    "bzip2": ([(zip_entry("x", method=zipfile.ZIP_BZIP2), b"x")], "'x' is compressed by method 12"),
    "many": ({f"{n}": b"" for n in range(5_001)}, "It holds more than 5000 files and folders"),
    "terminal": ({"/\x1b[2J\u202ex": b""}, r"^'/\\x1b\[2J\\u202ex' leads"),
    "long": ({"/" + "x" * 1000: b""}, "^'/x{58}…x{38}' leads"),
}  # fmt: skip


def test_backslashes_are_folders(submitted, tmp_path):
    """Windows PowerShell writes them, in a learner's zip or a class's; a folder itself is no file."""
    files = {"exercises\\": b""} | {f"exercises\\{name}": data for name, data in WORK.items()}
    assert submitted("ada.zip", zip_of(files)) == WORK
    path = tmp_path / "class.zip"
    path.write_bytes(zip_of({"Bo\\": b""} | {f"Bo\\{name}": data for name, data in files.items()}))
    [source] = find_sources(path)
    taken = take(source)
    assert (source.learner, taken.files, taken.ignored) == ("Bo", WORK, [])


SMALL = zip_of({SOFTMAX: b"x = 1\n", "b": b"y = 2\n"})
BROKEN_ZIPS = {
    "zero": (edited(SMALL, b"day01", b"day\0001"), "leads out"),
    "encrypted": (directory_edited(SMALL, 8, "<H", 1), "'b' is encrypted: an archive must have no password"),
    "strongly encrypted": (directory_edited(SMALL, 8, "<H", 0x41), "'b' is encrypted"),
    "unknown method": (directory_edited(SMALL, 10, "<H", 77), "compressed by method 77"),
    "claims much": (directory_edited(SMALL, 24, "<L", 2**32 - 2), "more than 100 MB when unpacked"),
    "claims little": (directory_edited(SMALL, 24, "<L", 1), "cannot be read: it is broken"),
    "another content": (directory_edited(SMALL, 16, "<L", 1), "cannot be read: it is broken"),
    "overlapping": (overlapping(), "overlap in the archive"),
    "beyond the end": (directory_edited(SMALL, 42, "<L", 10**6), "cannot be read"),
    "large directory": (with_large_directory(), "directory is larger than 5000 files"),
    "no archive": (b"PK, and no more", "cannot be read: it is broken or of the wrong kind. Allowed are .zip"),
    "empty": (b"", "cannot be read: it is broken"),
    "large itself": (lambda: zip_of({"x": bytes(50_000_000)}, zipfile.ZIP_STORED),
                     r"'ada\.zip' is larger than 50 MB: hand in the exercises alone"),
    "large when unpacked": (lambda: zip_of({"a": bytes(60_000_000), "b": bytes(50_000_000)}),
                            "It holds more than 100 MB when unpacked"),
}  # fmt: skip


def tar_entry(name, kind=tarfile.REGTYPE, link="", **pax):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.pax_headers = kind, link, pax
    return info


def block(kind, size, name=b"x"):
    """A header's 512 bytes with any size, and the right checksum."""
    info = tarfile.TarInfo(name.decode())
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def pax(records):
    """A PAX header with any bytes in it."""
    return block(tarfile.XHDTYPE, len(records)) + records + bytes(-len(records) % 512)


END = bytes(1024)
RECORDS = b"".join(b"7 %03d=\n" % n for n in range(101))
TAR_ENTRIES = {
    "link": (tar_entry(SOFTMAX, tarfile.SYMTYPE, "/etc/passwd"), f"'{SOFTMAX}' is a symbolic link"),
    "hard link": (tar_entry("x", tarfile.LNKTYPE, SOFTMAX), "'x' is a hard link: only files and folders"),
    "device": (tar_entry("x", tarfile.CHRTYPE), "'x' is a device"),
    "FIFO": (tar_entry(SOFTMAX, tarfile.FIFOTYPE), "is a FIFO"),
    "unknown kind": (tar_entry("x", b"Z"), "'x' is of an unknown kind"),
    "absolute": (tar_entry("/etc/x"), "'/etc/x' leads out"),
    "up": (tar_entry("../x"), "leads out"),
    "up by a long name": (tar_entry("a/" * 60 + "../" * 70 + "x"), "leads out"),
    "sparse": (tar_entry("x", **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}), "'x' is a sparse file"),
}  # fmt: skip
TAR_BYTES = {
    "old sparse": (block(tarfile.GNUTYPE_SPARSE, 0) + END, "is a sparse file"),
    "negative size": (block(tarfile.REGTYPE, -512) + END, "it is broken"),
    "negative header": (block(tarfile.XHDTYPE, -512) + END, "it is broken"),
    "claims much": (block(tarfile.REGTYPE, 2**40) + END, "more than 100 MB when unpacked"),
    "header claims much": (block(tarfile.XHDTYPE, 2**40) + END, "it is broken"),
    "size told apart": (pax(b"16 size=9999999\n") + block(b"0", 0) + END, "it is broken"),
    "size is no number": (pax(b"10 size=x\n") + block(b"0", 0) + END, "it is broken"),
    "record of no length": (pax(b"0 a=b\n") + block(b"0", 0) + END, "it is broken"),
    "record that goes back": (pax(b"-9 a=b\n") + block(b"0", 0) + END, "it is broken"),
    "many records": (pax(RECORDS) + block(b"0", 0) + END, "it is broken"),
    "header after header": (pax(b"7 a=b\n\n") * 9 + block(b"0", 0) + END, "it is broken"),
    "wrong checksum": (b"x" + tar_of(WORK)[1:], "it is broken"),
    "without an end": (tar_of(WORK)[:2048], "it is broken"),
    "empty": (b"", "it is broken"),
    "wrong CRC": (gzip.compress(tar_of(WORK))[:-8] + bytes(8), "it is broken"),
    "another stream that is none": (gzip.compress(tar_of(WORK)) + b"x", "it is broken"),
}  # fmt: skip


MUCH = {"x": bytes(40_000_000)}
FOLDERS = {
    "many archives": (lambda: {f"{n}.zip": zip_of(WORK) for n in range(51)}, "more than 50 archives"),
    "zips hold much together": (lambda: {f"{n}.zip": zip_of(MUCH) for n in range(3)}, "more than 100 MB"),
    "tars hold much together": (lambda: {f"{n}.tgz": gzip.compress(tar_of(MUCH)) for n in range(3)},
                                "more than 100 MB"),
    "archives are large together": (lambda: {f"{n}.zip": zip_of(MUCH, zipfile.ZIP_STORED) for n in range(2)},
                                    "larger than 50 MB"),
    "many in archives together": (lambda: {f"{n}.tar": tar_of(dict.fromkeys(map(str, range(2_000)), b""))
                                           for n in range(3)}, "more than 5000 files"),
    "unsafe archive": ({"a/b.zip": zip_of({"../x": b""}), SOFTMAX: b""}, "'../x' leads out"),
    "many": ({f"{n}": b"" for n in range(5_001)}, "more than 5000 files and folders"),
    "deep": ({"a/" * 40 + "x": b""}, "is too deep"),
}  # fmt: skip


def refused():
    """What is refused whole, by name: its ending, the content or what makes it, words of the reason."""
    for name, (files, words) in ZIPS.items():
        pieces = [*(files.items() if isinstance(files, dict) else files), *WORK.items()]
        yield f"zip, {name}", (".zip", zip_of(pieces), words)
    for ending, pack in TARS.items():
        for name, (entry, words) in TAR_ENTRIES.items():
            data = pack(tar_of([*WORK.items(), (entry, b"")]))
            yield f"{ending[1:]}, {name}", (ending, data, words)
    for ending, table in ((".zip", BROKEN_ZIPS), (".tar", TAR_BYTES), ("", FOLDERS)):
        for name, (content, words) in table.items():
            yield f"{ending[1:] or 'folder'}, {name}", (ending, content, words)


REFUSED = dict(refused())


@pytest.mark.parametrize(("ending", "content", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(submitted, ending, content, words):
    """A submission in which anything is unsafe, broken or too large is refused whole, and the reason
    names it."""
    with pytest.raises(SubmissionRefused, match=words):
        submitted(f"ada{ending}", content() if callable(content) else content)


@pytest.mark.parametrize("position", [f"ada/{SOFTMAX}", "ada/exercises", "ada/README.md", "ada"])
def test_no_link_is_followed(tmp_path, position):
    """A link in a folder is refused wherever it leads; so is a learner's folder that is one."""
    secret = write(tmp_path / "elsewhere", {SOFTMAX: b"secret"})
    link = tmp_path / "class" / position
    link.parent.mkdir(parents=True)
    link.symlink_to(secret if "." not in position else secret / SOFTMAX)
    name = Path(position).name
    assert all_taken(tmp_path / "class") == {
        "ada": f"'{name}' is a symbolic link: only files and folders are allowed."
    }


@pytest.mark.parametrize("ending", ["", ".zip", ".tar"])
def test_a_link_to_ones_own_file_is_that_file(tmp_path, ending):
    """It is resolved by its words alone, within the submission: nothing is followed."""
    links = {"best.py": f"work/{SOFTMAX}", f"work/{ATTENTION}": "../day08.py"}
    files = {f"work/{SOFTMAX}": b"one", "day08.py": b"eight"}
    if ending == "":
        folder = write(tmp_path / "class" / "ada", files)
        for name, target in links.items():
            (folder / name).symlink_to(target)
    elif ending == ".zip":
        linked = [(zip_entry(n, mode=stat.S_IFLNK), to.encode()) for n, to in links.items()]
        write(tmp_path / "class", {"ada.zip": zip_of([*linked, *files.items()])})
    else:
        linked = [(tar_entry(n, tarfile.SYMTYPE, to), b"") for n, to in links.items()]
        write(tmp_path / "class", {"ada.tar": tar_of([*linked, *files.items()])})
    assert all_taken(tmp_path / "class") == {"ada": {SOFTMAX: b"one", ATTENTION: b"eight"}}


@pytest.mark.parametrize("ending", ["", ".zip", ".tar"])
def test_a_notebook_with_plots_is_measured_without_them(submitted, ending):
    """What cells have drawn does not count; what is too large without it still is."""
    plots = [{"output_type": "display_data", "data": {"image/png": "x" * 3_000_000}}]
    cell = {
        "cell_type": "code",
        "metadata": {"tags": ["answer"]},
        "source": "x = 1",
        "outputs": plots,
    }
    picture = {
        "cell_type": "markdown",
        "metadata": {},
        "source": "",
        "attachments": {"a": "y" * 10**6},
    }
    name = "day01_softmax.ipynb"
    notebook = {"cells": [cell, picture], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    for source, size in ("x = 1\n", range(1000)), ("x = 1\n" * 500_000, [MAX_FILE_BYTES + 1]):
        cell["source"] = source
        content = {name: json.dumps(notebook).encode()}
        pack = {"": dict, ".zip": zip_of, ".tar": tar_of}[ending]
        taken = submitted(f"ada{ending}", pack(content))[name]
        assert len(taken) in size
        if len(taken) <= MAX_FILE_BYTES:
            assert source_in(taken, name).strip() == source.strip()


def test_links_that_are_hidden_do_not_matter(tmp_path):
    """An environment beside one's work is full of links, and nobody looks into it."""
    write(tmp_path, {f"ada/{SOFTMAX}": b"x", "ada/.venv/bin/pip": b""})
    (tmp_path / "ada/.venv/lib64").symlink_to("lib")
    assert all_taken(tmp_path) == {"ada": {SOFTMAX: b"x"}}


def test_a_fifo_keeps_nobody_waiting(tmp_path):
    """In an archive's place, in a folder, or in a file's place after that was looked at."""
    folder = write(tmp_path, {"ada/notes": b""}) / "ada"
    os.mkfifo(folder / SOFTMAX)
    os.mkfifo(tmp_path / "bo.zip")
    told = "'{}' is a FIFO: only files and folders are allowed.".format
    assert all_taken(tmp_path) == {"ada": told(SOFTMAX), "bo": told("bo.zip")}
    with pytest.raises(SubmissionRefused, match="is a FIFO"):
        submitted_files._read_file(folder / SOFTMAX, 1)


def test_whose_fault_it_is(submitted, monkeypatch):
    """A file that may not be read is the learner's; a machine that has no more files to open is not."""

    def fail(number):
        def _open(path, flags):
            raise OSError(number, os.strerror(number), str(path))

        monkeypatch.setattr(submitted_files.os, "open", _open)

    fail(errno.EACCES)
    with pytest.raises(SubmissionRefused, match=f"'{SOFTMAX}' cannot be read: Permission denied"):
        submitted("ada", WORK)
    fail(errno.ENOENT)  # a file share that dropped out
    with pytest.raises(OSError, match="No such file"):
        submitted("ada", WORK)
    fail(errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        submitted("ada", WORK)


def test_lzma_of_7_zip(submitted):
    """A dictionary may be as large as that of `xz -9`, and not the 4 GB that the format allows."""
    data = zip_of(WORK, zipfile.ZIP_LZMA)
    assert submitted("ada.zip", data) == WORK
    at = 30 + len(next(iter(WORK))) + 5
    with pytest.raises(SubmissionRefused, match="needs more than 80 MB to be unpacked"):
        submitted("ada.zip", data[:at] + (2**31).to_bytes(4, "little") + data[at + 4 :])


def test_one_bad_entry_refuses_one_learner(tmp_path):
    """In the zip of a class whatever is wrong with one submission costs nobody else's."""
    moodle = "{}_{}_assignsubmission_file/{}".format
    files = [
        (moodle("Ada", 1, SOFTMAX), b"ada"),
        (moodle("Bo", 2, "../../x"), b""),
        (zip_entry(moodle("Cem", 3, SOFTMAX), mode=stat.S_IFLNK), b"/etc/passwd"),
        (moodle("Dee", 4, "work.zip"), zip_of({"a": bytes(60_000_000), "b": bytes(60_000_000)})),
        (moodle("Eve", 5, "work.zip"), zip_of(WORK)[:99]),
        (moodle("Fay", 6, SOFTMAX), bytes(110_000_000)),
        *((moodle("Gil", 7, n), b"") for n in range(5_001)),
        (f"Hal_8_assignsubmission_file\\{SOFTMAX}", b"hal"),
        (moodle("Ivo", 9, SOFTMAX), b"ivo"),
        (moodle("Zed", 10, SOFTMAX), b"zed"),
    ]
    path = tmp_path / "class.zip"
    path.write_bytes(directory_edited(zip_of(files), 16, "<L", 1))  # the last has another checksum
    taken = all_taken(path)
    assert (taken.pop("Ada_1"), taken.pop("Ivo_9")) == ({SOFTMAX: b"ada"}, {SOFTMAX: b"ivo"})
    assert taken.pop("Hal_8") == {SOFTMAX: b"hal"}
    words = {
        "Bo_2": "leads out",
        "Cem_3": "is a symbolic link",
        "Dee_4": "more than 100 MB",
        "Eve_5": "'work.zip' cannot be read",
        "Fay_6": "more than 100 MB",
        "Gil_7": "more than 5000",
        "Zed_10": "is broken",
    }
    assert taken.keys() == words.keys()
    for learner, text in words.items():
        assert text in taken[learner]


# --- What is bounded --------------------------------------------------------------------------------


def with_zeros(compressor):
    """A tar and 200 MB of zeros after its end, compressed without ever holding them."""
    parts = [compressor.compress(tar_of(WORK))]
    parts += [compressor.compress(bytes(10**6)) for _ in range(200)]
    return b"".join([*parts, compressor.flush()])


def xz_with_dictionary(size):
    """An xz that wants a dictionary of that many bytes."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": size}]
    return lzma.compress(tar_of(WORK), filters=filters)


HEADERS = pax(b"7 a=b\n\n") + block(b"0", 0, b"x")
BOMBS = {
    "zip": lambda: zip_of({SOFTMAX: bytes(101_000_000)}),
    "zip that claims little": lambda: directory_edited(zip_of({SOFTMAX: bytes(101_000_000)}), 24, "<L", 9),
    "gzip": lambda: gzip.compress(tar_of({"x": bytes(99_000_000)}) + bytes(9_000_000)),
    "bzip2": lambda: with_zeros(bz2.BZ2Compressor()),
    "xz": lambda: with_zeros(lzma.LZMACompressor(preset=0)),
    "xz with a dictionary": lambda: xz_with_dictionary(2**30),
    "streams of nothing": lambda: gzip.compress(tar_of(WORK)) + gzip.compress(b"") * 100_000,
    "a name without end": lambda: b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * 40_000_000,
    "header of digits": lambda: gzip.compress((pax(b"1" * 1_000_000) + block(b"0", 0)) * 90 + END),
    "headers of headers": lambda: gzip.compress(HEADERS * 60_000 + END),
    "many copies": lambda: zip_of({f"{n}/{SOFTMAX}": bytes(2_000_000) for n in range(60)}),
    "names": lambda: zip_of({f"{'x/' * 30_000}{n}": b"" for n in range(40)}),
}  # fmt: skip


@contextlib.contextmanager
def little_memory():
    """Less than 300 MB is allocated within it."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs(submitted, bomb):
    """Whatever an archive would unfold to, it costs less than 300 MB, and ends (pytest's timeout)."""
    data = BOMBS[bomb]()
    with little_memory(), pytest.raises(SubmissionRefused):
        submitted("ada.zip", data)


def test_as_much_as_is_allowed(submitted):
    """What fills every limit to its brim is taken, within the same memory."""
    each = MAX_FILE_BYTES + 100_000
    stems = [day.stem for day in DAYS][: MAX_UNPACKED_BYTES // each]
    data = zip_of({f"{stem}.py": os.urandom(1000) + bytes(each - 1000) for stem in stems})
    with little_memory():
        taken = submitted("ada.zip", data)
    assert [len(content) for content in taken.values()] == [MAX_FILE_BYTES + 1] * len(stems)


WHOLE = {".zip": zip_of(WORK)} | {ending: pack(tar_of(WORK)) for ending, pack in TARS.items()}


@pytest.mark.parametrize("ending", WHOLE)
def test_truncated_anywhere(submitted, ending):
    """An archive that was cut short gives nothing; unless only zeros at a tar's end are gone."""
    data = WHOLE[ending]
    # Two files of two blocks each, one that is empty.
    size = 2560 if ending == ".tar" else len(data)
    for length in range(0, size, 8 if ending == ".tar" else 1):
        with pytest.raises(SubmissionRefused):
            submitted(f"ada{ending}", data[:length])
    assert submitted(f"ada{ending}", data[:size]) == WORK


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_mutated_archives(tmp_path_factory, data):
    """Whatever bytes are changed, put in or taken out: days' files come out of it, or Refused."""
    ending = data.draw(st.sampled_from(sorted(WHOLE)))
    content = bytearray(WHOLE[ending])
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 8))
        content[start : start + length] = data.draw(st.binary(max_size=8))
    folder = tmp_path_factory.mktemp("class")
    (folder / f"ada{ending}").write_bytes(content)
    [source] = find_sources(folder)
    message = ""
    try:
        assert take(source).files.keys() <= ANSWERS
    except SubmissionRefused as error:
        message = str(error)
    assert message.isprintable()
