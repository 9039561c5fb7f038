"""A picture that moves: what shows when, and what is left when nothing moves."""

import re
import xml.etree.ElementTree as ET

import matplotlib.pyplot as plt
import pytest

from website.moving import moving


def three_frames():
    """A word in each of three frames, one that stays for two of them, and one in all."""
    figure, axes = plt.subplots(figsize=(2, 1))
    words = [axes.text(0, 0, word) for word in ("first", "second", "third", "late")]
    axes.text(0, 0, "always")
    frames = [[words[0]], [words[1], words[3]], [words[2], words[3]]]
    return moving(figure, frames, 0.5, "three & more")


def shown(svg, at):
    """The words that show in a frame, as the style has it; `at` None is when nothing moves."""
    visible = set()
    for kind, word in re.findall(r'<g(?: class="([\w-]+)")?>\s*<text[^>]*>([a-z]+)</text>', svg):
        if kind and at is None:
            [state] = re.findall(rf"\.{kind}{{visibility:(\w+)", svg)
        elif kind:
            [stops] = re.findall(rf"@keyframes {kind}{{(.*)}}", svg)
            state = re.findall(r"visibility:(\w+)", stops)[at]
        else:
            state = "visible"
        if state == "visible":
            visible.add(word)
    return visible


def test_each_frame_has_its_own():
    svg = three_frames().svg
    assert shown(svg, 0) == {"first", "always"}
    assert shown(svg, 1) == {"second", "late", "always"}
    assert shown(svg, 2) == {"third", "late", "always"}
    assert "0%{" in svg and "33.33%{" in svg and "66.67%{" in svg


def test_at_rest_it_is_the_last_frame():
    """On paper, for who wants less motion, and when it has played twice."""
    svg = three_frames().svg
    assert shown(svg, None) == shown(svg, 2)
    assert svg.count("1.5s step-end 2}") == 4
    assert "@media print" in svg and "prefers-reduced-motion" in svg


def test_the_same_figure_gives_the_same_bytes():
    """So that a notebook can be executed again; and nothing of it is a name that others have."""
    svg = three_frames().svg
    assert svg == three_frames().svg
    assert not re.search(r'id="(figure|axes|text)', svg)


def test_places_are_to_a_hundredth():
    """Two processors may differ in the last digit of a float, and would draw other bytes."""
    figure, axes = plt.subplots()
    words = [axes.text(1 / 3, 2 / 7, "one: 0.123456"), axes.text(0, 0, "two")]
    svg = moving(figure, [words[:1], words[1:]], 1, "words").svg
    assert "one: 0.123456" in svg
    tags = re.findall(r"<[^>]+>", svg)
    assert not [tag for tag in tags if re.search(r"\d\.\d{3,}", tag)]


def test_it_can_be_read_out():
    root = ET.fromstring(three_frames().svg)
    assert root.get("aria-label") == "In motion: three & more"
    assert repr(three_frames()) == "In motion: three & more"


def test_the_figure_is_not_shown_once_more():
    before = plt.get_fignums()
    three_frames()
    assert plt.get_fignums() == before


def test_one_frame_does_not_move():
    figure, axes = plt.subplots()
    with pytest.raises(ValueError, match="two frames or more, not with 1"):
        moving(figure, [[axes.text(0, 0, "alone")]], 1, "a word")
    plt.close(figure)
