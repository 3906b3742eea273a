"""Constants of a kernel that exclude all uses of a parameter, read from the kernel's source.

In the following kernel, `QUANTISED` excludes the only use of `scale_ptr` if it is true:

    @triton.jit
    def scaled(x, scale_ptr, QUANTISED: tl.constexpr):
        if QUANTISED:
            return x
        return x * tl.load(scale_ptr)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ttools.core.syntax_trees import assigned_names, read_names
from ttools.sanitizer.hints.constants import UNKNOWN, value_of
from ttools.sanitizer.hints.source import called_function

#: Largest depth of nested calls that are followed.
_DEEPEST = 8


def excluding_constants(
    body: Iterable[ast.stmt], name: str, bindings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the constants in the conditions that decide whether a parameter is used.

    Args:
        body: The statements of a kernel.
        name: The name of the parameter.
        bindings: Values of the constexpr parameters and of the kernel's global names.

    Returns:
        Values of the names in these conditions; `UNKNOWN` for names that are not constants.
    """
    constants: dict[str, Any] = {}
    _Walk({name}, dict(bindings), constants).body(body)
    return constants


class _Walk:
    """Follows a parameter through the statements of one function.

    Args:
        names: Names that hold the parameter, or a value computed from it.
        bindings: Values of the other names.
        constants: The result; names are added to it.
        depth: Number of calls between the kernel and this function.
    """

    def __init__(
        self,
        names: set[str],
        bindings: dict[str, Any],
        constants: dict[str, Any],
        depth: int = 0,
    ) -> None:
        self._names, self._bindings = names, bindings
        self._constants, self._depth = constants, depth

    def body(self, statements: Iterable[ast.stmt]) -> bool:
        """Follow statements, and return whether a `return` ends the function."""
        for statement in statements:
            if isinstance(statement, ast.If):
                if self._branch(statement):
                    return True
            else:
                for part in ast.walk(statement):
                    if isinstance(part, ast.IfExp) and self._mentions(part):
                        self._decides(part.test)
                    elif isinstance(part, ast.Call) and self._mentions(part):
                        self._call(part)
                if self._mentions(statement):
                    self._names |= assigned_names(statement)
                if isinstance(statement, ast.Return):
                    return True
                for nested in ("body", "orelse"):
                    self.body(getattr(statement, nested, ()))
        return False

    def _branch(self, statement: ast.If) -> bool:
        test = value_of(statement.test, self._bindings)
        ends = any(isinstance(part, ast.Return) for part in ast.walk(statement))
        if ends or self._mentions(statement):
            self._decides(statement.test)
        if test is not UNKNOWN:
            return self.body(statement.body if test else statement.orelse)
        self.body(statement.body)
        self.body(statement.orelse)
        return False

    def _decides(self, test: ast.expr) -> None:
        for name in read_names(test):
            value = value_of(ast.Name(name, ast.Load()), self._bindings)
            self._constants.setdefault(name, value)

    def _call(self, call: ast.Call) -> None:
        callee = called_function(call, self._bindings) if self._depth < _DEEPEST else None
        if callee is None:
            return
        names = {name for name, node in callee.arguments.items() if self._mentions(node)}
        inner = _Walk(names, callee.bindings, self._constants, self._depth + 1)
        inner.body(callee.definition.body)

    def _mentions(self, node: ast.AST) -> bool:
        return not self._names.isdisjoint(read_names(node))


def conditions(constants: Mapping[str, Any]) -> Iterator[str]:
    """Yield constants with their values as text."""
    return (f"`{name}={value}`" for name, value in constants.items())
