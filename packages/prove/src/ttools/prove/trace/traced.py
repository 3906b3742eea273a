"""Traced integers: integers of a script that remember how they were computed.

A traced integer is an `int` with an expression over the extents of tensors, its provenance.
Python's arithmetic propagates the provenance. Comparisons, hashes and C code use the plain number.
C code that reads the number, as `int` and `len` do, returns a plain integer without provenance. The
trace records such reads, so that the report can list them, and so that a number computed from such
an integer is not treated as traced.

All extents of equal length have the same symbol; `inference` decides later which of these extents
are the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce, update_wrapper
from typing import Any, TypeAlias, TypeVar

from ttools.ir.expr import (
    SIZE,
    Expr,
    Symbol,
    as_expr,
    ceildiv,
    evaluate,
    floordiv,
    maximum,
    minimum,
    power_of_2,
    product,
    substitute,
)
from ttools.prove.expression_int import OPERATIONS, ExpressionInt

#: Provenance of an integer; None if it is computed from extents in an unknown way.
Provenance: TypeAlias = "Expr | None"

#: Larger expressions are dropped, because a sum of many terms, such as a loop builds up, is not
#: readable.
_MOST_PARTS = 24
_extents: dict[int, Symbol] = {}
_T = TypeVar("_T")


# ---- expressions over extents
def extent(length: int) -> Expr:
    """Return the symbol for all extents of a given length; extents 0 and 1 are constant."""
    if length <= 1:
        return as_expr(length)
    if length not in _extents:
        # These symbols are sorted by length and come before all other symbols, so that the order
        # does not depend on what was traced before.
        order = length - (1 << 62)
        _extents[length] = Symbol(f"extent_{length}", "extent", SIZE, (), length, order)
    return as_expr(_extents[length])


def extents_of(expr: Expr) -> frozenset[int]:
    """Return the lengths of the extents that an expression depends on."""
    return frozenset(s.tag for s in expr.base_symbols() if isinstance(s.tag, int))


def rounded_extents(expr: Expr) -> frozenset[int]:
    """Return the lengths of the extents that an expression rounds up to powers of 2."""
    powers = (atom for atom in expr.atoms() if atom.kind == "power_of_2")
    return frozenset().union(*(extents_of(atom.args[0]) for atom in powers))


def traced_value(expr: Expr) -> int:
    """Return the value of an expression at the recorded lengths."""
    return int(evaluate(expr, {s: s.tag for s in expr.base_symbols()}))


def with_extents(expr: Expr, new: Mapping[int, Expr]) -> Expr:
    """Replace each extent in `expr` by its expression in `new`, or by its length if it has none."""
    lengths = {s: s.tag for s in expr.base_symbols() if isinstance(s.tag, int)}
    return substitute(expr, {s: new.get(n, as_expr(n)) for s, n in lengths.items()})


def may_be_negative(expr: Expr) -> bool:
    """Return whether an expression subtracts, so that it may be negative at other sizes."""
    return any(c < 0 for c in expr.terms.values()) or any(
        may_be_negative(argument) for atom in expr.atoms() for argument in atom.args
    )


def limited(expr: Provenance) -> Provenance:
    """Return the expression, or None if it is too large."""
    return None if expr is None or _parts(expr) > _MOST_PARTS else expr


def _parts(expr: Expr) -> int:
    return sum(
        sum(sum(map(_parts, s.args)) if s.args else 1 for s in m) + (abs(c) != 1 or not m)
        for m, c in expr.terms.items()
    )


def divided(make: Callable[[Expr, Expr], Expr], p: Expr, d: Expr) -> Provenance:
    """Return a quotient or remainder; None if the divisor may be negative at other sizes."""
    return None if may_be_negative(d) or d.constant == 0 else make(p, d)


def runs_of(shape: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield the extents of all axes, then those of each proper suffix and prefix of the axes."""
    yield shape
    for n in range(1, len(shape)):
        yield shape[n:]
        yield shape[:n]


# ---- integers
@dataclass
class Trace:
    """One run of a script whose integers are traced.

    Attributes:
        taken: Expressions of the traced integers that C code such as `int` and `len` has read, by
            their values.
    """

    taken: dict[int, set[Expr]] = field(default_factory=dict)

    def take(self, value: int, expr: Provenance) -> int:
        """Record that C code read the plain number of a traced integer, and return the number."""
        if expr is not None:
            self.taken.setdefault(value, set()).add(expr)
        return value

    def integer(self, value: int, expr: Provenance) -> int:
        """Return the integer with a provenance; a plain one if the provenance is constant."""
        expr = limited(expr)
        if expr is not None and expr.constant is not None:
            return value
        made = _make_int(TracedInt, value)
        made.expr, made.trace = expr, self
        return made

    def operand(self, value: Any, may_be_taken: bool) -> Provenance:
        """Return the provenance of an operand; a plain integer is a constant.

        Args:
            may_be_taken: If True, the result is None for a plain integer that C code may have read
                from a traced integer.
        """
        if type(value) is TracedInt:
            return value.expr
        return None if may_be_taken and value in self.taken else as_expr(_as_int(value))


#: Python's method for each operation, and the method for its reflected form.
_INT_METHODS: dict[str, tuple[Any, Any]] = {
    name: (getattr(int, f"__{name}__"), getattr(int, f"__r{name}__")) for name in OPERATIONS
}


class TracedInt(ExpressionInt, int):
    """An integer with a provenance; made by `Trace.integer`."""

    expr: Provenance
    trace: Trace

    def _operate(self, operation: str, other: Any, *, reflected: bool) -> Any:
        value = _INT_METHODS[operation][reflected](self, other)
        if value is NotImplemented:
            return value
        # A plain summand or factor may have been read from a traced integer. Plain divisors and
        # shift counts are assumed to be block sizes.
        theirs = self.trace.operand(other, operation in ("add", "sub", "mul"))
        expr = None
        if self.expr is not None and theirs is not None:
            operands = (theirs, self.expr) if reflected else (self.expr, theirs)
            expr = self._combined(operation, *operands)
        return self.trace.integer(value, expr)

    def _divisor_sign(self, divisor: Expr) -> int | None:
        return None if may_be_negative(divisor) or divisor.constant == 0 else 1

    def _number(self, expr: Expr) -> int | None:
        return expr.constant

    def __truediv__(self, other: Any) -> Any:
        return self._ratio(int.__truediv__(self, other), self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._ratio(int.__rtruediv__(self, other), other, self)

    def _ratio(self, value: Any, above: Any, below: Any) -> Any:
        if value is NotImplemented:
            return value
        made = TracedRatio(value)
        made.parts, made.trace = (above, below), self.trace
        return made

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        value = int.__pow__(self, other) if modulus is None else int.__pow__(self, other, modulus)
        if type(value) is not int:
            return value
        if self.expr is None or modulus is not None or not 0 < other < 4:
            return self._without(value)
        return self.trace.integer(value, product([self.expr] * int(other)))

    def _without(self, value: int) -> int:
        return self.trace.integer(value, None)

    def __neg__(self) -> int:
        return self.trace.integer(int.__neg__(self), None if self.expr is None else -self.expr)

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return self if self > 0 else self._without(int.__abs__(self))

    def __invert__(self) -> int:
        return self._without(int.__invert__(self))

    def bit_length(self) -> int:
        """Return the bit length, which has no provenance."""
        return self._without(int.bit_length(self))

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __int__(self) -> int:
        return self.trace.take(plain(self), self.expr)

    def __copy__(self) -> int:
        return self

    def __deepcopy__(self, _: object) -> int:
        return self

    def __reduce_ex__(self, _: Any) -> Any:
        return int, (plain(self),)


class TracedRatio(float):
    """A quotient of two integers, which may be rounded to a traced integer."""

    parts: tuple[Any, Any]
    trace: Trace

    def __ceil__(self) -> int:
        return self._rounded(ceildiv, float.__ceil__(self))

    def __floor__(self) -> int:
        return self._rounded(floordiv, float.__floor__(self))

    def _rounded(self, make: Callable[[Expr, Expr], Expr], value: int) -> int:
        above, below = map(int, self.parts)
        exact = -(-above // below) if make is ceildiv else above // below
        p, d = (self.trace.operand(part, False) for part in self.parts)
        is_exact = p is not None and d is not None and value == exact and below > 0
        return self.trace.integer(value, divided(make, p, d) if is_exact else None)  # type: ignore[arg-type]

    def __int__(self) -> int:
        value = float.__int__(self)
        whole = self._rounded(floordiv, value)
        return self.trace.take(value, whole.expr if type(whole) is TracedInt else None)

    __trunc__ = __int__

    def __reduce_ex__(self, _: Any) -> Any:
        return float, (float.__pos__(self),)


# Some programs print the names of types or compare them.
for _type, _name in ((TracedInt, "int"), (TracedRatio, "float")):
    _type.__name__ = _type.__qualname__ = _name
    _type.__module__ = "builtins"

_make_int = int.__new__
_as_int = int.__int__


def provenance(value: Any) -> Provenance:
    """Return the provenance of an integer; a plain integer is a constant."""
    return value.expr if type(value) is TracedInt else as_expr(_as_int(value))


def plain(value: int) -> int:
    """Return the number as a plain `int`, without recording the read."""
    return _as_int(value)


def stripped(value: Any) -> Any:
    """Return a value with plain numbers, also inside tuples and lists."""
    kind = type(value)
    if kind is TracedInt:
        return plain(value)
    if kind is TracedRatio:
        return float.__pos__(value)
    if kind in (tuple, list):
        return kind(map(stripped, value))
    return value


def extremum(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `min` or `max` that supports traced integers.

    The provenance of the result is the minimum or maximum of the provenances of all operands.
    """
    make = minimum if name == "min" else maximum

    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) == 1:
            if type(args[0]) not in (list, tuple) or kwargs:
                result = original(*args, **kwargs)
                return plain(result) if type(result) is TracedInt else result
            among = args[0]
        else:
            among = args
        result = original(*args)
        trace = next((operand.trace for operand in among if type(operand) is TracedInt), None)
        if trace is None:
            return result
        if not all(isinstance(operand, int) for operand in among):
            return stripped(result)
        parts = [provenance(operand) for operand in among]
        exprs = [part for part in parts if part is not None]
        return trace.integer(plain(result), reduce(make, exprs) if exprs == parts else None)

    return update_wrapper(function, original, updated=())


def next_power(original: Callable[[int], int]) -> Callable[[int], int]:
    """Return a replacement of `triton.next_power_of_2` that supports traced integers."""

    def function(n: int) -> int:
        if type(n) is not TracedInt:
            return original(n)
        expr = None if n.expr is None else power_of_2(n.expr)
        return n.trace.integer(original(plain(n)), expr)

    return update_wrapper(function, original, updated=())
