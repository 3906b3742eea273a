"""Evaluation of views at one size, by the coordinate maps that the views declare."""

from __future__ import annotations

from typing import Any

import numpy as np

from ttools.ir import Value, shape_of
from ttools.ir.dialects.coordinates import Lanes as LaneMap
from ttools.ir.semantics import lanes_of
from ttools.prove.attributes import is_mixed
from ttools.prove.concrete.lanes import Lanes, select, spread
from ttools.prove.concrete.state import State


def viewed(run: State, result: Value) -> Lanes | None:
    """Return the result of a view.

    If a reshape may reorder lanes, as it may for `tl.max` over all axes of a tile, they are assumed
    to be in row-major order, as in ttools' own engine.

    Returns:
        The result; None for operations that are not views, and for `tl.cat`, whose result has no
        specified order.
    """
    maps, op = lanes_of(result), result.defining_op
    if op is None or not maps or is_mixed(maps):
        return None
    shape = shape_of(result.type)
    parts = [_moved(run, op.operands[m.operand], m, shape) for m in maps]
    value = parts[0]
    for lane_map, part in zip(maps[1:], parts[1:], strict=True):
        if lane_map.only is not None:
            axis, coordinate = lane_map.only
            chosen = np.arange(shape[axis]) == coordinate
            extents = [1] * (1 + len(shape))
            extents[1 + axis] = shape[axis]
            value = select(Lanes(chosen.reshape(extents)), part, value)
    return value


def _moved(run: State, operand: Value, lane_map: LaneMap, shape: tuple[int, ...]) -> Lanes:
    value, before = run.get(operand), (run.count, *shape_of(operand.type))

    def moved(data: Any) -> Any:
        return None if data is None else _array(spread(data, before), lane_map, shape)

    wraps = tuple((op, moved(lost)) for op, lost in value.wraps)
    return Lanes(moved(value.data), moved(value.shadow), wraps, moved(value.unknown), value.base)


def _array(data: Any, lane_map: LaneMap, shape: tuple[int, ...]) -> Any:
    """Apply a lane map to an array whose first axis is the axis of programs.

    Axes of the result along which lanes are repeated have extent 1. For example, lanes of shape (4,
    1) that are broadcast to (4, 16) remain an array of shape (4, 1) for each program.
    """
    if lane_map.axes is None:
        return data.reshape(data.shape[0], *shape)
    fixed = lane_map.fixed or (0,) * len(lane_map.axes)
    kept = [axis for axis in lane_map.axes if axis is not None]
    is_diagonal = len(set(kept)) < len(kept)
    chosen: list[Any]
    if is_diagonal:
        of_result = np.indices(shape)
        chosen = [fixed[n] if a is None else of_result[a] for n, a in enumerate(lane_map.axes)]
    else:
        chosen = [fixed[n] if a is None else slice(None) for n, a in enumerate(lane_map.axes)]
    place: Any = (slice(None), *chosen)
    data = data[place]
    if is_diagonal:
        return data
    order = sorted(range(len(kept)), key=kept.__getitem__)
    data = data.transpose(0, *(1 + n for n in order))
    extents = [1] * len(shape)
    for axis, extent in zip(sorted(kept), data.shape[1:], strict=True):
        extents[axis] = extent
    return data.reshape(data.shape[0], *extents)
