"""What is known of an answer without running it: shortcuts that it takes, what it resembles, and
which lines of a notebook without tags are the answer.

This runs in the sandbox, before anything of the learner's has run there: to parse a file is already
to let its author choose what a parser does.
"""

from __future__ import annotations

import ast
import bisect
import contextlib
import hashlib
import io
import keyword
import re
import symtable
import token
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
        # Ways past what observes a call.
        (TORCH_DAYS, "jit ops overrides _C utils.cpp_extension utils._python_dispatch"),
    )
)

# Packages that are not the course's: whichever of them is installed has many a day's answer.
PACKAGES = """
    accelerate autograd bitsandbytes cupy fairseq flash_attn flax jax keras lightning loralib
    mamba_ssm mlx nltk numba onnx onnxruntime onnxscript peft pytorch_lightning rotary_embedding_torch
    sacrebleu scipy sentencepiece sklearn tensorflow tiktoken tinygrad tokenizers torchao
    torchmetrics torchtext torchtune transformers x_transformers xformers
"""

# What no answer needs, and who would fool the checks does.
TAMPERING = """
    _thread asyncio builtins concurrent course ctypes gc importlib inspect marshal multiprocessing
    operator.attrgetter operator.methodcaller pickle pkgutil pytest runpy signal socket subprocess
    threading unittest zipimport
    os._exit os.abort os.environ os.execv os.fork os.kill os.listdir os.open os.read
    os.scandir os.system os.walk os.write sys._getframe sys.addaudithook sys.exit sys.meta_path
    sys.modules sys.path sys.setprofile sys.settrace types.CodeType types.FunctionType
    __import__ compile eval exec open
"""
# These attributes reach objects that no import names. Those of a module reach everything in the module.
LEADING = {
    "__subclasses__",
    "__wrapped__",
    "__globals__",
    "__closure__",
    "__code__",
    "__builtins__",
}
CONTENTS = {"__dict__", "__getattribute__"}

REFERENCES = ("implementation", "numpy_reference", "variants")

COMPUTED = ".getattr(…)"  # an attribute of a module whose name is computed

TOKENS = 10  # in a row that are compared
WINDOW = 6  # of such rows, one is kept


# What a parser makes of text that is no Python, or that is out to break it.
UNPARSED = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)

Send = Callable[[dict[str, Any]], None]


def serve(request: dict[str, Any], send: Send) -> None:
    """Look through files and send what was found in each; or through the cells of a notebook."""
    for name, (number, path) in request.get("analyze", {}).items():
        send({"file": name} | _looked_through(Path(path), number))
    if "gather" in request:
        send({"spans": gather(request["gather"], request["exercises"])})


def _looked_through(path: Path, day: int) -> dict[str, Any]:
    """Return what was found in a file, and whether it could be looked through.

    A file that Python itself cannot read never runs, so there is nothing to look for in it.
    """
    nothing = {"shortcuts": [], "fingerprints": [], "unseen": False}
    try:
        source = read_answer(path)
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
    meant = dict(_imported(tree))
    ready_made = {name for name, days in SHORTCUTS.items() if day in days} | set(PACKAGES.split())
    forbidden = ready_made | set(TAMPERING.split())
    # By another way to it, such as `x = nn; x.Transformer`, a name is still called what it is.
    telling = {name.rpartition(".")[2] for name in ready_made if name.startswith("torch.")}
    roots = {name.partition(".")[0] for name in meant.values()}
    for line, name in _uses(tree, meant):
        if name.endswith(COMPUTED):
            yield line, name
        parts = name.split(".")
        if (
            not LEADING.isdisjoint(parts)
            or (parts[0] in roots and not CONTENTS.isdisjoint(parts))
            or any(".".join(parts[:end]) in forbidden for end in range(1, len(parts) + 1))
            or (len(parts) > 1 and parts[0] not in REFERENCES and parts[-1] in telling)
            or (
                parts[-1] == "*"
                and any(full_name.startswith(name[:-1]) for full_name in ready_made)
            )
        ):
            yield line, name


def listened_for(day: int) -> tuple[str, ...]:
    """The functions of torch at which every way to a ready-made answer to a day ends.

    Where there are any, also what says that they could not be listened for.
    """
    names = tuple(name for name, days in BEHIND.items() if day in days)
    return (*names, OUT_OF_SIGHT) if names else ()


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What each name that an import binds stands for."""
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
    roots = {name.partition(".")[0] for name in meant.values()}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module or ''}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            yield node.lineno, _dotted(node, meant)
        elif isinstance(node, ast.MatchClass):
            yield from ((node.lineno, f".{name}") for name in node.kwd_attrs)
        elif isinstance(node, ast.Call) and _dotted(node.func, meant) == "vars" and node.args:
            yield node.lineno, f"{_dotted(node.args[0], meant)}.__dict__"
        elif (
            isinstance(node, ast.Call) and _dotted(node.func, meant) == "getattr" and node.args[1:]
        ):
            name, attribute = _dotted(node.args[0], meant), node.args[1]
            if isinstance(attribute, ast.Constant):
                yield node.lineno, f"{name}.{attribute.value!s}"
            elif name.partition(".")[0] in roots:
                yield node.lineno, f"{name}{COMPUTED}"


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
