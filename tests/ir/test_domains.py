"""Strides, axis info and intervals of random index arithmetic, against every lane computed."""

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
    """A kernel that computes tiles of rows, columns, numbers and a parameter."""
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
        one = f"%t{choose.randrange(index)}"
        other = choose.choice([f"%t{choose.randrange(index)}", f"%k{choose.choice(numbers[:5])}"])
        if operation in ("shli", "remsi", "divsi"):
            other = f"%k{choose.choice(numbers[:4])}"
        if operation == "turn":
            lines.append(
                f"%u{index} = tt.trans {one} {{order = array<i32: 1, 0>}} : {tile} -> {turned}"
            )
            lines.append(f"%t{index} = tt.reshape %u{index} : {turned} -> {tile}")
        else:
            lines.append(f"%t{index} = arith.{operation} {one}, {other} : {tile}")
    text = "\n".join(lines)
    return parse_module(f"module {{\ntt.func public @k(%n: i32) {{\n{text}\ntt.return\n}}\n}}")


def _at(value: Value, lane: Sequence[int]) -> int:
    """The element of a tile, computed by what operations declare."""
    op = value.defining_op
    if op is None:
        return _N
    if found := lanes_of(value):
        (lanes,) = found
        shape = shape_of(op.operands[0].type)
        if lanes.axes is None:  # lanes keep their row-major number
            everywhere = itertools.product(*map(range, shape_of(value.type)))
            number = list(everywhere).index(tuple(lane))
            inner = list(itertools.product(*map(range, shape)))[number]
        else:
            pairs = enumerate(lanes.axes)
            inner = tuple(lanes.fixed[n] if axis is None else lane[axis] for n, axis in pairs)
        return _at(op.operands[0], inner)
    found_number = meaning(Evaluation(lane), op, [_at(v, lane) for v in op.operands])
    assert found_number is not None
    return found_number


def _lines(shape: Sequence[int], axis: int) -> list[list[tuple[int, ...]]]:
    """The coordinates of each line of a tile along an axis."""
    others = [range(n) if k != axis else (0,) for k, n in enumerate(shape)]
    return [
        [(*start[:axis], i, *start[axis + 1 :]) for i in range(shape[axis])]
        for start in itertools.product(*others)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_what_domains_know_holds_in_every_lane(seed: int) -> None:
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


def test_shorter_groups_begin_at_their_own_multiples() -> None:
    """Of 0, 1, 2, … plus multiples of 16 that change every 4 lanes, groups begin at 0, 20, 40, …"""
    domain = AxisInfoDomain((16,))
    found = domain.add(domain.coordinate(0, 16), AxisInfo((1,), (16,), (4,)))
    assert (found.contiguity, found.divisibility) == ((4,), (4,))
