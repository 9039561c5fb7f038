"""Take pictures of the explorer's pages, or of some: `python -m website.stills [NAME]…`, after a change.

The site shows them, as the pages themselves need Python: a still and a short animation of each page, light
and dark. It takes a browser and the extra `test`.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator

from PIL import Image, ImageChops
from playwright.sync_api import Page, sync_playwright

from explorer.softmax import TEMPERATURES
from explorer.topics import STILLS, TOPICS, picture_of

DRAWN = ".drawn"  # what a page has once it has computed its picture
WIDTH, HEIGHT = 1280, 800
MARGIN = 16  # pixels around what is drawn
SMALLER = 0.75  # of the animations, which a lesson's column shows at half their width
SETTLED = 1000  # milliseconds: what is drawn last is still on its way
SHOWN, RESTS = 1300, 2600  # milliseconds for which an animation shows each view, and the last

# What each animation shows: the page at some settings of its controls, as its address holds them.
VIEWS = {
    "softmax": [f"temperature={temperature}" for temperature in TEMPERATURES[2::5]],
    "attention": [
        "mask=none&query=2",
        "mask=none&query=4",
        "mask=causal&query=4",
        "mask=causal&query=1",
        "mask=both&query=6",
    ],
    "heads": ["on=" + "-".join(["1111"] * 6), "", "head=1", "head=2", "head=all"],
    "positions": [
        "place=1",
        "place=8",
        "way=RoPE (rotated)&query=9&key=4",
        "way=RoPE (rotated)&query=25&key=20",
        "way=ALiBi (a bias)&reader=20",
    ],
    "decoding": [
        "temperature=1&said=the cat",
        "temperature=2&said=the cat mouse",
        "temperature=2&top_p=0.5&said=the cat",
        "way=beam search&beam=1",
        "way=beam search&beam=3",
    ],
    "drafting": ["quality=0.6", "quality=0.2", "quality=1&k=5", "quality=0&drawn=3"],
    "memory": ["kv_heads=32", "kv_heads=8", "kv_heads=1", "texts=16", "texts=16&dtype=float32"],
    "experts": ["skew=0", "skew=1", "skew=3", "skew=3&step=10", "skew=3&step=40"],
    "flash": [f"tile={tile}" for tile in (1, 2, 4, 5, 8, 16)],
    "learning": ["factor=0.5"],
}
STARTED = 5  # pictures of a run that the page's button starts
BETWEEN = 1000  # milliseconds between them


def take(address: str, names: Collection[str]) -> None:
    """Write the pictures of some of the explorer's pages, which are served there."""
    STILLS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for dark in (False, True):
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="dark" if dark else "light",
            )
            for topic in (candidate for candidate in TOPICS if candidate.name in names):
                still, *views = _seen(page, f"{address}/{topic.name}/", VIEWS[topic.name])
                if len(VIEWS[topic.name]) == 1:
                    still = views[-1]  # its run, which a page that opens has not begun
                box = _drawn_on(still, *views)
                still.crop(box).save(STILLS / picture_of(topic.name, dark), quality=80, method=6)
                _animate(
                    [view.crop(box) for view in views],
                    STILLS / picture_of(topic.name, dark, moving=True),
                )
        browser.close()


def _seen(page: Page, address: str, views: list[str]) -> Iterator[Image.Image]:
    """The page as it opens, then at each of the views; where there is one alone, while it runs."""
    for query in ("", *views):
        page.goto(f"{address}?{query}")
        page.locator(DRAWN).first.wait_for(timeout=60_000)
        page.wait_for_timeout(SETTLED)
        yield _screenshot(page)
    if len(views) == 1:
        page.get_by_role("button", name="Start").click()
        for _ in range(STARTED):
            page.wait_for_timeout(BETWEEN)
            yield _screenshot(page)


def _screenshot(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def _drawn_on(*pictures: Image.Image) -> tuple[int, int, int, int]:
    """The box outside of which none of them has anything but the color of its corner."""
    boxes = []
    for picture in pictures:
        empty = Image.new("RGB", picture.size, picture.getpixel((0, picture.height - 1)))
        boxes.append(ImageChops.difference(picture, empty).getbbox() or (0, 0, *picture.size))
    left, top, right, bottom = zip(*boxes, strict=True)
    width, height = pictures[0].size
    return (
        max(min(left) - MARGIN, 0),
        max(min(top) - MARGIN, 0),
        min(max(right) + MARGIN, width),
        min(max(bottom) + MARGIN, height),
    )


def _animate(pictures: list[Image.Image], path: object) -> None:
    first, *rest = (
        picture.resize(
            (round(picture.width * SMALLER), round(picture.height * SMALLER)), Image.LANCZOS
        )
        for picture in pictures
    )
    durations = [*[SHOWN] * len(rest), RESTS]
    first.save(
        path, save_all=True, append_images=rest, duration=durations, loop=0, quality=60, method=6
    )


if __name__ == "__main__":
    command = [sys.executable, "-m", "course.cli", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        match = re.search(r"http://\S+", server.stdout.readline())
        try:
            take(match[0].rstrip("/"), sys.argv[1:] or VIEWS)
        finally:
            server.terminate()
