"""Contracts: joined into the stub, checked against the exercises, and never in the reference."""

import dataclasses
import textwrap

import pytest

from course.curriculum import DAYS, Day, find_day
from course.references import contracts
from course.references.contracts import Contract, faults, read_contracts
from course.references.stubs import _steps_of, _stub_of, steps_of, stub_text

TEXT = textwrap.dedent('''\
    def double(x):
        """Double a number.

            y = 2 x

        Raises:
            ValueError: x is not a number.
        """
        # 1. Multiply
        #    by two.
        x = 2 * x
        # 2. Return.
        return x
''')


def test_a_contract_precedes_errors_and_replaces_what_gives_the_answer_away():
    contract = Contract("- `x` is finite.", {"Equation": "y / x = const", "Step 1": "Scale."})
    assert _stub_of(TEXT, {"double": contract}) == textwrap.dedent('''\
        def double(x):
            """Double a number.

                y / x = const

            - `x` is finite.

            Raises:
                ValueError: x is not a number.
            """
            raise NotImplementedError
    ''')
    assert _steps_of(TEXT, {"double": contract}) == "1. Scale.\n2. Return."


@pytest.mark.parametrize("day", [day for day in DAYS if day.ready], ids=str)
def test_every_contract_is_in_its_stub(day: Day):
    """What replaces a step is in the first hint."""
    steps = (steps_of(day, name) for name in day.exercises)
    shown = " ".join(" ".join([stub_text(day), *steps]).split())
    assert list(faults(day)) == []
    for contract in read_contracts(day).values():
        for text in (contract.text, *contract.replaced.values()):
            assert " ".join(text.split()) in shown


def test_faults_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(type(find_day("8")), "contracts", tmp_path / "contract.md")
    day = dataclasses.replace(find_day("8"))
    (missing,) = faults(day)
    assert missing.startswith("missing: ")
    assert contracts.read_contracts(day) == {}
    text = "# Day 8\n\n## attentoin\n\nText.\n\n## attention\n\n### Stage 1\n\nText.\n"
    (tmp_path / "contract.md").write_text(text, encoding="utf-8")
    assert list(faults(day)) == [
        "no exercise of day 8, or method of one, is named attentoin",
        "a heading of attention must be `Equation` or `Step N`, got 'Stage 1'",
    ]
