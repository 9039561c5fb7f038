"""Pages as people meet them: headless Chromium without a network, and what goes wrong in it written down.

A test's file imports the fixture `chromium` from here, and opens pages with it:

    with visit(chromium, f"{address}/index.html", width=PHONE) as (page, faults):
        ...
        assert not faults
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is in the extra 'test'")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is in the extra 'test'"
)

# Milliseconds, for all that a test waits for on a page: how busy the machine is must not decide.
PATIENCE = 120_000
sync_api.expect.set_options(timeout=PATIENCE)

LAPTOP, PHONE = 1280, 390  # widths in pixels
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
GRAVE = ("serious", "critical")  # the faults in axe's list that keep people out

# As root Chromium has no sandbox of its own; the others keep it from calling home.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[sync_api.Browser]:
    """The browser, started once a file, of which no other machine is reached. Without one, tests are skipped.

    While it is there an event loop runs in this thread, so that other files could not run one of theirs.
    """
    if program() is None:
        pytest.skip(f"needs a browser: none of {', '.join(PROGRAMS)} is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=FLAGS)
        yield browser
        browser.close()


def program() -> str | None:
    """Where a Chromium is, if there is one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def visit(
    browser: sync_api.Browser, address: str, width: int = LAPTOP, dark: bool = False
) -> Iterator[tuple[sync_api.Page, list[str]]]:
    """A page that is open, and the list of what goes wrong on it from its first moment.

    That are errors in the console, exceptions, requests that fail or are answered by an error, and
    requests to any other host than the page's own.
    """
    host = urlsplit(address).netloc
    # All visits share what the browser keeps: a third of a page's cost is to read its scripts again.
    context = browser.contexts[0] if browser.contexts else browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.set_viewport_size({"width": width, "height": 844 if width < 600 else 800})
    page.emulate_media(color_scheme="dark" if dark else "light")
    faults: list[str] = []

    def note_host(request: sync_api.Request) -> None:
        if urlsplit(request.url).netloc not in (host, ""):
            faults.append(f"asks another host: {request.url}")

    page.on("request", note_host)
    page.on("pageerror", lambda error: faults.append(f"exception: {error}"))
    page.on(
        "console",
        lambda message: (
            faults.append(f"console: {message.text}") if message.type == "error" else None
        ),
    )
    # A picture that was still on its way when the next page was opened is aborted: that is no fault.
    page.on(
        "requestfailed",
        lambda request: (
            None
            if "ERR_ABORTED" in str(request.failure)
            else faults.append(f"failed: {request.url}")
        ),
    )
    page.on(
        "response",
        lambda answer: (
            faults.append(f"{answer.status}: {answer.url}")
            if not answer.ok and answer.status != 304
            else None
        ),
    )
    try:
        page.goto(address)
        yield page, faults
    finally:
        page.close()


def sticks_out(page: sync_api.Page) -> list[str]:
    """What makes the page wider than its window, or nothing if nobody has to scroll sideways."""
    return page.evaluate(
        """() => {
            const { clientWidth, scrollWidth } = document.documentElement;
            if (scrollWidth <= clientWidth) return [];
            const boxed = (one) =>
                one && one !== document.body &&
                (getComputedStyle(one).overflowX !== "visible" || boxed(one.parentElement));
            const wide = [...document.body.querySelectorAll("*")]
                .filter((one) => one.getBoundingClientRect().right > clientWidth + 1)
                .filter((one) => !boxed(one.parentElement))
                .map((one) => `${one.tagName.toLowerCase()}.${one.className}`);
            return wide.length ? wide : ["the page"];
        }"""
    )


def barriers(page: sync_api.Page) -> list[str]:
    """What axe-core finds on the page that keeps people out: its serious and critical faults."""
    # It would fetch stylesheets once more to see their @media rules, and those that they import wrongly.
    options = {"resultTypes": ["violations"], "preload": False}
    violations = axe.Axe().run(page, options=options).response["violations"]
    return [
        f"{fault['id']} ({fault['impact']}): {_short(node['html'])}"
        for fault in violations
        if fault["impact"] in GRAVE
        for node in fault["nodes"]
    ]


def _short(html: str) -> str:
    return re.sub(r"\s+", " ", html)[:160]
