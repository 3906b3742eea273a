"""Refusal of kernels that call themselves at run time.

Triton's front end does not support such calls and fails with a `KeyError` of an internal table.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ttools.core.errors import InvalidKernelError
from ttools.core.triton_versions import CompiledSource
from ttools.interpreter.frontend.front import location_of


def refuse_recursion(source: CompiledSource) -> None:
    """Refuse a kernel with functions that call themselves, directly or through others.

    A function with a constexpr parameter may, because the recursion can end during compilation.

    Raises:
        InvalidKernelError: At the first such call.
    """
    functions = {id(f): f for f in source.kernels if not _has_constexpr(f)}
    calls = {key: list(_calls(f, functions)) for key, f in functions.items()}
    for key, function in functions.items():
        for node, called in calls[key]:
            if key in _reached(called, calls):
                raise InvalidKernelError(
                    f"recursion: a call that leads back to `{function.fn.__name__}`",
                    location_of(function, node),
                    help="write a loop, or recurse over a tl.constexpr parameter that ends it",
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
