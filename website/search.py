"""The texts of all pages as a script, so that the search shows where a word is without a server.

`static/search.js` reads them. Sphinx's own search fetches each page that it finds, and browsers
fetch no files.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.search.en import SearchEnglish

TEXTS = "search_texts.js"


class English(SearchEnglish):
    """Sphinx's own, which takes the stem of each word once, and not once for each page that has it."""

    stem = functools.cache(SearchEnglish.stem)


def sections(tree: nodes.document) -> Iterator[tuple[str, str]]:
    """The anchor of each section, and its text without the sections inside it."""
    for section in tree.findall(nodes.section):
        own = [_prose(child) for child in section if not isinstance(child, nodes.section)]
        yield section["ids"][0], " ".join(" ".join(own).split())


def _prose(node: nodes.Node) -> str:
    """The text without HTML, and without the LaTeX of formulas on lines of their own."""
    texts = node.findall(nodes.Text)
    return " ".join(
        text for text in texts if not isinstance(text.parent, nodes.raw | nodes.math_block)
    )


def write(folder: Path, environment: BuildEnvironment) -> None:
    """Write the script."""
    texts = {
        name: list(sections(environment.get_doctree(name)))
        for name in sorted(environment.found_docs)
    }
    data = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
    (folder / TEXTS).write_text(f"const SEARCH_TEXTS = {data};\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""

    def finished(app: Sphinx, exception: Exception | None) -> None:
        if exception is None:
            write(Path(app.outdir), app.env)

    app.add_search_language(English)
    app.connect("build-finished", finished)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
