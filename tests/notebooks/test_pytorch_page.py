"""The page that introduces PyTorch: its blocks of code print what is below them."""

import contextlib
import io
import re

from course.curriculum import ROOT

PAGE = (ROOT / "docs" / "pytorch.md").read_text(encoding="utf-8")
ANSWER = re.compile(r"<details><summary>The three lines</summary>\n\n```python\n(.*?)```", re.S)
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.M | re.S)


def completed() -> list[tuple[str, str]]:
    """Each block of the page with what it should print, the three missing lines filled in."""
    lines = ANSWER.search(PAGE)[1].strip("\n").split("\n\n")
    page = ANSWER.sub("", PAGE)
    gaps = re.findall(r"^.*\.\.\.\)?  # [123]: .*$", page, re.M)
    for gap, line in zip(gaps, lines, strict=True):
        page = page.replace(gap, line)
    return BLOCK.findall(page)


def test_the_page_prints_what_it_shows():
    """All blocks in their order, in one namespace, as a reader runs them."""
    names = {}
    for code, expected in completed():
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "docs/pytorch.md", "exec"), names)
        assert printed.getvalue() == expected, code
