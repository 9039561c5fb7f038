"""Words of exceptions that may be shown of code that nobody trusts."""

import pytest

from course.checks.raising import raised
from course.judging.closed_words import closed_raised, is_known

MISTAKES = {
    "if x:\ny = 1": "expected an indented block after 'if' statement on line 1",
    "try:\n    x = 1\ny = 2": "expected 'except' or 'finally' block",
    "print 'x'": "Missing parentheses in call to 'print'. Did you mean print(...)?",
    "x = {1: 2, 3}": "':' expected after dictionary key",
    "x = \u201cabc\u201d": "invalid character '\u201c' (U+201C)",
    "x = a\u00a0+ b": "invalid non-printable character U+00A0",
    "continue": "'continue' not properly in loop",
    "def f(a, a): pass": "duplicate argument 'a' in function definition",
    "x = y \\ z": "unexpected character after line continuation character",
    "1 + x = 3": "cannot assign to expression here. Maybe you meant '==' instead of '='?",
    "x = 0777": "leading zeros in decimal integer literals are not permitted; use an 0o prefix for "
    "octal integers",
    "x = (1": "'(' was never closed",
}


@pytest.mark.parametrize(("source", "words"), MISTAKES.items(), ids=MISTAKES.values())
def test_what_python_says_of_syntax_is_shown(source, words):
    """Its compiler's words are known, whatever stands in the line that is shown."""
    with pytest.raises(SyntaxError) as error:
        compile(source, "day01_softmax.py", "exec")
    report = raised(error.value, "day01_softmax.py")
    assert closed_raised(report, source, "").message == report.message == words


@pytest.mark.parametrize(
    ("name", "known"),
    [("softmax", True), ("reference_of_day_8", False)],
    ids=["written", "unknown"],
)
def test_what_the_course_says_of_an_import_is_shown(name, known):
    """Its own sentence is never cut out, for the names that the submission itself has."""
    words = f"{name} of numpy_reference is today's exercise: it is yours to write, so it cannot be imported "
    words += "here. What earlier days wrote can."
    assert is_known(words, ("softmax", "numpy_reference")) == known


def test_signs_carry_nothing():
    """A name in quotes is no place for a message that has no letters."""
    assert is_known("expected ':'", ())
    assert not is_known("expected '" + "".join("!?" for _ in range(30)) + "'", ())
