"""A kernel's source as a syntax tree with facts about its names, and kernels from changed trees."""

from __future__ import annotations
import __future__ as future

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ttools.core.spec import TensorSpec
from ttools.core.syntax_trees import assigned_names
from ttools.fuzz.mutation.capture import leaves

_FUTURE = future.annotations.compiler_flag
#: Prefix of functions that mutants call; they become `@triton.jit` functions, too.
HELPER = "_mutant_helper_"
#: Functions whose results are known only at run time.
_MAKERS = (
    "program_id", "num_programs", "arange", "load", "zeros", "full", "zeros_like", "dot", "sum",
    "max", "min", "cumsum", "rand", "randn", "atomic_add", "cdiv", "where",
)  # fmt: skip
#: Parts of names of functions with side effects.
_EFFECTS = ("store", "atomic", "print", "barrier", "assert", "inline_asm", "assume", "poll")

Statements = list[ast.stmt]


class NotMutableError(Exception):
    """The source of a kernel cannot be changed."""


class KernelText:
    """The source of a kernel that mutators change.

    Attributes:
        module: Syntax tree of a module with helpers first and the kernel last.
        dynamic: Names of values that are known only at run time.
        integers: Names of integers and of tiles of integers.
    """

    def __init__(self, function: Any, arguments: Mapping[str, Any]) -> None:
        try:
            tree = ast.parse(textwrap.dedent(function.src))
        except (SyntaxError, AttributeError) as error:
            raise NotMutableError("its source is not known") from error
        (kernel,) = tree.body
        if not isinstance(kernel, ast.FunctionDef):
            raise NotMutableError("it is not a plain function")
        kernel.decorator_list = []
        self.module = ast.Module([kernel], [])
        self._arguments = arguments
        self._numbers = 0
        self.refresh()

    @property
    def kernel(self) -> ast.FunctionDef:
        last = self.module.body[-1]
        assert isinstance(last, ast.FunctionDef)
        return last

    @property
    def parameters(self) -> list[str]:
        arguments = self.kernel.args
        return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

    def new_name(self, stem: str) -> str:
        self._numbers += 1
        return f"{stem}{self._numbers}"

    def refresh(self) -> None:
        """Compute the facts about names again after a change."""
        self.dynamic, self.integers = self._facts()

    def text(self) -> str:
        ast.fix_missing_locations(self.module)
        return ast.unparse(self.module) + "\n"

    def locals(self) -> set[str]:
        """Return the names of parameters and of assigned variables."""
        return assigned_names(self.kernel) | set(self.parameters)

    # ---- facts about names
    def _facts(self) -> tuple[set[str], set[str]]:
        dynamic, integers = set(), set()
        for argument in (*self.kernel.args.args, *self.kernel.args.kwonlyargs):
            value = self._arguments.get(argument.arg)
            whole = isinstance(value, int) and not isinstance(value, bool)
            annotated = ast.unparse(argument.annotation) if argument.annotation else ""
            if whole:
                integers.add(argument.arg)
            parts = [part for _, part in leaves(argument.arg, value)]
            if "constexpr" not in annotated and all(map(_is_known_late, parts)):
                dynamic.add(argument.arg)
        assigned = list(self._assignments())
        for _ in range(8):
            before = len(dynamic), len(integers)
            dynamic |= {name for name, value in assigned if self._is_dynamic(value, dynamic)}
            if before == (len(dynamic), len(integers)):
                break
        doubtful: set[str] = set()
        while True:
            candidates = {name for name, _ in assigned} - doubtful
            integral = integers | candidates
            wrong = {n for n, v in assigned if n in candidates and not _is_integer(v, integral)}
            if not wrong:
                return dynamic, integral - (set(self.parameters) - integers) - doubtful
            doubtful |= wrong

    def _assignments(self) -> Iterator[tuple[str, ast.expr]]:
        for node in ast.walk(self.kernel):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
                    yield from ((name, node.value) for name in names)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node.target.id, node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id, node.value or ast.Constant(0.5)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                yield node.target.id, node.iter

    def _is_dynamic(self, value: ast.expr, dynamic: set[str]) -> bool:
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and node.id in dynamic:
                return True
            if isinstance(node, ast.Call) and _called(node) in _MAKERS:
                return True
        return False

    def is_dynamic(self, value: ast.expr) -> bool:
        """Return whether a value is known only at run time."""
        return self._is_dynamic(value, self.dynamic)

    def is_integer(self, value: ast.expr) -> bool:
        """Return whether a value is known to be an integer, or a tile of them."""
        return _is_integer(value, self.integers)

    def is_pointer(self, value: ast.expr) -> bool:
        """Return whether a value is a pointer of the launch, possibly moved by integers."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
            return self.is_pointer(value.left) and self.is_integer(value.right)
        return isinstance(value, ast.Name) and isinstance(self._arguments.get(value.id), TensorSpec)

    def statement_lists(self) -> Iterator[Statements]:
        """Yield the statement lists of the kernel, nested ones included."""
        pending: list[ast.AST] = [self.kernel]
        while pending:
            node = pending.pop()
            for name in ("body", "orelse"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    yield block
                    pending += block


def _is_known_late(value: Any) -> bool:
    """Return whether an argument is known only at run time; 1 and None are constants in Triton."""
    if type(value).__name__ in ("constexpr", "dtype", "JITFunction") or value is None:
        return False
    return not (isinstance(value, int) and not isinstance(value, bool) and value == 1)


def names_of(function: Any) -> dict[str, Any]:
    """Return the values of the names in a kernel's module and closure."""
    nonlocals = inspect.getclosurevars(function.fn).nonlocals
    return {**function.fn.__globals__, **nonlocals}


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def calls(node: ast.AST) -> set[str]:
    """Return the last name of each function that a syntax tree calls."""
    return {_called(call) for call in ast.walk(node) if isinstance(call, ast.Call)}


def has_effect(node: ast.AST) -> bool:
    """Return whether a syntax tree may have side effects."""
    return any(effect in name for name in calls(node) for effect in _EFFECTS)


def _is_integer(value: ast.expr, integers: set[str]) -> bool:
    match value:
        case ast.Constant():
            return isinstance(value.value, int) and not isinstance(value.value, bool)
        case ast.Name():
            return value.id in integers
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
            return _is_integer(value.left, integers) and _is_integer(value.right, integers)
        case ast.Subscript():
            return _is_integer(value.value, integers)
        case ast.Call(func=ast.Name(id="range")):
            return all(_is_integer(argument, integers) for argument in value.args)
        case ast.Call():
            if _called(value) == "to":
                function = value.func
                text = ast.unparse(value.args[0]) if value.args else ""
                holds = isinstance(function, ast.Attribute) and _is_integer(
                    function.value, integers
                )
                return holds and "int" in text and "int1" not in text.replace("int16", "")
            return _called(value) in ("program_id", "num_programs", "arange")
        case _:
            return False


def make_function(original: Any, text: str, folder: Path) -> Any:
    """Return a `@triton.jit` function with changed source and the names of the original.

    Args:
        folder: Folder for the source, because Triton reads it from a file.
    """
    import triton

    name = f"mutant_{abs(hash((text, original.fn.__module__, original.fn.__qualname__))):x}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    names = {**names_of(original), "__name__": name, "__file__": str(path)}
    exec(compile(text, str(path), "exec", flags=_FUTURE), names)
    for helper in [name for name in names if name.startswith(HELPER)]:
        names[helper] = triton.jit(names[helper])
    options = {
        option: getattr(original, option, None)
        for option in ("do_not_specialize", "do_not_specialize_on_alignment")
    }
    return triton.jit(names[original.fn.__name__], **{k: v for k, v in options.items() if v})
