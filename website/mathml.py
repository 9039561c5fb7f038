"""Formulas as MathML, made when the site is built: browsers show them by themselves, without a script."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

# In a font for mathematics the prime is high already: as a superscript it would be small and far up.
PRIMED = re.compile(r"<msup>(<m[ion]>[^<]*</m[ion]>)<mi>&#x02032;</mi></msup>")


def formula(latex: str, display: str = "inline") -> str:
    """A formula in MathML."""
    return PRIMED.sub(r"<mrow>\1<mo>&#x02032;</mo></mrow>", convert(latex, display=display))


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula that stands in a line."""
    translator.body.append(formula(node.astext()))
    raise nodes.SkipNode


def visit_display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that stands by itself; a narrow page scrolls inside its box."""
    translator.body.append(f'<div class="formula">{formula(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls to get the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
