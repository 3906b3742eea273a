"""Operations that only rename coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ttools.ir import Operation, shape_of
from ttools.prove.attributes import axis_of
from ttools.prove.concrete.lanes import Lanes, select, spread
from ttools.prove.concrete.operations import rule, several
from ttools.prove.concrete.state import State


def _reshaped(run: State, op: Operation, move: Callable[[Any], Any], place: int = 0) -> Lanes:
    """An operand whose arrays, of programs and lanes, are moved."""
    value = run.get(op.operands[place])
    shape = (run.count, *shape_of(op.operands[place].type))

    def moved(data: Any) -> Any:
        return None if data is None else move(spread(data, shape))

    wraps = tuple((o, moved(m)) for o, m in value.wraps)
    return Lanes(moved(value.data), moved(value.twin), wraps, moved(value.unknown), value.base)


@rule("tt.splat")
def _splat(run: State, op: Operation) -> Lanes:
    rank = len(shape_of(op.results[0].type))
    return _reshaped(run, op, lambda d: d.reshape(d.shape[:1] + (1,) * rank))


@rule("tt.broadcast")
def _broadcast(run: State, op: Operation) -> Lanes:
    return run.get(op.operands[0])


@rule("tt.expand_dims")
def _expand_dims(run: State, op: Operation) -> Lanes:
    axis = axis_of(op)
    return _reshaped(run, op, lambda d: np.expand_dims(d, axis + 1))


@rule("tt.trans")
def _transpose(run: State, op: Operation) -> Lanes:
    order = op.attributes["order"]
    assert isinstance(order, tuple)
    axes = (0, *(int(a) + 1 for a in order))  # type: ignore[arg-type]
    return _reshaped(run, op, lambda d: np.transpose(d, axes))


@rule("tt.reshape")
def _reshape(run: State, op: Operation) -> Lanes:
    shape = (run.count, *shape_of(op.results[0].type))
    return _reshaped(run, op, lambda d: d.reshape(shape))


@rule("tt.join")
def _join(run: State, op: Operation) -> Lanes:
    one, other = (_reshaped(run, op, lambda d: d[..., None], place) for place in (0, 1))
    return select(Lanes(np.array([[True, False]])), one, other)


@several("tt.split")
def _split(run: State, op: Operation) -> list[Lanes]:
    return [_reshaped(run, op, lambda d: d[..., 0]), _reshaped(run, op, lambda d: d[..., 1])]
