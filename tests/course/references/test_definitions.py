"""Stubs, solutions and cut references, made from the references' text."""

import ast
import base64
import marshal
import re
import sys
import textwrap
from types import CodeType

import pytest

from course.checks.answer_files import begun, build_answer
from course.curriculum import DAYS, find_day, module_of
from course.judging.misconceptions import Misconception
from course.references.edits import Drifted
from course.references.imports import redacted_imports
from course.references.redacted import redacted_references
from course.references.stubs import _steps_of, _stub_of, steps_of, stub_text
from course.references.text import (
    STEP,
    definition_text,
    import_lines,
    parts_of,
    reference,
    without,
)

CLASS = textwrap.dedent('''\
    @final
    class Norm(nn.Module):
        """Normalize. Shapes: (B, T)."""

        def __init__(self, features: int, eps: float = 1e-5) -> None:
            """Make it."""
            super().__init__()
            # 1. A gain and a bias.
            #    Both are learned.
            self.gain = nn.Parameter(torch.ones(features))  # (features,)
            # not a step
            self.eps = eps

        def forward(self, x):
            # 1. Center.
            if x.dim() > 1:
                # 2. Inside a branch.
                x = x - x.mean(-1, keepdim=True)
            return x  # the end
    ''')


def test_stub_of_a_class():
    """Methods keep signature, docstring and super().__init__(); the steps are the first hint."""
    assert _stub_of(CLASS) == textwrap.dedent('''\
        @final
        class Norm(nn.Module):
            """Normalize. Shapes: (B, T)."""

            def __init__(self, features: int, eps: float = 1e-5) -> None:
                """Make it."""
                super().__init__()
                raise NotImplementedError

            def forward(self, x):
                raise NotImplementedError
        ''')
    assert _steps_of(CLASS) == textwrap.dedent("""\
        `__init__`:

        1. A gain and a bias.
           Both are learned.

        `forward`:

        1. Center.
        2. Inside a branch.""")


def test_the_steps_of_its_parts_are_an_exercises_own():
    """Their code is part of the solution, and no cut reference and no other day offers it."""
    day, source = find_day("33"), reference("variants/flash.py")
    parts = parts_of(source, "flash_attention")
    assert "_forward" in parts and "_check_sequences" not in parts
    text = definition_text(day, "flash_attention")
    tree = ast.parse(text)
    assert [node.name for node in tree.body] == [*parts, "flash_attention"]
    steps = re.findall(r"^(\d+)\. ", steps_of(day, "flash_attention"), re.MULTILINE)
    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    assert len(steps) == len(STEP.findall(text))
    assert not set(parts) & set(re.findall(r"\w+", stub_text(day) + import_lines(day)))
    assert not set(parts) & set(without(["flash_attention"], source))


def test_imports_are_what_the_definition_needs():
    """Libraries it uses, and earlier days' parts from the reference; nothing else."""
    assert import_lines(find_day("2")).splitlines() == [
        "import math",
        "import numpy as np",
        "from jaxtyping import Bool, Float",
        "from numpy_reference import softmax",
    ]
    assert "from numpy_reference import attention\n" in stub_text(find_day("4"))
    assert "numpy_reference" not in stub_text(find_day("1"))


def test_a_stub_says_how_what_it_imports_is_called():
    """Each earlier part with its arguments as the reference has them, and what it does and returns; nothing
    where nothing is imported."""
    head, _, _ = stub_text(find_day("13")).partition("\nimport torch")
    assert head.endswith(
        textwrap.dedent('''\

        What is imported from them below:

            LayerNorm(features, eps=1e-5)
                Normalize every vector to mean 0 and variance 1, then scale and shift it.
                called with (x)
                    Normalize the last axis, with the biased variance σ² (divisor n).
            SublayerConnection(size, dropout, norm="post")
                Add a residual connection and a LayerNorm around a sublayer.
                called with (x, sublayer)
                    Apply `sublayer`, which keeps the shape `(B, T, size)`, inside the residual connection.
            clones(module, n)
                Return n deep copies of a module, as an `nn.ModuleList`.
        """
        ''')
    )
    head = stub_text(find_day("32"))
    assert (
        "    past_length(tokens, cache, config)\n"
        "        Return the position of a chunk's first token: the number of tokens that the cache holds.\n"
    ) in head
    assert (
        "        .update(layer, key, value)\n"
        "            Append a chunk to one layer, counted from 0, and return all keys and values of"
    ) in head
    assert "    attention(query, key, value, mask=None)\n" in stub_text(find_day("4"))
    assert "imported" not in stub_text(find_day("1"))


def no_own_part(name, day):
    """All references are here, so that nothing of a learner's own has to stand in for one."""
    raise AssertionError(name)


def test_references_are_cut_to_earlier_days():
    """Today's and later exercises cannot be imported, and the error says why; earlier ones work."""
    day = find_day("3")
    with redacted_imports(redacted_references(day), day.number, no_own_part):
        answer = build_answer("x.py", "from numpy_reference import softmax, attention")
        assert answer.softmax is not None
        with pytest.raises(
            ImportError, match="padding_mask of numpy_reference is today's exercise"
        ):
            build_answer("x.py", "from numpy_reference import padding_mask")
        with pytest.raises(ImportError, match="split_heads of numpy_reference belongs to day 4"):
            build_answer("x.py", "import numpy_reference\nnumpy_reference.split_heads")
        with pytest.raises(ImportError, match="cannot import name 'unicorn'"):
            build_answer("x.py", "from numpy_reference import unicorn")
    import numpy_reference

    assert numpy_reference.padding_mask is not None


# What part 4 builds on of earlier parts: the day that first needs it, and its modules.
FIRST_NEEDED = {
    42: {"implementation", "variants.gpt", "variants.sampling", "variants.kv_cache"},
    43: {"variants.norms", "variants.rope"},
    50: {"variants.activations", "variants.grouped_query", "variants.llama"},
}


def built_upon(day):
    """The modules that a day builds on: to day 22 one; then the variants up to its own, in part 4 its own."""
    if not day.uses_torch:
        return {"numpy_reference"}
    start = 40 if day.number > 40 else 22
    modules = {module_of(file) for other in DAYS[start : day.number] for file in other.references}
    if day.number <= 40:
        return {"implementation"} | modules
    return modules.union(*(needed for first, needed in FIRST_NEEDED.items() if first <= day.number))


def inside(code):
    """A code object, and all that it holds."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from inside(constant)


@pytest.mark.parametrize("day", [day for day in DAYS if day.ready], ids=lambda day: day.stem)
def test_what_a_worker_holds_is_no_text_and_of_no_later_day(day):
    """Of a day's references it gets code of earlier definitions alone; of others it gets nothing."""
    own = {module_of(file) for file in day.references}
    withheld = {name for module in own for name in redacted_references(day)[module].withheld}
    assert set(day.exercises) <= withheld
    for module, part in redacted_references(day).items():
        foreign = module not in built_upon(day)
        assert part.foreign == foreign
        assert bool(part.code) == (not foreign)
        later = {name for name, number in part.withheld.items() if number >= day.number}
        if foreign:
            continue
        codes = list(inside(marshal.loads(base64.b64decode(part.code))))
        assert not {code.co_name for code in codes} & later
        assert set(part.offered) <= {code.co_name for code in codes}
        texts = {text for code in codes for text in code.co_consts if isinstance(text, str)}
        assert not [text for text in texts if "\n" in text.strip() or text[1:].endswith(".")]
        assert {code.co_filename for code in codes} == {f"<{module}>"}


def test_references_hand_on_nothing_that_they_import():
    """What is no definition of theirs has to be imported from where it is."""
    day = find_day("14")
    with redacted_imports(redacted_references(day), day.number, no_own_part):
        for name in ("torch", "nn", "F", "math"):
            with pytest.raises(ImportError, match=f"cannot import name '{name}'"):
                build_answer("x.py", f"from implementation import {name}")
        answer = build_answer("x.py", "from implementation import *\nimport implementation as i")
        assert "torch" not in vars(answer) and not hasattr(answer.i, "torch")
        assert answer.attention.__doc__ is None and answer.LayerNorm is answer.i.LayerNorm


def test_references_are_read_only_where_they_are_imported():
    """A day in NumPy does not wait for torch, which the other reference imports."""
    day = find_day("3")
    with redacted_imports(redacted_references(day), day.number, no_own_part):
        build_answer("x.py", "from numpy_reference import softmax")
        assert "implementation" not in sys.modules
        with pytest.raises(ImportError, match="attention of implementation belongs to day 8"):
            build_answer("x.py", "from implementation import attention")
    later = find_day("8")
    with (
        redacted_imports(redacted_references(later), later.number, no_own_part),
        pytest.raises(ImportError, match="softmax of numpy_reference is day 1's, and day 8 is not"),
    ):
        build_answer("x.py", "from numpy_reference import softmax")


def test_begun():
    """Comments and blank lines are no beginning; any code is."""
    day = find_day("1")
    stub = stub_text(day)
    thoughts = stub.replace("    raise", "\n    # my thoughts\n    raise")
    assert thoughts != stub
    assert begun(thoughts, stub, day.exercises) == []
    code = stub.replace(
        "    raise NotImplementedError", "    y = x\n    raise NotImplementedError", 1
    )
    assert begun(code, stub, day.exercises) == ["softmax"]


def test_a_misconception_that_drifted_is_refused():
    """It is named with the definition and the step."""
    day = find_day("2")
    named = "not_there no longer fits attention: 'unicorn' must be found once in step 3"
    with pytest.raises(Drifted, match=f"{named}, got 0 times"):
        Misconception("not_there", "attention", "", {"3: unicorn": ""}).text(day)
    with pytest.raises(Drifted, match=r"too_often .* once, got 2 times$"):
        Misconception("too_often", "attention", "", {"query": "key"}).text(day)
