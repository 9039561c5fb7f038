"""What every lesson has, and what none gives away."""

from __future__ import annotations

import ast
import builtins
import io
import json
import keyword
import math
import os
import re
import token
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course.curriculum import DAYS, ROOT, Day
from course.references import acts, lessons
from course.references.lessons import Times, faults_of_form, folded, times
from course.references.stubs import stub_text
from course.references.text import definition_text
from tests.notebooks.compare import notebooks
from tests.notebooks.execute import code_until, marked
from tests.notebooks.kernels import PortlessKernelManager, quick
from website.drawing import transformer

WRITTEN = [day for day in DAYS if day.lesson.exists()]
EXERCISES = [(day, name) for day in WRITTEN for name in day.exercises]

SHORTEST = 6  # tokens of a line that can be recognized
SHOWN = 0.75  # share of a line's tokens that stand in the lesson in one stretch
# What any line of code is made of: a line of nothing else tells nothing.
EVERYWHERE = {*"=(),.:", "name", "return", "if"}


NOTEBOOKS = [file for _, file in notebooks()]


@cache
def raw_cells(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["cells"]


@cache
def notebook(day: Day) -> nbformat.NotebookNode:
    return nbformat.read(day.lesson, as_version=4)


def code_of(file: Path) -> str:
    cells = [cell for cell in raw_cells(file) if cell["cell_type"] == "code"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def prose(day: Day) -> str:
    return "\n\n".join(c.source for c in notebook(day).cells if c.cell_type == "markdown")


# --- The exercise stays the learner's -------------------------------------------------------------


def tokens(source: str) -> list[str]:
    """Code without its author's names: those after a dot are a library's, and stay."""
    result, after_dot = [], False
    try:
        for lexeme in tokenize.generate_tokens(io.StringIO(source.replace("self.", "")).readline):
            if lexeme.type == token.NAME:
                result.append(
                    lexeme.string if keyword.iskeyword(lexeme.string) or after_dot else "name"
                )
            elif lexeme.type in (token.NUMBER, token.OP):
                result.append(lexeme.string)
            after_dot = lexeme.string == "."
    except (tokenize.TokenError, IndentationError):
        pass  # a piece of code in a sentence need not be whole
    return result


def pieces(day: Day) -> Iterator[str]:
    """All code of a lesson: cells, and what stands in backticks."""
    for cell in notebook(day).cells:
        if cell.cell_type == "code":
            yield ast.unparse(ast.parse(cell.source))
        else:
            yield from re.findall(r"```(?:python)?\n(.*?)```", cell.source, re.DOTALL)
            yield from re.findall(r"`([^`\n]+)`", cell.source)


def lines(definition: str) -> list[list[str]]:
    """The lines of a definition that say something, as tokens; refusals of bad arguments are none."""
    statements = {}
    tree = ast.parse(definition)
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
                statements[ast.unparse(node)] = node
            elif isinstance(node, ast.For):
                statements[f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}:"] = node
            elif isinstance(node, ast.If) and not isinstance(node.body[0], ast.Raise):
                statements[f"if {ast.unparse(node.test)}:"] = node
    return [
        line
        for line in map(tokens, statements)
        if len(line) >= SHORTEST and not set(line) <= EVERYWHERE
    ]


def stands_in(line: list[str], texts: list[str]) -> bool:
    """Whether most of a line stands in one of the texts, in one stretch."""
    length = max(SHORTEST, math.ceil(SHOWN * len(line)))
    stretches = (line[i : i + length] for i in range(len(line) - length + 1))
    telling = [" ".join(part) for part in stretches if not set(part) <= EVERYWHERE]
    return any(f" {stretch} " in text for stretch in telling for text in texts)


@pytest.mark.parametrize(
    ("day", "name"), EXERCISES, ids=[f"{day.number}-{name}" for day, name in EXERCISES]
)
def test_the_exercise_stays_the_learners(day, name):
    """The lesson shows at most a quarter of the different lines that a learner has to write."""
    texts = [f" {' '.join(tokens(piece))} " for piece in pieces(day)]
    telling_lines = list(
        {" ".join(line): line for line in lines(definition_text(day, name))}.values()
    )
    shown = [" ".join(line) for line in telling_lines if stands_in(line, texts)]
    allowed = max(len(telling_lines) // 4, len(telling_lines) >= 3)
    assert len(shown) <= allowed, f"of {len(telling_lines)} lines: {shown}"


SAYS_NOTHING = ("dim", "size")  # that every tensor has them gives nothing away


def calls(code: ast.AST) -> set[str]:
    """What some code calls, by the last part of its name."""
    called = (node.func for node in ast.walk(code) if isinstance(node, ast.Call))
    return {ast.unparse(function).rpartition(".")[2] for function in called}


def untold(day: Day) -> set[str]:
    """What the reference of a day calls and neither its stubs nor the equations of its lesson name."""
    code = (definition_text(day, name) for name in day.exercises)
    words = re.findall(r"\w+", stub_text(day) + " ".join(re.findall(r"\$[^$]+\$", prose(day))))
    return set().union(*(calls(ast.parse(definition)) for definition in code)) - {
        *words,
        *dir(builtins),
        *SAYS_NOTHING,
    }


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_the_idea_does_not_name_the_calls(day):
    """Visible cells before the second act, and comments, have at most a quarter of the answer's calls."""
    cells = [cell for cell in notebook(day).cells if cell.cell_type == "code"]
    begins = next(n for n, cell in enumerate(notebook(day).cells) if "act-2" in tags(cell))
    before = [cell for cell in notebook(day).cells[:begins] if cell in cells]
    visible = [shown_cell.source for shown_cell in before if not shown_cell.metadata.get("jupyter")]
    shown = calls(ast.parse("\n".join(visible)))
    for cell in cells:
        shown |= set(re.findall(r"(\w+)\(", " ".join(comments(cell.source))))
    secret = untold(day)
    assert len(secret & shown) <= len(secret) // 4, secret & shown


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def comments(code: str) -> list[str]:
    read = tokenize.generate_tokens(io.StringIO(code).readline)
    return [comment.string for comment in read if comment.type == token.COMMENT]


# --- What every lesson has ------------------------------------------------------------------------


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_you_are_here(day):
    """The drawing of the whole, with this day's part lit, is among the first cells, as it is drawn today."""
    call = f"transformer(day={day.number})"
    [cell] = [
        candidate for candidate in notebook(day).cells[:5] if candidate.source.strip() == call
    ]
    [output] = cell.outputs
    assert "".join(output.data["image/svg+xml"]) == transformer(day.number).svg, "make notebooks"


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_three_questions_for_tomorrow(day):
    """With their answers folded away."""
    [part] = re.findall(
        r"^## Three questions for tomorrow\n(.*?)(?=^## |\Z)", prose(day), re.M | re.S
    )
    assert part.count("<details>") == part.count("</details>") == 3


def test_answers_are_folded():
    """With what they announce; `course sync --check` refuses lessons of another form."""
    question, answer = "**Predict first.** Two?", "**Answer, both.** Two:\n\n| 1 | 2 |\n\n## Next"
    fold = "<details><summary>Answer, both</summary>\n\nTwo:\n\n| 1 | 2 |\n\n</details>\n\n## Next"
    assert folded(f"{question}\n\n{answer}") == f"{question}\n\n{fold}"
    assert folded(fold) == fold
    head = f"**Time.** {Times(20, 30, 40)}"
    assert not list(
        faults_of_form([head, question, fold, "## Further: three", "## Where to read on"])
    )
    for cells, fault in (
        ([question, fold], "no line such as"),
        ([head, f"{question}\n{fold}"], "not of the form"),
        ([head, fold, question], "no folded answer follows"),
        ([head, "## Further: three", "## The exercise"], "stands between"),
    ):
        assert [fault in message for message in faults_of_form(cells)] == [True]


def test_the_time_of_a_lesson(monkeypatch, tmp_path):
    """Words, visible lines, predictions and figures; what is called Further is counted apart."""
    picture = new_output("display_data", {"image/png": ""})
    cells = [
        new_markdown_cell(f"**Time.** {Times(5, 30, 5)}"),
        new_markdown_cell("**Predict first.**" + 148 * 15 * " word"),
        new_code_cell(40 * "one\n\n", outputs=[picture, picture], metadata={"tags": ["act-3"]}),
        new_code_cell(800 * "one\n", metadata={"jupyter": {"source_hidden": True}}),
        new_markdown_cell("## Further: more\n" + 15 * 150 * " word"),
        new_markdown_cell("## Where to read on\n" + 1500 * " word"),
    ]
    lesson = tmp_path / "lesson.ipynb"
    nbformat.write(new_notebook(cells=cells), lesson)
    monkeypatch.setattr(Day, "lesson", lesson)
    assert times(DAYS[0]) == Times(read=15, write=30, use=10, further=15)
    assert times(DAYS[0]).in_short == "15+30+10"


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_a_lesson_is_short(day):
    read, use, _ = lessons.minutes(day)
    assert read <= lessons.MAX_IDEA
    assert read + use <= lessons.MAX_READING


def test_the_acts_of_a_lesson():
    """`course sync --check` refuses a lesson that runs on something else than the learner's code."""
    idea = new_code_cell("import numpy as np\nweights = np.exp(2)")
    write = new_markdown_cell("## Write it", metadata={"tags": ["act-2"]})
    use = new_markdown_cell("## Hot and cold", metadata={"tags": ["act-3"]})
    take = new_code_cell('from course import yours\nsoftmax = yours("softmax")\nsoftmax(2)')
    again = new_code_cell("softmax(3)")
    right = [idea, write, use, take, again]
    assert not list(acts.faults_of_acts(DAYS[0], right))
    for cells, fault in (
        ([idea, use, take], "need the tags act-2 and act-3"),
        ([again, write, use, take], "softmax is used before it is written"),
        ([idea, write, again, use, take], "softmax is used before it is written"),
        ([idea, write, use, again], 'softmax is not taken by softmax = yours("softmax")'),
        ([*right, new_code_cell("from numpy_reference import softmax")], "softmax is not taken by"),
        ([*right, new_code_cell("def softmax(x): return x")], "softmax is not taken by"),
        ([*right, new_code_cell("softmax = 3")], "softmax is replaced"),
        ([*right, new_markdown_cell("## Before you write it")], "it has a part"),
        ([*right, *5 * [new_markdown_cell("**Predict first.** 1?")]], "it has 5 predictions"),
    ):
        assert [fault in message for message in acts.faults_of_acts(DAYS[0], cells)] == [True]


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_answers_are_numbers(day):
    """What an experiment shows is said in numbers: a bare truth tells nobody how near it was."""
    for cell in notebook(day).cells:
        printed = "".join(output.get("text", "") for output in cell.get("outputs", []))
        assert not re.search(r"[:?] (True|False)$", printed, re.M), printed


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_it_reads_from_top_to_bottom(day):
    """No cell is empty, every cell was run in its order, and the notes that are linked are there."""
    cells = notebook(day).cells
    assert all(cell.source.strip() for cell in cells)
    counts = [cell.execution_count for cell in cells if cell.cell_type == "code"]
    assert all(earlier < other for earlier, other in pairwise(counts))
    for note in re.findall(r"\]\((\.\./paper_notes/[^)#]+)", prose(day)):
        assert (day.lesson.parent / note).exists()


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_what_differs_is_of_this_code(day):
    """Outputs that nbval passes over were printed by the code that stands there."""
    for cell in marked(notebook(day)):
        assert cell.metadata["code"] == code_until(notebook(day), cell), "make notebooks"


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_what_make_test_replaces_is_there(day):
    """Where `make test` runs fewer seeds or steps, the code to replace is in the cell, and stays code."""
    for cell in notebook(day).cells:
        assert all(old in cell.source for old in cell.metadata.get("quick", ())), cell.source
        if "quick" in cell.metadata:
            ast.parse(quick(cell))


# --- How all of it is written ---------------------------------------------------------------------

# What an editor would write, and what it replaces; `codespell` (make lint) checks the spelling.
HABITS = {
    "than the attention of day 8": r"\b(?:more|less|\w+er) than day \d+|\bas \w+ as day \d+",
    "must be added": r"\bcomes? on top\b",
    "a preview": r"\boutlook\b",
    "from the outside, from outside the layer": r"\bfrom outside(?! (?:the|a|of)\b)",
    "most likely": r"\blikeliest\b",
    "again, from scratch": r"\banew\b",
    "training runs": r"\btrainings\b",
    "normalized": r"\b(?:un)?normed\b",
    "American spelling": r"\b(?:learnt|spelt|spoilt|whilst|towards|(?:de)?quantis\w+|tokenis\w+"
    r"|neighbourhood\w*|harbour\w*)\b",
}
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(
        page
        for room in ("docs", "paper_notes", "exercises")
        for page in (ROOT / room).rglob("*.md")
    ),
    *NOTEBOOKS,
]


@pytest.mark.parametrize("page", PAGES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_habits_of_language(page):
    """In Markdown, of notebooks as of pages."""
    texts = [page.read_text(encoding="utf-8")]
    if page.suffix == ".ipynb":
        texts = [
            "".join(raw["source"]) for raw in raw_cells(page) if raw["cell_type"] == "markdown"
        ]
    text = " ".join(" ".join(texts).split())
    for how, habit in HABITS.items():
        assert not re.findall(rf".{{0,40}}(?:{habit})", text), how


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_by_products_are_not_shown(file):
    """A cell that ends in a call shows what the call returns only where that is a picture."""
    for cell in raw_cells(file):
        for output in cell.get("outputs", ()):
            pictured = any(kind.startswith("image/") for kind in output.get("data", ()))
            shown = output["output_type"] == "execute_result" and not pictured
            assert not shown, f"its last line should begin with _ = :  {''.join(cell['source'])}"


# --- What a lesson suggests to change -------------------------------------------------------------

SUGGESTS = re.compile(r"\*\*Change it|\b[Ss]et `")  # in Markdown


CAPITALS = {"ALBERT", "CONTRIBUTING", "ELECTRA", "README", "REINFORCE"}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_no_placeholder_is_left(file):
    """Capitals are names in the code, or known ones; no three words stand twice in a row."""
    written = [
        "".join(cell["source"]) for cell in raw_cells(file) if cell["cell_type"] == "markdown"
    ]
    text = re.sub(
        r"```.*?```|`[^`]*`|\$[^$]*\$|https?://\S+", " ", "\n".join(written), flags=re.DOTALL
    )
    capitals = set(re.findall(r"\b[A-Z]{6,}\b", text)) - CAPITALS
    assert capitals <= set(re.findall(r"\w+", code_of(file)))
    assert not re.findall(r"\b(\w+ \w+ \w+) \1\b", re.sub(r"\*[^*]*\*", " ", text))


def altered(cell: nbformat.NotebookNode, change: dict[str, str]) -> nbformat.NotebookNode:
    """A cell of code in which a suggestion is followed."""
    code = cell.source
    for old, new in change.items():
        code = code.replace(old, new)
    return new_code_cell(code, metadata=cell.metadata)


def tried(cells: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """A lesson's code; and for each change all of it from the first cell that is altered, with what was
    defined before."""
    code = [altered(cell, {}) for cell in cells if cell.cell_type == "code"]
    runs = []
    for change in [entry for cell in cells for entry in cell.metadata.get("change", ())]:
        again = [altered(cell, change) for cell in code]
        first = next(n for n, cell in enumerate(again) if cell.source != code[n].source)
        runs.append((first, again[first:]))
    steps, done = [], 0
    for first, again in sorted(runs, key=lambda run: run[0]):
        keep, reset = "_before = dict(globals())", "globals().update(_before)"
        steps += [*code[done:first], new_code_cell(keep), *again, new_code_cell(reset)]
        done = first
    return steps


@pytest.mark.slow
@pytest.mark.timeout(3600)  # with all seeds and steps
@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_what_it_suggests_to_change_runs(day):
    """With the values in the metadata of the suggestion's cell."""
    cells = tried(notebook(day).cells)
    if os.environ.get("COURSE_QUICK"):
        for cell in cells:
            cell.source = quick(cell)
    if cells:
        NotebookClient(
            new_notebook(cells=cells),
            timeout=None,
            kernel_manager_class=PortlessKernelManager,
            resources={"metadata": {"path": str(day.lesson.parent)}},
        ).execute()


@pytest.mark.parametrize("day", WRITTEN, ids=lambda day: day.stem)
def test_what_it_suggests_to_change_is_in_the_metadata(day):
    """`"change": [{"SCALE = 1.0": "SCALE = 3"}, …]`: what is replaced in the code, one run each."""
    cells = notebook(day).cells
    changes = [change for cell in cells for change in cell.metadata.get("change", ())]
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert all(any(old in source for source in code) for change in changes for old in change)
    for cell in cells:
        if cell.cell_type == "markdown" and SUGGESTS.search(cell.source):
            assert "change" in cell.metadata, cell.source
        if cell.cell_type == "code" and "hange me" in cell.source:
            assert any(altered(cell, change).source != cell.source for change in changes), (
                cell.source
            )


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_it_imports_is_there(file):
    """Type checkers do not read notebooks, and `make test` executes only a sample of them."""
    for node in ast.walk(ast.parse(code_of(file))):
        if isinstance(node, ast.ImportFrom):
            exec(compile(ast.Module([node], []), file.name, "exec"), {})


# --- The notes on papers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "note", sorted((ROOT / "paper_notes").glob("*.md")), ids=lambda note: note.stem
)
def test_the_code_of_a_note_runs(note):
    """Each note has code beside an equation. It runs by itself, as copied, and its last line is a claim."""
    code = re.findall(r"^```python\n(.*?)^```", note.read_text("utf-8"), re.M | re.S)
    assert code
    for block in code:
        assert isinstance(ast.parse(block).body[-1], ast.Assert)
        exec(compile(block, note.name, "exec"), {})
