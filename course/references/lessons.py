"""What every lesson has in one form: its answers, which are folded."""

from __future__ import annotations

import re
from collections.abc import Iterator

# An answer begins with "**Answer.**", or names its question: "**Answer, first part.**".
OPEN = re.compile(r"^\*\*(Answers?\b[^*\n]*?)[.:]?\*\*\s*", re.MULTILINE)
PREDICTION = re.compile(r"\*\*Predict first\b")
FOLD = "<details><summary>{}</summary>\n\n{}\n\n</details>"
FOLDED = re.compile(
    r"(?:\A|\n\n)<details><summary>[^<\n]+</summary>\n\n.+?\n\n</details>(?=\n\n|\Z)", re.S
)


def folded(text: str) -> str:
    """Return a cell's Markdown with each open answer folded.

    An answer is a paragraph, with the list, table or equation that it announces by a colon. Move the
    end of the fold by hand where it goes on.
    """
    blocks = re.split(r"\n{2,}", text)
    for begin in reversed([place for place, block in enumerate(blocks) if OPEN.match(block)]):
        end, match = begin + 1, OPEN.match(blocks[begin])
        assert match
        while end < len(blocks) and (OPEN.fullmatch(blocks[end - 1]) or blocks[end - 1][-1] == ":"):
            end += 1
        answer = "\n\n".join([blocks[begin][match.end() :], *blocks[begin + 1 : end]])
        blocks[begin:end] = [FOLD.format(match[1], answer.strip())]
    return "\n\n".join(blocks) if OPEN.search(text) else text


def unfolded(text: str) -> Iterator[str]:
    """Find what is wrong with the folds of a lesson, given all its Markdown in one text."""
    if len(FOLDED.findall(text)) != text.count("<details"):
        form = FOLD.format("…", "…").replace("\n", "⏎")
        yield f"a fold is not of the form ⏎⏎{form}⏎⏎"
    questions = [match.start() for match in PREDICTION.finditer(text)]
    for begin, end in zip(questions, [*questions[1:], len(text)], strict=True):
        if "<details" not in text[begin:end]:
            yield f"no folded answer follows: {text[begin : begin + 80]!r}"
