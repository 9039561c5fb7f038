"""Take a still picture of every page of the explorer: `python -m website.stills`, after a page has changed.

The site shows them, as the pages themselves need Python. It takes a browser and requirements-test.txt.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys

from PIL import Image, ImageOps
from playwright.sync_api import sync_playwright

from explorer.topics import STILLS, TOPICS

DRAWN = ".drawn"  # what a page has once it has computed its picture
WIDTH, HEIGHT = 1280, 800


def take(address: str) -> None:
    """Write a picture of each page of the explorer that is served there."""
    STILLS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for topic in TOPICS:
            page.goto(f"{address}/{topic.name}/")
            page.locator(DRAWN).first.wait_for(timeout=60_000)
            page.wait_for_timeout(1000)  # what is drawn last is still on its way
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            drawn = ImageOps.invert(picture).getbbox()  # without the white around it
            picture.crop(drawn).save(STILLS / f"{topic.name}.webp", quality=80, method=6)
        browser.close()


if __name__ == "__main__":
    command = [sys.executable, "-m", "course.cli", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        found = re.search(r"http://\S+", server.stdout.readline())
        try:
            take(found[0].rstrip("/"))
        finally:
            server.terminate()
