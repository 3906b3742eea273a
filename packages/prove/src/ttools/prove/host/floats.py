"""Floats that depend on sizes: they may be passed on, and integers made of them are exact."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ttools.ir.expr import Expr, as_expr, floordiv
from ttools.prove.host.paths import NotModelledError, current_path, symbolic_int

#: Floats hold integers up to here exactly.
_EXACT_FLOATS = 1 << 52


def _float_binary(function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: SymbolicFloat, other: Any) -> Any:
        return SymbolicFloat(lambda: function(float(self), float(other)))

    def backward(self: SymbolicFloat, other: Any) -> Any:
        return SymbolicFloat(lambda: function(float(other), float(self)))

    return forward, backward


def _of_float(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: SymbolicFloat, *arguments: Any) -> Any:
        return function(float(self), *arguments)

    return method


class SymbolicFloat:
    """A float that depends on the sizes; asked for its value, it has that of the pilot."""

    def __init__(self, value: Callable[[], float]) -> None:
        self._value = value

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    def __float__(self) -> float:
        return self._value()

    __add__, __radd__ = _float_binary(operator.add)
    __sub__, __rsub__ = _float_binary(operator.sub)
    __mul__, __rmul__ = _float_binary(operator.mul)
    __truediv__, __rtruediv__ = _float_binary(operator.truediv)
    __pow__, __rpow__ = _float_binary(operator.pow)

    def __neg__(self) -> SymbolicFloat:
        return SymbolicFloat(lambda: -float(self))

    __eq__ = _of_float(operator.eq)
    __lt__, __le__ = _of_float(operator.lt), _of_float(operator.le)
    __gt__, __ge__ = _of_float(operator.gt), _of_float(operator.ge)
    __hash__, __repr__ = _of_float(hash), _of_float(repr)
    __getattr__ = _of_float(getattr)
    __round__, __ceil__ = _of_float(round), _of_float(math.ceil)
    __floor__ = _of_float(math.floor)
    __int__ = __trunc__ = _of_float(int)


class Ratio(SymbolicFloat):
    """A quotient of sizes as a float; exact when it is rounded to an integer below 2**52."""

    def __init__(self, p: Expr, d: Expr) -> None:
        super().__init__(lambda: current_path().pin(p) / current_path().pin(d))
        self._p, self._d = p, d

    def _rounded(self, up: bool) -> Any:
        path = current_path()
        below = path.ask(as_expr(_EXACT_FLOATS) - self._p, "ge")
        if not (below and path.ask(self._p, "ge") and path.ask(self._d - 1, "ge")):
            raise NotModelledError("a float quotient of numbers that floats do not hold exactly")
        return symbolic_int(floordiv(self._p + self._d - 1 if up else self._p, self._d))

    def __ceil__(self) -> Any:
        return self._rounded(True)

    def __floor__(self) -> Any:
        return self._rounded(False)

    __trunc__ = __floor__

    def __int__(self) -> int:
        return int(self._rounded(False))
