"""Coordinate maps: which lane of an operand a lane of a view's result is, as data.

A view computes nothing: each lane of its result is one lane of an operand. Its declaration says
which one, so that an analysis that knows the operand knows the result without knowing the view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Shape: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of one operand that the lanes of a result are.

    Attributes:
        operand: Position of the operand.
        axes: For each axis of the operand the axis of the result along which it lies, or None where
            the coordinate is `fixed`. None instead of the tuple where lanes keep no axes: they keep
            their row-major number if `ordered`, else their order is not specified.
        fixed: The coordinate along each axis of the operand that lies along none of the result.
        only: `(axis, coordinate)` of the result: other lanes come from another operand.
        ordered: True if the order of the lanes is specified.
    """

    operand: int
    axes: tuple[int | None, ...] | None
    fixed: tuple[int, ...] = ()
    only: tuple[int, int] | None = None
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class ViewShapes:
    """The shapes and attributes that a coordinate map depends on.

    Attributes:
        attributes: Attributes of the operation.
        operands: Shapes of the operands, `()` of scalars.
        result: Shape of the result.
        index: Position of the result.
    """

    attributes: Mapping[str, Any]
    operands: Sequence[Shape]
    result: Shape
    index: int


#: The lanes of each operand that the result's lanes are taken from.
CoordinateMap: TypeAlias = "Callable[[ViewShapes], tuple[Lanes, ...]]"


def same(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that leaves every lane where it is."""
    return (Lanes(0, tuple(range(len(view.result)))),)


def splat(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that copies a scalar to every lane."""
    return (Lanes(0, ()),)


def first_element(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that takes the first element of a tile as a scalar."""
    rank = len(view.operands[0])
    return (Lanes(0, (None,) * rank, (0,) * rank),)


def expand_dims(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that inserts an axis of extent 1 at the attribute `axis`."""
    new = view.attributes["axis"]
    return (Lanes(0, tuple(n + (n >= new) for n in range(len(view.operands[0])))),)


def broadcast(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that repeats axes of extent 1."""
    shape = view.operands[0]
    axes = tuple(None if extent == 1 else n for n, extent in enumerate(shape))
    return (Lanes(0, axes, (0,) * len(shape)),)


def transpose(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of a transposition: axis n of the result is the operand's `order[n]`."""
    order = [int(n) for n in view.attributes["order"]]
    return (Lanes(0, tuple(order.index(n) for n in range(len(order)))),)


def reshape(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of a reshape, which keeps the row-major number of each lane.

    With the attribute `allow_reorder` the order of lanes is not specified.

    Axes stay axes where only axes of extent 1 come and go.
    """
    if view.attributes.get("allow_reorder"):
        return (Lanes(0, None, ordered=False),)
    shape = view.operands[0]
    kept = [n for n, extent in enumerate(view.result) if extent > 1]
    if [view.result[n] for n in kept] != [extent for extent in shape if extent > 1]:
        return (Lanes(0, None),)
    places = iter(kept)
    axes = tuple(next(places) if extent > 1 else None for extent in shape)
    return (Lanes(0, axes, (0,) * len(shape)),)


def join(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of a join: the last axis of the result selects the operand."""
    axes = tuple(range(len(view.operands[0])))
    return tuple(Lanes(n, axes, only=(len(axes), n)) for n in range(len(view.operands)))


def split(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of a split: each result has one coordinate of the operand's last axis."""
    rank = len(view.result)
    return (Lanes(0, (*range(rank), None), (*(0,) * rank, view.index)),)


def any_order(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that takes all lanes in an unspecified order."""
    return tuple(Lanes(n, None, ordered=False) for n in range(len(view.operands)))
