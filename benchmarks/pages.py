"""How fast the explorer's pages open and respond, in headless Chromium at 1280 pixels.

opening     from `course explore TOPIC` to the drawn page, including the start of the server; each page
            has a server of its own. At most 10 s.
redrawing   from an arrow key on a slider to a change of the drawing, for every slider, there and back;
            on pages without sliders, from a click on a cell or a button. Measured by the page's clock.
            Medians at most 0.2 s.

python benchmarks/pages.py
python benchmarks/pages.py --moves 10 softmax memory
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import frame

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Error, Page, sync_playwright  # noqa: E402

from explorer.topics import TOPICS  # noqa: E402
from tests.browser import FLAGS, LAPTOP, program  # noqa: E402

OPENED, REDRAWN = 10.0, 0.2  # seconds
DRAWN = ".drawn, .failed"
PATIENCE = 3_000  # milliseconds: a move that changes nothing, as at the end of a scale, is skipped
# What to click on pages without sliders: queries, and heads.
HANDS = {"attention": "button[aria-label^='query ']", "heads": ".heads button"}

# Notes the times of an input and of the next change of the drawing.
WATCH = """() => {
    const drawn = () => [...document.querySelectorAll(".drawn")].map((one) => one.innerHTML).join();
    const seen = { before: drawn(), pressed: null, changed: null };
    const press = () => { seen.pressed ??= performance.now(); };
    addEventListener("keydown", press, true);
    addEventListener("click", press, true);
    new MutationObserver(() => {
        if (seen.pressed !== null && seen.changed === null && drawn() !== seen.before)
            seen.changed = performance.now();
    }).observe(document.body, {
        subtree: true, childList: true, characterData: true, attributes: true,
    });
    window.seen = seen;
}"""
TOOK = "() => seen.changed === null ? null : seen.changed - seen.pressed"


def main() -> None:
    """Measure, print and assert."""
    parser = frame.options(__doc__)
    parser.add_argument("topics", nargs="*", default=[topic.name for topic in TOPICS])
    parser.add_argument("--moves", type=int, default=3, help="of each slider, there and back")
    given = parser.parse_args()
    frame.show_machine()
    shown = frame.table(["page"], ["opened (s)", "redrawn (s)", "range", "moves"])
    for topic in given.topics:
        opened, redrawn = measured(topic, given.moves)
        shown.add_row(topic, f"{opened:.1f}", *frame.middle(redrawn, 3), str(len(redrawn)))
        assert opened <= OPENED, f"{topic} was there after {opened:.1f} s"
        assert statistics.median(redrawn) <= REDRAWN, f"{topic} took {statistics.median(redrawn)} s"
    frame.console.print(shown)


def measured(topic: str, moves: int) -> tuple[float, list[float]]:
    """Return the seconds until a page is drawn, and from each move to its effect."""
    began = time.perf_counter()
    with served(topic) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=FLAGS)
        page = browser.new_page(viewport={"width": LAPTOP, "height": 800})
        page.goto(address)
        page.wait_for_selector(DRAWN, timeout=60_000)
        opened = time.perf_counter() - began
        page.wait_for_load_state("networkidle")
        redrawn = list(moved(page, topic, moves))
        browser.close()
    return opened, redrawn


@contextmanager
def served(topic: str) -> Iterator[str]:
    """Serve a page, and yield its address."""
    command = [sys.executable, "-m", "course.cli", "explore", topic, "--no-browser"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found, "course explore gave no address"
        yield found[0]
    finally:
        server.kill()
        server.wait()


def moved(page: Page, topic: str, moves: int) -> Iterator[float]:
    """Yield the seconds from each move to its effect."""
    if topic in HANDS:
        hands = page.locator(HANDS[topic])
        hands.first.wait_for()
        for number in range(2 * moves):
            yield from one_move(page, lambda at=number: hands.nth(at).click())
        return
    for slider in page.get_by_role("slider").all():
        for key in ["ArrowRight", "ArrowLeft"] * moves:
            yield from one_move(page, lambda slider=slider, key=key: slider.press(key))


def one_move(page: Page, move: object) -> Iterator[float]:
    page.evaluate(WATCH)
    move()  # type: ignore[operator]
    try:
        page.wait_for_function("() => seen.changed !== null", timeout=PATIENCE)
    except Error:
        return
    yield page.evaluate(TOOK) / 1000


if __name__ == "__main__":
    main()
