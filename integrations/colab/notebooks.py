"""Writes the lessons as Colab opens them: set up by their first cell, with the exercise and its check in two
cells of their own: before the act that uses it, or at the end.

    python integrations/colab/notebooks.py OWNER/NAME FOLDER

OWNER/NAME is where the course lies on GitHub. Outputs are left out: predict first, then run.
"""

import json
import re
import sys
from pathlib import Path

from course.curriculum import DAYS, Day
from course.references.editions import stub_of
from course.references.lessons import USE

FIRST_CELL = Path(__file__).with_name("first_cell.py")
PLACE = "OWNER/NAME"


def main(repository: str, folder: Path) -> None:
    """Write the lessons of all days into a folder."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        sys.exit(f"{repository!r} is no place on GitHub: {PLACE} is wanted, such as ada/course")
    lessons = folder / "lessons"
    lessons.mkdir(parents=True, exist_ok=True)
    for day in DAYS:
        text = json.dumps(for_colab(day, repository), ensure_ascii=False, indent=1)
        (lessons / day.lesson.name).write_text(text + "\n", encoding="utf-8")


def for_colab(day: Day, repository: str) -> dict:
    """The day's lesson without its outputs, between the cells that Colab needs."""
    notebook = json.loads(day.lesson.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    set_up = FIRST_CELL.read_text(encoding="utf-8").replace(PLACE, repository)
    call = f"from course import check\n\ncheck({', '.join(day.exercises)}, day={day.number})"
    added = [code("exercise", stub_of(day)), code("check", call)]
    cells = notebook["cells"]
    use = next((n for n, cell in enumerate(cells) if USE in cell["metadata"].get("tags", ())), None)
    position = len(cells) if use is None else use
    notebook["cells"] = [code("set-up", set_up), *cells[:position], *added, *cells[position:]]
    return notebook


def code(name: str, source: str) -> dict:
    """A cell of code that has not been run."""
    return {
        "cell_type": "code",
        "id": name,
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": source.rstrip("\n").splitlines(keepends=True),
    }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
