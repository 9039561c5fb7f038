"""What is known of an answer without running it: shortcuts that it takes, what it resembles, and
which lines of a notebook without tags are the answer.

This runs in the sandbox, before anything of the learner's has run there: to parse a file is already
to let its author choose what a parser does.
"""

from __future__ import annotations

import ast
import bisect
import contextlib
import functools
import hashlib
import io
import keyword
import re
import symtable
import sys
import token
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from course.checks.answer_files import Unreadable, read_answer
from course.curriculum import LAST_DAY
from course.workers.tracing import OUT_OF_SIGHT

NUMPY_DAYS = range(1, 8)
TORCH_DAYS = range(8, LAST_DAY + 1)
EVERY_DAY = range(1, LAST_DAY + 1)
# Days 9 and 23 are about the heads, so their answers may use torch's own attention.
ATTENDING = (8, *range(10, 15), *range(25, 28), *range(30, 35))
HEADS = (*range(8, 15), 23, *range(25, 28), *range(30, 37))
NORMS = (*range(11, 15), 28)
COUNTED = (31, 33, 34, 43, 44)  # their checks count operations, tensors or memory


def _of_torch(*table: tuple[Iterable[int], str]) -> dict[str, Iterable[int]]:
    return {f"torch.{name}": days for days, names in table for name in names.split()}


# Functions of torch at which every way to a ready-made answer ends, by the days of which they are one.
BEHIND = _of_torch(
    (
        ATTENDING,
        "nn.functional.scaled_dot_product_attention _scaled_dot_product_attention_math "
        "_scaled_dot_product_flash_attention_for_cpu",
    ),
    (
        HEADS,
        "nn.functional.multi_head_attention_forward _native_multi_head_attention "
        "_transformer_encoder_layer_fwd",
    ),
    (
        NORMS,
        "nn.functional.layer_norm layer_norm native_layer_norm "
        "nn.functional.group_norm group_norm native_group_norm "
        "nn.functional.batch_norm batch_norm native_batch_norm "
        "nn.functional.instance_norm instance_norm",
    ),
    ((28,), "nn.functional.rms_norm rms_norm nn.functional.gelu nn.functional.mish"),
    ((16,), "nn.functional.cross_entropy"),
    (
        (40,),
        "quantize_per_tensor quantize_per_channel "
        "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine",
    ),
)

# What does the exercise's work, by the days on which it does. For review: it costs no points.
SHORTCUTS = (
    BEHIND
    | {"torch": NUMPY_DAYS}
    | _of_torch(
        (HEADS, "nn.MultiheadAttention"),
        (TORCH_DAYS, "nn.attention"),
        (EVERY_DAY, "nn.Transformer nn.TransformerEncoder nn.TransformerEncoderLayer"),
        (EVERY_DAY, "nn.TransformerDecoder nn.TransformerDecoderLayer"),
        (NORMS, "nn.LayerNorm nn.GroupNorm nn.InstanceNorm1d nn.BatchNorm1d"),
        ((28,), "nn.RMSNorm nn.GELU nn.Mish"),
        ((16,), "nn.CrossEntropyLoss"),
        ((33, 38), "utils.checkpoint"),
        ((38,), "nn.utils.clip_grad nn.utils.clip_grad_norm_ nn.utils.clip_grads_with_norm_"),
        ((38,), "nn.utils.get_total_norm amp.GradScaler cuda.amp"),
        ((39,), "distributed"),
        ((40,), "quantization ao"),
        ((41,), "optim.Adam optim.AdamW optim.Muon optim.adam optim.adamw"),
        ((41,), "_fused_adam_ _fused_adamw_ _fused_sgd_"),
        (TORCH_DAYS, "distributed onnx"),
        # What computes out of sight of a check of operations or memory.
        (COUNTED, "Tensor.numpy Tensor.tolist Tensor.__array__ from_numpy utils.data.DataLoader"),
        # Ways past what observes a call.
        (TORCH_DAYS, "jit ops overrides utils.cpp_extension utils.flop_counter"),
    )
)

# What answers import; of `os`, `string`, `sys` and `unittest`, these attributes. Anything else may have a
# day's answer, run text as code, or reach the checks.
USUAL = """
    __future__ abc bisect collections contextlib copy dataclasses decimal enum fractions functools
    heapq implementation itertools jaxtyping json math matplotlib numbers numpy numpy_reference
    operator os.path random re statistics string.ascii_letters string.ascii_lowercase
    string.ascii_uppercase string.digits string.punctuation string.whitespace sys.float_info
    sys.maxsize sys.stderr sys.version_info time torch types typing typing_extensions unicodedata
    unittest.TestCase unittest.main variants warnings
"""
PARTS = {name.partition(".")[0] for name in USUAL.split() if "." in name}
# What a module has imported itself: `queue.threading`. Some are names of torch and NumPy, too.
IMPORTED = sys.stdlib_module_names - set(USUAL.split())
IMPORTED -= {"array", "chunk", "select", "signal", "string", "trace"}
OF_LIBRARIES = {"F", "math", "nn", "np", "torch"}  # which the references import for themselves

# What no answer needs, and who would fool the checks does.
TAMPERING = """
    numpy.ctypeslib numpy.f2py numpy.fromfile numpy.load numpy.memmap numpy.testing
    operator.attrgetter operator.methodcaller torch.fx torch.hub torch.load torch.multiprocessing
    torch.package torch.utils.benchmark types.CodeType types.FunctionType
    typing.ForwardRef typing.get_type_hints
    __builtins__ __import__ __loader__ __spec__ breakpoint compile eval exec globals open
"""
# These attributes reach objects that no import names. Those of a module reach everything in the module.
LEADING = """
    __base__ __bases__ __builtins__ __closure__ __code__ __getattribute__ __globals__ __loader__ __mro__
    __self__ __spec__ __subclasses__ __torch_dispatch__ __torch_function__ __traceback__ __wrapped__
    ag_frame as_subclass cr_frame f_back f_builtins f_globals f_locals gi_frame mro tb_frame
"""
CONTENTS = {"__dict__", "__getattribute__"}
# The checks read these attributes of tensors: an answer that replaces one reports for them.
ASKED = {"detach", "element_size", "is_floating_point", "nbytes", "numel", "untyped_storage"}

REFERENCES = ("implementation", "numpy_reference", "variants")

# The words for an attribute whose name is computed, a module that is handed on, a class of tensors, and an
# attribute that is not the answer's to set.
WAYS = ".getattr(…)", " as a value", " as a base", " replaced"
COMPUTED, AS_VALUE, AS_BASE, REPLACED = WAYS
INDIRECT = {"delattr", "getattr", "setattr", "vars"}
TORCH = (
    getattr(find_spec("torch"), "submodule_search_locations", None) or ()
)  # the folders of torch

TOKENS = 10  # in a row that are compared
WINDOW = 6  # of such rows, one is kept


# What a parser makes of text that is no Python, or that is out to break it.
UNPARSED = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)

Send = Callable[[dict[str, Any]], None]


def serve(request: dict[str, Any], send: Send) -> None:
    """Look through a file, or gather an answer from the cells of a notebook, and send what was found."""
    if "analyze" in request:
        send(_looked_through(*request["analyze"]))
    if "gather" in request:
        send({"spans": gather(request["gather"], request["exercises"])})


def _looked_through(path: str, day: int) -> dict[str, Any]:
    """Return what was found in a file, and whether it could be looked through.

    A file that Python itself cannot read never runs, so there is nothing to look for in it.
    """
    nothing = {"shortcuts": [], "fingerprints": [], "unseen": False}
    try:
        source = read_answer(Path(path))
        ast.parse(source)
    except (Unreadable, SyntaxError):
        return nothing
    except UNPARSED:
        return nothing | {"unseen": True}
    try:
        uses = sorted(set(shortcuts(source, day)))
        return {"shortcuts": uses, "fingerprints": fingerprints(source), "unseen": False}
    except UNPARSED:
        return nothing | {"unseen": True}


# --- Shortcuts ------------------------------------------------------------------------------------


def shortcuts(source: str, day: int) -> Iterator[tuple[int, str]]:
    """The lines on which an answer uses what does the exercise's work, or what could fool a check."""
    tree = ast.parse(source)
    meant = _meanings(tree)
    ready_made = {name for name, days in SHORTCUTS.items() if day in days}
    forbidden, leading = ready_made | set(TAMPERING.split()), set(LEADING.split())
    # By another way to it, such as `x = nn; x.Transformer`, a name is still called what it is.
    telling = {name.rpartition(".")[2] for name in ready_made if name.startswith("torch.")}
    roots = {name.partition(".")[0] for name in meant.values()} - {""}
    for line, name in _uses(tree, meant):
        parts = name.split(".")
        if (
            name.endswith(WAYS)
            or not leading.isdisjoint(parts)
            or (parts[0] in roots and not _is_usual(name))
            or any(".".join(parts[:end]) in forbidden for end in range(1, len(parts) + 1))
            or (len(parts) > 1 and parts[0] not in REFERENCES and parts[-1] in telling)
            or (
                parts[-1] == "*"
                and any(full_name.startswith(name[:-1]) for full_name in ready_made)
            )
        ):
            yield line, name


@functools.cache
def _is_usual(name: str) -> bool:
    """Whether answers import this module, or use this attribute of one."""
    first, *rest = name.split(".")
    usual = set(USUAL.split())
    reaching = CONTENTS | IMPORTED | (OF_LIBRARIES if first in REFERENCES else set())
    return (
        (first in usual or ".".join([first, *rest[:1]]) in usual or name in PARTS)
        and reaching.isdisjoint(rest)
        and (first in REFERENCES or not any(re.match("_[^_]", part) for part in rest))
    )


def listened_for(day: int) -> tuple[str, ...]:
    """The functions of torch at which every way to a ready-made answer to a day ends.

    Where there are any, also what says that they could not be listened for.
    """
    names = tuple(name for name, days in BEHIND.items() if day in days)
    return (*names, OUT_OF_SIGHT) if names else ()


def _meanings(tree: ast.AST) -> dict[str, str]:
    """What each name that an import binds stands for; of several meanings, the least usual."""
    bound = sorted(_imported(tree), key=lambda binding: binding[1] not in USUAL.split())
    return dict(bound)


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"


def _uses(tree: ast.AST, meant: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Every dotted name that is imported or used, by what it stands for."""
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                yield from (
                    (node.lineno, f"{node.module or ''}.{alias.name}") for alias in node.names
                )
            case ast.MatchClass():
                yield from ((node.lineno, f".{name}") for name in node.kwd_attrs)
            case ast.ClassDef():
                bases = (_dotted(base, meant) for base in node.bases)
                yield from (
                    (node.lineno, name + AS_BASE) for name in bases if name == "torch.Tensor"
                )
            case ast.FunctionDef() if node.name.startswith("__torch_"):
                yield node.lineno, f".{node.name}"
            case ast.Call(func=ast.Name(id="vars"), args=[]):
                yield node.lineno, "globals"
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" | "setattr" | "delattr" as function),
                args=[of, attribute, *_],
            ):
                inner.add(id(of))  # not a value there; a parent comes before its children
                name = f"{_dotted(of, meant)}.{getattr(attribute, 'value', '')!s}"
                if not isinstance(attribute, ast.Constant):
                    yield from [] if name == "self." else [(node.lineno, name[:-1] + COMPUTED)]
                elif function in ("setattr", "delattr") and _is_foreign(name, meant):
                    yield node.lineno, name + REPLACED
                else:
                    yield node.lineno, name
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                if _is_foreign(name := _dotted(node, meant), meant):
                    yield node.lineno, name + REPLACED
            case ast.Subscript(ctx=ast.Store(), slice=ast.Constant(value=str(name))) if (
                name in ASKED
            ):
                yield node.lineno, f".{name}{REPLACED}"
            case ast.Attribute() | ast.Name(ctx=ast.Load()) if id(node) not in inner:
                name = _dotted(node, meant)
                as_value = id(node) not in called and (name in INDIRECT or _is_module(name, meant))
                yield node.lineno, name + AS_VALUE * as_value


def _is_foreign(name: str, meant: dict[str, str]) -> bool:
    """Whether this attribute is not the answer's to set."""
    parts = name.split(".")
    return (parts[-1] in ASKED and parts[0] != "self") or (
        parts[0] in {full.partition(".")[0] for full in meant.values()}
        and parts[:2] != ["torch", "backends"]  # such as `allow_tf32`
    )


def _is_module(name: str, meant: dict[str, str]) -> bool:
    """Whether a name stands for a module, without importing it."""
    first, *rest = name.split(".")
    if first != "torch" or not rest:
        return not rest and name in meant.values()
    with contextlib.suppress(OSError):  # of a name too long for a file
        paths = [Path(folder, *rest) for folder in TORCH]
        return any(path.is_dir() or path.with_suffix(".py").is_file() for path in paths)
    return False


def _dotted(node: ast.expr, meant: dict[str, str]) -> str:
    """`F.softmax` as `torch.nn.functional.softmax`; `.softmax` for what hangs on no name."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(["", *reversed(attributes)])
    return ".".join([meant.get(node.id, node.id), *reversed(attributes)])


# --- Resemblance ----------------------------------------------------------------------------------


def fingerprints(source: str) -> list[int]:
    """Hashes of code without what does nothing: first of all of it, names too; then those that two files
    share where they have a stretch of code in common, names and intermediate variables aside.

    Winnowing (Schleimer, Wilkerson and Aiken 2003, section 3): of every `WINDOW` neighboring rows of
    `TOKENS` tokens the least hash is kept, so that a common stretch of `TOKENS + WINDOW - 1` tokens
    always shows.
    """
    tree = ast.parse(source)
    tree = _Plain(tree).visit(_Operators(tree).visit(tree))
    plain = ast.unparse(tree)
    flat = ast.unparse(_flattened(tree))
    tokens = list(_tokens(flat))
    rows = [" ".join(tokens[i : i + TOKENS]) for i in range(len(tokens) - TOKENS + 1)]
    hashes = [_hash(row) for row in rows]
    windows = (hashes[i : i + WINDOW] for i in range(max(1, len(hashes) - WINDOW + 1)))
    return [_hash(plain), *sorted({min(window) for window in windows if window})]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:6])


def _tokens(plain: str) -> Iterator[str]:
    """Code as its author's words do not change it: names alike, no comments, strings or layout.

    It is `ast.unparse`'s: `tokenize` stumbles over text that Python accepts, such as a lone carriage
    return.
    """
    after_dot = False
    for lexeme in tokenize.generate_tokens(io.StringIO(plain).readline):
        if lexeme.type == token.NAME:
            # An attribute is a library's name; any other may be renamed without thought.
            yield lexeme.string if keyword.iskeyword(lexeme.string) or after_dot else "name"
        elif lexeme.type == token.NUMBER:
            yield "number"
        elif lexeme.type == token.OP:
            yield lexeme.string
        after_dot = lexeme.string == "."


class _Plain(ast.NodeTransformer):
    """Takes out what hides a copy at no cost: statements without effect, annotations, wrapped names.

    The remaining code need not run: a body may be empty.
    """

    def __init__(self, tree: ast.AST) -> None:
        nodes = list(ast.walk(tree))
        read = (node for node in nodes if isinstance(node, ast.Name))
        self._read = Counter(node.id for node in read if isinstance(node.ctx, ast.Load))
        self._called_on = Counter(map(_called_on, nodes))
        self._same = {getattr(node, "name", "") for node in ast.walk(tree) if _returns_it(node)}

    def visit(self, node: ast.AST) -> Any:
        node = self.generic_visit(node)
        match node:
            case ast.arg():
                node.annotation = None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.returns = None
            case ast.AnnAssign(value=ast.expr() as value):
                plain = ast.copy_location(ast.Assign([node.target], value), node)
                return None if self._is_idle(plain) else plain
            case ast.If(test=ast.Constant(value=value)):
                return node.body if value else node.orelse
        if isinstance(node, ast.expr):
            return self._unwrapped(node)
        return None if isinstance(node, ast.stmt) and self._is_idle(node) else node

    def _is_idle(self, node: ast.stmt) -> bool:
        match node:
            case ast.Expr() if receiver := _called_on(node):
                return self._read[receiver] == self._called_on[receiver]
            case ast.Pass() | ast.AnnAssign() | ast.Expr(value=ast.Constant() | ast.Name()):
                return True
            case ast.Assign(targets=[ast.Name()], value=ast.Constant() | ast.Name()):
                return True
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
                return node.col_offset > 0 and name not in self._read
        return isinstance(node, ast.FunctionDef) and node.name in self._same

    def _unwrapped(self, node: ast.expr) -> Any:
        match node:
            case ast.IfExp(test=ast.Constant(value=value)):
                return node.body if value else node.orelse
            case ast.BinOp(left=inner, op=ast.Add() | ast.Sub(), right=ast.Constant(value=0)):
                return inner
            case ast.BinOp(left=inner, op=ast.Mult() | ast.Div(), right=ast.Constant(value=1)):
                return inner
            case ast.Call(func=ast.Name(id=name), args=[inner]) if name in self._same:
                return inner
            case ast.Call(func=ast.Lambda() as same, args=[inner]) if _returns_it(same):
                return inner
            case ast.Subscript(value=ast.Tuple(elts=inside) | ast.List(elts=inside)):
                with contextlib.suppress(ValueError, TypeError, IndexError):
                    chosen: ast.expr = inside[ast.literal_eval(node.slice)]
                    return chosen
        return node


BINARY: dict[str, type[ast.operator]] = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "div": ast.Div,
    "truediv": ast.Div,
    "pow": ast.Pow,
    "matmul": ast.MatMult,
    "and_": ast.BitAnd,
    "or_": ast.BitOr,
}
LIBRARIES = {"numpy", "operator", "torch"}


class _Operators(ast.NodeTransformer):
    """Writes calls that stand for an operator, a method or an attribute as what they stand for."""

    def __init__(self, tree: ast.AST) -> None:
        self._meant = dict(_imported(tree))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        module, _, name = _dotted(node.func, self._meant).rpartition(".")
        match node.func, node.args:
            case _, [left, right] if module in LIBRARIES and name in BINARY:
                return ast.BinOp(left, BINARY[name](), right)
            case ast.Attribute(value=left), [right] if module not in LIBRARIES and name in BINARY:
                return ast.BinOp(left, BINARY[name](), right)
            case _, [left, right] if (module, name) == ("operator", "getitem"):
                return ast.Subscript(left, right, ast.Load())
            case ast.Call(func=getter, args=[ast.Constant(value=str(attribute)), *rest]), [of]:
                getters = _dotted(getter, self._meant)
                if getters == "operator.attrgetter":
                    return ast.Attribute(of, attribute, ast.Load())
                if getters == "operator.methodcaller":
                    method = ast.Attribute(of, attribute, ast.Load())
                    return ast.Call(method, rest, node.func.keywords)
        return node


def _flattened(tree: ast.Module) -> ast.Module:
    """Put the value of each variable that is assigned once and read once in the place where it is read."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
            read = Counter(node.id for node in names if isinstance(node.ctx, ast.Load))
            bound = Counter(node.id for node in names if not isinstance(node.ctx, ast.Load))
            bound.update(node.arg for node in ast.walk(function) if isinstance(node, ast.arg))
            _Inlined({name for name in bound if bound[name] == read[name] == 1}).visit(function)
    return tree


class _Inlined(ast.NodeTransformer):
    """Takes out the assignments of these names, in the order of the code, and fills in their values."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._values: dict[str, ast.expr] = {}

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        node.value = self.visit(node.value)
        match node.targets:
            case [ast.Name(id=name)] if name in self._names:
                self._values[name] = node.value
                return None
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.pop(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _called_on(node: ast.AST) -> str:
    """Return `seen` for the statement `seen.append(1)`, whose result is not used."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name
    return ""


def _returns_it(node: ast.AST) -> bool:
    """Whether a function returns its one argument as it is."""
    match node:
        case ast.Lambda(args=ast.arguments(args=[arg]), body=ast.Name(id=name)):
            return arg.arg == name
        case ast.FunctionDef(
            args=ast.arguments(args=[arg]), body=[ast.Return(value=ast.Name(id=name))]
        ):
            return arg.arg == name
    return False


# --- Notebooks without tags -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Statement:
    """A statement at the top level of a cell.

    Attributes:
        span: its cell, and the half-open range of its lines.
        binds: the names to which it gives a meaning there.
        uses: the names whose meaning it needs from elsewhere.
        kind: `import`, or `future` or `star`, which are needed in any case; nothing for what is no import.
    """

    span: tuple[int, int, int]
    binds: set[str]
    uses: set[str]
    kind: str


def gather(cells: Sequence[str], exercises: Sequence[str]) -> list[tuple[int, int, int]]:
    """The lines that define a day's exercises, with the imports and helpers that these need.

    Of several definitions the last counts, as it does in a notebook that was run from top to bottom. What
    the cells beside it contain, such as examples, is left out.

    Returns:
        cells and half-open ranges of lines, in their order; none if no exercise is defined.
    """
    statements = [item for number, cell in enumerate(cells) for item in _statements(number, cell)]
    where = defaultdict(list)
    defined = {}
    for position, statement in enumerate(statements):
        for name in statement.binds:
            where[name].append(position)
            if not statement.kind:
                defined[name] = position
    targets = [defined[name] for name in exercises if name in defined]
    if not targets:
        return []
    needed = _needed(statements, where, targets)
    needed |= {at for at, item in enumerate(statements) if item.kind in ("future", "star")}
    ordered = sorted(needed, key=lambda at: (statements[at].kind != "future", at))
    return list(dict.fromkeys(statements[at].span for at in ordered))  # two may share a line


def _needed(
    statements: Sequence[_Statement], where: dict[str, list[int]], first: Iterable[int]
) -> set[int]:
    """The statements that these need: of a name the meaning that it had there, and the last one."""
    needed: set[int] = set()
    waiting = list(first)
    while waiting:
        at = waiting.pop()
        if at in needed:
            continue
        needed.add(at)
        for name in statements[at].uses:
            if bindings := where.get(name):
                before = bisect.bisect_left(bindings, at)
                waiting += {bindings[-1], bindings[max(0, before - 1)]}
    return needed


MAGIC = re.compile(r"\s*[%!?]|.*\?\s*$")  # lines for Jupyter, or for a shell
# After these, a cell contains Python; after others, it may contain anything.
PYTHON_MAGIC = ("%%time", "%%capture", "%%prun", "%%writefile")


def _statements(number: int, cell: str) -> list[_Statement]:
    """The statements of a cell; none of one that is no Python."""
    if cell.startswith("%%") and not cell.startswith(PYTHON_MAGIC):
        return []
    plain = "\n".join("#" if MAGIC.match(line) else line for line in cell.split("\n"))
    for text in (cell, plain):
        with contextlib.suppress(*UNPARSED):
            lines = text.split("\n")
            return [_statement(number, node, lines) for node in ast.parse(text).body]
    return []


def _statement(number: int, node: ast.stmt, lines: list[str]) -> _Statement:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    last = node.end_lineno or node.lineno
    table = symtable.symtable("\n".join(lines[first:last]), "cell", "exec")
    binds = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    }
    uses = set(_outside(table))
    if isinstance(node, ast.AugAssign):
        uses |= binds
    return _Statement((number, first, last), binds, uses, _kind(node))


def _outside(table: symtable.SymbolTable) -> Iterator[str]:
    """The names that a stretch of code takes from the top level, and those that are used there."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _outside(inner)


def _kind(node: ast.stmt) -> str:
    if isinstance(node, ast.ImportFrom):
        if node.module == "__future__":
            return "future"
        return "star" if any(alias.name == "*" for alias in node.names) else "import"
    return "import" if isinstance(node, ast.Import) else ""
