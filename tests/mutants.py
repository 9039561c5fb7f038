"""The mutation run: every small change of the reference must be noticed by the checks.

Each operator, constant, comparison, condition, argument and function name of each exercise's
definition is changed in turn, and the day's checks are run on the result. A change that no check notices
is a hole in the checks, or else does not change what the definition computes; those are listed, with
the reason, in `EQUIVALENT`.

    python tests/mutants.py          all days
    python tests/mutants.py 4        one day
"""

from __future__ import annotations

import ast
import copy
import multiprocessing
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from course.checks import see
from course.curriculum import DAYS, Day, find_day
from course.definitions import definition_text, reference_module
from course.judge import Judge

ENOUGH = 0.95
SECONDS = 10

# Survivors that compute the same, by definition and changed statement, with the reason.
_SYMMETRIC = "swapping axes a and b is swapping b and a"
_SHIFT = "what the keys' bias adds to all scores of a query is the same, and cancels in the softmax"
EQUIVALENT = {
    ("attention", "weights = softmax(scores)"): "the last axis is softmax's default",
    (
        "target_mask",
        "return padding_mask(pad, tokens) & subsequent_mask(tokens.shape[1])",
    ): "the ids are only compared, and pad ≠ token is token ≠ pad",
    ("split_heads", "return pieces.swapaxes(2, 1)"): _SYMMETRIC,
    ("join_heads", "pieces = x.swapaxes(2, 1)"): _SYMMETRIC,
    ("multi_head_attention", "k = split_heads(key @ params['w_k'] - params['b_k'], h)"): _SHIFT,
    ("multi_head_attention", "k = split_heads(key @ params['w_k'] + params['b_o'], h)"): _SHIFT,
    (
        "feed_forward",
        "hidden = np.maximum(x @ w_1 + b_1, 0)",
    ): "the maximum of a and b is that of b and a",
}

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


@dataclass(frozen=True)
class Mutant:
    """One changed definition."""

    day: Day
    definition: str
    statement: str
    """The changed statement, which with the definition names the mutant."""
    source: str


def mutants(day: Day) -> Iterator[Mutant]:
    """Every mutant of a day's exercises."""
    for name in day.exercises:
        tree = ast.parse(definition_text(day, name))
        for index, node in enumerate(ast.walk(tree)):
            if id(node) in _out_of_scope(tree):
                continue
            for change in range(_changes(node)):
                mutated = copy.deepcopy(tree)
                target = list(ast.walk(mutated))[index]
                _change(target, change, tree)
                source = ast.unparse(ast.fix_missing_locations(mutated))
                if source != ast.unparse(tree):
                    yield Mutant(day, name, _changed_statement(tree, mutated), source)


def _out_of_scope(tree: ast.AST) -> set[int]:
    """Types, docstrings, and the refusal of bad arguments, which no answer is asked for."""
    out: set[int] = set()
    for node in ast.walk(tree):
        hidden: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            hidden = [node.returns, *(argument.annotation for argument in arguments)]
        elif isinstance(node, ast.AnnAssign):
            hidden = [node.annotation]
        elif isinstance(node, ast.If):
            hidden = [node] if isinstance(node.body[0], ast.Raise) else []
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hidden = [node]
        for root in hidden:
            out |= {id(inner) for inner in ast.walk(root)} if root is not None else set()
    return out


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
        return len(node.keywords) + len(node.args) + int(len(node.args) > 1)
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
    if change < len(node.keywords):
        del node.keywords[change]
    elif change < len(node.keywords) + len(node.args):
        del node.args[change - len(node.keywords)]
    else:
        node.args[0], node.args[1] = node.args[1], node.args[0]


def _changed_statement(before: ast.AST, after: ast.AST) -> str:
    """The first line that a change made different."""
    old, new = ast.unparse(before).splitlines(), ast.unparse(after).splitlines()
    return next((b.strip() for a, b in zip(old, new, strict=False) if a != b), new[-1].strip())


# --- Running them --------------------------------------------------------------------------------------


def survives(mutant: Mutant) -> bool:
    """Whether no check of the day notices the change."""
    judge = _judge(mutant.day)
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(SECONDS)
    try:
        module = reference_module(mutant.day, {mutant.definition: mutant.source})
        return all(judge.passes(check, see(check, module, judge.seed)) for check in judge.checks)
    except Exception:  # it does not even load, or ran out of time
        return False
    finally:
        signal.alarm(0)


def _out_of_time(*_: object) -> None:
    raise TimeoutError


_judges: dict[Day, Judge] = {}


def _judge(day: Day) -> Judge:
    if day not in _judges:
        _judges[day] = Judge(day)
    return _judges[day]


def run(chosen: list[Mutant]) -> list[Mutant]:
    """The survivors among these mutants."""
    with multiprocessing.get_context("spawn").Pool() as pool:
        alive = pool.map(survives, chosen, chunksize=8)
    return [mutant for mutant, lives in zip(chosen, alive, strict=True) if lives]


def main() -> int:
    """Run all mutants of the days asked for, and report."""
    days = [find_day(asked) for asked in sys.argv[1:]] or [day for day in DAYS if day.ready]
    everything, unexplained = 0, 0
    caught = 0
    for day in days:
        chosen = list(mutants(day))
        survivors = run(chosen)
        everything += len(chosen)
        caught += len(chosen) - len(survivors)
        print(f"{day.stem}: {len(chosen) - len(survivors)} of {len(chosen)} mutants rejected")
        for mutant in survivors:
            reason = EQUIVALENT.get((mutant.definition, mutant.statement))
            unexplained += reason is None
            print(f"  survives: {mutant.definition}: {mutant.statement}")
            print(f"            {'equivalent: ' + reason if reason else 'NOT EXPLAINED'}")
    print(f"{caught} of {everything} mutants rejected: {caught / everything:.1%}")
    print(
        f"{everything - caught - unexplained} survivors are equivalent, {unexplained} unexplained"
    )
    return int(caught / everything < ENOUGH or unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
