"""Tests of strides, axis info and intervals of random index arithmetic.

The oracle evaluates every lane of every value with the integer semantics that operations declare.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from ttools.ir import Module, Value, shape_of
from ttools.ir.dialects.integers import Evaluation
from ttools.ir.domains.axis_info import AxisInfo, AxisInfoAnalysis, AxisInfoDomain
from ttools.ir.domains.launch_intervals import Intervals
from ttools.ir.domains.strides import StrideAnalysis
from ttools.ir.parser import parse_module
from ttools.ir.semantics import lanes_of, meaning

_N = 24
_ROWS, _COLUMNS = 4, 8
_BINARY = ("addi", "subi", "muli", "shli", "remsi", "divsi", "minsi", "maxsi", "andi", "turn")


def _kernel(choose: random.Random) -> Module:
    """Generate a kernel that combines row and column indices, constants and a parameter."""
    lines = [
        f"%r = tt.make_range {{end = {_ROWS + 2} : i32, start = 2 : i32}} : tensor<{_ROWS}xi32>",
        f"%c = tt.make_range {{end = {_COLUMNS} : i32, start = 0 : i32}} : tensor<{_COLUMNS}xi32>",
    ]
    tile, turned = f"tensor<{_ROWS}x{_COLUMNS}xi32>", f"tensor<{_COLUMNS}x{_ROWS}xi32>"
    row, column = f"tensor<{_ROWS}x1xi32>", f"tensor<1x{_COLUMNS}xi32>"
    lines += [
        f"%r1 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{_ROWS}xi32> -> {row}",
        f"%c1 = tt.reshape %c : tensor<{_COLUMNS}xi32> -> {column}",
        f"%t0 = tt.broadcast %r1 : {row} -> {tile}",
        f"%t1 = tt.broadcast %c1 : {column} -> {tile}",
        f"%t2 = tt.splat %n : i32 -> {tile}",
    ]
    numbers = (1, 2, 3, 4, 8, 0)
    lines += [f"%k{n} = arith.constant dense<{n}> : {tile}" for n in numbers]
    for index in range(3, 9):
        operation = choose.choice(_BINARY)
        operand = f"%t{choose.randrange(index)}"
        other = choose.choice([f"%t{choose.randrange(index)}", f"%k{choose.choice(numbers[:5])}"])
        if operation in ("shli", "remsi", "divsi"):
            other = f"%k{choose.choice(numbers[:4])}"
        if operation == "turn":
            lines.append(
                f"%u{index} = tt.trans {operand} {{order = array<i32: 1, 0>}} : {tile} -> {turned}"
            )
            lines.append(f"%t{index} = tt.reshape %u{index} : {turned} -> {tile}")
        else:
            lines.append(f"%t{index} = arith.{operation} {operand}, {other} : {tile}")
    text = "\n".join(lines)
    return parse_module(f"module {{\ntt.func public @k(%n: i32) {{\n{text}\ntt.return\n}}\n}}")


def _at(value: Value, lane: Sequence[int]) -> int:
    """Return an element of a tile, evaluated with the declared integer semantics."""
    op = value.defining_op
    if op is None:
        return _N
    if mappings := lanes_of(value):
        (lanes,) = mappings
        shape = shape_of(op.operands[0].type)
        if lanes.axes is None:  # a reshape: lanes keep their row-major number
            coordinates = itertools.product(*map(range, shape_of(value.type)))
            number = list(coordinates).index(tuple(lane))
            inner = list(itertools.product(*map(range, shape)))[number]
        else:
            pairs = enumerate(lanes.axes)
            inner = tuple(lanes.fixed[n] if axis is None else lane[axis] for n, axis in pairs)
        return _at(op.operands[0], inner)
    result = meaning(Evaluation(lane), op, [_at(v, lane) for v in op.operands])
    assert result is not None
    return result


def _lines(shape: Sequence[int], axis: int) -> list[list[tuple[int, ...]]]:
    """Return the coordinates of all lines of a tile that are parallel to an axis."""
    starts = [range(n) if k != axis else (0,) for k, n in enumerate(shape)]
    return [
        [(*start[:axis], i, *start[axis + 1 :]) for i in range(shape[axis])]
        for start in itertools.product(*starts)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_analyses_hold_in_every_lane(seed: int) -> None:
    module = _kernel(random.Random(seed))
    kernel = module.kernel
    (n,) = kernel.regions[0].entry.arguments
    strides, axis_info = StrideAnalysis(), AxisInfoAnalysis({n: 8})
    intervals = Intervals(kernel, {0: _N}, (1,))
    for op in kernel.walk():
        for value in op.results:
            shape = shape_of(value.type)
            steps, info = strides.of(value), axis_info.of(value)
            low, high = intervals.of(value)
            for axis, stride in enumerate(strides.strides(value)):
                for line in _lines(shape, axis):
                    numbers = [_at(value, lane) for lane in line]
                    assert low <= min(numbers) <= max(numbers) <= high, value
                    assert steps.number is None or set(numbers) == {steps.number}, value
                    assert info.number is None or set(numbers) == {info.number}, value
                    if stride is not None and not steps.wraps:
                        pairs = itertools.pairwise(numbers)
                        assert all(b - a == stride for a, b in pairs), value
                    groups, equal = info.contiguity[axis], info.constancy[axis]
                    for i, number in enumerate(numbers):
                        assert number == numbers[i - i % groups] + i % groups, value
                        assert number == numbers[i - i % equal], value
                        if i % groups == 0 and info.divisibility[axis]:
                            assert number % info.divisibility[axis] == 0, value
                        elif i % groups == 0:
                            assert number == 0, value


def test_contiguity_and_divisibility_of_a_sum() -> None:
    """Add multiples of 16 that change every 4 lanes to 0, 1, 2, …

    The sum consists of contiguous groups of 4 lanes. They begin at 0, 20, 40, … if the multiples
    are 0, 16, 32, …, so the divisibility is 4 instead of 16.
    """
    domain = AxisInfoDomain((16,))
    info = domain.add(domain.coordinate(0, 16), AxisInfo((1,), (16,), (4,)))
    assert (info.contiguity, info.divisibility) == ((4,), (4,))
