"""State of an evaluation at all sizes: values of operations, and facts that hold for them."""

from __future__ import annotations

from ttools.ir import (
    IntegerType,
    Module,
    PointerType,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.expr import (
    LANE,
    LOOP,
    PROGRAM,
    ZERO,
    Expr,
    Symbol,
    as_expr,
)
from ttools.prove.algebra.proofs import Space
from ttools.prove.attributes import width_of
from ttools.prove.host.launches import SymbolicCall
from ttools.prove.symbolic.values import (
    AnyValue,
    Case,
    Facts,
    Logic,
    Number,
    Opaque,
    alternatives,
    lane,
)

_NOTHING = Opaque()


class State:
    """The values of one launch while it is evaluated.

    Args:
        space: The sizes; the ranges and facts of the kernel's symbols are added to it.
        written: Numbers of the storages that the kernel writes to.

    Attributes:
        context: Facts that hold when the current operation is reached.
        programs: Symbols of the program ids; 0 along an axis with one program.
    """

    def __init__(
        self, launch: SymbolicCall, module: Module, space: Space, written: frozenset[int]
    ) -> None:
        self.launch, self.module, self.space = launch, module, space
        self.written = written
        self.values: dict[Value, AnyValue] = {}
        self.context: Facts = ()
        self.programs = [self._program(axis) for axis in range(3)]

    def _program(self, axis: int) -> Expr:
        extent = self.launch.grid[axis]
        high = self.space.range(extent)[1]
        if high is not None and high <= 1:
            return ZERO
        symbol = Symbol(f"program{axis}", "program", PROGRAM, (), axis)
        self.space.declare(symbol, 0, None if high is None else high - 1)
        self.space.relate(symbol, extent - 1 - as_expr(symbol))
        return as_expr(symbol)

    def get(self, value: Value) -> AnyValue:
        return self.values.get(value, _NOTHING)

    def number(self, value: Value) -> Number:
        """Return the value of an integer or pointer."""
        term = self.get(value)
        if isinstance(term, Number):
            return term
        if isinstance(term, Logic):
            return self.from_logic(term, value)
        return self.unknown(value)

    def logic(self, value: Value) -> Logic:
        """Return the value of a condition."""
        term = self.get(value)
        return term if isinstance(term, Logic) else Logic("unknown")

    def unknown(
        self, value: Value, low: int | None = None, high: int | None = None, like: str = "data"
    ) -> Number:
        """Return a number of which only the range is known, by default the range of its type."""
        base = -1 if isinstance(element_type(value.type), PointerType) else None
        return Number((Case(as_expr(self.data(value, low, high, like)), base=base),))

    def data(
        self, value: Value, low: int | None = None, high: int | None = None, like: str = "data"
    ) -> Symbol:
        """Return a new symbol for a number in a range; by default, it is the range of its type."""
        kind = element_type(value.type)
        if isinstance(kind, IntegerType):
            half = 1 << (kind.width - 1)
            if kind.width == 1:
                low, high = 0, 1
            low, high = -half if low is None else low, half - 1 if high is None else high
        lanes = any(e > 1 for e in shape_of(value.type))
        symbol = Symbol(like, "data", LANE + 1 if lanes else LOOP + 1, (), value)
        self.space.declare(symbol, low, high)
        return symbol

    def lane(self, axis: int, extent: int) -> Expr:
        """Return the lane index along an axis of a tile."""
        if extent == 1:
            return ZERO
        symbol = lane(axis, extent)
        self.space.declare(symbol, 0, extent - 1)
        return as_expr(symbol)

    def havoc(self, value: Value) -> AnyValue:
        """Return a value for which only the type is known."""
        if width_of(value) == 1:
            return Logic("unknown")
        if isinstance(element_type(value.type), (IntegerType, PointerType)):
            return self.unknown(value)
        return _NOTHING

    def from_logic(self, condition: Logic, value: Value) -> Number:
        """Return a condition as the number 0 or 1."""
        ways, others = alternatives(condition), alternatives(condition, negate=True)
        cases = [Case(as_expr(1), facts) for facts in ways] + [
            Case(ZERO, facts) for facts in others
        ]
        if condition.kind == "unknown" or not 0 < len(cases) <= 6:
            return self.unknown(value, 0, 1)
        return Number(tuple(cases))
