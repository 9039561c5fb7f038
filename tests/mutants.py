"""The mutation run: every small change of the reference must be noticed by the checks.

Each operator, constant, comparison, condition, argument and function name of each exercise's
definition is changed in turn, and the day's checks are run on the result. A change that no check notices
is a hole in the checks, or else does not change what the definition computes. Of these, what is equal by
construction is not made: two arguments exchanged whose order is free, a device left out on the CPU. The rest
is listed in `equivalent_mutants.txt`: a day and its definition, a reason, and below it the edits
(`course/references/edits.py`) that make the survivors, `what is replaced => its replacement`.

    python -m tests.mutants          all days
    python -m tests.mutants 4        one day
"""

from __future__ import annotations

import ast
import functools
import multiprocessing
import pickle
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from course.curriculum import DAYS, ROOT, Day, find_day
from course.judging.judge import Judge
from course.references.edits import Draft
from course.references.patched import reference_module
from course.references.text import definition_text

CPU_SECONDS = 10.0  # of CPU time, so that a busy machine rejects nothing
STUCK = 120.0  # seconds by the clock, for a mutant that waits and computes nothing

EQUIVALENT = ROOT / "tests" / "equivalent_mutants.txt"

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
FUNCTIONS = {
    "max": "min",
    "sum": "mean",
    "mean": "sum",
    "exp": "expm1",
    "log": "log1p",
    "sqrt": "square",
    "sin": "cos",
    "cos": "sin",
    "tril": "triu",
    "ones": "zeros",
    "maximum": "minimum",
}
COMMUTATIVE = {"max", "min", "maximum", "minimum", "promote_types"}
SWAPS = {"transpose", "swapaxes"}  # methods that exchange two axes


@dataclass(frozen=True)
class Mutant:
    """One changed definition.

    Attributes:
        statement: the changed statement, for people.
        source: the definition.
    """

    day: Day
    definition: str
    statement: str
    source: str

    @property
    def reason(self) -> str | None:
        """Why it is as right as the reference, if it is known to be."""
        return _equivalent(self.day, self.definition).get(ast.dump(ast.parse(self.source)))


@functools.cache
def _listed() -> dict[str, list[tuple[str, str, str]]]:
    """The listed survivors by day and definition, such as `8 attention`: reason, find, put."""
    survivors: dict[str, list[tuple[str, str, str]]] = {}
    where = reason = ""
    for line in EQUIVALENT.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if line.startswith("    "):
            find, _, put = text.partition(" =>")
            survivors[where].append((reason, find, put.strip()))
        elif line.startswith("  "):
            reason = text
        else:
            survivors[where := text] = []
    return survivors


def listed() -> list[str]:
    """The day and definition of all listed survivors, such as `8 attention`."""
    return list(_listed())


def listed_of(day: Day) -> dict[str, int]:
    """How many survivors of a day are listed, by definition."""
    counts = {name: len(_listed().get(f"{day.number} {name}", ())) for name in day.exercises}
    return {name: count for name, count in counts.items() if count}


@functools.cache
def _equivalent(day: Day, definition: str) -> dict[str, str]:
    """The syntax of a definition's known equivalents, each with the reason."""
    equivalents = {}
    for reason, find, put in _listed().get(f"{day.number} {definition}", ()):
        draft = Draft(definition_text(day, definition))
        draft.edit(find, put)
        equivalents[ast.dump(draft.tree)] = reason
    return equivalents


def mutants(day: Day) -> Iterator[Mutant]:
    """Every mutant of a day's exercises."""
    for name in day.exercises:
        tree = ast.parse(definition_text(day, name))
        unchanged, out_of_scope = ast.unparse(tree), _out_of_scope(tree)
        copied = pickle.dumps(tree)  # copies faster than `copy.deepcopy`
        for index, node in enumerate(ast.walk(tree)):
            if id(node) in out_of_scope:
                continue
            for change in range(_changes(node)):
                mutated = pickle.loads(copied)
                target = list(ast.walk(mutated))[index]
                _change(target, change, tree)
                source = ast.unparse(ast.fix_missing_locations(mutated))
                if source != unchanged:
                    yield Mutant(day, name, _changed_statement(unchanged, source), source)


def _out_of_scope(tree: ast.Module) -> set[int]:
    """Types, docstrings, and what no answer is asked for: refusing bad arguments, private methods, the
    fused kernel."""
    out: set[int] = set()
    for node in ast.walk(tree):
        hidden: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef) and _is_private(node.name) and node not in tree.body:
            hidden = [node]
        elif isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            hidden = [node.returns, *(argument.annotation for argument in arguments)]
        elif isinstance(node, ast.AnnAssign):
            hidden = [node.annotation]
        elif isinstance(node, ast.For) and all(map(_raises, node.body)):
            hidden = [node]
        elif isinstance(node, ast.If):
            hidden = [node] if _raises(node) else []
        elif isinstance(node, ast.Expr):
            hidden = [node] if _only_refuses(node.value) else []
        for root in hidden:
            out |= {id(inner) for inner in ast.walk(root)} if root is not None else set()
    return out


def _raises(node: ast.stmt) -> bool:
    """Whether a statement is an `if` that refuses something."""
    return isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise)


def _only_refuses(value: ast.expr) -> bool:
    """Whether an expression that stands alone is a docstring or a call such as `_check_mask(…)`."""
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, ast.Constant) or (
        isinstance(called, ast.Name) and _is_private(called.id)
    )


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _changes(node: ast.AST) -> int:
    """In how many ways a node can be changed."""
    if isinstance(node, ast.BinOp):
        return int(type(node.op) in OPERATORS)
    if isinstance(node, ast.Compare):
        return int(type(node.ops[0]) in OPERATORS)
    if isinstance(node, ast.BoolOp | ast.UnaryOp | ast.IfExp):
        return 1
    if isinstance(node, ast.If):
        return 2
    if isinstance(node, ast.Constant):
        return 2 if type(node.value) in (int, float) else int(isinstance(node.value, bool | str))
    if isinstance(node, ast.Call):
        return len(_left_out(node)) + int(len(node.args) > 1 and not _commutes(node))
    if isinstance(node, ast.Attribute):
        return int(node.attr in FUNCTIONS)
    if isinstance(node, ast.Tuple):
        return int(isinstance(node.ctx, ast.Load) and len(node.elts) > 1)
    return 0


def _change(node: ast.AST, change: int, tree: ast.AST) -> None:
    """Change a node in place, in one of its ways."""
    if isinstance(node, ast.BinOp | ast.BoolOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops = [OPERATORS[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.USub()
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    elif isinstance(node, ast.If):
        node.test = ast.Constant(bool(change))
    elif isinstance(node, ast.Constant):
        _change_constant(node, change, tree)
    elif isinstance(node, ast.Call):
        _change_call(node, change)
    elif isinstance(node, ast.Attribute):
        node.attr = FUNCTIONS[node.attr]
    elif isinstance(node, ast.Tuple):
        node.elts = node.elts[::-1]


def _change_constant(node: ast.Constant, change: int, tree: ast.AST) -> None:
    if isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node.value, int):
        node.value += 1 if change else -1
    elif isinstance(node.value, float):
        node.value *= 2 if change else 0
    else:  # a key of a dict: another one of the same definition
        keys = sorted({n.value for n in ast.walk(tree) if _is_key(n)})
        node.value = keys[(keys.index(node.value) + 1) % len(keys)] if node.value in keys else "?"


def _is_key(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
    )


def _change_call(node: ast.Call, change: int) -> None:
    if change < len(_left_out(node)):
        arguments, index = _left_out(node)[change]
        del arguments[index]
    else:
        node.args[0], node.args[1] = node.args[1], node.args[0]


def _left_out(node: ast.Call) -> list[tuple[list[Any], int]]:
    """The arguments of a call that can be left out, each as a list and its index; devices stay."""
    named = [
        (node.keywords, i) for i, keyword in enumerate(node.keywords) if keyword.arg != "device"
    ]
    return named + [
        (node.args, i) for i, argument in enumerate(node.args) if not _is_device(argument)
    ]


def _is_device(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "device") or (
        isinstance(node, ast.Name) and node.id == "device"
    )


def _commutes(node: ast.Call) -> bool:
    """Whether a call is the same with its first two arguments exchanged."""
    if isinstance(node.func, ast.Attribute):
        swaps = node.func.attr in SWAPS and len(node.args) == 2
        return swaps or node.func.attr in COMMUTATIVE
    return isinstance(node.func, ast.Name) and node.func.id in COMMUTATIVE


def _changed_statement(before: str, after: str) -> str:
    """The first line that a change made different."""
    old, new = before.splitlines(), after.splitlines()
    return next((b.strip() for a, b in zip(old, new, strict=False) if a != b), new[-1].strip())


# --- Running them --------------------------------------------------------------------------------------


def survives(mutant: Mutant) -> bool:
    """Whether no check of the day notices the change."""
    judge = _judge(mutant.day)
    for interrupt in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(interrupt, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, STUCK)
    try:
        module = reference_module(mutant.day, {mutant.definition: mutant.source})
        return all(judge.truth.passes(check, module) for check in judge.checks)
    except Exception:  # it does not even load, or ran out of time
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _out_of_time(*_: object) -> None:
    raise TimeoutError


_judges: dict[Day, Judge] = {}


def _judge(day: Day) -> Judge:
    if day not in _judges:
        _judges[day] = judge = Judge(day)
        for check in judge.checks:  # ahead of the timers, which are for the mutants
            judge.truth.right(check)
    return _judges[day]


def run(chosen: list[Mutant]) -> list[Mutant]:
    """The survivors among these mutants."""
    with multiprocessing.get_context("spawn").Pool() as pool:
        alive = pool.map(survives, chosen, chunksize=8)
    return [mutant for mutant, lives in zip(chosen, alive, strict=True) if lives]


def main() -> int:
    """Run all mutants of the days asked for, and report."""
    days = [find_day(name) for name in sys.argv[1:]] or [day for day in DAYS if day.ready]
    everything, caught, unexplained = 0, 0, 0
    for day in days:
        chosen = list(mutants(day))
        survivors = run(chosen)
        everything += len(chosen)
        caught += len(chosen) - len(survivors)
        print(f"{day.stem}: {len(chosen) - len(survivors)} of {len(chosen)} mutants rejected")
        for mutant in survivors:
            reason = mutant.reason
            unexplained += reason is None
            print(f"  survives: {mutant.definition}: {mutant.statement}")
            print(f"            {'equivalent: ' + reason if reason else 'NOT EXPLAINED'}")
    print(f"{caught} of {everything} mutants rejected: {caught / everything:.1%}")
    equivalent = everything - caught - unexplained
    print(f"{equivalent} survivors are equivalent, {unexplained} unexplained")
    return int(unexplained > 0)  # the sample of `make test` could draw it


if __name__ == "__main__":
    sys.exit(main())
