"""What the site's pages are made of, piece by piece."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import jinja2
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

from course.curriculum import DAYS, ROOT

pytest.importorskip("sphinx", reason="sphinx is in the extra 'site'")

from PIL import Image

from explorer.formulas import formula
from explorer.topics import STILLS, TOPICS, picture_of
from website.address import README, address, with_address
from website.lessons import ANSWER, alternative_text, lesson_page
from website.reference import as_rst, without_lists

WEBSITE = ROOT / "website"


def test_what_is_indented_in_a_docstring_is_set_as_it_stands():
    docstring = (
        "Softmax.\n\n    y = `x` / |x|\n\nMore, of `Layer`s and |x|.\n\nArgs:\n    x: a `row`."
    )
    assert as_rst(docstring).splitlines() == [
        "Softmax.",
        "",
        "",
        ".. code-block:: text",
        "",
        "    y = `x` / |x|",
        "",
        "",
        r"More, of ``Layer``\ s and \|x\|.",
        "",
        "Args:",
        "    x: a ``row``.",
    ]


def test_a_long_signature_is_no_list():
    body = '<dl>\n<dd><em class="sig-param">x</em>,</dd>\n</dl>\n<dl><dt>a list</dt></dl>'
    assert without_lists(body) == (
        '<span class="parameters"><span><em class="sig-param">x</em>,</span>\n</span>\n'
        "<dl><dt>a list</dt></dl>"
    )


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
@pytest.mark.parametrize("dark", [False, True])
def test_each_page_of_the_explorer_has_a_still_and_an_animation(topic, dark):
    """Light enough for a lesson's page, and as bright as their theme."""
    for moving in (False, True):
        path = STILLS / picture_of(topic.name, dark, moving)
        with Image.open(path) as picture:
            assert (getattr(picture, "n_frames", 1) >= 4) == moving
            corner = picture.convert("L").getpixel((0, picture.height - 1))
        assert (corner < 100) == dark
        assert path.stat().st_size < 150_000


def _cell(code: str, says: str) -> nbformat.NotebookNode:
    data = {"image/png": "", "text/plain": says}
    return new_code_cell(code, outputs=[new_output("display_data", data)])


@pytest.mark.parametrize(
    ("code", "says", "expected"),
    [
        ("transformer(day=1)", "You are here: day 1", "You are here: day 1"),
        (
            "ax.set_title('weights')\nax.set(xlabel='keys')\nax.plot(x, label=name)",
            "<Figure size 5x5>",
            "Figure: weights; keys",
        ),
        ("plt.show()", "<Figure size 5x5>", "Figure, described in the text beside it"),
    ],
)
def test_a_picture_has_words_in_its_place(code, says, expected):
    assert alternative_text(_cell(code, says)) == expected


def test_what_has_no_picture_needs_none():
    assert alternative_text(new_code_cell("1 + 1")) == ""


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.stem)
def test_no_heading_begins_inside_the_fold(day):
    """Its section would end after the fold, and take the rest of the page with it."""
    cells = lesson_page(day).cells
    [start] = [
        i for i, cell in enumerate(cells) if cell.source.startswith('<details class="answer">')
    ]
    inside = [cell.source for cell in cells[start + 1 : -1] if cell.cell_type == "markdown"]
    assert not [line for text in inside for line in text.splitlines() if line.startswith("#")]
    assert cells[-1].source == "</details>"


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.stem)
def test_what_is_to_be_predicted_is_folded(day):
    """The answer, and what the cells before it print; imports too. No comment is for a tool."""
    cells = lesson_page(day).cells
    answers = [i for i, cell in enumerate(cells) if cell.source.startswith(ANSWER)]
    assert answers
    for i in answers:
        before = next(cell for cell in reversed(cells[:i]) if cell.get("outputs", True))
        assert before.cell_type == "markdown" or "hide-output" in before.metadata.tags
    assert not [cell for cell in cells if re.search("^# NBVAL|# noqa", cell.source)]
    first = next(cell for cell in cells if cell.cell_type == "code")
    assert re.match("import|from", first.source) and "hide-input" in first.metadata.tags


def _links(repository: str) -> str:
    template = jinja2.Template(
        (WEBSITE / "templates" / "open-lesson.html").read_text(encoding="utf-8")
    )
    return template.render(
        pagename="lessons/day01_softmax", repository=repository, pathto=lambda name, _: f"../{name}"
    )


def test_a_lesson_opens_elsewhere_once_the_address_is_known():
    unknown, published = _links(""), _links("ada/course")
    for html in (unknown, published):
        assert 'href="../lessons/day01_softmax.ipynb" download' in html
        assert 'href="../exercises/day01_softmax.py" download' in html
    assert "colab" not in unknown
    assert "github/ada/course/blob/colab/lessons/day01_softmax.ipynb" in published
    assert "codespaces.new/ada/course" in published


def test_an_address_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("SITE_REPOSITORY", "https://github.com/ada/course")
    with pytest.raises(ValueError, match="SITE_REPOSITORY is OWNER/NAME"):
        runpy.run_path(str(Path(WEBSITE / "conf.py")))


def test_readme_says_where_the_course_is_published():
    text = README.read_text(encoding="utf-8")
    assert with_address(text, address()) == text
    published = with_address(text, "https://ada.github.io/course/")
    for line in (
        "**[Read the course as a site](https://ada.github.io/course/)**",
        "git clone https://github.com/ada/course transformers && cd transformers",
    ):
        assert line in published.splitlines()
    for link in (
        "https://codespaces.new/ada/course",
        "https://colab.research.google.com/github/ada/course/blob/colab/lessons/day01_softmax.ipynb",
    ):
        assert f"]({link})" in published
    elsewhere = with_address(published, "https://course.example.org/")
    assert "(https://course.example.org/)" in elsewhere and "/ada" not in elsewhere
    assert "git clone <this repository> transformers" in elsewhere
    assert with_address(published, "") == with_address(text, "")


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("m'", "<mrow><mi>m</mi><mo>&#x02032;</mo></mrow>"),
        (r"\ln n", '<mi>ln</mi><mspace width="0.167em"/><mi>n</mi>'),
        (r"\log_2 8", '<msub><mi>log</mi><mn>2</mn></msub><mspace width="0.167em"/><mn>8</mn>'),
        (r"\exp(n)", '<mi>exp</mi><mo stretchy="false">'),
        ("(-1", '<mo form="prefix">&#x02212;</mo><mn>1</mn>'),
        ("k=-1", '<mo form="prefix">&#x02212;</mo><mn>1</mn>'),
        (r"x, \; -1", '<mo form="prefix">&#x02212;</mo><mn>1</mn>'),
        ("m-1", "<mi>m</mi><mo>&#x02212;</mo><mn>1</mn>"),
        ("(m)-1", "</mo><mo>&#x02212;</mo><mn>1</mn>"),
        (r"-\infty", "<mo>&#x02212;</mo><mi>&#x0221E;</mi>"),
        (r"\bar{A}", '<mo stretchy="false" scriptlevel="-1">&#x000AF;</mo></mover>'),
        (r"\text{a\_log}", "<mtext>a_log</mtext>"),
    ],
)
def test_formulas_are_set_as_tex_sets_them(latex, expected):
    assert expected in formula(latex)
