"""Arithmetic over the parameters of a space, for conditions such as `A * B <= 4096`.

The expressions are a subset of Python's. They are evaluated by walking the syntax tree, so they can
neither call functions nor access anything besides the parameters.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.reports.report import config_text

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max}


#: Error messages repeat at most this many characters of an expression.
_SHOWN = 200


class Expression:
    """A parsed expression.

    Args:
        text: The expression as the user wrote it.
        names: Names that it may use.

    Raises:
        UsageError: The text is not an expression, or uses anything that is not supported.
    """

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text, mode="eval").body
            self._check(self._tree, names)
        except UsageError:
            raise
        except (SyntaxError, ValueError) as error:
            raise UsageError(f"`{text[:_SHOWN]}` is not an expression: {error}") from error
        except (MemoryError, RecursionError) as error:
            # Python's parser raises these errors for deeply nested expressions.
            raise UsageError(f"`{text[:_SHOWN]}` is nested too deeply") from error

    def value(self, values: Mapping[str, Any]) -> Any:
        """Return the value of the expression for given parameters.

        Raises:
            UsageError: The value cannot be computed, for example because of a division by zero.
        """
        try:
            return _evaluate(self._tree, values)
        except (ArithmeticError, MemoryError, RecursionError, TypeError, ValueError) as error:
            shown = config_text(values)
            raise UsageError(f"`{self.text}` cannot be computed for {shown}: {error}") from error

    def _check(self, node: ast.expr, names: Mapping[str, Any]) -> None:
        if isinstance(node, ast.Name) and node.id not in names:
            raise UsageError(
                f"`{self.text}` uses `{node.id}`, which is not a parameter; available: "
                f"{', '.join(names) or 'none'}"
            )
        if not _is_supported(node):
            raise UsageError(
                f"`{self.text}` uses `{ast.unparse(node)}`, which is not supported; available: "
                "+ - * // %, comparisons, in, and, or, not, min and max"
            )
        for child in _operands(node):
            self._check(child, names)


def _is_supported(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in _BINARY
    if isinstance(node, ast.UnaryOp):
        return type(node.op) in _UNARY
    if isinstance(node, ast.Compare):
        return all(type(op) in _COMPARED for op in node.ops)
    if isinstance(node, ast.Call):
        called = node.func
        return isinstance(called, ast.Name) and called.id in _FUNCTIONS and not node.keywords
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (bool, int, float, str))
    return isinstance(node, (ast.Name, ast.BoolOp, ast.List, ast.Tuple))


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        return node.args
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.BoolOp):
        return _decided(node, values)
    if isinstance(node, ast.Compare):
        return _compared(node, values)
    operands = [_evaluate(child, values) for child in _operands(node)]
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](*operands)
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](*operands)
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)  # see _is_supported
        return _FUNCTIONS[node.func.id](*operands)
    return operands  # a list or tuple


def _decided(node: ast.BoolOp, values: Mapping[str, Any]) -> Any:
    """Evaluate `and` and `or` as Python does: return the operand that determines the result."""
    for child in node.values:
        value = _evaluate(child, values)
        if bool(value) is isinstance(node.op, ast.Or):
            break
    return value


def _compared(node: ast.Compare, values: Mapping[str, Any]) -> bool:
    left = _evaluate(node.left, values)
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = _evaluate(operand, values)
        if not _COMPARED[type(op)](left, right):
            return False
        left = right
    return True
