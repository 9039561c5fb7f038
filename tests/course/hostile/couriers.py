"""Carrying out what was found within: in every word that a worker may say of an answer.

The cargo stands nowhere in a submission; it is put together where it runs. It must be found in no report.
"""

from tests.course.hostile.frames import SPEAK
from tests.course.hostile.kinds import Kind, before, during, in_one_check

CARGO = "smuggled_cargo"
PACK = f"cargo = bytes({list(CARGO.encode())}).decode()\n"

RAISED = """
say({"check": CHECK, "raised": {"kind": KIND, "message": MESSAGE, "frames": FRAMES, "not_started": STARTED},
     "damaged": []})
"""


def forged(**said):
    """Day 8, where the worker is made to say that an exception was raised."""
    plain = {"KIND": "'ValueError'", "MESSAGE": "''", "FRAMES": "[]", "STARTED": "False"}
    code = RAISED
    for name, value in (plain | said).items():
        code = code.replace(name, value)
    return in_one_check(8, PACK + SPEAK + code)


def seen(leaf):
    """Day 8, where the worker is made to say that a leaf like this was seen."""
    code = f"""
zeros = flatten(named((torch.zeros(2, 3), torch.zeros(2, 3)), "output", "weights", first="weights"))
say({{"check": CHECK, "raised": None, "damaged": []}}, {{**zeros, **{leaf}}})
"""
    return in_one_check(8, PACK + SPEAK + code)


ODD = 'Leaf("torch.Tensor", np.zeros((2, 3), "float32"), (2, 3), "float32", "cpu")'

KINDS = [
    Kind("in-an-exceptions-words", "", during(8, PACK + "raise ValueError(cargo)"), {8: "error"}),
    Kind(
        "in-an-exceptions-kind",
        "",
        during(8, PACK + "raise type(cargo, (ValueError,), {})('list index out of range')"),
        {8: "error"},
    ),
    Kind(
        "in-words-that-are-nearly-known",
        "",
        during(8, PACK + "raise NameError(f\"name '{cargo}' is not defined\")"),
        {8: "error"},
    ),
    Kind(
        "in-a-functions-name",
        "",
        during(
            8,
            PACK
            + "def f(): raise ValueError\n"
            + "f.__code__ = f.__code__.replace(co_name=cargo, co_qualname=cargo)\nf()",
        ),
        {8: "error"},
    ),
    Kind(
        "in-a-line-of-the-source",
        "",
        during(
            8,
            PACK
            + "import linecache\nname = f.__code__.co_filename if 'f' in globals() else __file__\n"
            + "linecache.cache[name] = (1, None, [cargo + '\\n'] * 999, name)\nraise ValueError",
        ),
        {8: "error"},
    ),
    Kind(
        "in-a-forged-traceback",
        "",
        forged(FRAMES="[[1, cargo, cargo], [2, 'attention', cargo], [10**30, 'f', cargo]]"),
        {8: "error"},
    ),
    Kind(
        "in-a-stub-that-was-not-begun",
        "",
        forged(KIND="'NotImplementedError'", FRAMES="[[1, cargo, cargo]]", STARTED="True"),
        {8: "error"},
    ),
    Kind(
        "in-inputs-that-were-changed",
        "",
        in_one_check(
            8,
            PACK
            + SPEAK
            + 'say({"check": CHECK, "raised": None, "damaged": [cargo] * 20}, flatten({}))',
        ),
        {8: "error"},
    ),
    Kind(
        "in-the-name-of-a-leaf",
        "",
        during(8, PACK + "return {cargo: inputs['query']}"),
        {8: "error"},
    ),
    Kind(
        "in-the-name-of-a-type",
        "",
        during(8, PACK + "return type(cargo, (), {})()"),
        {8: "error"},
    ),
    Kind("in-a-string", "", during(8, PACK + "return cargo, cargo"), {8: "failed"}),
    Kind("in-leaves-of-other-names", "", seen("{cargo: " + ODD + "}"), {8: "error"}),
    Kind(
        "in-a-dtype",
        "",
        seen('{"weights": replace(' + ODD + ", dtype=cargo, value=None)}"),
        {8: "error"},
    ),
    Kind("in-a-device", "", seen('{"weights": replace(' + ODD + ", device=cargo)}"), {8: "error"}),
    Kind(
        "in-a-container",
        "",
        seen("{'result': replace(zeros['result'], type=f'tuple of {cargo}')}"),
        {8: "error"},
    ),
    Kind("in-what-is-printed", "", during(8, PACK + "print(cargo)")),
    Kind("while-loading", "", before(8, PACK + "raise ImportError(cargo)"), {8: "error"}),
    Kind(
        "in-what-python-cannot-read",
        "",
        before(8, PACK + "raise SyntaxError(cargo, (__file__, 1, 1, cargo))"),
        {8: "error"},
    ),
    Kind(
        "as-unreadable",
        "",
        before(8, PACK + SPEAK + "say({'as_new': True, 'unreadable': cargo})"),
        {8: "error"},
    ),
    Kind(
        "as-definitions-that-are-missing",
        "",
        before(
            8,
            PACK
            + SPEAK
            + "say({'as_new': True, 'begun': [cargo], 'missing': [cargo, 'attention']})",
        ),
        {8: "error"},
    ),
]
