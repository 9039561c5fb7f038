"""Carrying out what was found within: in every word that a worker may say of an answer.

The cargo stands nowhere in a submission; it is put together where it runs. It must be found in no report.
"""

from tests.course.hostile.frames import SPEAK
from tests.course.hostile.kinds import Kind, before, during, ends

CARGO = "smuggled_cargo"
PACK = f"cargo = bytes({list(CARGO.encode())}).decode()\n"

RAISED = """
say({"check": CHECK, "raised": {"kind": KIND, "message": MESSAGE, "frames": FRAMES, "not_started": STARTED},
     "damaged": []})
"""
SEEN = """
zeros = flatten(named((torch.zeros(2, 3), torch.zeros(2, 3)), "output", "weights", first="weights"))
say({"check": CHECK, "raised": None, "damaged": []}, {**zeros, **LEAF})
"""
ODD = 'Leaf("torch.Tensor", np.zeros((2, 3), "float32"), (2, 3), "float32", "cpu")'


def raised(**fields):
    """Code that makes the worker say that an exception was raised."""
    plain = {"KIND": "'ValueError'", "MESSAGE": "''", "FRAMES": "[]", "STARTED": "False"}
    code = RAISED
    for name, value in (plain | fields).items():
        code = code.replace(name, value)
    return code


def seen(leaf):
    """Code that makes the worker say that a leaf like this was seen."""
    return SEEN.replace("LEAF", leaf)


# What the answer does with its cargo, in every call.
ANSWERING = {
    "in-an-exceptions-words": "raise ValueError(cargo)",
    "in-an-exceptions-kind": "raise type(cargo, (ValueError,), {})('list index out of range')",
    "in-words-that-are-nearly-known": "raise NameError(f\"name '{cargo}' is not defined\")",
    "in-a-functions-name": "def f(): raise ValueError\n"
    "f.__code__ = f.__code__.replace(co_name=cargo, co_qualname=cargo)\nf()",
    "in-a-line-of-the-source": "import linecache\n"
    "name = f.__code__.co_filename if 'f' in globals() else __file__\n"
    "linecache.cache[name] = (1, None, [cargo + '\\n'] * 999, name)\nraise ValueError",
    "in-the-name-of-a-leaf": "return {cargo: inputs['query']}",
    "in-the-name-of-a-type": "return type(cargo, (), {})()",
}
# What it makes the worker say of one check.
SPEAKING = {
    "in-a-forged-traceback": raised(
        FRAMES="[[1, cargo, cargo], [2, 'attention', cargo], [10**30, 'f', cargo]]"
    ),
    "in-a-stub-that-was-not-begun": raised(
        KIND="'NotImplementedError'", FRAMES="[[1, cargo, cargo]]", STARTED="True"
    ),
    "in-inputs-that-were-changed": 'say({"check": CHECK, "raised": None, "damaged": [cargo] * 20}, '
    "flatten({}))",
    "in-leaves-of-other-names": seen("{cargo: " + ODD + "}"),
    "in-a-dtype": seen('{"weights": replace(' + ODD + ", dtype=cargo, value=None)}"),
    "in-a-device": seen('{"weights": replace(' + ODD + ", device=cargo)}"),
    "in-a-container": seen("{'result': replace(zeros['result'], type=f'tuple of {cargo}')}"),
}
# What it does when it is loaded.
LOADING = {
    "while-loading": "raise ImportError(cargo)",
    "in-what-python-cannot-read": "raise SyntaxError(cargo, (__file__, 1, 1, cargo))",
    "as-unreadable": SPEAK + "say({'as_new': True, 'unreadable': cargo})",
    "as-definitions-that-are-missing": SPEAK
    + "say({'as_new': True, 'begun': [cargo], 'missing': [cargo, 'attention']})",
}

KINDS = [
    *(Kind(name, "", during(8, PACK + code), {8: "error"}) for name, code in ANSWERING.items()),
    *(ends(name, "", PACK + SPEAK + code, day=8) for name, code in SPEAKING.items()),
    *(Kind(name, "", before(8, PACK + code), {8: "error"}) for name, code in LOADING.items()),
    Kind("in-a-string", "", during(8, PACK + "return cargo, cargo"), {8: "failed"}),
    Kind("in-what-is-printed", "", during(8, PACK + "print(cargo)")),
]
