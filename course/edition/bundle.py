"""`course bundle`: the student edition, without the references of days that are not released.

Instead, it has recordings of the observations of the reference and the known wrong answers with one
seed (`course/judging/recorded.py`), so that it checks and diagnoses like the full course, offline.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from course.curriculum import DAYS, ROOT, Day
from course.judging.recorded import record
from course.references import editions
from course.references.redacted import packed_references
from course.references.stub_digests import note_stub
from course.references.stubs import stub_text

# The packages that learners get: the others need whole references, or are for instructors.
ROOMS = ("terminal", "references", "checks", "judging", "workers", "desk")
FILES = Path(__file__).parent / "files"

# Where an edition is put together, in its own folder, so that it is there whole or not at all.
UNFINISHED = ".unfinished"

RECORDED = """For each day that is not released, what its checks observe of right and of wrong answers.

This folder marks a student edition: keep it, even if it contains only this file. `python.txt` names the
Python that grades.
"""

NO_HINTS = "This edition comes without hints for this day: ask your instructor."

FROM_THE_REFERENCE = "Earlier days' parts come from the reference, so you can skip a day."
FROM_THEIR_OWN = "Earlier days' parts come from your own files, once those days are done."
# What lessons run or refer to and no day asks for.
BESIDE = (
    "docs/pytorch.md",
    *("variants/__init__.py", "variants/memory.py"),
    *("variants/onnx_export.py", "variants/train_gpt.py"),
    *("website/__init__.py", "website/drawing.py", "website/moving.py", "website/timing.py"),
)


FROM_BOTH = f"{FROM_THEIR_OWN}\nParts of days that this edition leaves out come from the reference."


def bundle(
    out: Path,
    through: int,
    report: Callable[[Day], None],
    days: Sequence[Day] | None = None,
    hints: bool = True,
) -> None:
    """Write the edition into a folder that is missing, empty, or unfinished.

    The observations of the reference and of the known wrong answers are cached one by one. If
    the command is stopped, the next run assembles the edition again, and observes only what is
    missing.

    Args:
        through: the last released day; the edition has references and solutions up to this day.
        report: called with each day before its recording, which takes some seconds.
        days: the days of the edition, in order; all if omitted. If a day between them is left out,
            its reference is included, because later days build on it.
        hints: whether it has the hints of days that are not released.

    Raises:
        FileExistsError: the folder contains something else.
    """
    draft = out / UNFINISHED
    if out.exists() and any(path != draft for path in out.iterdir()):
        raise FileExistsError(f"{out} is not empty")
    if draft.exists():
        shutil.rmtree(draft)  # it may hold what was released then and is not now
    draft.mkdir(parents=True)
    chosen = days or [day for day in DAYS if day.ready]
    _write_edition(draft, through, report, chosen, hints)
    for day in chosen:
        if not hints and day.number > through:
            _write(draft / day.hints.relative_to(ROOT), _withheld(day))
    for path in list(draft.iterdir()):
        path.rename(out / path.name)
    draft.rmdir()


def _write_edition(
    out: Path, through: int, report: Callable[[Day], None], days: Sequence[Day], hints: bool
) -> None:
    provided = {day.number for day in DAYS if day.number < days[-1].number} - {
        d.number for d in days
    }
    for day in days:
        _copy(day.lesson, out)
        _copy(day.hints, out)
        if day.contracts.exists():
            _copy(day.contracts, out)
        _copy(day.checks, out)
        if day.number <= through:
            _copy(day.solution, out)
            _copy(day.misconceptions, out)
        else:
            report(day)
            _record(day, _stub(day, through, provided), hints, out)
    _write_stubs(days, through, provided, out)
    for file in dict.fromkeys(file for day in DAYS if day.ready for file in day.references):
        _write(out / file, editions.released_part(file, through, provided))
    for file in BESIDE:
        _copy(ROOT / file, out)
    _write_tool(out, through, days)


def _withheld(day: Day) -> str:
    """A file in the place of a day's hints."""
    return "\n".join(f"## {exercise}\n\n### 1\n\n{NO_HINTS}\n" for exercise in day.exercises)


def _record(day: Day, stub: str, hints: bool, out: Path) -> None:
    """Record the facts about a day that are needed without its reference, and its observations."""
    facts = out / editions.facts_file(day).relative_to(ROOT)
    record(day, facts.parent)
    _write(facts, json.dumps(editions.facts_of(day, stub, hints), ensure_ascii=False))


def _stub(day: Day, through: int, provided: Collection[int]) -> str:
    """The stub, which says where earlier parts come from."""
    if day.number <= through:
        return stub_text(day)
    source = FROM_BOTH if any(number < day.number for number in provided) else FROM_THEIR_OWN
    return stub_text(day).replace(FROM_THE_REFERENCE, source)


def _write_stubs(days: Sequence[Day], through: int, provided: Collection[int], out: Path) -> None:
    digests: dict[str, list[str]] = {}
    for day in days:
        text = _stub(day, through, provided)
        _write(out / day.stub.relative_to(ROOT), text)
        note_stub(digests, day, text.encode())
    _write(out / "exercises" / "stubs.json", json.dumps(digests, indent=1) + "\n")


def _write_tool(out: Path, through: int, days: Sequence[Day]) -> None:
    tool = ROOT / "course"
    for path in sorted(
        [*tool.glob("*.py"), *(p for room in ROOMS for p in tool.glob(f"{room}/*.py"))]
    ):
        _copy(path, out)
    for note in sorted((ROOT / "paper_notes").glob("*.md")):
        text = _without_answers(note.read_text(encoding="utf-8"), through)
        _write(out / note.relative_to(ROOT), text)
    for name in ("LICENSE", "requirements.txt", ".gitignore"):
        _copy(ROOT / name, out)
    released = (
        f"Days 1 to {through} are released: their reference and solutions are included."
        if through
        else "No day is released yet, so neither references nor solutions of its days are included."
    )
    if len(days) < len(DAYS):
        released += f" It has days {', '.join(str(day.number) for day in days)}."
    words = {
        "released": released,
        "first": str(days[0].number),
        "stub": str(days[0].stub.relative_to(ROOT)),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }
    for name in ("README.md", "Makefile"):
        text = (FILES / name).read_text(encoding="utf-8")
        for key, word in words.items():
            text = text.replace(f"{{{key}}}", word)
        _write(out / name, text)
    _write(out / editions.FOLDER.relative_to(ROOT) / "README.md", RECORDED)
    packed = json.dumps(packed_references())
    _write(out / editions.PACKED.relative_to(ROOT), packed)
    _write(out / editions.GRADER.relative_to(ROOT), ".".join(platform.python_version_tuple()[:2]))
    _write(out / "pyproject.toml", _project())


def _without_answers(note: str, through: int) -> str:
    """A paper note without its code, which may be an answer, until all days that it names are released."""
    last = max(int(number) for number in re.findall(r"lessons/day(\d+)_", note))
    if last <= through:
        return note
    later = f"*The edition that releases day {last} has code here.*\n"
    return re.sub(r"^```python\n.*?^```\n", later, note, flags=re.DOTALL | re.MULTILINE)


# Sections of the project file that an edition keeps as they are; the others are for those who change
# or grade something.
KEPT = ("build-system", "project", "project.scripts", "tool.setuptools", "tool.pytest.ini_options")
PACKAGES = """[tool.setuptools.packages.find]
include = ["course*", "variants*", "website"]
"""


def _project() -> str:
    """The project file without what is only for those who change or grade something."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    sections = re.split(r"^(?=\[[\w.-]+\]$)", text, flags=re.MULTILINE)
    retained = [section for section in sections if section[1 : section.find("]")] in KEPT]
    return "".join([*retained, PACKAGES])


def _copy(path: Path, out: Path) -> None:
    target = out / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
