"""Formulas in MathML, which browsers draw by themselves."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

# In a font for mathematics the prime is high already: as a superscript it would be small and far up.
PRIMED = re.compile(r"<msup>(<m[ion]>[^<]*</m[ion]>)<mi>&#x02032;</mi></msup>")
# After a bracket that opens, a comma or a relation, a minus is a sign: it is set close to its number.
SIGN = re.compile(
    r"(<mo[^>]*>(?:&#x000(?:28|5B|7B|2C|3A|3B|3C|3D|3E|B7|D7);|&#x02(?:192|248|264|265|A7D|A7E);)</mo>"
    r"(?:<mspace[^>]*/>)?)<mo>(&#x02212;|\+)</mo>"
)
# A function and what it is applied to without brackets: `\ln n`, `\log_2 n`.
NAME = r"<mi>[a-z]{2,}</mi>"
APPLIED = re.compile(
    rf"(<(msu[bp])>{NAME}<m[in]>[^<]*</m[in]></\2>|(?<!<msu[bp]>)(?<!<msubsup>){NAME})(?=<m(?!o>|o ))"
)


# What the converter writes of a text's `\_`, of ∞, which is no operator, and of a bar, which would be small.
WRITTEN = {
    r"\_": "_",
    "<mo>&#x0221E;</mo>": "<mi>&#x0221E;</mi>",
    '<mo stretchy="true">&#x000AF;</mo>': '<mo stretchy="false" scriptlevel="-1">&#x000AF;</mo>',
}


def formula(latex: str, display: str = "inline") -> str:
    """Return a formula in MathML, with primes, bars, signs and spaces as TeX sets them."""
    markup = convert(latex, display=display)
    for converted, instead in WRITTEN.items():
        markup = markup.replace(converted, instead)
    for pattern, instead in (
        (PRIMED, r"<mrow>\1<mo>&#x02032;</mo></mrow>"),
        (SIGN, r'\1<mo form="prefix">\2</mo>'),
        (APPLIED, r'\1<mspace width="0.167em"/>'),
    ):
        markup = pattern.sub(instead, markup)
    return markup
