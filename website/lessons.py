"""A lesson's page: the notebook as executed, pages to explore; folded: imports, exercise, hints, answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import nbformat
from nbformat.v4 import new_markdown_cell

from course.curriculum import Day
from course.desk.hints import read_hints
from course.references.contracts import read_contracts
from course.references.stubs import stub_text
from explorer.topics import TOPICS
from website.explored import pictures

# Comments for nbval and ruff, which say nothing to a reader.
FOR_TOOLS = re.compile(r"\A# NBVAL_IGNORE_OUTPUT\n|  # noqa: \w+$", re.MULTILINE)
ANSWER = "<details><summary>Answer"
SET_UP = ("import ", "from ")  # a cell that begins so and prints nothing is folded
# The names of matplotlib's arguments and methods that write text into a figure.
TEXTS = ("title", "xlabel", "ylabel", "label")


def lesson_page(day: Day) -> nbformat.NotebookNode:
    """The notebook that becomes the day's page."""
    page = nbformat.read(day.lesson, as_version=4)
    page.cells = list(_predicted(page.cells))
    page.cells += [*_explored(day), *_contracts(day), *_hints(day), *_answer(day)]
    for number, cell in enumerate(page.cells):
        cell.id = f"{day.stem}-{number}"  # two notebooks in one
        cell.source = FOR_TOOLS.sub("", cell.source)
        if cell.cell_type == "code" and cell.source.startswith(SET_UP) and not cell.outputs:
            _tag(cell, "hide-input")
        if cell.cell_type == "code" and (alternative := alternative_text(cell)):
            cell.metadata["mystnb"] = {"image": {"alt": alternative}}
    return page


def _predicted(cells: Iterable[nbformat.NotebookNode]) -> Iterator[nbformat.NotebookNode]:
    """Fold the outputs between what is to be predicted and its answer, which is folded already."""
    text, outputs = "", []
    for cell in cells:
        if cell.cell_type == "code":
            outputs += [cell] if cell.outputs else []
        else:
            if cell.source.startswith(ANSWER) or "**Predict first" in text:
                for output in outputs:
                    _tag(output, "hide-output")
            text, outputs = cell.source, []
        yield cell


def _tag(cell: nbformat.NotebookNode, tag: str) -> None:
    cell.metadata["tags"] = list(dict.fromkeys([*cell.metadata.get("tags", []), tag]))


def _explored(day: Day) -> Iterator[nbformat.NotebookNode]:
    pages = [
        f"{topic.question}\n\n```\ncourse explore {topic.name}\n```\n\n"
        f"{pictures(topic, '../stills')}"
        for topic in TOPICS
        if day.number in topic.days
    ]
    if pages:
        all_pages = "[All pages of the explorer](../explorer.md)"
        yield new_markdown_cell("\n\n".join(["## Play with it", *pages, all_pages]))


def _contracts(day: Day) -> Iterator[nbformat.NotebookNode]:
    texts = [
        f"**`{name}`**\n\n{contract.text}"
        for name, contract in read_contracts(day).items()
        if contract.text
    ]
    same = "the same" if texts else "it"
    opening = f"## What your answer has to do\n\nThe docstrings of the exercise say {same}."
    stub = _folded(
        f"The file that you fill in, <code>exercises/{day.stem}.py</code>",
        f"````python\n{stub_text(day)}````",
    )
    yield new_markdown_cell("\n\n".join([opening, *texts, stub]))


def _hints(day: Day) -> Iterator[nbformat.NotebookNode]:
    yield new_markdown_cell(
        "## Hints and the worked answer\n\n"
        f"Each is folded. `course hint {day.number}` gives the same hints, one more each time."
    )
    for exercise, hints in read_hints(day).items():
        folded = [
            _folded(f"Hint {number} of {len(hints)}", hint) for number, hint in enumerate(hints, 1)
        ]
        yield new_markdown_cell("\n\n".join([f"**`{exercise}`**", *folded]))


def _folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _answer(day: Day) -> Iterator[nbformat.NotebookNode]:
    """The solution's cells in one fold. Its title goes, and its headings are none of the lesson's."""
    yield new_markdown_cell(
        '<details class="answer"><summary>The worked answer, with its reasons</summary>'
    )
    for cell in nbformat.read(day.solution, as_version=4).cells:
        if cell.cell_type == "markdown":
            cell.source = _without_sections(cell.source)
        yield cell
    yield new_markdown_cell("</details>")


def _without_sections(markdown: str) -> str:
    """Headings as rubrics: a section that begins inside a fold could not end outside of it."""
    untitled = re.sub(r"\A# .*\n*", "", markdown)
    return re.sub(r"^#+ (.*)$", r":::{rubric} \1\n:::", untitled, flags=re.MULTILINE)


def alternative_text(cell: nbformat.NotebookNode) -> str:
    """The alternative text of a cell's picture: the drawing's own, or the texts written in it."""
    pictures = [
        output.data
        for output in cell.outputs
        if any(kind.startswith("image/") for kind in output.get("data", {}))
    ]
    if not pictures:
        return ""
    says = pictures[0].get("text/plain", "")
    if not says.startswith("<"):
        return says
    texts = dict.fromkeys(_texts(cell.source))
    return f"Figure: {'; '.join(texts)}" if texts else "Figure, described in the text beside it"


def _texts(code: str) -> Iterable[str]:
    """The titles and labels that a cell's code writes into its figure."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        words = [word.value for word in node.keywords if word.arg in TEXTS]
        if called in ("suptitle", *(f"set_{text}" for text in TEXTS), *TEXTS):
            words += node.args[:1]
        for value in words:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value.replace("\n", " ")
