"""Tests of the source locations of operations, including inlined calls."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import triton
import triton.language as tl

from ttools import ir
from ttools.core.location import SourceLocation
from ttools.ir.parser import parse_module


@triton.jit
def scale(value):
    return value * 3.0


@triton.jit
def twice(value):
    return scale(scale(value))


@triton.jit
def kernel(x):
    lanes = tl.arange(0, 16)
    result = twice(tl.load(x + lanes))
    tl.store(x + lanes, result)


def _line(function: Any, fragment: str) -> int:
    """Return the number of the line of the file that contains `fragment`, within a kernel."""
    lines, start = inspect.getsourcelines(function.fn)
    return start + next(index for index, line in enumerate(lines) if fragment in line)


def _location(op: ir.Operation) -> SourceLocation:
    assert op.location is not None
    return op.location


def _locate(location: str, definitions: str = "") -> SourceLocation | None:
    text = f"tt.func @f() {{\n tt.return {location}\n}}\n{definitions}"
    return parse_module(text).kernel.regions[0].entry.terminator.location


def test_kernel_locations(ttir) -> None:
    module = parse_module(ttir(kernel, x="*fp32"))
    ops = {op.name: op for op in module.kernel.walk()}
    load = _location(ops["tt.load"])
    store = _location(ops["tt.store"])
    multiply = _location(ops["arith.mulf"])
    assert (load.file, load.line) == (__file__, _line(kernel, "tl.load"))
    assert store.line == _line(kernel, "tl.store")
    assert multiply.line == _line(scale, "value * 3.0")
    assert [caller.line for caller in multiply.callers] == [
        _line(twice, "scale(scale"),
        _line(kernel, "twice("),
    ]
    assert all(caller.callers == () for caller in multiply.callers)
    assert _location(ops["tt.make_range"]).name == "lanes"


def test_columns_count_from_one(ttir) -> None:
    # Triton up to 3.7 counts columns from zero and gives functions column zero; 3.8 counts from 1.
    module = parse_module(ttir(kernel, x="*fp32"))
    assert _location(module.kernel).column == 1


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("", None),
        ("loc(unknown)", None),
        ('loc("a.py":4:7)', SourceLocation("a.py", 4, 7)),
        ('loc("a.py":4:7 to :9)', SourceLocation("a.py", 4, 7)),
        ('loc("a.py":4:7 to 5:9)', SourceLocation("a.py", 4, 7)),
        ('loc("x"("a.py":4:7))', SourceLocation("a.py", 4, 7, "x")),
        ('loc("x")', SourceLocation("<unknown>", 0, 0, "x")),
        ('loc("x"(unknown))', SourceLocation("<unknown>", 0, 0, "x")),
        ('loc(fused[unknown, "a.py":4:7, "b.py":1:1])', SourceLocation("a.py", 4, 7)),
        ('loc(fused<"tag">["a.py":4:7])', SourceLocation("a.py", 4, 7)),
        (
            'loc(callsite("a.py":1:2 at "b.py":3:4))',
            SourceLocation("a.py", 1, 2, None, (SourceLocation("b.py", 3, 4),)),
        ),
        ('loc(callsite(unknown at "b.py":3:4))', SourceLocation("b.py", 3, 4)),
        ('loc(callsite("b.py":3:4 at unknown))', SourceLocation("b.py", 3, 4)),
        (
            'loc(callsite("v"("a.py":1:2) at callsite("b.py":3:4 at "w"("c.py":5:6))))',
            SourceLocation(
                "a.py",
                1,
                2,
                "v",
                (SourceLocation("b.py", 3, 4), SourceLocation("c.py", 5, 6, "w")),
            ),
        ),
        (
            'loc(callsite(callsite("a.py":1:2 at "b.py":3:4) at "c.py":5:6))',
            SourceLocation(
                "a.py", 1, 2, None, (SourceLocation("b.py", 3, 4), SourceLocation("c.py", 5, 6))
            ),
        ),
    ],
)
def test_forms(location: str, expected: SourceLocation | None) -> None:
    assert _locate(location) == expected


def test_aliases_can_be_used_before_their_definition() -> None:
    definitions = (
        '#loc3 = loc(callsite(#loc2 at #loc))\n#loc2 = loc("v"(#loc1))\n'
        '#loc = loc("b.py":3:4)\n#loc1 = loc("a.py":1:2)\n'
    )
    expected = SourceLocation("a.py", 1, 2, "v", (SourceLocation("b.py", 3, 4),))
    assert _locate("loc(#loc3)", definitions) == expected


def test_escaped_file_names() -> None:
    assert _locate('loc("a\\22b\\5Cc.py":1:2)') == SourceLocation('a"b\\c.py', 1, 2)
    assert _locate("loc(#loc)", '#loc = loc("a\\C3\\A4.py":1:2)') == SourceLocation("aä.py", 1, 2)


def test_the_number_of_the_first_column_is_an_option() -> None:
    text = 'tt.func @f() {\n tt.return loc("a.py":4:7)\n}'
    for first, column in ((0, 8), (1, 7), (None, 7)):
        module = parse_module(text, first_column=first)
        assert _location(module.kernel.regions[0].entry.terminator).column == column
    zero = parse_module(text + ' loc("a.py":3:0)')
    assert _location(zero.kernel.regions[0].entry.terminator).column == 8


def test_values_inherit_the_location_of_their_operation() -> None:
    text = (
        "tt.func @f(%n: i32) {\n scf.for %i = %n to %n step %n : i32 {\n }"
        ' loc("a.py":4:7)\n tt.return\n}'
    )
    loop = parse_module(text).kernel.regions[0].entry.operations[0]
    entry = loop.regions[0].entry
    assert entry.arguments[0].location == entry.terminator.location == loop.location
