"""Tests of the tile accesses of compiled kernels with their layouts, and of launched sources."""

from __future__ import annotations

from itertools import product
from math import prod

import torch
import triton
import triton.language as tl

from ttools.core.compilation.kernel_source import source_of_signature
from ttools.core.compilation.layouts.accesses import access_layouts
from ttools.core.compilation.specialisation import launched, source_by_kernel
from ttools.core.compilation.stages import compile_for
from ttools.core.gpus.targets import read_target


@triton.jit
def rotate_kernel(x_ptr, table_ptr, out_ptr, n, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    lanes = tl.arange(0, WIDTH)
    table = tl.load(table_ptr + lanes)
    for start in range(0, n, ROWS):
        rows = start + tl.arange(0, ROWS)
        x = tl.load(x_ptr + rows[:, None] * WIDTH + lanes[None, :])
        tl.store(out_ptr + rows[:, None] * WIDTH + lanes[None, :], x * table[None, :])


def test_slices_and_loops() -> None:
    signature = "*fp32:16,*fp32:16,*fp32:16,i32,16,64"
    source = source_of_signature(rotate_kernel, signature, {})
    for target in ("sm_90", "gfx942"):
        layouts = access_layouts(compile_for(source, read_target(target)))
        loads = [access for access in layouts if access.kind == "load"]
        table = next(load for load in loads if load.shape == (64,))
        x = next(load for load in loads if load.shape == (16, 64))
        (store,) = [access for access in layouts if access.kind == "store"]
        assert (table.nested, x.nested, store.nested) == (False, True, True)
        assert "slice" in table.layout
        first = rotate_kernel.starting_line_number
        assert table.location
        assert table.location.line - first in (3, 4)
        for access in (table, x, store):
            elements = access.elements
            threads = product(
                range(elements.registers), range(elements.lanes), range(elements.warps)
            )
            assert len({elements.at(*where) for where in threads}) == prod(access.shape)


def test_sources_of_launched_kernels() -> None:
    x, table, out = torch.ones(16, 64), torch.ones(64), torch.empty(16, 64)
    launch = rotate_kernel[(1,)]
    launch(x, table, out, 16, ROWS=16, WIDTH=64)
    with launched() as kernels:
        rotate_kernel.warmup(x, table, out, 17, ROWS=8, WIDTH=64, grid=(1,))
        for _ in range(2):
            launch(x, table, out, 16, ROWS=16, WIDTH=64)
    launch(x, table, out, 16, ROWS=8, WIDTH=64)
    source, *others = source_by_kernel(kernels).values()
    assert all(other is source for other in others)
    assert source.function is rotate_kernel
    assert source.parameters()["n"] == "i32, divisible by 16"
    assert source.parameters()["ROWS"] == "constant 16"
    assert compile_for(source, read_target("sm_80")).metadata["num_warps"] == 4
