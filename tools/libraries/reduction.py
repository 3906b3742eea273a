"""Reduces the numbers in tests: parameters, variables, defaults, and bounds of strategies.

Tests of libraries are designed for the speed of a GPU. A limit applies to a name wherever a test
assigns a number to it: as a parameter, `batch = 300`, `f(batch=300)`, `def f(batch=300)` or
`given(batch=integers(0, 300))`. Numbers above the limit are replaced by the limit.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from _pytest.assertion import rewrite


def reduce_parameters(parameters: dict[str, Any], limits: Mapping[str, int]) -> None:
    """Limit parameters in place; in lists such as offsets, only entries above the limit change."""
    for name, limit in limits.items():
        value = parameters.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            parameters[name] = min(value, limit)
        elif isinstance(value, list) and all(isinstance(entry, int) for entry in value):
            kept = [entry for entry in value if entry < limit]
            parameters[name] = [*kept, limit] if len(kept) < len(value) else value


def reduce_modules(limits: Mapping[str, int]) -> None:
    """Make pytest reduce the test modules that it imports from now on."""
    rewrite_asserts = rewrite.rewrite_asserts

    def reduced(module: ast.Module, *args: Any, **kwargs: Any) -> None:
        _Reduction(limits).visit(module)
        rewrite_asserts(module, *args, **kwargs)

    def not_cached(*args: Any, **kwargs: Any) -> None:
        return None

    # pytest must neither load cached modules, nor cache reduced ones.
    vars(rewrite).update(rewrite_asserts=reduced, _read_pyc=not_cached, _write_pyc=not_cached)


class _Reduction(ast.NodeVisitor):
    """Applies the limits to numbers that are assigned or passed by name."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = limits

    def visit_Assign(self, node: ast.Assign) -> None:
        """Limit `name = 1` and `one, other = 1, 2`."""
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Limit `name: int = 1`."""
        if node.value is not None:
            self._assign(node.target, node.value)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Limit `f(name=1)`."""
        self._limit(node.arg, node.value)
        self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> None:
        """Limit `def f(name=1)`."""
        positional = [*node.posonlyargs, *node.args]
        for argument, default in zip(positional[::-1], node.defaults[::-1], strict=False):
            self._limit(argument.arg, default)
        for argument, value in zip(node.kwonlyargs, node.kw_defaults, strict=True):
            if value is not None:
                self._limit(argument.arg, value)
        self.generic_visit(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._limit(target.id, value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for element, constant in zip(target.elts, value.elts, strict=False):
                self._assign(element, constant)

    def _limit(self, name: str | None, value: ast.expr) -> None:
        """Limit constants, including those in lists and calls; other expressions stay unchanged."""
        limit = self._limits.get(name or "")
        if limit is None:
            return
        if isinstance(value, ast.Constant):
            if isinstance(value.value, int) and not isinstance(value.value, bool):
                value.value = min(value.value, limit)
        elif isinstance(value, (ast.List, ast.Tuple)):
            for part in value.elts:
                self._limit(name, part)
        elif isinstance(value, ast.Call):
            for part in (*value.args, *(keyword.value for keyword in value.keywords)):
                self._limit(name, part)
