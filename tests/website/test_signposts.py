"""The drawing with signposts leads to every day, and says of none twice where one place is enough."""

import xml.etree.ElementTree as ET

import pytest

from course.curriculum import BY_NUMBER, DAYS
from website.drawing import BLOCKS, FRAMES, INSTEAD
from website.signposts import (
    PITCH,
    SIGN,
    linked_transformer,
    numbered_transformer,
    replacements,
    signs,
)

SVG = "{http://www.w3.org/2000/svg}"
LINKED = ET.fromstring(linked_transformer(lambda day: f"days/{day}.html?a&b"))


def places(root):
    """Every sign's day, with the corner of its shape."""
    for sign in root.iter():
        if sign.get("class") == "sign":
            shape = sign.find(f"{SVG}rect")
            yield int(sign.find(f"{SVG}text").text), float(shape.get("x")), float(shape.get("y"))


def test_every_sign_leads_to_its_day():
    """And tells a mouse, and whoever has it read out, which day that is."""
    links = [element for element in LINKED.iter(f"{SVG}a") if element.get("class") == "sign"]
    days = [int(sign.find(f"{SVG}text").text) for sign in links]
    assert set(days) == {day.number for day in DAYS}
    for day, link in zip(days, links, strict=True):
        assert link.get("href") == f"days/{day}.html?a&b"
        assert link.find(f"{SVG}title").text.startswith(f"Day {day}, {BY_NUMBER[day].title}")


def test_every_block_leads_to_its_first_sign():
    """By mouse or finger alone: the sign itself is there for a keyboard."""
    links = [element for element in LINKED.iter(f"{SVG}a") if element.get("aria-hidden")]
    assert [link.get("href") for link in links] == [
        f"days/{signs(block)[0]}.html?a&b" for block in BLOCKS
    ]
    assert all(link.get("tabindex") == "-1" for link in links)


@pytest.mark.parametrize("box", FRAMES + BLOCKS, ids=lambda box: box.label)
def test_a_part_has_days_of_its_own(box):
    """No part is without a sign, and no sign stands where the drawing lights nothing."""
    assert signs(box)
    assert set(signs(box)) <= set(box.days)


def test_signs_are_apart():
    """A finger meets one of them: they are 24 wide, and none lies on another."""
    positions = list(places(LINKED))
    assert SIGN >= 24
    for index, (_, x, y) in enumerate(positions):
        for _, other_x, other_y in positions[:index]:
            assert abs(x - other_x) >= PITCH or abs(y - other_y) >= SIGN


def test_the_picture_is_the_page_without_links():
    picture = ET.fromstring(numbered_transformer())
    assert list(places(picture)) == list(places(LINKED))
    assert not list(picture.iter(f"{SVG}a"))


def test_what_replaces_what():
    """Every day after the paper, at the parts where its sign stands."""
    table = replacements()
    assert [entry.day for entry in table] == list(INSTEAD)
    assert [entry.idea for entry in table] == list(INSTEAD.values())
    labels = {box.label for box in FRAMES + BLOCKS}
    assert all(entry.parts and set(entry.parts) <= labels for entry in table)
    parts = {entry.day: entry.parts for entry in table}
    assert parts[27] == parts[29] == parts[30] == ("scores: q · k / √d_k", "+ positional encoding")
    assert parts[28] == ("add & norm", "feed-forward")
