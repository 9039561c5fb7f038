"""Lay out what Sphinx reads: the repository's files where links look for them, and pages made of them."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat

from course.curriculum import BY_NUMBER, COURSE_PARTS, DAYS, LAST_DAY, ROOT, module_of
from course.references.lessons import hours, times
from course.references.stubs import stub_text
from explorer.topics import STILLS, TOPICS
from website.explored import pictures
from website.lessons import lesson_page
from website.signposts import linked_transformer, replacements

WEBSITE = Path(__file__).parent
PAGES = WEBSITE / "pages"
TEXTS = (
    "README.md",
    "docs/*.md",
    "CONTRIBUTING.md",
    "docs/contributing/*.md",
    "docs/decisions/*.md",
    "paper_notes/*.md",
    "laboratory/studies/**/*.md",
    "integrations/README.md",
    "benchmarks/README.md",
)
MENU = (
    "docs/start",
    "How a day goes <docs/learn>",
    "docs/pytorch",
    "Assistants <docs/assistants>",
    "Lessons <lessons/index>",
    "explorer",
    "Papers <paper_notes/index>",
    "Reference <reference/index>",
    "commands",
    "docs/train",
    "docs/find_out",
    "Studies <laboratory/studies/README>",
    "docs/teach",
    "docs/grade",
    "Integrations <integrations/README>",
    "docs/how_it_works",
    "benchmarks/README",
    "CONTRIBUTING",
    "docs/contributing/adding_a_day",
    "Decisions <docs/decisions/README>",
)
STUDIES = ROOT / "laboratory" / "studies" / "README.md"
LINK = re.compile(r"(?:\]\(|src=\")([\w./-]+)[)\"]")


def assemble(source: Path) -> set[Path]:
    """Write the source of the site into a folder, and leave files that have not changed as they are.

    Returns the files that the source does not have any more; they are removed.
    """
    files = {source / name: content for name, content in _files().items()}
    for path, content in files.items():
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    gone = {path for path in source.rglob("*") if path.is_file()} - files.keys()
    for path in gone:
        path.unlink()
    return gone


def _files() -> dict[str, bytes]:
    """Every file of the source by its name there. A page that is made begins with the text that is copied."""
    pages = {path.name: path for path in PAGES.glob("*.md")}
    pages |= {f"stills/{path.name}": path for path in STILLS.glob("*.webp")}
    texts = {path for pattern in TEXTS for path in ROOT.glob(pattern)}
    pages |= {str(path.relative_to(ROOT)): path for path in sorted(texts | set(_linked(texts)))}
    copied = {name: path.read_bytes() for name, path in pages.items()}
    return copied | {name: text.encode() for name, text in _made()}


def _linked(texts: set[Path]) -> Iterator[Path]:
    """The repository's other files that the texts show or have links to. Notebooks are pages of their own."""
    for text in texts:
        for link in LINK.findall(text.read_text(encoding="utf-8")):
            path = (text.parent / link).resolve()
            if path.is_file() and path.suffix != ".ipynb":
                yield path


def _made() -> Iterator[tuple[str, str]]:
    """The pages that are made of the curriculum, the references and the programs."""
    for day in DAYS:
        yield f"lessons/{day.stem}.ipynb", nbformat.writes(lesson_page(day))
        # To download: without the answer, and as they are in the repository.
        yield f"_extra/lessons/{day.stem}.ipynb", day.lesson.read_text(encoding="utf-8")
        yield f"_extra/exercises/{day.stem}.py", stub_text(day)
    yield "laboratory/studies/README.md", _studies()
    yield "index.md", _first_page()
    yield "lessons/index.md", _lessons()
    yield "paper_notes/index.md", _paper_notes()
    yield from _reference()
    yield "explorer.md", _explorer()
    yield "commands.md", _commands()
    yield "_drawing.html", _drawing()
    yield "_replaced.md", _replaced()


def _first_page() -> str:
    """The first page's text, then the site's menu."""
    text = (PAGES / "index.md").read_text(encoding="utf-8")
    return f"{text}\n{_toctree(MENU)}\n"


def _studies() -> str:
    """The text of `laboratory/studies/README.md`, and the studies in the menu."""
    pages = [path.relative_to(STUDIES.parent) for path in STUDIES.parent.glob("*/**/*.md")]
    pages.sort(key=lambda page: (page.parent, page.stem != "report"))
    kinds = {"report": "report", "reading": "what was expected"}
    listed = [f"{page.parts[0].capitalize()}: {kinds[page.stem]} <{page}>" for page in pages]
    return f"{STUDIES.read_text(encoding='utf-8')}\n{_toctree(listed)}\n"


def _drawing() -> str:
    """The drawing in which each part leads to its days."""
    links = linked_transformer(lambda number: f"lessons/{BY_NUMBER[number].stem}.html")
    return f'<div class="drawing" tabindex="0" role="region" aria-label="Drawing">{links}</div>\n'


def _replaced() -> str:
    """What the days after the paper put in place of the drawing's parts."""
    rows = [
        f"| [{entry.day}](lessons/{BY_NUMBER[entry.day].stem}.ipynb) | {', '.join(entry.parts)} "
        f"| {entry.idea} |"
        for entry in replacements()
    ]
    return "\n".join(["| day | replaces | with |", "|---|---|---|", *rows]) + "\n"


def _lessons() -> str:
    """The days in their parts, as README has them in its table."""
    parts = [f"# Lessons\n\n{len(DAYS)} days in {len(COURSE_PARTS)} parts. {hours()}"]
    for number, part in enumerate(COURSE_PARTS, 1):
        rows = [
            f"| {day.number} | [{day.title}]({day.stem}.ipynb) | {times(day).in_short} | "
            f"{' '.join(f'`{name}`' for name in day.exercises)} |"
            for day in part.days
        ]
        table = "\n".join(
            ["| day | lesson | minutes: read+write+use | you write |", "|---|---|---|---|", *rows]
        )
        tree = _toctree((day.stem for day in part.days), caption=f"{number} · {part.title}")
        parts.append(f"## {number} · {part.title}\n\n{table}\n\n{tree}")
    return "\n\n".join(parts) + "\n"


def _toctree(pages: Iterable[str], caption: str = "") -> str:
    listed = "\n".join(pages)
    options = f":hidden:\n:caption: {caption}\n" if caption else ":hidden:\n"
    return f"```{{toctree}}\n{options}\n{listed}\n```"


def _paper_notes() -> str:
    """The notes in the order in which the lessons come to them."""
    notes = sorted((ROOT / "paper_notes").glob("*.md"))
    lessons = {day: day.lesson.read_text(encoding="utf-8") for day in DAYS}
    days = {
        note: [day for day, text in lessons.items() if f"paper_notes/{note.name}" in text]
        for note in notes
    }
    notes.sort(key=lambda note: days[note][0].number if days[note] else LAST_DAY)
    rows = [
        f"| [{_title(note)}]({note.name}) | "
        f"{', '.join(f'[{day.number}](../lessons/{day.stem}.ipynb)' for day in days[note])} |"
        for note in notes
    ]
    table = "\n".join(["| paper | days |", "|---|---|", *rows])
    head = "# Papers\n\nEach is explained twice: for a bright ten-year-old, and for an engineer."
    return f"{head}\n\n{table}\n\n{_toctree(note.stem for note in notes)}\n"


def _title(note: Path) -> str:
    return note.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _reference() -> Iterator[tuple[str, str]]:
    """A page for each file of the reference, in the order of the days."""
    exercises = [file for day in DAYS for file in day.references]
    rest = sorted(f"variants/{path.name}" for path in ROOT.glob("variants/[!_]*.py"))
    files = list(dict.fromkeys(exercises + rest))
    for file in files:
        directive = f".. automodule:: {module_of(file)}"
        yield (
            f"reference/{module_of(file)}.md",
            f"# {file}\n\n```{{eval-rst}}\n{directive}\n```\n",
        )
    text = (PAGES / "reference" / "index.md").read_text(encoding="utf-8")
    yield "reference/index.md", f"{text}\n{_toctree(map(module_of, files))}\n"


def _explorer() -> str:
    """The explorer's pages, each with the command that opens it, and pictures."""
    parts = [(PAGES / "explorer.md").read_text(encoding="utf-8")]
    for topic in TOPICS:
        days = ", ".join(f"[{day}](lessons/{BY_NUMBER[day].stem}.ipynb)" for day in topic.days)
        word = "day" if len(topic.days) == 1 else "days"
        parts.append(
            f"## {topic.title}\n\n{topic.question} For {word} {days}.\n\n"
            f"```\ncourse explore {topic.name}\n```\n\n{pictures(topic, 'stills')}"
        )
    return "\n\n".join(parts) + "\n"


def _commands() -> str:
    """Every command's help, as the program itself tells it."""
    command = [sys.executable, "-m", "typer", "course.cli", "utils", "docs", "--name", "course"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    # Its own list of the commands cuts their sentences short, and each has a section below.
    text = re.sub(r"^\*\*Commands\*\*:.*?(?=^## )", "", done.stdout, flags=re.DOTALL | re.MULTILINE)
    return html.unescape(text).replace("# `course`", "# Commands", 1)
