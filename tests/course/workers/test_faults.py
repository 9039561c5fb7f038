"""Whatever a learner's file does, there is a clear message, the right status, and the tool lives."""

import json

import pytest

from course.checks.answer_files import read_answer
from course.curriculum import DAYS
from course.references.stubs import stub_text

FIRST = "    scaled = "
LAST = "    return np.matmul(weights, value), weights"

# What is done to a right answer, the status of the first check that then does not pass, and words
# that its message must hold.
FAULTS = {
    "syntax error": (("matmul(scaled", "matmul((scaled"), "error", "SyntaxError", "matmul((scaled"),
    "missing definition": (("def attention", "def atention"), "error", "defines no `attention`"),
    "wrong signature": (("query, key, value, mask=None", "q, k"), "error", "keep the stub's `def` line"),
    "wrong type": ((LAST, LAST.replace("value)", "value).tolist()")), "failed", "list of"),
    "wrong shape": ((LAST, LAST.replace("value)", "value)[..., :1]")), "failed", "has shape"),
    "wrong dtype": ((LAST, LAST.replace("value)", "value).astype('float16')")), "failed", "float16"),
    "nothing returned": ((LAST, "    pass"), "failed", "Is a `return` missing,"),
    "not a number": ((LAST, LAST.replace("value)", "value) * np.nan")), "failed", "is NaN"),
    "infinity": ((LAST, LAST.replace("value)", "value) + np.inf")), "failed", "overflow"),
    "exception": ((FIRST, "    [][3]\n" + FIRST), "error", ", in attention: [][3]"),
    "misspelled name": ((FIRST, "    quary\n" + FIRST), "error", "Did you mean `query`?"),
    "misspelled attribute": (
        (FIRST, "    np.matmull\n" + FIRST), "error", "Did you mean `matmul`?",
    ),
    "misspelled import": (("import math", "from math import sqrtt"), "error", "Did you mean `sqrt`?"),
    "missing import": (("import numpy as np\n", "\n"), "error", "`import numpy as np`"),
    "missing module": ((FIRST, "    random.random()\n" + FIRST), "error", "`import random`"),
    "input": ((FIRST, "    input('?')\n" + FIRST), "error", "without a keyboard", "`input()`"),
    "breakpoint": ((FIRST, "    breakpoint()\n" + FIRST), "error", "without a keyboard", "--pdb"),
    "a debugger": ((FIRST, "    import pdb; pdb.set_trace()\n" + FIRST), "error", "without a keyboard"),
    "sys.exit": ((FIRST, "    raise SystemExit(0)\n" + FIRST), "error", "asked Python to stop"),
    "exit at the top": (("import math", "exit()\nimport math"), "error", "asked Python to stop"),
    "os._exit": ((FIRST, "    import os; os._exit(0)\n" + FIRST), "error", "exit code 0"),
    "segfault": ((FIRST, "    import ctypes; ctypes.string_at(0)\n" + FIRST), "error", "crashed"),
    "too large an array": ((FIRST, "    np.ones(10**15)\n" + FIRST), "out_of_memory", "Unable to allocate"),
    "memory bit by bit": (
        (FIRST, "    kept = [np.zeros(2**27) for _ in range(30)]\n" + FIRST),
        "out_of_memory",
        "MemoryError",
    ),
    "endless recursion": ((FIRST, "    attention(query, key, value)\n" + FIRST), "error", "without end"),
    "changed input": ((FIRST, "    query *= 2\n    query /= 2.5\n" + FIRST), "failed", "changed in place"),
    "today's reference": (
        ("import math", "import math\nfrom numpy_reference import attention"),
        "error",
        "today's exercise: it is yours to write",
    ),
    "a later day's reference": (
        ("import math", "import math\nimport numpy_reference\nnumpy_reference.padding_mask"),
        "error",
        "belongs to day 3",
    ),
    "the channel of frames": (
        (FIRST, "    import os\n    for fd in range(3, 20):\n        try: os.write(fd, b'x' * 99)\n"
         "        except OSError: pass\n" + FIRST),
        "error",
        "the channel",
    ),
    "a base class's method": (
        (FIRST, "    import torch; torch.nn.Module()(1)\n" + FIRST),
        "error",
        "misspelled",
    ),
}  # fmt: skip


def spoil(answer, edit):
    find, put = edit
    assert answer.count(find) == 1
    return answer.replace(find, put)


def first_open(day):
    return next(check for check in day.checks if check.status != "passed")


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(check, tmp_path, answer, fault):
    """One way to go wrong: the status, and words that name it."""
    edit, status, *words = FAULTS[fault]
    day = check(2, spoil(answer, edit))
    first = first_open(day)
    assert first.status == status
    for word in words:
        assert word in first.message
    assert day.status == ("failed" if status == "failed" else "error")
    assert str(tmp_path) not in first.message
    assert "course/" not in first.message  # the traceback is cut to the learner's own file


def test_endless_loop_is_timed_out(impatient_check, answer):
    """After its time, and checks that do not reach the loop still count."""
    loop = "    if mask is not None:\n        while True:\n            pass\n"
    line = "    if mask is not None:\n        scores"
    day = impatient_check(2, spoil(answer, (line, loop + line)))
    checks = {check.name: check for check in day.checks}
    assert checks["test_scale"].status == "passed"
    assert checks["test_mask"].status == "timed_out"
    assert "still running after 0.5 seconds" in checks["test_mask"].message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"# caf\xe9\n", "not UTF-8: byte 5"),
        (b"\xff\xfei\x00m", "not UTF-16"),
        (b"a = 1\0\n", "NUL"),
        (b"def attention(query, key, va", "SyntaxError"),
        (b"(" * 5000, "cannot be loaded"),
        (b"#" * 3_000_000, "larger than 2 MB"),
    ],
    ids=["empty", "latin-1", "utf-16", "nul", "half-saved", "nested", "huge"],
)
def test_unreadable_file(check, data, words):
    """Bytes that are no answer: a sentence that says why."""
    day = check(2, data)
    assert day.status == "error"
    assert {check.status for check in day.checks} == {"error"}
    assert words in day.checks[0].message


@pytest.mark.parametrize(
    "change", [lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t], ids=["crlf", "bom"]
)
def test_editors_of_other_systems(check, answer, change):
    """CRLF line ends and a byte order mark are no mistake."""
    assert check(2, change(answer)).status == "passed"


def test_half_done_stub(check):
    """Code before the stub's raise: in progress, and told which line to take out."""
    begun = spoil(
        stub_text(DAYS[1]), ("    raise NotImpl", "    scores = query\n    raise NotImpl")
    )
    day = check(2, begun)
    assert day.status == "in_progress"
    assert "still ends in the stub's `raise NotImplementedError`" in day.checks[0].message


def test_a_raise_of_ones_own_is_an_error(check, answer):
    """Only the stub's unchanged line is *not started*."""
    own = '    raise NotImplementedError("later")'
    assert check(2, spoil(answer, (LAST, own))).status == "error"


def test_flood_of_prints(project, answer):
    """Millions of characters do no harm; the first lines are shown, as mere text."""
    flood = (
        "    print('\\x1b[31m[bold]spam' * 10 + '\\n', end='')\n" * 3 + "    print('x' * 10**7)\n"
    )
    project.exercise.write_text(spoil(answer, (FIRST, flood + FIRST)), encoding="utf-8")
    done = project.course("check", "2")
    assert done.returncode == 0
    assert "your code printed" in done.stdout
    assert "\\x1b[31m[bold]spam" in done.stdout
    assert "\x1b" not in done.stdout
    assert len(done.stdout) < 20_000
    assert json.loads(project.course("check", "2", "--json").stdout)["passed"] > 0


def test_missing_file(project):
    """A file that is gone is not started, and the message says how to get it back."""
    project.exercise.unlink()
    day = project.check()
    assert day["status"] == "not_started"
    assert "`course reset 2`" in day["checks"][0]["message"]


def test_calling_a_stub_of_the_same_day(check):
    """What is written, but calls what is not, is told so."""
    head, last = stub_text(DAYS[6]).rsplit("    raise NotImplementedError", 1)
    calling = f"{head}    return softmax_backward(weights, weights){last}"
    checks = {row.exercise: row for row in check(7, calling).checks}
    assert checks["attention_backward"].status == "not_started"
    message = "`attention_backward` calls `softmax_backward`, which is still yours to write."
    assert checks["attention_backward"].message == message
    assert checks["softmax_backward"].message == "`softmax_backward` is yours to write."


def test_an_input_that_lost_a_part(check):
    """Taking something out of a dict that was given is damage, and the tool survives it."""
    text = read_answer(DAYS[5].solution)
    text += "\n_right = encoder_layer\n\n\ndef encoder_layer(x, params, h, mask=None):\n"
    text += "    result = _right(x, params, h, mask)\n    params.pop('gain_1')\n    return result\n"
    wrong = [row for row in check(6, text).checks if row.status != "passed"]
    assert {row.status for row in wrong} == {"failed"}
    assert "`gain_1` was changed in place" in wrong[0].message
