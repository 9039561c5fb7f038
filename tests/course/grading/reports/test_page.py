"""The pages: sound HTML that needs nothing else, says what happened, and lets nothing of a learner's run."""

import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from urllib.parse import unquote

import html5lib
import pytest

from course.curriculum import DAYS
from course.grading.gradebook import Shortcut, Weights
from course.grading.instructions import Member
from course.grading.reports import write_reports
from course.grading.reports.class_page import SIGNS, write_pages
from course.grading.reports.escaping import file_name
from course.grading.reports.graded import Alike, Given
from course.grading.submission.choosing import UNDERSTOOD, FileNote
from course.judging.misconceptions import load_misconceptions
from tests.course.grading.reports.conftest import MadeUp, checks_of, downloaded

SVG = "{http://www.w3.org/2000/svg}"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Page:
    """A page as a browser reads it; one that is not sound HTML is refused."""

    def __init__(self, path):
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.source = path.read_text(encoding="utf-8")
        self.root = parser.parse(self.source)

    def all(self, tag):
        return self.root.findall(f".//{tag}")

    def text(self, at=None):
        """All words, of the whole page or of the element with this id."""
        element = self.root.find("body") if at is None else self.root.find(f".//*[@id='{at}']")
        words = " ".join(" ".join(element.itertext()).split())
        return re.sub(r" ([,.:])", r"\1", words)

    @property
    def attributes(self):
        return [pair for element in self.root.iter() for pair in element.attrib.items()]


@pytest.fixture
def report(tmp_path):
    """Writes a class's pages and reads the report."""

    def read(graded):
        write_pages(tmp_path, graded)
        return Page(tmp_path / "report.html")

    return read


@pytest.fixture
def feedback(tmp_path, report):
    """Writes a class's pages and reads the one to hand to its first learner."""

    def read(graded):
        report(graded)
        return Page(tmp_path / "feedback" / f"{file_name(graded.results[0].learner)}.html")

    return read


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """The report on a class to which all kinds of things happen, and each learner's page."""
    made_up, folder = MadeUp(), tmp_path_factory.mktemp("mixed")
    ada = replace(made_up.learner("Ada_12", beyond=1), late=True, python="3.9.1")
    ada.taken.append(FileNote("x/s1_day1.py", "day01_softmax.py", f"taken, {UNDERSTOOD}"))
    ada.taken.append(FileNote("Day2.py", "day02_attention.py", "taken as day02_attention.py"))
    ada.ignored.append(FileNote("old/day1.py", "", "'new.py' was taken, which is later"))
    ada.ignored.append(FileNote("old/day3.py", "", "'day03.py' was taken, which is the same"))
    ada.ignored.append(FileNote("notes.txt", "", ""))
    ada.review.extend(Shortcut(2, line, "torch.nn.<b>") for line in range(1, 41))
    grace = made_up.learner("<i>Grace", wrong=1, message="Why.")
    grace.days[2]["handed_in"] = False
    grace.ignored.append(FileNote("day03.py (1).txt", "", ""))
    learners = [
        *(ada, grace, made_up.refused("Cemal", "A zip <bomb>.")),
        *(
            made_up.fault("Deeba", "OSError on /mnt/grader"),
            made_up.nothing("Evelyn", "'<b>.pdf'."),
        ),
    ]
    graded = made_up.graded(
        *learners,
        lacking=["There is no cgroup."],
        alike=[Alike(["a", "<i>b", "c"], [1, 2, 8], [2], 0.934), Alike(["d", "e"], [], [], 0.7)],
        given=[Given("<i>a", "the worked solution", [1, 2, 3], 0.97)],
        roster=[Member("12", "Ada")],
        sources=[downloaded("Ada_12", "Moodle")],
    )
    write_pages(folder, graded)
    pages = {one.learner: f"feedback/{file_name(one.learner)}.html" for one in learners}
    return {name: Page(folder / path) for name, path in pages.items()} | {
        "report": Page(folder / "report.html")
    }


@pytest.mark.parametrize(
    ("page", "at", "words"),
    [
        ("report", None, "Learners 5 graded 2 nothing found 1 refused 1 grader fault 1 late 1"),
        ("report", None, "late 1 Mean points 2.75 of 3 Days 1–3"),
        ("report", None, "Days 1–3 When 2026-11-22 03:14 UTC Python 3."),
        ("report", None, ", 3.9.1 Device cpu Seed 8235113"),
        ("report", None, "There is no cgroup."),
        ("report", "glance", "The number after a name identifies the learner in Moodle."),
        ("report", "not-graded", "Cemal refused A zip <bomb>. Deeba grader fault OSError on /mnt/grader E"),
        ("report", "by-hand", "Nothing in this section is a verdict or cost a point."),
        ("report", "by-hand", "roster.csv does not have them. <i>Grace, Cemal, Deeba, Evelyn Choices"),
        ("report", "by-hand", "Ada_12 old/day1.py was not graded: 'new.py' was taken, which is later Files"),
        ("report", "by-hand", "were for no day. <i>Grace day03.py (1).txt Names of files"),
        ("report", "by-hand", f"were graded. Ada_12 x/s1_day1.py taken, {UNDERSTOOD} Shortcuts"),
        ("report", "by-hand", "Ada_12 day 2, line 1: torch.nn.<b>"),
        ("report", "by-hand", "and 28 more Similar"),
        ("report", "by-hand", "own files 97% <i>a and the worked solution days 1–3 Similar"),
        ("report", "by-hand", "93% 3 learners: a, <i>b, c days 1–2, 8; the same code on day 2 70%"),
        ("report", "by-hand", "70% d, e all days together"),
        ("report", "by-hand", "can find:"),
        ("report", "by-hand", "cannot find:"),
        ("Ada_12", None, "3 of 3 points ★ 2 of 3 days watertight late 1 ✔ 2 ★ 3 ★"),
        ("Cemal", None, "0 of 3 points Refused: the submission could not be accepted. A zip <bomb>."),
        ("Deeba", None, "Deeba Not graded yet. The grader failed."),
        ("Evelyn", None, "0 of 3 points Nothing was found to grade. '<b>.pdf'."),
    ],
)  # fmt: skip
def test_words(mixed, page, at, words):
    """What happened is told where it belongs, and each list has those whom it is about and nobody else."""
    assert words in mixed[page].text(at)


def test_the_matrix_has_stars_and_says_who_is_late(mixed):
    page = mixed["report"]
    names = [" ".join("".join(cell.itertext()).split()) for cell in page.all("tbody/tr/th")]
    assert names == ["late Ada_12", "<i>Grace", "Cemal", "Deeba", "Evelyn"]
    assert ["".join(cell.itertext()) for cell in page.all("tbody/tr/td")[1:4]] == ["✔", "★", "★"]
    watertight = [cell.get("title") for cell in page.all("tfoot/tr/td")[1:]]
    assert watertight == ["0 watertight", "2 watertight", "2 watertight"]


def test_what_did_not_happen_has_no_section(report, made_up):
    words = report(made_up.graded(made_up.learner("a"))).text()
    assert "No submission is the same as, or close to, the worked solution or the stub." in words
    assert "No submissions stand out in this class." in words
    for heading in ("Choices between files", "Not in the roster", "Names of files", "The number"):
        assert heading not in words


def test_feedback_tells_only_what_is_the_learners(mixed):
    """The page to hand out knows no seed, no other learner, no review, and nothing of the machine."""
    for name in ("Ada_12", "Deeba"):
        for secret in ("8235113", "Grace", "torch.nn", "worked solution", "/mnt/grader", "cgroup"):
            assert secret not in mixed[name].source
    assert "points" not in mixed["Deeba"].text()


def test_histogram(report, made_up):
    """Each graded learner is in one bar, the best in the last."""
    nothing = made_up.learner("none")
    nothing.days[:] = [made_up.day(day, wrong=99) for day in (1, 2, 3)]
    learners = [made_up.learner("a"), made_up.learner("b"), nothing, made_up.refused("c")]
    page = report(made_up.graded(*learners))
    heights = [float(bar.get("height")) for bar in page.all(f"{SVG}rect")]
    assert heights == [70, *[0] * 8, 140]


@pytest.mark.parametrize(
    ("change", "shown", "title"),
    [
        ({"status": "failed"}, "half_right", "half right: some exercises earn their points"),
        ({"status": "error"}, "half_right", "half right: some exercises earn their points"),
        ({"status": "not_started"}, "not_started", "stub untouched"),
        ({"status": "not_started", "handed_in": False}, "not_handed_in", "not handed in"),
        *(
            ({"status": status, "checks": []}, status, title)
            for status, title in [("passed", "passed"), ("failed", "failed"), ("error", "error")]
        ),
        ({"status": "in_progress"}, "in_progress", "begun, not finished"),
        ({"status": "skipped"}, "skipped", "skipped"),
        ({"watertight": True}, "watertight", "passed and watertight"),
    ],
)
def test_statuses_are_told_apart_by_signs(report, feedback, made_up, change, shown, title):
    """A day has the sign of its status, not its color alone, in the matrix and on the page."""
    learner = made_up.learner("a", wrong=1, message="Why.")
    learner.days[0].update(change)
    graded = made_up.graded(learner)
    cell = report(graded).all("tbody/tr/td")[1]  # after the points
    assert ("".join(cell.itertext()), cell.get("class")) == (SIGNS[shown], shown)
    assert cell.get("title") == f"Day 1: {title}"
    assert feedback(graded).all("ol/li")[0].get("class") == shown
    assert [sign for status, sign in SIGNS.items() if status != shown].count(SIGNS[shown]) == 0


def test_sorting(report, made_up):
    """Each row knows its place in every order: by points, and by need on each day; others come last."""
    learners = [made_up.refused("a"), made_up.learner("b", wrong=99), made_up.learner("c")]
    learners.append(made_up.learner("d", wrong=1))
    page = report(made_up.graded(*learners))
    rows = [row.get("style") for row in page.all("tbody/tr") if row.get("style")]
    places = [dict(style.split(":") for style in row.split(";")) for row in rows]
    assert [position["--points"] for position in places] == ["4", "3", "1", "2"]
    assert [position["--day-1"] for position in places] == ["4", "1", "3", "2"]
    assert [position["--day-2"] for position in places] == ["4", "1", "2", "3"]
    inputs = [element.get("id") for element in page.all("input")]
    assert inputs == ["by-name", "by-points", "by-day-1", "by-day-2", "by-day-3"]
    for order in inputs[1:]:
        rule = f"#{order}:checked) tbody tr {{ order: var(--{order.removeprefix('by-')}); }}"
        assert rule in page.source


def test_stuck_and_behind(report, made_up):
    """Who began what is not right, and who lacks what half of the class has; the most first."""
    learners = [made_up.learner(name) for name in "abcd"]
    learners[0].days[1] = made_up.day(2, wrong=1, message="Why.")
    for number in (1, 2):
        learners[1].days[number - 1] = made_up.day(number, wrong=99, status="error")
    for learner in learners[2:]:
        learner.days[2].update(status="not_started", watertight=False, handed_in=False)
    words = report(made_up.graded(*learners)).text("stuck")
    assert (
        "Learners with days that they have begun but not passed. 2 b 1 ! 2 ! 1 a 2 ✘ Behind"
        in words
    )
    assert words.endswith("at least half of the class passes. 1 c 3 · 1 d 3 ·")
    words = report(made_up.graded(*learners[2:])).text("stuck")
    assert words.count("No learners.") == 2  # nobody passes day 3, so nobody is behind


def test_files(report, feedback, made_up):
    """What was taken for what, and what was not, is told on every page; in the report the first of many."""
    learner = made_up.learner("a")
    learner.taken.append(FileNote("x/Day1.py", "day01_softmax.py", "taken as day01_softmax.py"))
    learner.ignored.append(FileNote("day2_atention.py", "day02_attention.py", ""))
    learner.ignored.extend(FileNote(f"<i>{n}", "", "it was handed in again") for n in range(20))
    learner = replace(learner, ignored_count=30)
    text = "Files: 1 used, 30 not used used x/Day1.py taken as day01_softmax.py not used"
    text += (
        " day2_atention.py is nearest to day02_attention.py not used <i>0 it was handed in again"
    )
    brief = report(made_up.graded(learner)).text()
    assert text in brief and "<i>6" in brief and "<i>7" not in brief
    assert "22 more were not used." in brief
    words = feedback(made_up.graded(learner)).text()
    assert text in words and "<i>19" in words and "9 more were not used." in words


def test_links_lead_somewhere(report, made_up, tmp_path):
    """Every link within the report has its target, every page to hand out is there, no id is twice."""
    learners = [made_up.learner("../a b%", wrong=1), made_up.refused("ä"), made_up.fault("c")]
    page = report(made_up.graded(*learners))
    ids = Counter(value for name, value in page.attributes if name == "id")
    links = [value for name, value in page.attributes if name == "href"]
    within = {link[1:] for link in links if link.startswith("#")}
    assert within <= set(ids)
    assert "learner-1-day-1" in within
    assert max(ids.values()) == 1
    pages = [unquote(link) for link in links if not link.startswith("#")]
    assert [(tmp_path / path).is_file() for path in pages] == [True, True, True]


def test_misconceptions(report, made_up):
    """A learner counts once for a mistake, however many checks show it, and is named."""
    tells = {mistake.id: mistake.tell for mistake in load_misconceptions(DAYS[1])}
    tell = tells["not_scaled"]
    learners = [made_up.learner(name) for name in "abc"]
    for learner in learners[:2]:
        learner.days[1] = made_up.day(
            2, wrong=5, misconception="not_scaled", message=f"{tell}\nIt differs."
        )
    learners[2].days[1] = made_up.day(2, wrong=2, misconception="mask_inverted", message="x\ny")
    page = report(made_up.graded(*learners))
    words = page.text("misconceptions")
    assert "A word such as not_scaled is the name of a mistake in the results." in words
    assert f"Day 2 · Attention 2 × not_scaled {tell} a, b 1 × mask_inverted" in words
    assert words.endswith("may be attended to. c")
    section = page.root.find(".//*[@id='misconceptions']")
    links = [link.get("href") for link in section.findall(".//a")]
    assert links == ["#learner-1", "#learner-2", "#learner-3"]


def test_not_loaded(report, feedback, made_up):
    """What never ran is listed with its reason, once for all days that have it; nobody is stuck on it."""
    learner, other = made_up.learner("a"), made_up.learner("b", wrong=1, status="error")
    for number, why in ((1, "is not UTF-8."), (2, "is not UTF-8."), (3, "cannot be loaded.")):
        day = learner.days[number - 1] = made_up.day(number, wrong=99, beyond=99, status="error")
        for check in day["checks"]:
            check.update(message=f"{day['stem']}.py {why}", seconds=0.0)
    graded = made_up.graded(learner, other)
    page = report(graded)
    text = "a Days 1–2 The file is not UTF-8. a Day 3 day03_masks.py cannot be loaded."
    assert page.text("not-loaded").endswith(text)
    assert "not passed. 1 b 1 ½ Behind" in page.text("stuck")
    assert [cell.get("class") for cell in page.all("tbody/tr/td")[1:4]] == ["not_loaded"] * 3
    words = feedback(graded).text()
    assert words.count("The file is not UTF-8.") == 1
    assert "Days 1–2 could not be loaded The file" in words


def test_slowest(report, made_up):
    """The slowest are named with their seconds, those who sleep too."""
    learners = [replace(made_up.learner(f"l{n}"), computed=1.0 * n) for n in range(7)]
    learners[0].days[1]["seconds"] = 96.04
    words = report(made_up.graded(*learners)).text("by-hand")
    assert "97.0 s l0 0.0 s of CPU time 1.5 s l6 6.0 s of CPU time" in words
    assert words.endswith("1.5 s l3 3.0 s of CPU time")


@pytest.mark.parametrize("order", [1, -1])
def test_several_mistakes(feedback, made_up, order):
    """Several mistakes at once have lines of their own, and are told once, in whatever order they come."""
    learner = made_up.learner("a", wrong=2, misconception="one, two")
    for check, bullets in zip(
        learner.days[0]["checks"],
        ["• one: A. • two: B.", "• two: B. • one: A."][::order],
        strict=False,
    ):
        check["message"] = f"Two things at once. {bullets}\nIt differs."
    page = feedback(made_up.graded(learner))
    [box] = [one for one in page.all("div") if one.get("class") == "told"]
    assert "".join(box.itertext()).endswith("Two things at once.\n• one: A.\n• two: B.")


def test_failures(report, feedback, made_up):
    """The report tells the first failure of an exercise and names the others; feedback tells all."""
    learner = made_up.learner("a", wrong=3, message="It sums to 2.")
    learner.days[0]["checks"][2].update(message="It sums to 3.")
    brief = report(made_up.graded(learner)).text("learner-1-day-1")
    assert "A row of scores becomes positive weights that sum to 1. It sums to 2." in brief
    assert "The same in rows." in brief
    assert "Also failing: square." in brief
    assert "It sums to 3." not in brief
    assert "It sums to 3." in feedback(made_up.graded(learner)).text()


def test_invitations(report, feedback, made_up):
    """What a right exercise lacks to be watertight stands apart from failures, with its reason."""
    learner = made_up.learner("a", beyond=2, message="It sums to 2.")
    learner.days[1] = made_up.day(2, wrong=1, beyond=1, message="It is NaN.")
    first, second = [check for check in checks_of(1) if check.tier == "watertight"][:2]
    for read in (report, feedback):
        words = read(made_up.graded(learner)).text("learner-1-beyond-1")
        assert f"An invitation: {first.beyond}. {first.name} {first.says} It sums to 2." in words
        assert second.name.removeprefix("test_").partition("[")[0] in words
        assert "failed" not in words
    page = feedback(made_up.graded(learner))
    assert "No points depend on it." in page.text()
    assert page.text().index("It is NaN.") < page.text().index("It sums to 2.")
    assert page.root.find(".//*[@id='learner-1-day-1']") is None
    assert page.root.find(".//*[@id='learner-1-beyond-2']") is None  # its core comes first
    shared = made_up.graded(learner, weights=Weights(made_up.days, None, Fraction(1, 5)))
    assert "It earns 20% of an exercise's points." in feedback(shared).text()
    assert "Watertight checks earn 20% of an exercise" in report(shared).text()


def test_one_thing_wrong_with_the_whole_file(report, made_up):
    """What is the same for all checks of a day is said once."""
    learner = made_up.learner(
        "a", wrong=99, beyond=99, status="error", message="SyntaxError: '(' was never closed"
    )
    assert report(made_up.graded(learner)).text("learner-1-day-1").count("SyntaxError") == 1


def test_known_mistake(feedback, made_up):
    """What was misunderstood stands by itself, its code and stress set, and no other markup."""
    message = "Use `x - y`, *not* `x -= y`, <b>ever</b>.\nIt differs."
    page = feedback(
        made_up.graded(made_up.learner("a", wrong=1, misconception="id", message=message))
    )
    assert "id Use x - y, not x -= y, <b>ever</b>." in page.text()
    assert [element.text for element in page.all("em")] == ["not"]
    assert "x -= y" in [element.text for element in page.all("code")]


@pytest.mark.parametrize("kind", ["report", "feedback"])
def test_hostile_text(request, made_up, hostile, kind):
    """Whatever a learner wrote, a page holds the elements that it always holds, and no script."""
    read = request.getfixturevalue(kind)

    def page(name, text):
        learner = made_up.learner(name, wrong=1, message=text)
        learner.days[1] = made_up.day(2, wrong=1, status="error", message=text)
        learner.days[2] = made_up.day(3, wrong=1, misconception="known", message=f"{text}\n{text}")
        learner.review.append(Shortcut(1, 1, text))
        learner.taken.append(FileNote(text, "day01_softmax.py", text))
        learner.ignored.append(FileNote(text, "day02_attention.py", text))
        rest = made_up.refused(name, text), made_up.fault(name, text), made_up.nothing(name, text)
        changes = {
            "alike": [Alike([name, name], [1], [1], 0.9)],
            "given": [Given(name, "x", [1], 0.9)],
        }
        return read(made_up.graded(learner, *rest, lacking=[text], **changes))

    hostile_page = page(hostile, hostile)
    plain = page("name", "text")
    assert [e.tag for e in hostile_page.root.iter()] == [e.tag for e in plain.root.iter()]
    assert [name for name, _ in hostile_page.attributes] == [name for name, _ in plain.attributes]
    assert not set(hostile_page.source) & set("\x00\x07\x1b\r\x85\u2028\u202e\u2066\ufffe")
    assert str(7 * 191) not in hostile_page.source


@pytest.mark.parametrize("kind", ["report", "feedback"])
def test_needs_nothing_else(request, made_up, kind):
    """A page loads nothing, runs nothing, and forbids both to whatever might get in."""
    page = request.getfixturevalue(kind)(made_up.graded(made_up.learner("a", wrong=1)))
    assert POLICY in [element.get("content", "")[: len(POLICY)] for element in page.all("meta")]
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "srcset", "action", "formaction", "ping", "background", "data"}
    assert not [name for name in names if name.startswith("on")]
    links = [value for name, value in page.attributes if name == "href"]
    assert not [link for link in links if not link.startswith(("#", "feedback/"))]
    tags = {element.tag for element in page.root.iter()}
    assert not tags & {"script", "link", "iframe", "object", "embed", "form", "img", "base"}
    assert not re.search(r"url\(|@import|https?:", page.source)


def test_every_report_is_written(tmp_path, made_up):
    """All files are there, whole, and no draft is left."""
    write_reports(tmp_path, made_up.graded(made_up.learner("a")))
    written = sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    )
    assert written == [
        *("canvas.csv", "feedback/a.html", "grades.csv", "gradescope/a.json"),
        *("junit.xml", "moodle.csv", "nbgrader.csv", "report.html"),
    ]


def test_size(tmp_path, made_up):
    """A class of 120 with 22 days, a third of them wrong at length, makes a report below 3 MB."""
    days = DAYS[:22]
    right = [made_up.day(day.number) for day in days]
    message = "Something differs, and this says how. " * 20
    learner = made_up.learner("Jane Doe_12345")
    for number in range(3, 23, 3):
        wrong = right[number - 1] = made_up.day(number, wrong=99, message=message)
        wrong["checks"][0]["message"] = "Something else differs."
    learner.days[:] = right
    write_pages(tmp_path, made_up.graded(*[learner] * 120, weights=Weights(days)))
    assert 300_000 < (tmp_path / "report.html").stat().st_size < 3_000_000
