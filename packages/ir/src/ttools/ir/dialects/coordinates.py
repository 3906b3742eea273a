"""Coordinate maps, which map each lane of a view's result to a lane of an operand.

A view such as `tt.trans` computes nothing: each lane of its result is one lane of an operand. The
declaration of the view contains this mapping as data, so that an analysis can derive properties of
the result from those of the operand without separate code for each view. For example,
`tt.expand_dims` with `axis = 0` turns a tile of shape (8,) into one of shape (1, 8). Its map is
`Lanes(operand=0, axes=(1,))`: axis 0 of the operand becomes axis 1 of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

Shape: TypeAlias = "tuple[int, ...]"


class Lanes(NamedTuple):
    """The part of a coordinate map that describes one operand.

    Attributes:
        operand: Position of the operand.
        axes: For each axis of the operand, the axis of the result that it becomes, or None if the
            result contains only the coordinate in `fixed`. If the view does not keep axes, `axes`
            itself is None; lanes then keep their row-major number if `ordered` is True.
        fixed: For each axis of the operand, the coordinate that is used if its entry in `axes` is
            None.
        only: `(axis, coordinate)` of the result if only the lanes with this coordinate come from
            the operand; None if all lanes do.
        ordered: True if the order of the lanes is specified.
    """

    operand: int
    axes: tuple[int | None, ...] | None
    fixed: tuple[int, ...] = ()
    only: tuple[int, int] | None = None
    ordered: bool = True


_SPLAT = (Lanes(0, ()),)


class ViewShapes(NamedTuple):
    """The shapes and attributes that a coordinate map depends on.

    Attributes:
        attributes: Attributes of the operation.
        operands: Shapes of the operands, `()` for scalars.
        result: Shape of the result.
        position: Position of the result.
    """

    attributes: Mapping[str, Any]
    operands: Sequence[Shape]
    result: Shape
    position: int


#: Returns one `Lanes` for each operand whose lanes occur in the result.
CoordinateMap: TypeAlias = "Callable[[ViewShapes], tuple[Lanes, ...]]"


def same(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that leaves every lane where it is."""
    return _same(len(view.result))


@lru_cache(maxsize=64)
def _same(rank: int) -> tuple[Lanes, ...]:
    return (Lanes(0, tuple(range(rank))),)


def splat(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that copies a scalar to every lane."""
    return _SPLAT


def first_element(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that takes the first element of a tile as a scalar."""
    rank = len(view.operands[0])
    return (Lanes(0, (None,) * rank, (0,) * rank),)


def expand_dims(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that inserts an axis of extent 1 as axis number `axis`."""
    return _expanded(len(view.operands[0]), view.attributes["axis"])


@lru_cache(maxsize=256)
def _expanded(rank: int, new: int) -> tuple[Lanes, ...]:
    return (Lanes(0, tuple([n + (n >= new) for n in range(rank)])),)


def broadcast(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that repeats axes of extent 1."""
    return _broadcast(view.operands[0])


@lru_cache(maxsize=256)  # analyses ask for the maps of the same few shapes again and again
def _broadcast(shape: Shape) -> tuple[Lanes, ...]:
    axes = tuple([None if extent == 1 else n for n, extent in enumerate(shape)])
    return (Lanes(0, axes, (0,) * len(shape)),)


def transpose(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of a transposition: axis n of the result is axis `order[n]` of the operand."""
    order = [int(n) for n in view.attributes["order"]]
    return (Lanes(0, tuple(order.index(n) for n in range(len(order)))),)


def reshape(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of a reshape, which keeps the row-major number of each lane.

    If the reshape only adds or removes axes of extent 1, the map contains the new position of each
    axis. With the attribute `allow_reorder`, the order of the lanes is not specified.
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
    return (Lanes(0, (*range(rank), None), (*(0,) * rank, view.position)),)


def any_order(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the map of an operation that puts all lanes into an unspecified order."""
    return tuple(Lanes(n, None, ordered=False) for n in range(len(view.operands)))
