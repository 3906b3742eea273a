"""What expressions in a kernel's source are before it runs: of literals, constexprs and globals.

Owns the evaluation and which globals count. What is not known for certain is unknown, never
guessed. Must not know why anybody asks.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

#: What is returned where a value is not known.
UNKNOWN: Final = object()
#: What a name means that is passed when the kernel runs: anything but None.
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
#: Shifts and powers of numbers beyond this are not computed.
_LARGEST = 1 << 64


def plain(value: object) -> object:
    """A value of the host as the kernel's compiler sees it; `UNKNOWN` unless it is a plain one."""
    value = getattr(value, "value", value)  # tl.constexpr
    return value if isinstance(value, _PLAIN) else UNKNOWN


def value_of(expression: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of an expression, or `UNKNOWN`.

    Args:
        known: values by name, also such as wrap plain ones, and `PASSED`.
    """
    evaluate = _EVALUATORS.get(type(expression))
    if evaluate is None:
        return UNKNOWN
    try:
        value = evaluate(expression, known)
    except (ArithmeticError, TypeError, ValueError):
        return UNKNOWN
    return value if not isinstance(value, int) or abs(value) < _LARGEST else UNKNOWN


def _binary(node: Any, known: Mapping[str, Any]) -> Any:
    compute = _BINARY.get(type(node.op))
    left, right = value_of(node.left, known), value_of(node.right, known)
    if compute is None or UNKNOWN in (left, right) or _is_large(node.op, right):
        return UNKNOWN
    return compute(left, right)


def _is_large(op: ast.operator, right: Any) -> bool:
    return isinstance(op, ast.LShift) and not (isinstance(right, int) and right < 64)


def _unary(node: Any, known: Mapping[str, Any]) -> Any:
    value = value_of(node.operand, known)
    return UNKNOWN if value is UNKNOWN else _UNARY[type(node.op)](value)


def _comparison(node: Any, known: Mapping[str, Any]) -> Any:
    if _asks_for_none(node) and known.get(getattr(node.left, "id", "")) is PASSED:
        return isinstance(node.ops[0], ast.IsNot)
    values = [value_of(part, known) for part in (node.left, *node.comparators)]
    compare = [_COMPARING.get(type(op)) for op in node.ops]
    if UNKNOWN in values or None in compare:
        return UNKNOWN
    pairs = zip(compare, values, values[1:], strict=False)
    return all(test(a, b) for test, a, b in pairs if test is not None)


def _asks_for_none(node: ast.Compare) -> bool:
    """Whether it is `x is None` or `x is not None`."""
    last = node.comparators[-1]
    is_none = isinstance(last, ast.Constant) and last.value is None
    return is_none and len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot)


def _logic(node: Any, known: Mapping[str, Any]) -> Any:
    """As Python does it: the first operand that decides, whatever comes after it."""
    decides = isinstance(node.op, ast.Or)
    value: Any = UNKNOWN
    for part in node.values:
        value = value_of(part, known)
        if value is UNKNOWN or bool(value) == decides:
            return value
    return value


def _choice(node: Any, known: Mapping[str, Any]) -> Any:
    test = value_of(node.test, known)
    if test is UNKNOWN:
        return UNKNOWN
    return value_of(node.body if test else node.orelse, known)


_EVALUATORS: dict[type, Callable[[Any, Mapping[str, Any]], Any]] = {
    ast.Constant: lambda node, known: plain(node.value),
    ast.Name: lambda node, known: plain(known.get(node.id, UNKNOWN)),
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _comparison,
    ast.BoolOp: _logic,
    ast.IfExp: _choice,
}
