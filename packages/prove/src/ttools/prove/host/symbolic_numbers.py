"""Symbolic integers and floats of host code, and the path that their comparisons determine.

A run of host code takes one path through its branches. Each comparison of a `SymbolicInt` is
evaluated at one concrete size and recorded as a condition of the path. The run therefore stands for
all sizes at which every comparison has the same result.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.ir.expr import (
    Expr,
    Symbol,
    as_expr,
    evaluate,
    floordiv,
    modulo,
    power_of_2,
)
from ttools.prove.expression_int import ExpressionInt

#: The product of a size and a float is exact if the denominator of the float is at most this.
_FEW_PARTS = 1 << 10


class NotModelledError(TtoolsError):
    """Host code or a kernel does something that proofs do not model."""


@dataclass(frozen=True)
class Condition:
    """A comparison `expr >= 0` or `expr == 0` on a path, and its result."""

    expr: Expr
    relation: str  # "ge" or "eq"
    answer: bool

    def holds(self, values: dict[Symbol, int]) -> bool:
        """Return whether the comparison has this result at the given sizes."""
        value: int = evaluate(self.expr, values)
        return (value >= 0 if self.relation == "ge" else value == 0) == self.answer

    @property
    def negated(self) -> Condition:
        return Condition(self.expr, self.relation, not self.answer)


@dataclass
class Path:
    """One path through host code.

    Attributes:
        concrete: The sizes that decide every comparison.
        conditions: The comparisons, in order.
    """

    concrete: dict[Symbol, int]
    conditions: list[Condition] = field(default_factory=list)
    _known: dict[tuple[Expr, str], bool] = field(default_factory=dict)

    def ask(self, expr: Expr, relation: str) -> bool:
        """Return the result of a comparison at the concrete size, and record it as a condition.

        A comparison that has the same result at all sizes is not recorded.
        """
        constant = expr.constant
        if constant is not None:
            return constant >= 0 if relation == "ge" else constant == 0
        answer = self._known.get((expr, relation))
        if answer is None:
            value = evaluate(expr, self.concrete)
            answer = value >= 0 if relation == "ge" else value == 0
            self._known[expr, relation] = answer
            self.conditions.append(Condition(expr, relation, answer))
        return answer

    def pin(self, expr: Expr) -> int:
        """Return the value at the concrete size, and restrict the path to sizes with that value."""
        value: int = evaluate(expr, self.concrete)
        self.ask(expr - value, "eq")
        return value


#: Operations of a size and a float.
_OF_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}
_current: list[Path] = []


def current_path() -> Path:
    """Return the path that the current run of host code takes."""
    if not _current:
        raise NotModelledError("a size was used after the function it was passed to had returned")
    return _current[-1]


class on_path:  # noqa: N801 - a context manager used like a function
    """Make a path decide the comparisons of symbolic integers inside the `with` block."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Path:
        _current.append(self._path)
        return self._path

    def __exit__(self, *_: object) -> None:
        _current.pop()


def expr_of(value: Any) -> Expr:
    """Return the expression of an integer of host code.

    Raises:
        NotModelledError: The value is not an integer.
    """
    if isinstance(value, SymbolicInt):
        return value.expr
    if isinstance(value, (bool, int)):
        return as_expr(int(value))
    index = getattr(value, "__index__", None)
    if index is None:
        raise NotModelledError(f"{type(value).__name__} where an integer is expected")
    return as_expr(int(index()))


def symbolic_int(expr: Expr) -> Any:
    """Return an integer for host code; it is a plain `int` if it is the same for all sizes."""
    constant = expr.constant
    return SymbolicInt(expr) if constant is None else constant


def _with_float(size: SymbolicInt, other: float, function: Callable[[Any, Any], Any]) -> Any:
    """Return the result of an operation on a size and a float; a `Ratio` if that is exact."""
    if function is operator.mul and type(other) is float and math.isfinite(other):
        numerator, denominator = other.as_integer_ratio()
        if denominator <= _FEW_PARTS:
            return Ratio(size.expr * numerator, as_expr(denominator))
    return SymbolicFloat(lambda: function(float(size), float(other)))


def _is_integer(value: Any) -> bool:
    if type(value) is SymbolicInt or isinstance(value, int):
        return True
    # A tensor has an `__index__`, too.
    return hasattr(value, "__index__") and not hasattr(type(value), "__torch_function__")


def _pow(p: Expr, e: Expr) -> Any:
    exponent = e.constant
    if exponent is None:
        exponent = current_path().pin(e)
    if not 0 <= exponent <= 8 and p.constant is None:
        raise NotModelledError(f"a size to the power of {exponent}")
    if p.constant is not None:
        return p.constant**exponent
    result = as_expr(1)
    for _ in range(exponent):
        result = result * p
    return symbolic_int(result)


def _and(p: Expr, q: Expr) -> Any:
    mask, value = (q.constant, p) if q.constant is not None else (p.constant, q)
    if mask is not None and mask >= 0 and mask & (mask + 1) == 0:
        return symbolic_int(modulo(value, as_expr(mask + 1)))
    if mask is not None and mask < 0 and -mask & (-mask - 1) == 0:
        return symbolic_int(value - modulo(value, as_expr(-mask)))
    path = current_path()
    apart = (p - q).constant
    if apart in (1, -1):
        return _without_last_bit(p if apart == 1 else q)
    return path.pin(p) & path.pin(q)


def _without_last_bit(p: Expr) -> Any:
    """Return `p & (p - 1)`, which is 0 for powers of two.

    Each power of two has a separate path.
    """
    path = current_path()
    value = evaluate(p, path.concrete)
    if value <= 0 or value & (value - 1) == 0:
        value = path.pin(p)
        return value & (value - 1)
    power = 1 << (value.bit_length() - 1)
    path.ask(p - power - 1, "ge")
    path.ask(2 * power - 1 - p, "ge")
    return _NonZero(lambda: path.pin(p) & (path.pin(p) - 1))


class _NonZero:
    """A positive integer; if host code needs more than its sign, each size has a separate path."""

    def __init__(self, value: Callable[[], int]) -> None:
        self._value = value

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return False if other == 0 else self._value() == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._value())

    def __gt__(self, other: Any) -> bool:
        return True if other == 0 else self._value() > other

    def __index__(self) -> int:
        return self._value()


def _compare(make: Callable[[Expr], tuple[Expr, str, bool]]) -> Any:
    def compare(self: SymbolicInt, other: Any) -> Any:
        if isinstance(other, float):
            if other in (math.inf, -math.inf) or other != other:
                return make(as_expr(0 if other != other else -1 if other > 0 else 1))[1] == "ge"
            return NotImplemented
        if not _is_integer(other):
            return NotImplemented
        expr, relation, answer = make(self.expr - expr_of(other))
        return current_path().ask(expr, relation) == answer

    return compare


def _of_int(function: Callable[..., Any]) -> Any:
    def method(self: SymbolicInt, *arguments: Any) -> Any:
        return function(self.__index__(), *arguments)

    return method


class SymbolicInt(ExpressionInt):
    """An integer that depends on the sizes; to host code it looks like an `int`.

    It is not a subclass of `int`, so C code has to call `__index__`, which restricts the path to
    sizes with the same value.
    """

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def _operate(self, operation: str, other: Any, *, reflected: bool) -> Any:
        if isinstance(other, float) and operation in _OF_FLOATS:
            function = _OF_FLOATS[operation]
            return _with_float(
                self, other, (lambda a, b: function(b, a)) if reflected else function
            )
        if not _is_integer(other):
            return NotImplemented
        p, q = self.expr, expr_of(other)
        if reflected:
            p, q = q, p
        expr = self._combined(operation, p, q)
        if expr is not None:
            return symbolic_int(expr)
        if operation == "and":
            return _and(p, q)
        path = current_path()
        return (operator.or_ if operation == "or" else operator.xor)(path.pin(p), path.pin(q))

    def _divisor_sign(self, divisor: Expr) -> int:
        ask = current_path().ask
        if ask(divisor - 1, "ge"):
            return 1
        if ask(divisor, "eq"):
            raise ZeroDivisionError("integer division or modulo by zero")
        return -1

    def _number(self, expr: Expr) -> int:
        return current_path().pin(expr)

    __lt__ = _compare(lambda d: (-d - 1, "ge", True))
    __le__ = _compare(lambda d: (-d, "ge", True))
    __gt__ = _compare(lambda d: (d - 1, "ge", True))
    __ge__ = _compare(lambda d: (d, "ge", True))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, float) and not other.is_integer():
            return False
        if isinstance(other, float):
            other = int(other)
        if not _is_integer(other):
            return False
        return current_path().ask(self.expr - expr_of(other), "eq")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, float):
            return SymbolicFloat(lambda: float(self) / float(other))
        return Ratio(self.expr, expr_of(other)) if _is_integer(other) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        if isinstance(other, float):
            return SymbolicFloat(lambda: float(other) / float(self))
        return Ratio(expr_of(other), self.expr) if _is_integer(other) else NotImplemented

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, float):
            return SymbolicFloat(lambda: float(self) ** float(other))
        return _pow(self.expr, expr_of(other)) if _is_integer(other) else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        return _pow(expr_of(other), self.expr) if _is_integer(other) else NotImplemented

    def __neg__(self) -> Any:
        return symbolic_int(-self.expr)

    def __invert__(self) -> Any:
        return symbolic_int(-1 - self.expr)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        return current_path().pin(self.expr)

    __int__ = __index__

    __float__, __hash__, __repr__ = _of_int(float), _of_int(hash), _of_int(repr)
    __format__ = _of_int(format)

    def __ceil__(self) -> Any:
        return self

    __floor__ = __trunc__ = __ceil__

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(self.__index__(), digits)

    def bit_length(self) -> int:
        """Return the bit length; sizes with the same bit length take the same path."""
        value: int = evaluate(self.expr, current_path().concrete)
        bits = value.bit_length()
        if value < 0:
            return (-self).bit_length() if not isinstance(-self, int) else bits
        current_path().ask(self.expr - ((1 << bits) >> 1), "ge")
        current_path().ask(as_expr((1 << bits) - 1) - self.expr, "ge")
        return bits

    def is_integer(self) -> bool:
        """Return True, as `int` does."""
        return True


def cdiv(x: Any, y: Any) -> Any:
    """Return `triton.cdiv(x, y)`."""
    return (x + y - 1) // y


def next_power(n: Any) -> Any:
    """Return `triton.next_power_of_2(n)`; each of its values has a separate path."""
    path, expr = current_path(), expr_of(n)
    value = evaluate(power_of_2(expr), path.concrete)
    if expr.constant is None:
        # Both comparisons hold exactly for the sizes whose next power of two is this value.
        path.ask(as_expr(value) - expr, "ge")
        if value:
            path.ask(expr - (value // 2 + 1 if value > 1 else 1), "ge")
    return value


#: All integers up to this one are exact as floats.
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
    """A float that depends on the sizes; its value is computed for the concrete size."""

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
    """A quotient of sizes as a float; rounding it to an integer below 2**52 is exact."""

    def __init__(self, p: Expr, d: Expr) -> None:
        super().__init__(lambda: current_path().pin(p) / current_path().pin(d))
        self._p, self._d = p, d

    def _rounded(self, up: bool) -> Any:
        path = current_path()
        below = path.ask(as_expr(_EXACT_FLOATS) - self._p, "ge")
        if not (below and path.ask(self._p, "ge") and path.ask(self._d - 1, "ge")):
            raise NotModelledError(
                "a float quotient of integers that a float may not represent exactly"
            )
        return symbolic_int(floordiv(self._p + self._d - 1 if up else self._p, self._d))

    def __ceil__(self) -> Any:
        return self._rounded(True)

    def __floor__(self) -> Any:
        return self._rounded(False)

    __trunc__ = __floor__

    def __int__(self) -> int:
        return int(self._rounded(False))
