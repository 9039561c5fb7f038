"""Formulas in MathML, which browsers draw by themselves."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

# In a font for mathematics the prime is high already: as a superscript it would be small and far up.
PRIMED = re.compile(r"<msup>(<m[ion]>[^<]*</m[ion]>)<mi>&#x02032;</mi></msup>")
# A function and what it is applied to without brackets: `\ln n`, `\log_2 n`.
NAME = r"<mi>[a-z]{2,}</mi>"
APPLIED = re.compile(
    rf"(<(msu[bp])>{NAME}<m[in]>[^<]*</m[in]></\2>|(?<!<msu[bp]>)(?<!<msubsup>){NAME})(?=<m(?!o>|o ))"
)


def formula(latex: str, display: str = "inline") -> str:
    """Return a formula in MathML, with primes and spaces as TeX sets them."""
    written = PRIMED.sub(r"<mrow>\1<mo>&#x02032;</mo></mrow>", convert(latex, display=display))
    return APPLIED.sub(r'\1<mspace width="0.167em"/>', written)
