"""What holds for every page of the explorer: it fits, it can be read and reached, and leads to its days."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
import tinycss2
from starlette.testclient import TestClient

from course.curriculum import DAYS, LAST_DAY, Day
from explorer import page_server
from explorer.topics import TOPICS, NoSuchTopic, Topic, topic_of
from tests.browser import LAPTOP, PHONE, barriers, sticks_out, sync_api
from tests.explorer.conftest import DRAWN, View

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

WIDTHS = (LAPTOP, PHONE)
PAPERS = {"light": "rgb(255, 255, 255)", "dark": "rgb(24, 28, 26)"}
PAPER = "getComputedStyle(document.body).backgroundColor"
ICON = "document.querySelector('link[rel~=icon]').href"

# Pages that draw something else when asked.
WAYS = (
    "positions/?way=RoPE (rotated)",
    "positions/?way=ALiBi (a bias)",
    "decoding/?way=beam search",
)
CSS = re.sub(r"/[*].*?[*]/", "", page_server.STYLE.read_text(encoding="utf-8"), flags=re.DOTALL)
RULES = [rule.prelude for rule in tinycss2.parse_stylesheet(CSS) if rule.type == "qualified-rule"]
# Addresses of which no control can take anything.
NOTHING = {
    "softmax": ("temperature=warm", "temperature=-1&cat=1e9", "answers=his"),
    "attention": ("mask=101-111-111", "mask=down&query=99", "query=cat&mask=7", "query=true"),
    "heads": ("on=1111", "on=nothing&place=99", "place=first&head=5"),
    "positions": ("way=somewhere", "place=-1&width=15", "place=first", "way=[]"),
    "decoding": ("said=<s>", "said=12", "temperature=-1&top_k=0&top_p=2&way=guessing"),
    "drafting": ("said=elephant&drawn=-1", "k=9&quality=2&drawn=[]", "drawn=many&k=0"),
    "learning": ("smoothing=no", "factor=3&warmup=0&d_model=wide"),
    "memory": ("model=his&texts=3", "kv_heads=5&length=no"),
    "experts": ("experts=99&k=none&step=-1", "capacity=[]&skew=9"),
    "flash": ("tile=99", "tile=0&block=9&length=2000", "causal=later"),
}
# What is pointed at, has the focus, or stands before something, is styled where that something is.
STATES = re.compile(
    r":is[(]:hover, :focus[)]|:not[(]:hover, :focus[)]|::?(hover|focus(-visible)?|before|after)"
)


def selectors_of(name: str) -> list[str]:
    """Those of page.css in which a class is named."""
    selectors = [
        selector
        for rule in RULES
        for selector in re.split(r",(?![^(]*[)])", tinycss2.serialize(rule))
    ]
    return [
        STATES.sub("", selector).strip()
        for selector in selectors
        if re.search(rf"[.]{name}(?![\w-])", selector)
    ]


@pytest.mark.parametrize("path", [*(f"{topic.name}/" for topic in TOPICS), *WAYS])
def test_every_class_of_a_drawing_is_styled(viewed: Callable[[str], View], path: str) -> None:
    """No class is misspelled, or left over: each has a rule of page.css that applies to it."""
    html = viewed(path).html
    names = {name for element in html.select(".drawn [class]") for name in element["class"]}
    assert names
    unstyled = {
        name for name in names if not any(html.select(selector) for selector in selectors_of(name))
    }
    assert unstyled == set()


@each_page
def test_a_page_leads_to_its_days(viewed: Callable[[str], View], topic: Topic) -> None:
    view = viewed(f"{topic.name}/")
    assert view.texts("h1") == [topic.title]
    assert f"Try: {topic.suggestion}" in view.text(".head")
    links = [link["href"] for link in view.html.select(".head span a")]
    assert links == [f"../day/{number}" for number in topic.days]
    [following] = view.html.select(".head .next")
    assert following["href"] == f"../{TOPICS[(TOPICS.index(topic) + 1) % len(TOPICS)].name}/"


@each_page
def test_an_address_that_says_nothing_is_passed_over(
    viewed: Callable[[str], View], topic: Topic
) -> None:
    pictures = viewed(f"{topic.name}/").html.select(DRAWN)
    assert pictures
    for address in NOTHING[topic.name]:
        assert viewed(f"{topic.name}/?{address}").html.select(DRAWN) == pictures, address


@each_page
def test_a_page_fits_and_keeps_nobody_out(opened: Open, explorer: str, topic: Topic) -> None:
    """One visit: widths, the keyboard alone, the icon; and axe on a phone, in the light and in the dark."""
    page = opened(f"{topic.name}/")
    page.wait_for_function(f"icon => {ICON} === icon", arg=f"{explorer}/favicon.svg")
    count = page.evaluate(NUMBERED, CONTROLS)
    assert count >= 3
    reached = set()
    for _ in range(3 * count):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(FOCUSED))
    assert reached >= {str(number) for number in range(count)}, "controls for a mouse alone"
    assert sticks_out(page) == [], "at a laptop's width"
    page.set_viewport_size({"width": PHONE, "height": 800})
    assert sticks_out(page) == [], "on a phone"
    for scheme in PAPERS:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("scheme => document.body.classList.contains(scheme)", arg=scheme)
        assert barriers(page) == [], scheme


def test_the_icon_is_the_course_s(no_site: TestClient) -> None:
    assert no_site.get("/favicon.svg").headers["content-type"] == "image/svg+xml"
    assert '<link rel="icon" href="../favicon.svg">' in no_site.get("/day/2").text


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the site would be, had `make site` been run."""
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def no_site(empty: Path) -> Iterator[TestClient]:
    """The server without the site."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_server, "SITE", empty)
        yield TestClient(page_server.application(), follow_redirects=False)


@pytest.mark.parametrize("day", [DAYS[0], DAYS[9], DAYS[37]], ids=lambda day: day.stem)
def test_a_lesson_needs_no_network(no_site: TestClient, day: Day) -> None:
    """Formulas are MathML, nothing comes from another machine, and links lead to pages of this server."""
    page = no_site.get(f"/day/{day.number}").text
    lesson = nbformat.read(day.lesson, as_version=4)
    formulas = [c for c in lesson.cells if c.cell_type == "markdown" and "$" in c.source]
    assert bool(formulas) <= ("<math" in page)
    assert not re.search(r"<(script|link rel=\"(?!icon))|src=\"(?!data:)", page)
    assert day.title in page
    assert '<a href="../">All pages</a>' in page
    [font] = re.findall(r'url\("\.\.(/font/[^"]+)"\)', page)
    assert no_site.get(font).content.startswith(b"wOF2")
    for note in set(re.findall(r'href="\.\.(/paper_notes/[^"#]+)"', page)):
        assert no_site.get(note).status_code == 200


@pytest.mark.slow
def test_a_lesson_fits_and_follows_the_dark(
    no_site: TestClient, chromium: sync_api.Browser
) -> None:
    page = chromium.new_page()
    page.set_content(no_site.get("/day/2").text)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert sticks_out(page) == [], width
    for scheme, paper in PAPERS.items():
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(PAPER) == paper
        assert barriers(page) == [], scheme
    page.close()


def test_a_lesson_is_the_site_s_where_it_is_built(no_site: TestClient, empty: Path) -> None:
    target = empty / "lessons" / f"{DAYS[6].stem}.html"
    target.parent.mkdir()
    target.write_text("of the site", encoding="utf-8")
    redirected = no_site.get("/day/7")
    assert redirected.is_redirect
    assert no_site.get(redirected.headers["location"].removeprefix("..")).text == "of the site"
    for missing in (f"/day/{LAST_DAY + 1}", "/paper_notes/x.md"):
        assert no_site.get(missing).status_code == 404


@pytest.mark.slow
def test_the_list_has_every_page(explorer: str, chromium: sync_api.Browser) -> None:
    page = chromium.new_page()
    page.goto(f"{explorer}/")
    assert page.locator("li a").all_inner_texts() == [topic.title for topic in TOPICS]
    script = "one => document.querySelector(one.getAttribute('href')).childElementCount"
    for picture in page.locator("li use").all():
        assert picture.evaluate(script) >= 3
    page.wait_for_function("document.fonts.check('16px \"PT Sans\"')")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert sticks_out(page) == [], width
    assert barriers(page) == []
    page.locator("li").first.click(position={"x": 20, "y": 20})  # anywhere on a card
    page.wait_for_url(f"**/{TOPICS[0].name}/")
    page.close()


def test_a_name_that_is_nearly_right() -> None:
    with pytest.raises(NoSuchTopic, match="Did you mean softmax"):
        topic_of("sofmax")
    assert topic_of("softmax").title == "Softmax and temperature"
