"""Evaluation of constant expressions in a kernel's source: literals, constexprs and globals.

The result is either certain or `UNKNOWN`. For example, `BLOCK // 2` is 64 if the constexpr `BLOCK`
is 128, and `n + 1` is `UNKNOWN` if `n` is an argument that is passed when the kernel runs.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from ttools.interpreter.run.kernel_launch import KernelLaunch

#: Result for expressions whose value is not known before the kernel runs.
UNKNOWN: Final = object()
#: Value of a name that stands for a runtime argument: unknown, but not None.
PASSED: Final = object()
_PLAIN = (bool, int, float, str, type(None))
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARING: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
#: Integers whose magnitude is at least this are `UNKNOWN`.
_LARGEST = 1 << 64


def constant_names(launch: KernelLaunch) -> Mapping[str, object]:
    """Return the values, by name, of the kernel's globals and `tl.constexpr` parameters."""
    values = dict(getattr(getattr(launch.kernel.function, "fn", None), "__globals__", {}))
    names = getattr(getattr(launch.kernel.source, "fn", None), "arg_names", ())
    for path, constant in getattr(launch.kernel.source, "constants", {}).items():
        index, *inside = path if isinstance(path, tuple) else (path,)
        if not inside and index < len(names):
            values[names[index]] = constant
    return values


def plain(value: object) -> object:
    """Return the value of a number, string, None or constexpr, and `UNKNOWN` for other objects."""
    value = getattr(value, "value", value)  # tl.constexpr
    return value if isinstance(value, _PLAIN) else UNKNOWN


def value_of(expression: ast.expr, bindings: Mapping[str, Any]) -> Any:
    """Return the value of an expression, or `UNKNOWN`.

    Args:
        expression: Expression in the source of a kernel.
        bindings: Values by name: Python objects, constexprs, or `PASSED`.
    """
    evaluate = _EVALUATORS.get(type(expression))
    if evaluate is None:
        return UNKNOWN
    try:
        value = evaluate(expression, bindings)
    except (ArithmeticError, TypeError, ValueError):
        return UNKNOWN
    return value if not isinstance(value, int) or abs(value) < _LARGEST else UNKNOWN


def _binary(node: Any, bindings: Mapping[str, Any]) -> Any:
    compute = _BINARY.get(type(node.op))
    left, right = value_of(node.left, bindings), value_of(node.right, bindings)
    if compute is None or UNKNOWN in (left, right) or _is_large(node.op, right):
        return UNKNOWN
    return compute(left, right)


def _is_large(op: ast.operator, right: Any) -> bool:
    return isinstance(op, ast.LShift) and not (isinstance(right, int) and right < 64)


def _unary(node: Any, bindings: Mapping[str, Any]) -> Any:
    value = value_of(node.operand, bindings)
    return UNKNOWN if value is UNKNOWN else _UNARY[type(node.op)](value)


def _comparison(node: Any, bindings: Mapping[str, Any]) -> Any:
    if _asks_for_none(node) and bindings.get(getattr(node.left, "id", "")) is PASSED:
        return isinstance(node.ops[0], ast.IsNot)
    values = [value_of(part, bindings) for part in (node.left, *node.comparators)]
    compare = [_COMPARING.get(type(op)) for op in node.ops]
    if UNKNOWN in values or None in compare:
        return UNKNOWN
    pairs = zip(compare, values, values[1:], strict=False)
    return all(test(a, b) for test, a, b in pairs if test is not None)


def _asks_for_none(node: ast.Compare) -> bool:
    """Return whether the comparison is `x is None` or `x is not None`."""
    last = node.comparators[-1]
    is_none = isinstance(last, ast.Constant) and last.value is None
    return is_none and len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot)


def _logic(node: Any, bindings: Mapping[str, Any]) -> Any:
    """Evaluate `and` or `or`; operands that Python would skip may be unknown."""
    decides = isinstance(node.op, ast.Or)
    value: Any = UNKNOWN
    for part in node.values:
        value = value_of(part, bindings)
        if value is UNKNOWN or bool(value) == decides:
            return value
    return value


def _choice(node: Any, bindings: Mapping[str, Any]) -> Any:
    test = value_of(node.test, bindings)
    if test is UNKNOWN:
        return UNKNOWN
    return value_of(node.body if test else node.orelse, bindings)


_EVALUATORS: dict[type, Callable[[Any, Mapping[str, Any]], Any]] = {
    ast.Constant: lambda node, bindings: plain(node.value),
    ast.Name: lambda node, bindings: plain(bindings.get(node.id, UNKNOWN)),
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _comparison,
    ast.BoolOp: _logic,
    ast.IfExp: _choice,
}
