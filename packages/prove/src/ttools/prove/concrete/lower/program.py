"""Program ids, ranges and pointers."""

from __future__ import annotations

import numpy as np

from ttools.ir import Operation
from ttools.prove.attributes import axis_of, range_of
from ttools.prove.concrete.lanes import Lanes, fit
from ttools.prove.concrete.operations import moved_by, rule
from ttools.prove.concrete.state import State


@rule("tt.get_program_id")
def _program_id(run: State, op: Operation) -> Lanes:
    return Lanes(run.programs[:, axis_of(op)])


@rule("tt.get_num_programs")
def _num_programs(run: State, op: Operation) -> Lanes:
    return Lanes(np.full(run.count, run.grid[axis_of(op)], np.int64))


@rule("tt.make_range")
def _range(run: State, op: Operation) -> Lanes:
    start, end = range_of(op)
    return Lanes(np.broadcast_to(np.arange(start, end, dtype=np.int64), (run.count, end - start)))


@rule("tt.addptr")
def _add_pointer(run: State, op: Operation) -> Lanes:
    pointer, offset = (run.get(v) for v in op.operands)
    return moved_by(pointer, offset, np.add(*fit(pointer.data, offset.data)))
