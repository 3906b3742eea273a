"""Evaluation of views at all sizes, by the coordinate maps that the views declare.

The coordinates of lanes are symbols, which a view replaces by other expressions. Unknown data in a
tile differ from lane to lane, so a view also replaces the symbols of such data by copies. Views
that move lanes in the same way use the same copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ttools.ir import Operation, Type, Value, shape_of
from ttools.ir.dialects.coordinates import Lanes
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
from ttools.ir.semantics import lanes_of
from ttools.prove.attributes import is_mixed
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
    moved_copy,
    needs_of,
    negated,
    number,
)

#: Axes by number, each with its extent.
_Axes: TypeAlias = "list[tuple[int, int]]"
#: Maximum number of cases of a result; with more cases, the result is unknown.
_MOST_CHOSEN = 8


def viewed(kernel: State, result: Value) -> AnyValue | None:
    """Return the result of a view; None for other operations, or if the result is unknown.

    If a reshape may reorder lanes, as it may for `tl.max` over all axes of a tile, they are assumed
    to be in row-major order.
    """
    maps, op = lanes_of(result), result.defining_op
    if op is None or not maps:
        return None
    if is_mixed(maps):
        return _in_some_order(kernel, op, result)
    parts = [_moved(kernel, op.operands[m.operand], m, result.type) for m in maps]
    return parts[0] if len(parts) == 1 else _by_coordinate(kernel, result, maps, parts)


def _moved(kernel: State, operand: Value, lane_map: Lanes, result: Type) -> AnyValue:
    """Return an operand with its lanes moved."""
    shape = shape_of(operand.type)
    if lane_map.axes is None:
        return renamed(kernel, operand, _Reshaped(shape, shape_of(result)), [result])
    fixed = lane_map.fixed or (0,) * len(shape)
    moves = {
        lane(n, extent): as_expr(fixed[n] if axis is None else lane(axis, extent))
        for n, (axis, extent) in enumerate(zip(lane_map.axes, shape, strict=True))
        if extent > 1 and axis != n
    }
    if not moves:
        return kernel.get(operand)
    how = ("view", lane_map.axes, fixed, shape)
    renamer = Renamer(lambda s: moved_copy(s, how) if s.level > LANE else None)
    renamer.replaced.update(moves)
    return renamed(kernel, operand, renamer, [result])


def _by_coordinate(
    kernel: State, result: Value, maps: Sequence[Lanes], parts: Sequence[AnyValue]
) -> AnyValue | None:
    """Return a tile whose coordinate along an axis selects one of several parts, as for `join`."""
    if any(isinstance(part, Opaque) for part in parts):
        return None
    places = [lane_map.only for lane_map in maps if lane_map.only is not None]
    axis, extent = places[0][0], shape_of(result.type)[places[0][0]]
    which = kernel.lane(axis, extent)
    conditions = [part for part in parts if isinstance(part, Logic)]
    if conditions:
        if len(conditions) < len(parts):
            return None
        chosen = [
            Logic("and", (*_is_at(which, coordinate, extent), condition))
            for (_, coordinate), condition in zip(places, conditions, strict=True)
        ]
        return Logic("or", tuple(chosen))
    cases: list[Case] = []
    for combination in joined(*(part for part in parts if isinstance(part, Number))) or ():
        if len({case.base for case in combination}) > 1:
            return None
        first, last = combination[0], combination[-1]
        apart = last.value - first.value
        if apart.constant is not None and [c for _, c in places] == [0, 1] and extent == 2:
            when, needs = facts_of(combination), needs_of(combination)
            cases.append(Case(first.value + apart * which, when, needs, first.base))
            continue
        for (_, coordinate), case in zip(places, combination, strict=True):
            bounds = [Fact(coordinate - which)] if coordinate < extent - 1 else []
            bounds += [Fact(which - coordinate)] if coordinate > 0 else []
            cases.append(replace(case, when=(*case.when, *bounds)))
    return Number(tuple(cases)) if 0 < len(cases) <= _MOST_CHOSEN else None


def _is_at(which: Expr, coordinate: int, extent: int) -> list[Logic]:
    """Return the conditions under which a lane has a given coordinate along an axis."""
    behind = compare("ge", number(which), number(coordinate + 1))
    reached = compare("ge", number(which), number(coordinate))
    return ([negated(behind)] if coordinate < extent - 1 else []) + (
        [reached] if coordinate > 0 else []
    )


def _in_some_order(kernel: State, op: Operation, result: Value) -> AnyValue | None:
    """Return a number in the range of the operands, whose lanes are in an unspecified order."""
    values = [kernel.get(v) for v in op.operands]
    cases = [c for v in values if isinstance(v, Number) for c in v.cases]
    ranges = [kernel.space.range(c.value) for c in cases]
    lows, highs = [r[0] for r in ranges], [r[1] for r in ranges]
    unsure = any(c.needs or c.base is not None for c in cases) or None in (*lows, *highs)
    if unsure or not all(isinstance(v, Number) for v in values):
        return None
    low, high = min(n for n in lows if n is not None), max(n for n in highs if n is not None)
    return kernel.unknown(result, low, high)


def renamed(kernel: State, operand: Value, renamer: Renamer, types: Sequence[Type]) -> AnyValue:
    """Return a value in other lanes, with the declarations of its symbols copied.

    Args:
        operand: The value to move.
        renamer: Replaces lanes by expressions, and data in tiles by copies in the new lanes.
        types: Types of the results, whose lanes are declared.
    """
    value = kernel.get(operand)
    if isinstance(value, Opaque):
        return value
    for type_ in types:
        for axis, extent in enumerate(shape_of(type_)):
            kernel.lane(axis, extent)
    result = renamer.value(value)
    data = {s: p for s, p in renamer.replaced.items() if s.level > LANE and not s.args}
    kernel.space.copy_declarations(data)
    elements = kernel.space.elements
    for symbol, moved in data.items():
        if symbol in elements:
            (copy,) = moved.symbols()
            position = renamer.expr(elements[symbol].position)
            elements[copy] = replace(elements[symbol], position=position)
    return result


def exchanged(kernel: State, operand: Value, axis: int) -> AnyValue:
    """Return a tile with the two lanes along an axis exchanged."""
    which, how = lane(axis, 2), ("exchanged", axis)
    renamer = Renamer(lambda s: moved_copy(s, how) if s.level > LANE else None)
    renamer.replaced[which] = 1 - as_expr(which)
    return renamed(kernel, operand, renamer, [operand.type])


@dataclass(frozen=True)
class _Group:
    """Axes of a tile that a reshape replaces by other axes with the same total number of lanes.

    The last axis varies fastest. For example, a reshape from (4, 8, 3) to (32, 3) has the groups
    (4, 8) → (32) and (3) → (3).

    Attributes:
        before: Axes of the operand, each with its extent.
        after: Axes of the result, each with its extent.
        place: Symbol of the linear index in the group.
    """

    before: _Axes
    after: _Axes
    place: Symbol

    @property
    def index(self) -> Expr:
        """The linear index in the group, as an expression of the lanes of the new axes."""
        return _number(self.after)

    def moved(self, expr: Expr) -> Expr:
        """Replace the lanes of the old axes in an expression by the linear index."""
        axis, extent = self.before[-1]
        last = lane(axis, extent)
        others = _number(self.before) - as_expr(last)
        result = substitute(expr, {last: as_expr(self.place) - others})
        old = {lane(*pair) for pair in self.before}
        if not result.base_symbols() & old:
            return result
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
            pair = (before, after)[which].pop(0)
            parts[which].append(pair)
            counts[which] *= pair[1]
        yield _Group(*parts, Symbol("place", "lane", LANE, (), (parts, "place")))


class _Reshaped(Renamer):
    """Replaces the lanes of a tile by expressions of the lanes of a reshaped tile."""

    def __init__(self, old: Sequence[int], new: Sequence[int]) -> None:
        how = ("reshape", *old, "as", *new)
        super().__init__(lambda s: moved_copy(s, how) if s.level > LANE else None)
        self._groups = list(_groups(old, new))

    def expr(self, expr: Expr) -> Expr:
        for group in self._groups:
            expr = group.moved(expr)
        places = {group.place: group.index for group in self._groups}
        return substitute(super().expr(expr), places)
