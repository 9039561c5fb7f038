"""The site as it is built: whole, without a network, and as people meet it in a browser."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from course.cli import COMMANDS
from course.curriculum import DAYS
from course.desk.hints import read_hints
from course.references.stubs import stub_text
from explorer.topics import TOPICS
from tests.browser import PATIENCE, PHONE, barriers, sticks_out, sync_api, visit
from tests.browser import chromium as chromium

pytest.importorskip("sphinx", reason="sphinx is in the extra 'site'")

from website.build import build

# The first test builds the site, which takes half a minute on a quiet machine.

PAGES = (
    "index.html",
    "docs/start.html",
    "docs/learn.html",
    "explorer.html",
    "commands.html",
    "docs/train.html",
    "lessons/index.html",
    "lessons/day08_attention.html",
    "lessons/day13_decoder.html",
    "lessons/day29_rope.html",
    "paper_notes/alibi.html",
    "reference/implementation.html",
    "_modules/implementation.html",
)
FIRST = {"attention": "02", "padding mask": "03", "kv cache": "25", "rope": "29"}
REFERENCE = re.compile(r"""<(\w+)[^>]*?\s(?:href|src)="([^"]*)\"""")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing: what goes wrong is heard of in the browser."""


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    try:
        build(folder)
    except SystemExit as stopped:  # as it stands it would end the run of all tests
        pytest.fail(f"the site was not built: Sphinx ended with {stopped.code}")
    return folder / "html"


@pytest.fixture(scope="session")
def texts(site) -> dict[Path, str]:
    """All pages; the theme leaves a template among its scripts, which is none."""
    pages = (page for page in site.rglob("*.html") if site / "_static" not in page.parents)
    return {page: page.read_text(encoding="utf-8") for page in pages}


@pytest.fixture(scope="session")
def address(site) -> Iterator[str]:
    """Where the site is served, on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_every_internal_link_leads_somewhere(site, texts):
    names = {
        page: set(re.findall(r'\s(?:id|name)="([^"]+)"', text)) for page, text in texts.items()
    }
    dead = []
    for page, text in texts.items():
        for _, link in REFERENCE.findall(text):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            fragment = unquote(parts.fragment)
            if not target.is_file() or (fragment and fragment not in names.get(target, ())):
                dead.append(f"{page.relative_to(site)}: {link}")
    assert not dead
    assert len(texts) > 100


def test_no_page_needs_anything_from_elsewhere(texts):
    requested = {
        link
        for text in texts.values()
        for element, link in REFERENCE.findall(text)
        if element != "a" and urlsplit(link).netloc
    }
    assert not requested


# The theme lets keyboards reach what scrolls some time after the window has another width.
REACHED = """() => [...document.querySelectorAll("pre, .pst-scrollable-table-container")].every(
    (one) => one.scrollWidth <= one.clientWidth || one.tabIndex === 0
)"""


def slow_but_one(name):
    return (
        name
        if name == "lessons/day08_attention.html"
        else pytest.param(name, marks=pytest.mark.slow)
    )


@pytest.mark.parametrize("name", [slow_but_one(name) for name in PAGES])
def test_a_page_works_for_everybody(chromium, address, name):
    """Nothing fails, nobody scrolls sideways, and axe-core finds nothing that keeps people out."""
    with visit(chromium, f"{address}/{name}") as (page, faults):
        theme = page.locator("html")
        assert theme.get_attribute("data-theme") == "light"
        assert not sticks_out(page), "at a laptop's width"
        assert not barriers(page), "light"
        page.set_viewport_size({"width": PHONE, "height": 844})
        page.emulate_media(color_scheme="dark")
        sync_api.expect(theme).to_have_attribute("data-theme", "dark")
        assert not sticks_out(page), "on a phone"
        page.wait_for_function(REACHED)
        assert not barriers(page), "dark"
        assert not faults


@pytest.mark.slow
def test_answers_and_hints_are_folded_and_fit_when_they_are_not(chromium, address):
    with visit(chromium, f"{address}/lessons/day13_decoder.html") as (page, _):
        answer = page.locator("details.answer")
        code = answer.locator(".cell_input", has_text="def subsequent_mask").first
        hints = page.locator("summary", has_text=re.compile("^Hint "))
        assert not code.is_visible()
        assert hints.count() == sum(map(len, read_hints(DAYS[12]).values()))
        last_hint, fold = (element.bounding_box()["y"] for element in (hints.last, answer))
        assert last_hint < fold
        answer.locator("summary").first.click()
        assert code.is_visible()
        page.set_viewport_size({"width": PHONE, "height": 844})
        page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
        for _ in range(PATIENCE // 500):  # until the theme lets keyboards reach what scrolls
            if not (found_barriers := barriers(page)):
                break
            page.wait_for_timeout(500)
        assert not found_barriers
        assert not sticks_out(page)


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.stem)
def test_a_lesson_ends_with_its_answer_folded(site, day):
    text = (site / "lessons" / f"{day.stem}.html").read_text(encoding="utf-8")
    _, fold, answer = text.partition('<details class="answer">')
    assert fold
    assert (
        '<div class="prev-next' in answer.partition("</article>")[2]
    )  # nothing ate the page's end
    for exercise in day.exercises:
        defined = re.compile(rf'<span class="(?:nf|nc)">{exercise}</span>')
        assert defined.search(answer)
    assert "<details open" not in text


@pytest.mark.slow
def test_previous_and_next_go_through_the_lessons(chromium, address):
    with visit(chromium, f"{address}/lessons/day22_translation.html") as (page, faults):
        page.locator("a.right-next").click()
        assert page.locator("h1").inner_text().startswith("Day 23 ")
        page.locator("a.left-prev").click()
        assert page.locator("h1").inner_text().startswith("Day 22 ")
        assert not faults


@pytest.mark.slow
def test_the_search_finds_a_word(chromium, address):
    with visit(chromium, f"{address}/search.html?q=temperature") as (page, faults):
        lesson = page.locator('#search-results a[href*="day24_sampling"]')
        lesson.first.wait_for()  # results come one by one
        assert not faults


@pytest.mark.slow
def test_the_search_without_a_server(chromium, site):
    """It begins with the day's lesson, survives a typo, and shows the place."""
    with visit(chromium, (site / "search.html").as_uri(), PHONE) as (page, faults):
        for words, day in FIRST.items():
            page.goto(f"{(site / 'search.html').as_uri()}?q={words.replace(' ', '+')}")
            first = page.locator("#search-results li > a").first
            sync_api.expect(first).to_have_attribute("href", re.compile(f"lessons/day{day}_"))
        page.goto(f"{(site / 'search.html').as_uri()}?q=temprature")
        results = page.locator("#search-results li", has=page.locator('a[href*="day24_sampling"]'))
        assert "temperature" in results.locator(".context").first.inner_text()
        assert "Shown instead: temperature" in page.locator("#search-results").inner_text()
        assert not sticks_out(page)
        assert not faults


@pytest.mark.slow
def test_formulas_have_their_font_and_fade_where_they_go_on(chromium, address):
    with visit(chromium, f"{address}/lessons/day29_rope.html", PHONE) as (page, _):
        page.wait_for_function("document.fonts.check('16px \"Latin Modern Math\"')")
        family = "formula => getComputedStyle(formula).fontFamily"
        assert page.locator("math").first.evaluate(family).startswith('"Latin Modern Math"')
        formula = page.locator(".formula.more-right").first
        formula.evaluate("box => box.scrollTo(box.scrollWidth, 0)")
        page.wait_for_function("document.querySelector('.formula.more-left:not(.more-right)')")


@pytest.mark.slow
def test_a_lesson_leads_to_its_exercise_hints_and_pages_to_play_with(chromium, address):
    """And on a phone a formula in a line of its text is not wider than the page."""
    with visit(chromium, f"{address}/lessons/day02_attention.html") as (page, _):
        links = page.locator(".open-lesson a[href^='#']")
        assert links.all_inner_texts() == ["The exercise", "Hints and answer", "Play with it"]
        for link in links.all():
            assert page.locator(f"section{link.get_attribute('href')}").count() == 1
        assert page.locator("pre", has_text="course explore attention").is_visible()
        page.locator("summary", has_text="exercises/day02_attention.py").click()
        assert page.locator("details[open] pre", has_text="def attention").is_visible()
        page.set_viewport_size({"width": PHONE, "height": 844})
        page.wait_for_function("document.querySelector('p > .formula.more-right')")
        page.evaluate(
            "[...document.querySelectorAll('math')].forEach(formula => {"
            " if (!formula.closest('.formula, table')"
            " && formula.getBoundingClientRect().right > innerWidth) throw formula.textContent })"
        )


@pytest.mark.slow
def test_the_drawing_leads_to_the_days(chromium, address):
    with visit(chromium, f"{address}/index.html") as (page, _):
        page.locator(".drawing a.sign", has_text="37").first.click()
        assert page.locator("h1").inner_text().startswith("Day 37 ")


def test_every_command_has_its_help(site):
    text = (site / "commands.html").read_text(encoding="utf-8")
    assert not [name for name in COMMANDS if f'href="#course-{name}"' not in text]


def test_every_page_of_the_explorer_is_named(site):
    text = (site / "explorer.html").read_text(encoding="utf-8")
    assert not [topic.name for topic in TOPICS if topic.title not in text]


def test_what_can_be_taken_along_is_as_it_was(site):
    for day in DAYS:
        notebook = site / "lessons" / f"{day.stem}.ipynb"
        stub = site / "exercises" / f"{day.stem}.py"
        assert notebook.read_bytes() == day.lesson.read_bytes()
        assert stub.read_text(encoding="utf-8") == stub_text(day)
