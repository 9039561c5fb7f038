"""The README's pictures are what the tool shows today, and the drawing has a place for every day."""

import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

from course.curriculum import BY_NUMBER, DAYS
from website.drawing import BLOCKS, FRAMES, HEIGHT, WIDTH, transformer
from website.readme_pictures import PICTURES, pictures


@pytest.mark.slow
def test_no_picture_is_out_of_date():
    """`make pictures` would change nothing."""
    current = pictures()
    assert {path.name for path in PICTURES.iterdir()} == set(current)
    old = [name for name, svg in current.items() if (PICTURES / name).read_text("utf-8") != svg]
    assert old == [], "make pictures"


@pytest.mark.parametrize("day", [day.number for day in DAYS if day.ready])
def test_every_day_is_somewhere(day):
    """Its parts are lit, its title stands there, and what it says it shows can be parsed."""
    drawing = transformer(day)
    root = ET.fromstring(drawing.svg)
    lit = [
        element
        for element in root.iter()
        if element.get("fill") == "white" and element.get("font-weight")
    ]
    assert len(lit) == sum(day in block.days for block in BLOCKS) > 0
    assert any(BY_NUMBER[day].title in (element.text or "") for element in root.iter())


def test_no_place_for_it():
    with pytest.raises(ValueError, match="day 99"):
        transformer(99)


def test_blocks_do_not_overlap():
    """Each block lies alone, and inside the drawing."""
    for left_block, other in combinations(BLOCKS, 2):
        apart_across = (
            left_block.x + left_block.width <= other.x or other.x + other.width <= left_block.x
        )
        apart_down = (
            left_block.y + left_block.height <= other.y or other.y + other.height <= left_block.y
        )
        assert apart_across or apart_down, (left_block.label, other.label)
    for box in FRAMES + BLOCKS:
        assert box.x >= 0 and box.y >= 0
        assert box.x + box.width <= WIDTH and box.y + box.height <= HEIGHT
