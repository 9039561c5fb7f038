"""The mutation run: every small change of the reference must be noticed by the checks.

Each operator, constant, comparison, condition, argument and function name of each exercise's
definition is changed in turn, and the day's checks are run on the result. A change that no check notices
is a hole in the checks, or else does not change what the definition computes. Of these, what is equal by
construction is not made: two arguments exchanged whose order is free, a device left out on the CPU. The rest
is listed, with the reason, in `EQUIVALENT`.

    python -m tests.mutants          all days
    python -m tests.mutants 4        one day
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import multiprocessing
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from course.curriculum import DAYS, Day, find_day
from course.judging.judge import Judge
from course.references.changed import reference_module
from course.references.edits import Draft, Drifted
from course.references.text import definition_text

SECONDS = 10

# Survivors that are as right as the reference, by definition, with the reason and the edits that make them
# (`course/references/edits.py` says what an edit may be).
_COMMUTES = "of two arguments in the other order it is the same"
_SAME_AXIS = "it is the same axis, counted from the other end or left to the default"
_INFERRED = "the dtype that is left out is the one that is inferred"
_ON_THE_CPU = "on the CPU, where this is run"
_UTF8 = "UTF-8 is the default"
_ORDER = "any order of the pairs is right; this one only pads more"
_SMALLER = "smaller batches are right, too"
EQUIVALENT: dict[str, dict[str, list[tuple[str, str]]]] = {
    "attention": {
        _SAME_AXIS: [("axis=-1", "")],
        "float32's lowest number is low enough: scores stay within some 10⁶": [
            ("torch.finfo(wide)", "torch.finfo()")
        ],
    },
    "flash_attention": {
        "the block shows in no number": [("block=64", "block=63"), ("block=64", "block=65")],
        "a tile that is hidden, or masked where nothing is later, changes nothing": [
            ("min(rows.stop + offset, t_k)", "min(rows.stop - offset, t_k)"),
            ("_ > last", "_ >= last"),
            ("_ - 1 > last", "_ + 1 > last"),
            ("_ - 1 > last", "_ - 0 > last"),
            ("columns.stop - 1 > last", "True"),
        ],
        "sums begin as zeros of any shape that broadcasts": [
            ("q.new_zeros(*_, value.size(-1))", "q.new_zeros(value.size(-1))"),
            ("q.new_zeros(*q.shape[:-1], _)", "q.new_zeros(*q.shape[:-0], _)"),
            ("(*q.shape[:-1], 1)", "(*q.shape[:-0], 1)"),
        ],
        "the same mask once for each batch": [("scores.shape[-2:]", "scores.shape[-3:]")],
        "float32's lowest number is low enough: scores stay within some 10⁶": [
            ("torch.finfo(wide)", "torch.finfo()")
        ],
        "autograd gives a gradient the dtype of its input": [
            ("grad_query.to(query.dtype)", "grad_query.to()"),
            ("grad_key.to(query.dtype)", "grad_key.to()"),
            ("grad_value.to(query.dtype)", "grad_value.to()"),
        ],
    },
    "target_mask": {
        _COMMUTES: [("padding_mask(tokens, pad)", "padding_mask(pad, tokens)")],
    },
    "multi_head_attention": {
        "the keys' bias adds the same to all scores of a query, and cancels in the softmax": [
            ("_ + params['b_k']", "_ - params['b_k']"),
            ("params['b_k']", "params['b_o']"),
        ],
    },
    "MultiHeadedAttention": {
        _SAME_AXIS: [("_.flatten(-2)", "_.flatten(+2)")],
        "the fused kernel computes the same, and no answer needs the switch": [
            ("mask is not None", "True"),
            ("self.keep_weights", "True"),
        ],
    },
    "GroupedQueryAttention": {
        _SAME_AXIS: [("_.flatten(-2)", "_.flatten(+2)")],
    },
    "TopKRouter": {
        _SAME_AXIS: [("probs.topk(self.k, dim=-1)", "probs.topk(self.k)")],
    },
    "load_balancing_loss": {
        "the mean of halves is added up in float32 by itself, and rounded once": [
            ("probs.to(wide)", "probs.to()")
        ],
    },
    "MixtureOfExperts": {
        _SAME_AXIS: [
            ("_.unsqueeze(-1)", "_.unsqueeze(+1)"),
            ("_.index_select(0, choices)", "_.index_select(-1, choices)"),
        ],
        "each expert has a part of the choices": [
            ("strict=True", ""),
            ("strict=True", "strict=False"),
        ],
    },
    "MixtureOfDepths": {
        _SAME_AXIS: [("_.sort(dim=1)", "_.sort()"), ("scores.topk(k, dim=1)", "scores.topk(k)")],
        "the product's rounding error is far below either": [("_ + 1e-9", "_ + 2e-09")],
    },
    "mask_tokens": {
        _INFERRED: [("4: dtype=tokens.dtype", "")],
        "ids are whole numbers by themselves, and an empty list of another dtype is as empty": [
            ("1: dtype=tokens.dtype", "")
        ],
        "of numbers between 0 and 1 one in 2²⁴ is exactly the border": [
            ("draw < p", "draw <= p"),
            ("fate < 0.8", "fate <= 0.8"),
            ("fate < 0.9", "fate <= 0.9"),
            ("fate >= 0.8", "fate > 0.8"),
        ],
    },
    "PositionalEncoding": {
        "a buffer may be persistent": [
            ("persistent=False", ""),
            ("persistent=False", "persistent=True"),
        ],
        "whole numbers times float64 frequencies are float64": [
            ("torch.arange(max_len, dtype=torch.float64)", "torch.arange(max_len)")
        ],
        "float32 frequencies are right to position × eps, which is all that is asked": [
            ("even = ...", "even = torch.arange(0, d_model, 2)")
        ],
        "it asks for the default dtype": [("2: dtype=...", "")],
    },
    "mish": {
        "torch's own softplus and tanh are right to a rounding each, in halves, too": [
            ("wide = ...", "wide = x.to()")
        ],
    },
    "run_epoch": {
        "which of the two zeros is the float makes no difference": [("0.0, 0", "(0, 0.0)")],
        "a step without a single token is not asked of answers": [
            ("max(tokens, 1)", "max(tokens, 0)")
        ],
    },
    "greedy_decode": {
        _INFERRED: [("dtype=torch.long", "")],
        "no token is None, so without an end none of them finishes": [
            ("3: end is not None", "True")
        ],
        _SAME_AXIS: [("dim=-1", "dim=+1")],
    },
    "beam_search": {
        _INFERRED: [
            ("1: tokens = ...", "tokens = torch.full((rows, beam, 1), start, device=device)"),
            ("dtype=wide", ""),
            ("best = ...", "best = torch.full((rows, max_len), 0, device=device)"),
        ],
        _SAME_AXIS: [("3: dim=-1", "dim=+1"), ("4: dim=-1", "dim=+1")],
        "any of the places or columns will do": [
            ("scores[:, 0] = 0.0", "scores[:, -1] = 0.0"),
            ("scores[:, 0]", "scores[:, -1]"),
            ("best[:, 0]", "best[:, -1]"),
        ],
        "it stops later or not at all, and finds nothing better": [
            ("(bound <= best_score).all()", "False"),
            ("bound <= best_score", "bound < best_score"),
            ("(4 + max_len) / 6", "(4 + max_len) * 6"),
            ("(4 + max_len) / 6", "(4 + max_len) / 5"),
            ("4 + max_len", "5 + max_len"),
        ],
        "a factor that all values have, and it stops later": [("(5 + n) / 6", "(5 + n) / 7")],
        "which of two equal hypotheses wins is not settled": [
            ("value > best_score", "value >= best_score")
        ],
        "only an empty batch differs, of which no answer is asked": [
            ("default=1", ""),
            ("default=1", "default=0"),
            ("default=1", "default=2"),
        ],
    },
    "CausalSelfAttention": {
        "a mask without a batch axis broadcasts": [
            (
                "torch.ones(1, size, size, dtype=torch.bool, device=x.device)",
                "torch.ones(size, size, dtype=torch.bool, device=x.device)",
            )
        ],
        _SAME_AXIS: [("_.flatten(-2)", "_.flatten(+2)")],
    },
    "Mamba": {
        "a state of zeros is cast to the dtype of what it meets": [("dtype=x.dtype", "")],
        "Δ and A may be in float32 under autocast and in halves, and need not be": [
            (
                "self.dt_proj(r.to(self.dt_proj.bias.dtype)).to(wide)",
                "self.dt_proj(r.to(self.dt_proj.bias.dtype)).to()",
            ),
            ("r.to(self.dt_proj.bias.dtype)", "r.to()"),
            ("self.a_log.to(wide)", "self.a_log.to()"),
        ],
    },
    "selective_scan": {
        "without rows the zeros are broadcast to all of them": [("x.size(0)", "")],
    },
    "CachedSelfAttention": {
        "the mask of a single query hides nothing": [
            ("t_q > 1", "True"),
            ("t_q > 1", "t_q >= 1"),
            ("t_q > 1", "t_q > 0"),
        ],
        _SAME_AXIS: [("_.flatten(-2)", "_.flatten(+2)")],
    },
    "GPT": {
        "any of several endings is enough": [
            ("('w_o.weight', 'w_2.weight')", "('w_2.weight', 'w_o.weight')")
        ],
    },
    "distribution": {
        "scatter passes over what has no index": [("(1, 0)", "(1, 1)")],
        _SAME_AXIS: [
            ("scores.topk(top_k, dim=-1)", "scores.topk(top_k)"),
            (
                "_.sort(dim=-1, descending=True, stable=True)",
                "_.sort(descending=True, stable=True)",
            ),
        ],
        "a softmax does not change by what is added to all; only absurd temperatures overflow": [
            ("scores - _", "scores + _")
        ],
        "where k is the size of the vocabulary, nothing lies below the k-th": [
            ("3: top_k < _", "top_k <= _")
        ],
        "on the CPU every sort of torch is stable": [
            ("stable=True", ""),
            ("stable=True", "stable=False"),
        ],
        "whether a sum is p to the last bit is up to rounding": [
            ("before >= top_p", "before > top_p")
        ],
    },
    "sample": {
        "rounded to half precision they are off by less than any number of draws here would show": [
            ("logits.to(wide)", "logits.to()")
        ],
    },
    "train_bpe": {
        _UTF8: [("'utf-8'", "")],
    },
    "BPE": {
        _UTF8: [("encode(): 'utf-8'", ""), ("decode(): 'utf-8'", "")],
    },
    "bleu": {
        "what is zipped is equally long, or as long as the shortest is wanted": [
            ("0: strict=True", ""),
            ("0: strict=True", "strict=False"),
            ("3: strict=True", ""),
            ("3: strict=True", "strict=False"),
            ("strict=False", ""),
        ],
        "order 0 has no n-grams, and its counts are those of order 4, which come last": [
            ("range(1, 5)", "range(5)"),
            ("range(1, 5)", "range(0, 5)"),
        ],
    },
    "token_batches": {
        "only pairs of nothing differ": [("0: 0", "-1"), ("0: 0", "1")],
        "the source's length counts again with the next pair, which is no shorter": [
            ("[], len(pair[0]), _", "([], len(pair[-1]), _)"),
            ("[], len(pair[0]), _", "([], _, _)"),
        ],
        _ORDER: [
            ("key=...", ""),
            ("(_, len(pair[1]))", "(len(pair[1]), _)"),
            ("1: pair[0]", "pair[-1]"),
            ("1: pair[0]", "pair[1]"),
            ("1: pair[1]", "pair[0]"),
        ],
        _SMALLER: [("_ > max_tokens", "_ >= max_tokens"), ("len(batch) + 1", "len(batch) + 2")],
    },
    "relative_position_bucket": {
        "a distance of −1 has reached no edge either": [("min=0", "min=-1")],
        "any number of digits does that a float64 has, and that leaves whole numbers whole": [
            ("round(begin, 6)", "round(begin, 5)"),
            ("round(begin, 6)", "round(begin, 7)"),
        ],
    },
    "T5": {
        "it is the name by which a mask is refused": [
            ("1: 'src_mask'", "'tgt_mask'"),
            ("'tgt_mask'", "'w_q'"),
            ("2: 'src_mask'", "'tgt_mask'"),
        ],
    },
    "linear_attention": {
        "where it is causal, both are the same": [("query.size(-2), _", "(_, query.size(-2))")],
        "at 0 both branches are 1, and so are their slopes": [
            ("query > 0", "query >= 0"),
            ("key > 0", "key >= 0"),
        ],
        "above 0 it is the other branch that counts": [
            ("query.clamp(max=0)", "query.clamp(max=1)"),
            ("key.clamp(max=0)", "key.clamp(max=1)"),
        ],
        "chunks of any length are right": [
            ("size = 64", "size = 63"),
            ("size = 64", "size = 65"),
            ("(chunks, size)", "(size, chunks)"),
        ],
        "0 divided by anything is 0": [
            ("mixed / ...", "mixed / total.masked_fill(total == 0, 2.0)")
        ],
    },
    "rope_angles": {
        "float32 is allowed": [("1: dtype=torch.float64", "")],
        "whole numbers times float64 turns are float64": [("2: dtype=torch.float64", "")],
    },
    "apply_rope": {
        "what is multiplied by the wide dtype becomes as wide": [
            ("rotation.cos().to(x.device, wide)", "rotation.cos().to(x.device)"),
            ("rotation.sin().to(x.device, wide)", "rotation.sin().to(x.device)"),
            ("x.to(wide)", "x.to()"),
        ],
        _SAME_AXIS: [
            ("offset.unsqueeze(-1)", "offset.unsqueeze(+1)"),
            ("3: angles.size(-1)", "angles.size(+1)"),
        ],
    },
    "clip_gradients": {
        "on the CPU a half times a single number is rounded once": [("one.to(widest)", "one.to()")],
    },
    "LossScaler": {
        "two thousand steps are more than a check takes": [
            ("growth_interval=2000", "growth_interval=1999"),
            ("growth_interval=2000", "growth_interval=2001"),
        ],
    },
    "checkpoint": {
        "the order of two contexts that do not meet is free": [
            ("('cpu', 'cuda')", "('cuda', 'cpu')")
        ],
        _ON_THE_CPU: [
            ("torch.cuda.get_rng_state(gpu)", "torch.cuda.get_rng_state()"),
            ("'cuda'", "'cpu'"),
            ("list(gpus)", ""),
            ("list(gpus)", "list()"),
            ("casts[1]", "casts[0]"),
            ("state", ""),
            ("torch.cuda.set_rng_state(state, gpu)", "torch.cuda.set_rng_state(state)"),
            ("torch.cuda.set_rng_state(state, gpu)", "torch.cuda.set_rng_state(gpu, state)"),
        ],
    },
    "shard": {
        "zeros beyond the last piece are cut off again": [("_ - flat.numel()", "_ + flat.numel()")],
    },
    "quantize_int8": {
        "a scale as small as that no trained model has": [
            ("scale < _", "scale <= _"),
            ("scale.dtype", ""),
        ],
    },
    "dequantize": {
        "int8 times a real number has the real number's dtype": [("scale.dtype", "")],
    },
    "QuantizedLinear": {
        _SAME_AXIS: [("_.squeeze(-1)", "_.squeeze(+1)"), ("_.squeeze(-1)", "_.squeeze()")],
        "the narrower dtype of two is widened by the product or the sum itself": [
            ("self.scale.to(wide)", "self.scale.to()"),
            ("self.bias.to(wide)", "self.bias.to()"),
        ],
    },
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
def _equivalent(day: Day, definition: str) -> dict[str, str]:
    """The syntax of a definition's known equivalents, each with the reason.

    Definitions of several days may have one name: edits that do not fit this one are another's.
    """
    found = {}
    for reason, edits in EQUIVALENT.get(definition, {}).items():
        for find, put in edits:
            draft = Draft(definition_text(day, definition))
            with contextlib.suppress(Drifted):
                draft.edit(find, put)
                found[ast.dump(draft.tree)] = reason
    return found


def mutants(day: Day) -> Iterator[Mutant]:
    """Every mutant of a day's exercises."""
    for name in day.exercises:
        tree = ast.parse(definition_text(day, name))
        unchanged, out_of_scope = ast.unparse(tree), _out_of_scope(tree)
        for index, node in enumerate(ast.walk(tree)):
            if id(node) in out_of_scope:
                continue
            for change in range(_changes(node)):
                mutated = copy.deepcopy(tree)
                target = list(ast.walk(mutated))[index]
                _change(target, change, tree)
                source = ast.unparse(ast.fix_missing_locations(mutated))
                if source != unchanged:
                    yield Mutant(day, name, _changed_statement(tree, mutated), source)


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
        elif isinstance(node, ast.If):
            fused = node.orelse if ast.unparse(node.test) == "self.keep_weights" else []
            hidden = [node] if isinstance(node.body[-1], ast.Raise) else [*fused]
        elif isinstance(node, ast.Expr):
            hidden = [node] if _only_refuses(node.value) else []
        for root in hidden:
            out |= {id(inner) for inner in ast.walk(root)} if root is not None else set()
    return out


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
    named = [(node.keywords, i) for i, one in enumerate(node.keywords) if one.arg != "device"]
    return named + [(node.args, i) for i, one in enumerate(node.args) if not _is_device(one)]


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
        return all(judge.truth.passes(check, module) for check in judge.checks)
    except Exception:  # it does not even load, or ran out of time
        return False
    finally:
        signal.alarm(0)


def _out_of_time(*_: object) -> None:
    raise TimeoutError


_judges: dict[Day, Judge] = {}


def _judge(day: Day) -> Judge:
    if day not in _judges:
        _judges[day] = judge = Judge(day)
        for check in judge.checks:  # ahead of the alarm, which is for the mutants
            judge.truth.right(check)
    return _judges[day]


def run(chosen: list[Mutant]) -> list[Mutant]:
    """The survivors among these mutants."""
    with multiprocessing.get_context("spawn").Pool() as pool:
        alive = pool.map(survives, chosen, chunksize=8)
    return [mutant for mutant, lives in zip(chosen, alive, strict=True) if lives]


def main() -> int:
    """Run all mutants of the days asked for, and report."""
    days = [find_day(asked) for asked in sys.argv[1:]] or [day for day in DAYS if day.ready]
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
