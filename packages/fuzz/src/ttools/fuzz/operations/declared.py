"""Evaluation of operations by their declarations in `ttools.ir`.

Operations that have no entry in `table` are evaluated here, lane by lane in Python integers,
according to the declared integer meaning or coordinate map. The engine's lowerings are separate
code, so that a defect in one of the two shows as a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttools.fuzz.elements import Array, Element
from ttools.fuzz.program import Expr, Type
from ttools.ir.dialects import declared
from ttools.ir.dialects.coordinates import Lanes, ViewShapes
from ttools.ir.dialects.integers import Evaluation, Meaning, wrapped


@dataclass
class _Described:
    """The properties of an operation that its meaning depends on."""

    attributes: dict[str, Any]
    operand_bits: int
    result_shape: tuple[int, ...]
    constant_integers: Sequence[int] | None = None


def evaluate_declared(expr: Expr, args: Sequence[Array], program: Sequence[int]) -> Any:
    """Return the value of an expression by the declaration of its operation.

    Args:
        program: Index of the program along each axis of the grid.

    Raises:
        KeyError: The operation declares neither a meaning of integers nor a coordinate map.
    """
    op = declared(expr.op)
    if op.integer is not None:
        return _integers(op.integer, expr, args, program)
    if op.lanes is None:
        raise KeyError(expr.op)
    shapes = [arg.type.shape for arg in expr.args]
    types = [expr.type, *(type_ for type_, _ in expr.more)]
    views = [
        _view(op.lanes(ViewShapes(expr.attrs, shapes, type_.shape, n)), args, type_)
        for n, type_ in enumerate(types)
    ]
    return tuple(views) if expr.more else views[0]


def _integers(meaning: Meaning, expr: Expr, args: Sequence[Array], program: Sequence[int]) -> Array:
    shape = expr.type.shape
    tiles = [np.broadcast_to(arg, shape) for arg in args]
    elements = [arg.type.element for arg in expr.args]
    described = _Described(expr.attrs, elements[0].bits if elements else 0, shape)
    result = np.empty(shape, expr.type.element.numpy)
    for lane in np.ndindex(*shape):
        domain = Evaluation(lane, [(index, 0) for index in program])
        values = [wrapped(int(tile[lane]), e.bits) for tile, e in zip(tiles, elements, strict=True)]
        result[lane] = _wrap(meaning(domain, values, described), expr.type.element)
    return result


def _wrap(number: int, element: Element) -> int:
    """Wrap an exact integer to the range of an element type."""
    return number & ((1 << element.bits) - 1) if element.low == 0 else wrapped(number, element.bits)


def _view(maps: Sequence[Lanes], args: Sequence[Array], type_: Type) -> Array:
    result = np.empty(type_.shape, args[0].dtype)
    for number, lane in enumerate(np.ndindex(*type_.shape)):
        lanes = next(m for m in maps if m.only is None or lane[m.only[0]] == m.only[1])
        source = args[lanes.operand]
        if lanes.axes is None:
            result[lane] = source.reshape(-1)[number]
        else:
            fixed = lanes.fixed or (0,) * len(lanes.axes)
            place = [fixed[n] if a is None else lane[a] for n, a in enumerate(lanes.axes)]
            result[lane] = source[tuple(place)]
    return result
