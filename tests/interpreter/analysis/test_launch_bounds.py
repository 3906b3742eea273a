"""Tests of the proof that accesses of a launch are in bounds, compared with guards of all accesses.

Each line of a kernel has at most one access, so a line and a kind identify it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.spec import storage_extent
from ttools.interpreter import interpret
from ttools.interpreter.analysis.accesses import accesses
from ttools.interpreter.run.bounds import GUARDS, GuardChooser

NUMBERS = ("a", "b", "c", "d")
_jit = triton.jit(do_not_specialize=NUMBERS)


@_jit
def strided_kernel(out_ptr, x_ptr, a, b, c, d, B0: tl.constexpr, B1: tl.constexpr):
    rows = tl.program_id(0) * B0 + tl.arange(0, B0)
    columns = tl.program_id(1) * B1 + tl.arange(0, B1)
    mask = (rows[:, None] < a) & (columns[None, :] < b)
    indices = rows[:, None] * c + columns[None, :] + d
    x = tl.load(x_ptr + indices, mask=mask)
    y = tl.load(x_ptr + tl.trans(indices), mask=tl.trans(mask))
    tl.store(out_ptr + indices, x + tl.trans(y), mask=mask)
    tl.store(out_ptr + rows, 1.0, mask=(rows >= d) & ~(rows > b))


@_jit
def grouped_kernel(out_ptr, x_ptr, a, b, c, d, B0: tl.constexpr, B1: tl.constexpr):
    program = tl.program_id(0)
    width = B1 * b
    group = program // width
    size = min(a - group * B1, B1)
    row = group * B1 + (program % width) % size
    column = (program % width) // size
    lanes = tl.arange(0, B0)
    tl.store(out_ptr + row * c + lanes, tl.load(x_ptr + column * B0 + lanes))
    tl.store(out_ptr + (program * B0 + lanes) % max(d, 1), 2.0)
    tl.store(out_ptr + tl.minimum(program * B0 + lanes, d), 3.0)
    tl.store(out_ptr + tl.maximum(a - lanes, 0), 4.0)


@_jit
def loop_kernel(out_ptr, x_ptr, a, b, c, d, B0: tl.constexpr, B1: tl.constexpr):
    lanes = tl.arange(0, B0)
    pointers = x_ptr + tl.program_id(0) * b + lanes
    index = d
    for k in range(tl.cdiv(a, B0)):
        x = tl.load(pointers, mask=lanes < a - k * B0)
        tl.store(out_ptr + index + lanes, x)
        pointers += B0
        index += c
    for k in range(a, b, B1):
        tl.store(out_ptr + k, 5.0)
    tl.store(out_ptr + index, 6.0)


@_jit
def branching_kernel(out_ptr, x_ptr, a, b, c, d, B0: tl.constexpr, B1: tl.constexpr):
    program = tl.program_id(0)
    if (program >= a) | (c < 0):
        return
    lanes = tl.arange(0, B0)
    x = tl.load(x_ptr + program)
    if program < b:
        tl.store(out_ptr + program * c + lanes, x)
    else:
        tl.store(out_ptr + (program - b) * c + lanes, x)
    if program.to(tl.uint32) < d.to(tl.uint32):
        tl.store(out_ptr + d - 1 - program, x)
    tl.store(out_ptr + (lanes << 1) + (program >> 1), x)
    tl.atomic_add(out_ptr + (lanes & 3) + c, x)


KERNELS = [strided_kernel, grouped_kernel, loop_kernel, branching_kernel]


class Comparison:
    """Observer that guards all accesses, and records which were proved and which failed."""

    def __init__(self) -> None:
        self.proved: set[tuple[str, int]] = set()
        self.unproved: set[tuple[str, int]] = set()
        self.failed: set[tuple[str, int]] = set()

    def launch(self, launch: Any) -> Any:
        extents = tuple(
            storage_extent(launch.values[n]) for n in sorted(launch.kernel.plan.pointers)
        )
        # The guards of the kernel itself distinguish only a few sets of accesses.
        guards = GuardChooser(launch.kernel.variants, launch.kernel.plan)
        chosen = guards.choose(extents, launch.raw_parameters, launch.grid).instruments
        operations = accesses(launch.kernel.variants.module)
        proved = range(len(operations)) if chosen is None else chosen.proved
        self.proved = {_line(operations[number]) for number in proved}
        self.unproved = {_line(op) for op in operations} - self.proved
        report = launch.execute(GUARDS, regions=launch.regions)
        sites = [count.witness.site for count in launch.monitor.counts()]
        self.failed = {(site.kind, site.location.line) for site in sites}
        return report


def _line(op: Any) -> tuple[str, int]:
    kind = {"tt.load": "load", "tt.store": "store"}.get(op.name, "atomic")
    return kind, op.location.line


def compare(kernel: Any, numbers: Any, grid: Any, sizes: Any, offset: int) -> Comparison:
    """Run a launch and return which of its accesses are proved and which fail."""
    compared = Comparison()
    out, x = (torch.zeros(size) for size in sizes)
    with interpret(observer=compared, threads=1):
        kernel[grid](out[offset:], x, *numbers, B0=8, B1=4)
    return compared


SMALL = st.integers(-3, 20)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@settings(max_examples=60, deadline=None)
@given(
    numbers=st.tuples(SMALL, SMALL, SMALL, SMALL),
    grid=st.tuples(st.integers(1, 6), st.integers(1, 3)),
    sizes=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    offset=st.integers(0, 1),
)
def test_proved_accesses_never_fail(kernel, numbers, grid, sizes, offset):
    compared = compare(kernel, numbers, grid, sizes, offset)
    assert compared.proved.isdisjoint(compared.failed)


@pytest.mark.parametrize(
    ("kernel", "numbers", "grid", "sizes", "unproved"),
    [
        # 20 rows of 10 columns with a stride of 12, from element 3 on.
        (strided_kernel, (20, 10, 12, 3), (3, 3), (19 * 12 + 9 + 3 + 1, 19 * 12 + 9 + 3 + 1), 0),
        # 9 rows of 8 elements in groups of 4, and 5 columns. The last group has one row. The
        # analysis does not find that smaller groups have fewer columns.
        (grouped_kernel, (9, 5, 8, 71), (45, 1), (72, 40), 1),
        # 20 elements in 3 blocks, each stored 8 elements further; one more element follows.
        (loop_kernel, (20, 24, 8, 0), (3, 1), (25, 24 * 2 + 20), 0),
        # Four programs, two of which store to each side.
        (branching_kernel, (4, 2, 8, 4), (9, 1), (17, 4), 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_accesses_that_fit_exactly_are_proved(kernel, numbers, grid, sizes, unproved):
    compared = compare(kernel, numbers, grid, sizes, 0)
    assert not compared.failed
    assert len(compared.unproved) == unproved
    tight = compare(kernel, numbers, grid, [size - 1 for size in sizes], 0)
    assert tight.failed
    assert tight.failed <= tight.unproved
