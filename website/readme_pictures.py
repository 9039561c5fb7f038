"""Draw the README's pictures from the real tool: `make pictures`.

The film shows a learner who has forgotten √d_k on day 2. It is as narrow as a phone can show.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.segment import Segment, Segments
from rich.syntax import Syntax
from rich.terminal_theme import MONOKAI

from course.curriculum import DAYS
from course.desk.verdicts import verdict
from course.judging.judge import Judge
from course.terminal.display import THEME
from course.workers.checking import day_steps
from course.workers.pool import WorkerPool
from course.workers.worker import run_to_end
from website.signposts import numbered_transformer

PICTURES = Path(__file__).with_name("pictures")
FONTS = "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace"
COLUMNS = 54  # a letter is then 6 px wide on a phone

CODE = """\
def attention(query, key, value, mask=None):
    scores = query @ key.swapaxes(-2, -1)
    if mask is not None:
        low = np.finfo(scores.dtype).min
        scores = np.where(mask, scores, low)
    weights = softmax(scores)
    if mask is not None:
        weights = np.where(mask, weights, 0)
    return weights @ value, weights
"""
SCORES = "    scores = query @ key.swapaxes(-2, -1)\n"
SCALED = CODE.replace(SCORES, f"{SCORES}    scores /= math.sqrt(key.shape[-1])\n")
IMPORTS = "import math\n\nimport numpy as np\n\nfrom numpy_reference import softmax\n\n\n"

SECONDS = (4.0, 3.5)  # how long each frame of the film shows
RESTS = 0  # the frame that stays: the mistake and its name


def shown(picture: RenderableType, name: str, title: str, console: Console) -> str:
    """What a terminal would show, as an SVG that needs no font from elsewhere."""
    console.print(picture)
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code, monospace", f"font-family: {FONTS}", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def saved() -> list[RenderableType]:
    """What is on the screen of that learner on day 2 at every save: the code, and its verdict."""
    day, screens = DAYS[1], []
    with tempfile.TemporaryDirectory() as name, WorkerPool(spares=1) as pool:
        for code in (CODE, SCALED):
            (Path(name) / f"{day.stem}.py").write_text(f"{IMPORTS}{code}", encoding="utf-8")
            result = run_to_end(day_steps(Judge(day), Path(name), pool)).finish()
            screens.append(Group(Syntax(code, "python", theme="monokai"), verdict(result)))
    return screens


def film(screens: Sequence[RenderableType], name: str, title: str, console: Console) -> str:
    """Screens one after the other, as an SVG that plays twice and rests."""
    shots = [console.render_lines(screen) for screen in screens]
    height = max(map(len, shots))
    frames, style, begun = [], "", 0.0
    for number, (lines, seconds) in enumerate(zip(shots, SECONDS, strict=True)):
        own = f"{name}-{number}"
        rows = [*lines, *[[Segment(" ")]] * (height - len(lines))]
        full = Segments([part for row in rows for part in (*row, Segment.line())])
        frames.append(f'<g class="{own}">\n{shown(full, own, title, console)}</g>\n')
        start, end = (100 * time / sum(SECONDS) for time in (begun, begun + seconds))
        opacities = {0: 0, start: 1, end: 0, 100: int(end > 99)}  # opacity, from these percents on
        steps = " ".join(f"{at:.2f}% {{opacity: {opacity}}}" for at, opacity in opacities.items())
        style += f"@keyframes {own} {{{steps}}}\n.{own} {{opacity: {int(number == RESTS)}; "
        style += f"animation: {own} {sum(SECONDS)}s step-end 2}}\n"
        begun += seconds
    style += f"@media (prefers-reduced-motion: reduce) {{[class^={name}-] {{animation: none}}}}\n"
    size = re.search(r'viewBox="[^"]*"', frames[0])
    assert size is not None
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size[0]}>\n<style>\n{style}</style>\n'
    return f"{head}{''.join(frames)}</svg>\n"


def pictures() -> dict[str, str]:
    """All pictures of `website/pictures/`, by their file names."""
    console = Console(theme=THEME, record=True, width=COLUMNS, highlight=False, file=io.StringIO())
    return {
        "watch.svg": film(saved(), "watch", "course watch 2", console),
        "transformer.svg": numbered_transformer(),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        (PICTURES / name).write_text(picture, encoding="utf-8")
