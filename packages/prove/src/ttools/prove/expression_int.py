"""Operators of integers that carry an expression.

There are two kinds of such integers. A traced integer (`trace.traced`) is an `int` in a script that
remembers how it was computed. A symbolic integer (`host.symbolic_numbers`) stands for all sizes. A
symbolic integer is not an `int`, because C code would then read a value without calling any of its
methods. Both kinds use the operators of this module to build their expressions.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ttools.ir.expr import Expr, as_expr, floordiv, modulo

#: Python's binary operators on integers that have a reflected form, without `pow` and `divmod`.
OPERATIONS = (*("add", "sub", "mul", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"),)


def _methods(operation: str) -> tuple[Any, Any]:
    def forward(self: ExpressionInt, other: Any) -> Any:
        return self._operate(operation, other, reflected=False)

    def reflected(self: ExpressionInt, other: Any) -> Any:
        return self._operate(operation, other, reflected=True)

    forward.__name__, reflected.__name__ = f"__{operation}__", f"__r{operation}__"
    return forward, reflected


class ExpressionInt:
    """An integer that carries an expression."""

    __slots__ = ()

    __add__, __radd__ = _methods("add")
    __sub__, __rsub__ = _methods("sub")
    __mul__, __rmul__ = _methods("mul")
    __floordiv__, __rfloordiv__ = _methods("floordiv")
    __mod__, __rmod__ = _methods("mod")
    __lshift__, __rlshift__ = _methods("lshift")
    __rshift__, __rrshift__ = _methods("rshift")
    __and__, __rand__ = _methods("and")
    __or__, __ror__ = _methods("or")
    __xor__, __rxor__ = _methods("xor")

    def __divmod__(self, other: Any) -> Any:
        return self._divmod(other, reflected=False)

    def __rdivmod__(self, other: Any) -> Any:
        return self._divmod(other, reflected=True)

    def _divmod(self, other: Any, *, reflected: bool) -> Any:
        quotient = self._operate("floordiv", other, reflected=reflected)
        if quotient is NotImplemented:
            return NotImplemented
        return quotient, self._operate("mod", other, reflected=reflected)

    @abstractmethod
    def _operate(self, operation: str, other: Any, *, reflected: bool) -> Any:
        """Return the result of one of `OPERATIONS`, or `NotImplemented`."""

    @abstractmethod
    def _divisor_sign(self, divisor: Expr) -> int | None:
        """Return the sign of a divisor as 1 or -1; None if it is not known."""

    @abstractmethod
    def _number(self, expr: Expr) -> int | None:
        """Return the value of an expression if it is the same at all sizes; otherwise None."""

    def _combined(self, operation: str, p: Expr, q: Expr) -> Expr | None:
        """Return the expression for the result of an operation; None if there is none."""
        match operation:
            case "add":
                return p + q
            case "sub":
                return p - q
            case "mul":
                return p * q
            case "floordiv" | "mod":
                sign = self._divisor_sign(q)
                if sign is None:
                    return None
                if operation == "floordiv":
                    return floordiv(sign * p, sign * q)
                return sign * modulo(sign * p, sign * q)
            case "lshift" | "rshift":
                bits = self._number(q)
                if bits is None:
                    return None
                power = as_expr(1 << bits)
                return p * power if operation == "lshift" else floordiv(p, power)
        return None
