"""Checks of the Python source of a kernel's functions for recursion and ignored assertions.

Triton's front end does not support recursion at run time, and fails with a `KeyError` for an
internal table. It ignores assertions if `debug` is off.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ttools.core.errors import InvalidKernelError
from ttools.core.location import SourceLocation
from ttools.core.triton_versions import CompiledSource
from ttools.interpreter.frontend.triton_passes import location_of


def refuse_recursion(source: CompiledSource) -> None:
    """Reject a kernel with functions that call themselves, directly or through other functions.

    A function with a constexpr parameter may call itself, because this parameter can end the
    recursion during compilation.

    Raises:
        InvalidKernelError: There is such a call; the location is that of the first one.
    """
    functions = {id(f): f for f in source.kernels if not _has_constexpr(f)}
    calls = {key: list(_calls(f, functions)) for key, f in functions.items()}
    for key, function in functions.items():
        for node, called in calls[key]:
            if key in _reached(called, calls):
                raise InvalidKernelError(
                    f"recursion: this call leads back to `{function.fn.__name__}`",
                    location_of(function, node),
                    help="write a loop, or end the recursion with a tl.constexpr parameter",
                )


def _has_constexpr(function: Any) -> bool:
    return any(parameter.is_constexpr for parameter in function.params)


def _calls(function: Any, functions: dict[int, Any]) -> Iterator[tuple[ast.Call, int]]:
    scope = function.fn.__globals__
    for node in ast.walk(ast.parse(function.src)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = id(scope.get(node.func.id))
            if called in functions:
                yield node, called


def _reached(start: int, calls: dict[int, list[tuple[ast.Call, int]]]) -> set[int]:
    reached: set[int] = set()
    pending = [start]
    while pending:
        key = pending.pop()
        if key not in reached:
            reached.add(key)
            pending += [called for _, called in calls[key]]
    return reached


_CALLED = "device_assert"


def first_assertion(source: CompiledSource) -> SourceLocation | None:
    """Return the location of the first run-time assertion of a kernel, or of a function it calls.

    Triton treats Python's `assert` as a `tl.device_assert`.
    """
    for function in source.kernels:
        if "assert" in function.src:
            for node in ast.walk(ast.parse(function.src)):
                if isinstance(node, ast.Assert) or _is_device_assert(node):
                    return location_of(function, node)
    return None


def _is_device_assert(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == _CALLED
