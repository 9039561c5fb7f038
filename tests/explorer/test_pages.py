"""What holds for every page of the explorer: it fits, it can be read and reached, and leads to its days."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from starlette.testclient import TestClient

from course.curriculum import DAYS, Day
from explorer import page_server
from explorer.topics import TOPICS, NoSuchTopic, Topic, topic_of
from tests.browser import LAPTOP, PHONE, barriers, sticks_out, sync_api

Open = Callable[..., sync_api.Page]

each_page = pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)

# A group of radio buttons hands the focus on to one of them, with whose arrow keys one gets to the others.
CONTROLS = (
    "[role=slider], input, select, textarea, button, a[href], [role=switch], "
    "[tabindex='0']:not([role=radiogroup])"
)
# What has the focus, also where it is inside a component with a tree of its own.
FOCUSED = """() => {
    let one = document.activeElement;
    while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
    return one?.dataset.seen ?? "";
}"""
# Every control gets a number, in components with trees of their own as well.
NUMBERED = """(controls) => {
    let count = 0;
    const look = (root) => {
        for (const one of root.querySelectorAll("*")) {
            const seen = one.checkVisibility({ visibilityProperty: true });
            if (one.matches(controls) && seen && !one.disabled && one.tabIndex >= 0)
                one.dataset.seen = count++;
            if (one.shadowRoot) look(one.shadowRoot);
        }
    };
    look(document);
    return count;
}"""

# Pages that draw something else when asked.
WAYS = (
    "positions/?way=RoPE (rotated)",
    "positions/?way=ALiBi (a bias)",
    "decoding/?way=beam search",
)
UNSTYLED = """() => {
    const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
    const selectors = rules.flatMap((rule) => rule.selectorText?.split(/,(?![^(]*[)])/) ?? []);
    const applies = (name) => (selector) =>
        selector.match(/[.][\\w-]+/g)?.includes(`.${name}`) &&
        document.querySelector(selector.replace(/:(hover|focus|focus-visible|:before|:after)/g, ""));
    const drawn = [...document.querySelectorAll(".drawn [class]")];
    const names = new Set(drawn.flatMap((one) => [...one.classList]));
    return [...names].filter((name) => !selectors.some(applies(name)));
}"""


@each_page
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_fits_and_keeps_nobody_out(opened: Open, topic: Topic, dark: bool) -> None:
    page = opened(f"{topic.name}/", dark=dark)
    for width in (LAPTOP, PHONE):
        page.set_viewport_size({"width": width, "height": 800})
        assert sticks_out(page) == []
        assert barriers(page) == []


@pytest.mark.parametrize("path", [*(f"{topic.name}/" for topic in TOPICS), *WAYS])
def test_every_class_of_a_drawing_is_styled(opened: Open, path: str) -> None:
    """No class is misspelled, or left over: each has a rule of page.css that applies to it."""
    assert opened(path).evaluate(UNSTYLED) == []


@each_page
def test_the_keyboard_alone_reaches_every_control(opened: Open, topic: Topic) -> None:
    page = opened(f"{topic.name}/")
    count = page.evaluate(NUMBERED, CONTROLS)
    assert count >= 3
    reached = set()
    for _ in range(3 * count):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(FOCUSED))
    assert reached >= {str(number) for number in range(count)}


@each_page
def test_a_page_leads_to_its_days(opened: Open, explorer: str, topic: Topic) -> None:
    page = opened(f"{topic.name}/")
    assert page.get_by_role("heading", level=1).inner_text() == topic.title
    sync_api.expect(page.locator(".head")).to_contain_text(f"Try: {topic.suggestion}")
    links = [link.get_attribute("href") for link in page.locator(".head span a").all()]
    assert links == [f"../day/{number}" for number in topic.days]
    lesson = page.request.get(f"{explorer}/day/{topic.days[0]}")
    assert lesson.ok
    assert DAYS[topic.days[0] - 1].title in lesson.text()


def test_every_page_has_the_course_s_icon(opened: Open, explorer: str, no_site: TestClient) -> None:
    page = opened("softmax/")
    page.wait_for_function("document.querySelector('link[rel~=icon]').href.endsWith('favicon.svg')")
    icon = page.locator("link[rel~=icon]").first.evaluate("one => one.href")
    assert icon == f"{explorer}/favicon.svg"
    assert page.request.get(icon).headers["content-type"] == "image/svg+xml"
    assert '<link rel="icon" href="../favicon.svg">' in no_site.get("/day/2").text


@pytest.fixture
def no_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TestClient:
    """The server where `make site` has not been run."""
    monkeypatch.setattr(page_server, "SITE", tmp_path)
    return TestClient(page_server.application(), follow_redirects=False)


@pytest.mark.parametrize("day", [DAYS[0], DAYS[9], DAYS[37]], ids=lambda day: day.stem)
def test_a_lesson_needs_no_network(no_site: TestClient, day: Day) -> None:
    """Formulas are MathML, nothing comes from another machine, and links lead to pages of this server."""
    page = no_site.get(f"/day/{day.number}").text
    written = nbformat.read(day.lesson, as_version=4)
    formulas = [c for c in written.cells if c.cell_type == "markdown" and "$" in c.source]
    assert bool(formulas) <= ("<math" in page)
    assert not re.search(r"<(script|link rel=\"(?!icon))|src=\"(?!data:)", page)
    assert '<a href="../">All pages</a>' in page
    [font] = re.findall(r'url\("\.\.(/font/[^"]+)"\)', page)
    assert no_site.get(font).content.startswith(b"wOF2")
    for note in set(re.findall(r'href="\.\.(/paper_notes/[^"#]+)"', page)):
        assert no_site.get(note).status_code == 200


def test_a_lesson_fits_and_follows_the_dark(
    no_site: TestClient, chromium: sync_api.Browser
) -> None:
    for scheme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(24, 28, 26)")):
        page = chromium.new_page(color_scheme=scheme)
        page.set_content(no_site.get("/day/2").text)
        body = page.locator("body")
        assert body.evaluate("one => getComputedStyle(one).backgroundColor") == paper
        for width in (LAPTOP, PHONE):
            page.set_viewport_size({"width": width, "height": 800})
            assert sticks_out(page) == []
            assert barriers(page) == []
        page.close()


def test_a_lesson_is_the_site_s_where_it_is_built(no_site: TestClient, tmp_path: Path) -> None:
    target = tmp_path / "lessons" / f"{DAYS[1].stem}.html"
    target.parent.mkdir()
    target.write_text("of the site", encoding="utf-8")
    redirected = no_site.get("/day/2")
    assert redirected.is_redirect
    assert no_site.get(redirected.headers["location"].removeprefix("..")).text == "of the site"
    assert no_site.get("/day/41").status_code == no_site.get("/paper_notes/x.md").status_code == 404


def test_the_list_has_every_page(explorer: str, chromium: sync_api.Browser) -> None:
    page = chromium.new_page()
    page.goto(f"{explorer}/")
    assert page.locator("li a").all_inner_texts() == [topic.title for topic in TOPICS]
    for picture in page.locator("li img").all():
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("one => one.decode().then(() => one.naturalWidth)") > 400
    for width in (LAPTOP, PHONE):
        page.set_viewport_size({"width": width, "height": 800})
        assert sticks_out(page) == []
    assert barriers(page) == []
    page.locator("li").first.click(position={"x": 20, "y": 20})  # anywhere on a card
    page.wait_for_url(f"**/{TOPICS[0].name}/")
    page.close()


def test_a_name_that_is_nearly_right() -> None:
    with pytest.raises(NoSuchTopic, match="Did you mean softmax"):
        topic_of("sofmax")
    assert topic_of("softmax").title == "Softmax and temperature"
