"""Tests of the strides of index tiles that the emitter derives at compile time."""

from __future__ import annotations

import pytest

from ttools.interpreter.analysis.strides import (
    addresses_differ,
    memory_order,
    static_strides,
    tile_order,
)
from ttools.ir import Operation
from ttools.ir.parser import parse_module

TILE = "tensor<8x16xi32>"
POINTERS = "tensor<8x16x!tt.ptr<i32>>"


def store_of(*definitions: str) -> Operation:
    """Return the store of a module through pointers with the offsets that %index defines."""
    text = f"""
module {{
  tt.func public @kernel(%p: !tt.ptr<i32>) {{
    %rows = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
    %row = tt.expand_dims %rows {{axis = 1 : i32}} : tensor<8xi32> -> tensor<8x1xi32>
    %down = tt.broadcast %row : tensor<8x1xi32> -> {TILE}
    %columns = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %column = tt.expand_dims %columns {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
    %across = tt.broadcast %column : tensor<1x16xi32> -> {TILE}
    %sixteen = arith.constant dense<16> : {TILE}
    %eight = arith.constant dense<8> : {TILE}
    {" ".join(definitions)}
    %base = tt.splat %p : !tt.ptr<i32> -> {POINTERS}
    %pointers = tt.addptr %base, %index : {POINTERS}, {TILE}
    %value = tt.load %pointers : {POINTERS}
    tt.store %pointers, %value : {POINTERS}
    tt.return
  }}
}}
"""
    return next(op for op in parse_module(text).kernel.walk() if op.name == "tt.store")


def binary(result: str, operation: str, a: str, b: str) -> str:
    return f"%{result} = arith.{operation} %{a}, %{b} : {TILE}"


@pytest.mark.parametrize(
    ("definitions", "strides", "order", "differ"),
    [
        (
            [binary("r", "muli", "down", "sixteen"), binary("index", "addi", "r", "across")],
            (16, 1),
            None,
            True,
        ),
        (
            [binary("c", "muli", "eight", "across"), binary("index", "addi", "c", "down")],
            (1, 8),
            (1, 0),
            True,
        ),
        ([binary("index", "addi", "down", "across")], (1, 1), None, False),
        ([binary("index", "muli", "down", "across")], (None, None), None, False),
        (
            [
                binary("r", "muli", "down", "sixteen"),
                binary("m", "remsi", "across", "eight"),
                binary("index", "addi", "r", "m"),
            ],
            (16, 1),
            None,
            False,
        ),
    ],
)
def test_strides_of_stores(
    definitions: list[str],
    strides: tuple[int | None, ...],
    order: tuple[int, ...] | None,
    differ: bool,
) -> None:
    store = store_of(*definitions)
    pointer, value = store.operands
    assert static_strides(pointer) == strides
    assert memory_order(pointer) == order
    assert tile_order(value, lambda _: False) == order
    assert addresses_differ(pointer) == differ


@pytest.mark.parametrize(
    ("operation", "strides"),
    [
        ("addi", (1, None)),  # 2**201, which overflows i32
        ("xori", (None, None)),
        ("muli", (1, None)),
        ("remsi", (1, 2)),
    ],
)
def test_values_used_twice_are_analysed_once(
    operation: str, strides: tuple[int | None, ...]
) -> None:
    """Analyse a chain in which each value is used twice, so 2**200 paths lead to the first."""
    chain = [binary("v0", "addi", "across", "across")]
    chain += [binary(f"v{i + 1}", operation, f"v{i}", f"v{i}") for i in range(200)]
    pointer, value = store_of(*chain, binary("index", "addi", "v200", "down")).operands
    assert static_strides(pointer) == strides
    assert not addresses_differ(pointer)
    assert tile_order(value, lambda _: False) == memory_order(pointer)
