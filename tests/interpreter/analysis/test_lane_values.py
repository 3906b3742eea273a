"""Values of a kernel in chosen programs, lane by lane, against Python's integers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.analysis.lane_values import LaneNumbers, LaneValues, along
from ttools.ir import Operation
from ttools.ir.dialects.integers import ARITH, Evaluation, wrapped
from ttools.ir.dialects.traits import LOOP
from ttools.ir.parser.parser import parse_module

_DIVIDES = ("divsi", "divui", "floordivsi", "ceildivsi", "ceildivui", "remsi", "remui")
_SHIFTS = ("shli", "shrsi", "shrui")
_BINARY = sorted(set(ARITH) - {"constant", "select", "cmpi", "cmpf", "extsi", "extui", "trunci",
                               "index_cast", "index_castui"})  # fmt: skip
NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-5, 5)


@pytest.mark.parametrize("name", _BINARY)
@given(a=NUMBERS, b=NUMBERS)
def test_operations_compute_what_they_declare(name: str, a: int, b: int) -> None:
    if name in _DIVIDES:
        b = b or 1
    if name in _SHIFTS:
        b %= 31
    op: Any = SimpleNamespace(attributes={}, operand_bits=32)
    expected = wrapped(ARITH[name](Evaluation(), (a, b), op), 32)
    arrays = [np.full((1, 1), number, np.int64) for number in (a, b)]
    result = ARITH[name](LaneNumbers(np.zeros((1, 3), np.int64), (1,)), arrays, op)
    assert wrapped(int(result.item()), 32) == expected


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge"])
@given(a=NUMBERS, b=NUMBERS)
def test_comparisons(predicate: str, a: int, b: int) -> None:
    numbers = LaneNumbers(np.zeros((1, 3), np.int64), (1,))
    result = numbers.compare(predicate, np.array([a]), np.array([b]))
    assert int(result.item()) == Evaluation().compare(predicate, a, b)


def test_lanes_move_to_other_axes() -> None:
    array = np.arange(6).reshape(1, 2, 3)
    assert along(array, (1, 0), (0, 0), 2).tolist() == array.transpose(0, 2, 1).tolist()
    assert along(array, (2, None), (0, 1), 3).shape == (1, 1, 1, 2)
    assert along(array, (2, None), (0, 1), 3).ravel().tolist() == [1, 4]


_TTIR = """
module {
  tt.func public @k(%p: !tt.ptr<f32>, %n: i32, %s: i32) {
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %pid = tt.get_program_id x : i32
    %start = arith.muli %pid, %c8 : i32
    %range = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %base = tt.splat %start : i32 -> tensor<8xi32>
    %offs = arith.addi %base, %range : tensor<8xi32>
    %ptr = tt.splat %p : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %first = tt.addptr %ptr, %offs : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    %step = tt.splat %s : i32 -> tensor<8xi32>
    %l = scf.for %i = %c0 to %n step %c8 iter_args(%at = %first) -> (tensor<8x!tt.ptr<f32>>) : i32 {
      %x = tt.load %at : tensor<8x!tt.ptr<f32>>
      %next = tt.addptr %at, %step : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
      scf.yield %next : tensor<8x!tt.ptr<f32>>
    }
    %y = tt.load %l : tensor<8x!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_addresses_in_and_after_a_loop() -> None:
    kernel = parse_module(_TTIR).kernel
    loop = next(op for op in kernel.walk() if op.has(LOOP))
    inside, after = (op for op in kernel.walk() if op.name == "tt.load")
    programs = np.array([[0, 0, 0], [3, 0, 0]])

    def values(iterations: dict[Operation, int]) -> LaneValues:
        return LaneValues(kernel, (4,), {1: 20, 2: 100}, programs, iterations)

    lanes = np.arange(8)
    expected = np.stack([4 * (8 * pid + lanes) for pid in (0, 3)])
    assert values({loop: 2}).of(inside.address).tolist() == (expected + 800).tolist()
    assert values({}).of(inside.address) is None
    assert values({}).of(after.address).tolist() == (expected + 1200).tolist()
    assert values({}).of(inside.results[0]) is None
    counter = loop.regions[0].entry.arguments[0]
    assert values({loop: 2}).of(counter).tolist() == [16]
