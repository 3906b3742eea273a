"""Operations that only rename coordinates, or put tiles together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ttools.ir import Operation, Type, Value, shape_of
from ttools.ir.expr import (
    LANE,
    ZERO,
    Expr,
    Symbol,
    as_expr,
    floordiv,
    modulo,
    substitute,
)
from ttools.prove.symbolic.operations import otherwise, rule, several
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import (
    AnyValue,
    Case,
    Fact,
    Logic,
    Number,
    Opaque,
    Renamer,
    compare,
    facts_of,
    joined,
    lane,
    lanes_moved,
    moved_copy,
    needs_of,
    negated,
    number,
)

#: Axes by number, each with its extent.
_Axes: TypeAlias = "list[tuple[int, int]]"


@rule("tt.splat", "tt.broadcast")
def _spread(kernel: State, op: Operation) -> AnyValue:
    """A lane has its value wherever it is repeated."""
    return kernel.get(op.operands[0])


def _renamed(kernel: State, op: Operation, renamer: Renamer) -> AnyValue:
    return renamed(kernel, op.operands[0], renamer, [v.type for v in op.results])


def renamed(kernel: State, operand: Value, renamer: Renamer, types: Sequence[Type]) -> AnyValue:
    """A value in lanes that have moved; data in tiles stay what they were, but elsewhere."""
    value = kernel.get(operand)
    if isinstance(value, Opaque):
        return value
    for each in types:
        for axis, extent in enumerate(shape_of(each)):
            kernel.lane(axis, extent)
    found = renamer.value(value)
    data = {s: p for s, p in renamer.replaced.items() if s.level > LANE and not s.args}
    kernel.space.copy_declarations(data)
    elements = kernel.space.elements
    for symbol, moved in data.items():
        if symbol in elements:
            (copy,) = moved.symbols()
            position = renamer.expr(elements[symbol].position)
            elements[copy] = replace(elements[symbol], position=position)
    return found


@rule("tt.expand_dims")
def _expand_dims(kernel: State, op: Operation) -> AnyValue:
    at = op.attributes["axis"]
    assert isinstance(at, int)
    rank = len(shape_of(op.operands[0].type))
    return _renamed(kernel, op, lanes_moved({a: a + 1 for a in range(at, rank)}, ("expand", at)))


@rule("tt.trans")
def _transpose(kernel: State, op: Operation) -> AnyValue:
    order = op.attributes.get("order")
    assert isinstance(order, tuple)
    axes = {int(old): new for new, old in enumerate(order)}  # type: ignore[arg-type]
    return _renamed(kernel, op, lanes_moved(axes, ("transpose", tuple(axes.items()))))


@rule("tt.reshape")
def _reshape(kernel: State, op: Operation) -> AnyValue:
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    return _renamed(kernel, op, _Reshaped(old, new))


@dataclass(frozen=True)
class _Group:
    """Axes that become other ones of as many lanes, the last of which counts fastest."""

    before: _Axes
    after: _Axes
    place: Symbol

    @property
    def index(self) -> Expr:
        """The number of a lane by its new axes."""
        return _number(self.after)

    def moved(self, expr: Expr) -> Expr:
        """A polynomial of old lanes as one of the number of a lane."""
        axis, extent = self.before[-1]
        last = lane(axis, extent)
        rest = _number(self.before) - as_expr(last)
        found = substitute(expr, {last: as_expr(self.place) - rest})
        old = {lane(*each) for each in self.before}
        if not found.base_symbols() & old:
            return found
        new, stride = {}, 1
        for axis, extent in reversed(self.before):
            part = floordiv(as_expr(self.place), as_expr(stride))
            is_first = (axis, extent) == self.before[0]
            new[lane(axis, extent)] = part if is_first else modulo(part, as_expr(extent))
            stride *= extent
        return substitute(expr, new)


def _number(axes: _Axes) -> Expr:
    total, stride = ZERO, 1
    for axis, extent in reversed(axes):
        total, stride = total + stride * as_expr(lane(axis, extent)), stride * extent
    return total


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[_Group]:
    before = [(a, e) for a, e in enumerate(old) if e > 1]
    after = [(a, e) for a, e in enumerate(new) if e > 1]
    while before:
        parts: tuple[_Axes, _Axes] = ([before.pop(0)], [after.pop(0)])
        counts = [parts[0][0][1], parts[1][0][1]]
        while counts[0] != counts[1]:
            which = counts.index(min(counts))
            each = (before, after)[which].pop(0)
            parts[which].append(each)
            counts[which] *= each[1]
        yield _Group(*parts, Symbol("place", "lane", LANE, (), (parts, "place")))


class _Reshaped(Renamer):
    """Replaces lanes by what they are in tiles of another shape."""

    def __init__(self, old: Sequence[int], new: Sequence[int]) -> None:
        how = ("reshape", *old, "as", *new)
        super().__init__(lambda s: moved_copy(s, how) if s.level > LANE else None)
        self._groups = list(_groups(old, new))

    def expr(self, expr: Expr) -> Expr:
        for group in self._groups:
            expr = group.moved(expr)
        places = {group.place: group.index for group in self._groups}
        return substitute(super().expr(expr), places)


@rule("tt.join")
def _join(kernel: State, op: Operation) -> AnyValue:
    one, other = (kernel.get(v) for v in op.operands)
    axis = len(shape_of(op.operands[0].type))
    if isinstance(one, Opaque) or isinstance(other, Opaque):
        return otherwise(kernel, op, op.results[0])
    which = kernel.lane(axis, 2)
    if isinstance(one, Logic) or isinstance(other, Logic):
        second = compare("ge", number(which), number(1))
        parts = (Logic("and", (negated(second), kernel.logic(op.operands[0]))),)
        return Logic("or", (*parts, Logic("and", (second, kernel.logic(op.operands[1])))))
    cases: list[Case] = []
    for p, q in joined(one, other) or ():
        apart, when, needs = q.value - p.value, facts_of((p, q)), needs_of((p, q))
        if p.base != q.base:
            return kernel.unknown(op.results[0])
        if apart.constant is not None:
            cases.append(Case(p.value + apart * which, when, needs, p.base))
        else:
            cases.append(Case(p.value, (*p.when, Fact(-which)), p.needs, p.base))
            cases.append(Case(q.value, (*q.when, Fact(which - 1)), q.needs, q.base))
    return Number(tuple(cases)) if 0 < len(cases) <= 8 else kernel.unknown(op.results[0])


@several("tt.split")
def _split(kernel: State, op: Operation) -> list[AnyValue]:
    axis = len(shape_of(op.operands[0].type)) - 1
    return [_renamed(kernel, op, _Chosen(lane(axis, 2), which)) for which in (0, 1)]


class _Chosen(Renamer):
    """Replaces the lane along an axis by a number, and data in tiles by those of these lanes."""

    def __init__(self, symbol: Symbol, which: int) -> None:
        how = ("split", symbol, which)
        super().__init__(lambda s: moved_copy(s, how) if s.level > LANE else None)
        self.replaced[symbol] = as_expr(which)


def exchanged(kernel: State, operand: Value, axis: int) -> AnyValue:
    """A tile of two lanes along an axis with these in the other order."""
    which, how = lane(axis, 2), ("exchanged", axis)
    renamer = Renamer(lambda s: moved_copy(s, how) if s.level > LANE else None)
    renamer.replaced[which] = 1 - as_expr(which)
    return renamed(kernel, operand, renamer, [operand.type])


@rule("tt.cat")
def _cat(kernel: State, op: Operation) -> AnyValue:
    """Lanes of both in an order that nobody knows."""
    values = [kernel.get(v) for v in op.operands]
    cases = [c for v in values if isinstance(v, Number) for c in v.cases]
    ranges = [kernel.space.range(c.value) for c in cases]
    lows, highs = [r[0] for r in ranges], [r[1] for r in ranges]
    unsure = any(c.needs or c.base is not None for c in cases) or None in (*lows, *highs)
    if unsure or not all(isinstance(v, Number) for v in values):
        return otherwise(kernel, op, op.results[0])
    low, high = min(n for n in lows if n is not None), max(n for n in highs if n is not None)
    return kernel.unknown(op.results[0], low, high)
