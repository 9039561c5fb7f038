"""Draw the README's pictures from the real tool: `make pictures`.

A learner is acted who has done day 1 and has forgotten √d_k on day 2.
"""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console, RenderableType
from rich.terminal_theme import MONOKAI

from course.checks.answers import read_answer
from course.curriculum import DAYS
from course.desk.board import board
from course.desk.verdicts import verdict
from course.judging.judge import Judge
from course.judging.misconceptions import load_misconceptions
from course.judging.results import DayResult
from course.references.stubs import stub_text
from course.signposts import numbered_transformer
from course.terminal.display import THEME
from course.workers.checking import check_day
from course.workers.pool import Pool

FONTS = "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace"


def acted() -> dict[int, DayResult]:
    """The verdicts on that learner's exercises."""
    ready = [day for day in DAYS if day.ready]
    with tempfile.TemporaryDirectory() as name, Pool(spares=2) as pool:
        for day in ready:
            (Path(name) / f"{day.stem}.py").write_text(stub_text(day), encoding="utf-8")
        done, wrong = ready[0], ready[1]
        [mistake] = [one for one in load_misconceptions(wrong) if one.id == "not_scaled"]
        (Path(name) / f"{done.stem}.py").write_text(read_answer(done.solution), encoding="utf-8")
        answer = f"{read_answer(wrong.solution)}\n\n{mistake.text(wrong)}"
        (Path(name) / f"{wrong.stem}.py").write_text(answer, encoding="utf-8")
        return {day.number: check_day(Judge(day), Path(name), pool) for day in ready}


def shown(picture: RenderableType, name: str, title: str, console: Console) -> str:
    """What a terminal would show, as an SVG that needs no font from elsewhere."""
    console.print(picture)
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code, monospace", f"font-family: {FONTS}", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def pictures() -> dict[str, str]:
    """All pictures of this folder, by their file names."""
    results = acted()
    console = Console(theme=THEME, record=True, width=102, highlight=False, file=io.StringIO())
    return {
        "board.svg": shown(board(results, console), "board", "course", console),
        "failure.svg": shown(verdict(results[2]), "failure", "course watch 2", console),
        "transformer.svg": numbered_transformer(),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        (Path(__file__).parent / name).write_text(picture, encoding="utf-8")
