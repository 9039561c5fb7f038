"""No text from a learner steers what shows it, or becomes a formula or another's file."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.grading.reports.escaping import cell, file_name, one_line, shortened, visible

any_text = st.text(st.characters())  # lone surrogates and noncharacters among them
XML = re.compile("[\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


@given(any_text)
def test_visible_text_can_be_written_anywhere(text):
    """What is made visible is UTF-8, and XML 1.0 allows each of its characters."""
    assert XML.fullmatch(visible(text))
    visible(text).encode("utf-8")


@pytest.mark.parametrize(
    ("steering", "shown"),
    [
        ("\x1b", r"\x1b"),
        ("\r", r"\r"),
        ("\x9b", r"\x9b"),
        ("\u202e", r"\u202e"),
        ("\u2069", r"\u2069"),
        ("\u200b", r"\u200b"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_steering_characters_are_written_out(steering, shown):
    """A character that is not seen but steers can be read as its code."""
    assert visible(f"a{steering}b") == f"a{shown}b"


@pytest.mark.parametrize(
    "text", ["Zoë Ågren", "می\u200cخواهم", "👩\u200d💻", "two\n\tlines", "−∞ √d_k"]
)
def test_honest_text_stays(text):
    """Names and messages in any language are left as they are."""
    assert visible(text) == text


def test_one_line_is_one_line():
    """A name cannot begin a line of its own."""
    assert one_line("a\nb\tc\rd\u2028e") == r"a\nb\tc\rd\u2028e"


def test_long_text_is_cut_and_says_so():
    """What was left out is counted."""
    assert shortened("x" * 1500, most=1000) == "x" * 1000 + "\n… and 500 characters more"
    assert shortened("x" * 1000, most=1000) == "x" * 1000


@pytest.mark.parametrize(
    "first", ["=", "+", "-", "@", "＝", "＋", "－", "＠", "﹢", "﹣", "﹦", "﹫"]
)
def test_formulas_become_text(first):
    """A cell that a spreadsheet might compute gets an apostrophe; the same sign further on does not."""
    assert cell(f"{first}1+1") == f"'{first}1+1"
    assert cell(f" {first}1") == f"' {first}1"
    assert cell(f"a;{first}1") == f"a;'{first}1"
    assert cell(f"a{first}") == f"a{first}"


@pytest.mark.parametrize("first", ["\t", "\r", "\n", "\x00"])
def test_no_cell_begins_with_a_control(first):
    """Controls before a formula are written out, so that it is none."""
    assert cell(f"{first}=1").startswith("\\")


@pytest.mark.parametrize(
    ("learner", "expected"),
    [
        ("doe-jane_12345.v2", "doe-jane_12345.v2"),
        ("../x", "..%2Fx"),
        ("zoë ~1", "zo%C3%AB%20%7E1"),
        ("Zoë", "Zo%C3%AB~c6a12698582fc110"),
        ("\udcff", "%FF"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_file_names(learner, expected):
    """All but ASCII letters, digits, `.`, `_` and `-` is percent-encoded as the file system had it."""
    assert file_name(learner) == expected


@given(any_text.filter(bool))
def test_file_names_are_safe(learner):
    """A file name has nothing but the allowed characters, and room for an ending."""
    assert re.fullmatch(r"[A-Za-z0-9._%~-]{1,200}", file_name(learner))


@given(st.lists(any_text, min_size=2, max_size=2, unique=True))
def test_no_two_learners_share_a_file(names):
    """Different names have different file names, on a disk that takes `Ada` for `ada` as well."""
    assert file_name(names[0]).lower() != file_name(names[1]).lower()
    assert file_name("Ada").lower() != file_name("ada").lower()


def test_long_names_keep_apart():
    """Names alike in all that is kept of them differ, and nobody can take the name of a cut one."""
    name, other = "é" * 200 + "1", "é" * 200 + "2"
    assert file_name(name) != file_name(other)
    assert len(file_name(name)) == 200
    assert file_name(file_name("x" * 300)) != file_name("x" * 300)
