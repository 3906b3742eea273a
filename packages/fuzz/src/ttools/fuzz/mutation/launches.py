"""Changes of a launch that must not change a bit: its grid in two parts, its blocks in halves."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ttools.fuzz.mutation.capture import CapturedLaunch
from ttools.fuzz.mutation.source import KernelText, calls

#: What combines lanes, or depends on how many there are of them.
_COMBINING = {
    "sum", "max", "min", "dot", "dot_scaled", "reduce", "xor_sum", "cumsum", "cumprod", "argmax",
    "argmin", "sort", "associative_scan", "histogram", "gather", "flip", "softmax", "num_programs",
    "reshape", "join", "split", "cat", "rand", "randn", "atomic_add",
}  # fmt: skip
_LEAST_BLOCK = 32


@dataclass(frozen=True)
class Part:
    """A launch in the place of the captured one, or of a part of it.

    Attributes:
        more: arguments that it has beside those captured, or in their place.
    """

    grid: tuple[int, int, int]
    more: Mapping[str, Any]


def split_grid(text: KernelText, launch: CapturedLaunch, rng: random.Random) -> list[Part] | None:
    """Two launches of a part of the programs each; None for kernels that cannot be split."""
    x, y, z = launch.grid
    words = ("atomic", "volatile", "cache_modifier")
    if x < 2 or any(word in _sources(launch, text) for word in words):
        return None
    if any("program_id" in each or "num_programs" in each for each in _called_sources(launch)):
        return None
    places = [
        n for n in ast.walk(text.kernel) if _asks(n, "program_id") or _asks(n, "num_programs")
    ]
    if not all(_is_literal(node) for node in places):
        return None
    first, count = text.new_name("first_"), text.new_name("programs_")
    text.module.body[-1] = _Moved(first, count).visit(text.kernel)
    text.kernel.args.args += [ast.arg(first), ast.arg(count)]
    if text.kernel.args.defaults:
        return None
    cut = rng.randint(1, x - 1)
    return [
        Part((cut, y, z), {first: 0, count: x}),
        Part((x - cut, y, z), {first: cut, count: x}),
    ]


class _Moved(ast.NodeTransformer):
    """Has a kernel ask parameters which program of the first axis it is."""

    def __init__(self, first: str, count: str) -> None:
        self._first, self._count = first, count

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _asks(node, "program_id") and _axis(node) == 0:
            return ast.BinOp(node, ast.Add(), ast.Name(self._first, ast.Load()))
        if _asks(node, "num_programs") and _axis(node) == 0:
            return ast.Name(self._count, ast.Load())
        return node


def halved_block(text: KernelText, launch: CapturedLaunch) -> list[Part] | None:
    """Twice as many programs with blocks of half the size, of a kernel that goes lane by lane."""
    tree = text.kernel
    loops = any(isinstance(node, (ast.For, ast.While)) for node in ast.walk(tree))
    combined = calls(tree) & _COMBINING or any(
        calls(ast.parse(each)) & _COMBINING for each in _called_sources(launch)
    )
    if loops or combined:
        return None
    blocks = [
        name
        for name, value in launch.arguments.items()
        if isinstance(value, int)
        and value >= _LEAST_BLOCK
        and value & (value - 1) == 0
        and _is_block(tree, name)
    ]
    if len(blocks) != 1:
        return None
    x, y, z = launch.grid
    return [Part((2 * x, y, z), {blocks[0]: launch.arguments[blocks[0]] // 2})]


def _is_block(tree: ast.FunctionDef, name: str) -> bool:
    """Return whether a constant is the number of elements of a program, and nothing else."""
    programs = {
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and _is_program(node.value, set())
    }
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
    allowed: list[ast.AST] = []
    multiplied = ranged = False
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if any(one is use for use in uses) and _is_program(other, programs):
                    allowed.append(one)
                    multiplied = True
        if _asks(node, "arange") and isinstance(node, ast.Call) and len(node.args) == 2:
            start, end = node.args
            is_zero = isinstance(start, ast.Constant) and start.value == 0
            if is_zero and any(end is use for use in uses):
                allowed.append(end)
                ranged = True
    return multiplied and ranged and len(allowed) == len(uses)


def _is_program(value: ast.expr, names: set[str]) -> bool:
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "to":
            return _is_program(value.func.value, names)
        return _asks(value, "program_id") and _axis(value) == 0
    return False


def _asks(node: ast.AST, what: str) -> bool:
    return (
        isinstance(node, ast.Call) and what in calls(ast.Expression(node)) and what == _last(node)
    )


def _last(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _axis(node: ast.Call) -> object:
    value = node.args[0] if node.args else next((k.value for k in node.keywords), None)
    return value.value if isinstance(value, ast.Constant) else None


def _is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _axis(node) is not None


def _called_sources(launch: CapturedLaunch) -> Iterator[str]:
    """The sources of Triton's functions that a kernel may call by name, directly or not."""
    import textwrap

    seen: set[int] = set()
    pending = [launch.function]
    while pending:
        function = pending.pop()
        names = function.fn.__globals__
        for name in function.fn.__code__.co_names:
            found = names.get(name)
            if hasattr(found, "src") and hasattr(found, "fn") and id(found) not in seen:
                seen.add(id(found))
                pending.append(found)
                yield textwrap.dedent(found.src)


def _sources(launch: CapturedLaunch, text: KernelText) -> str:
    return "\n".join([ast.unparse(text.kernel), *_called_sources(launch)])
