"""Tests that spilled registers are distinguished from arrays in local memory."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from ttools.core.compilation.disassembly import code_sections
from ttools.core.compilation.inspection import Inspection, resource_lines
from ttools.core.compilation.kernel_source import source_of_signature
from ttools.core.compilation.resources import spilled_bytes
from ttools.core.compilation.stages import Compilation, compile_for
from ttools.core.gpus.targets import read_target


@triton.jit
def sin_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sin(tl.load(x_ptr + at)))


@triton.jit
def cos_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.cos(tl.load(x_ptr + at)))


@triton.jit
def randn_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.randn(3, at) + tl.load(x_ptr + at))


@triton.jit
def array_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Use an array in local memory with every version of Triton and ptxas."""
    at = tl.arange(0, BLOCK)
    index = tl.load(x_ptr + at).to(tl.int32, bitcast=True)
    result = tl.inline_asm_elementwise(
        """{
        .local .align 4 .b8 array[64];
        .reg .b64 place, begin;
        .reg .b32 offset;
        mov.u64 begin, array;
        and.b32 offset, $1, 60;
        cvt.u64.u32 place, offset;
        add.u64 place, place, begin;
        st.local.b32 [place], $1;
        xor.b32 offset, offset, 4;
        cvt.u64.u32 place, offset;
        add.u64 place, place, begin;
        ld.local.b32 $0, [place];
        }""",
        "=r,r",
        [index],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    tl.store(out_ptr + at, result.to(tl.float32))


@triton.jit
def spilling_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Keep two tiles of 128 values in each thread of the only warp until the end."""
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    a = tl.load(x_ptr + row * BLOCK + column)
    b = tl.load(x_ptr + column * BLOCK + row)
    total = tl.cumsum(a, 0) * tl.cumsum(b, 1)
    tl.store(out_ptr + row * BLOCK + column, tl.sin(tl.cumsum(total, 1)) * a + b)


def compiled(function: Any, block: int, target: str = "sm_90", **options: int) -> Compilation:
    source = source_of_signature(function, f"*fp32:16,*fp32:16,{block}", options)
    return compile_for(source, read_target(target))


@pytest.mark.parametrize("function", [sin_kernel, cos_kernel, randn_kernel, array_kernel])
def test_arrays_in_local_memory_are_no_spills(function: Any) -> None:
    """Check kernels without spills; with Triton 3.6 the first three have an array, too."""
    inspection = Inspection(compiled(function, 256))
    own = inspection.resources
    assert (own.spilled, own.spill_instructions) == (0, 0)
    lines = list(resource_lines(inspection))
    assert not any("spill" in line for line in lines)
    assert any("of arrays per thread in local memory" in line for line in lines) == (own.local > 0)
    if function is array_kernel:
        assert own.local >= 64


@pytest.mark.slow  # the kernel compiles for seconds; `test_spilled_bytes` tests the count
def test_spilled_registers_are_counted() -> None:
    own = Inspection(compiled(spilling_kernel, 64, num_warps=1)).resources
    assert own.registers == 255
    assert 0 < own.spilled <= own.local
    assert own.spill_instructions > 0


@pytest.mark.parametrize(
    ("local", "arrays", "moved", "spilled"),
    [
        (0, (28,), None, 0),
        (32, (28,), 0, 0),
        (
            32,
            (28,),
            None,
            0,
        ),  # ptxas reports no spills, and the array accounts for all local memory
        (176, (28,), 420, 144),
        (176, (28,), None, 144),
        (
            64,
            (28, 20),
            100,
            64,
        ),  # the arrays exceed what the spills leave, so they are in registers
        (48, (), 12, 48),
        (48, (), None, 48),
    ],
)
def test_spilled_bytes(
    local: int, arrays: tuple[int, ...], moved: int | None, spilled: int
) -> None:
    ptx = "".join(
        f"\t.local .align 4 .b8 \t__local_depot{n}[{size}];\n\tst.local.b32 \t[%r1], %r2;\n"
        for n, size in enumerate(arrays)
    )
    assert spilled_bytes(local, ptx, moved) == spilled


def test_cubins_are_compared_by_their_code() -> None:
    """Compare the sin cubin with that from repaired PTX, which differs only in line information."""
    sin, cos = compiled(sin_kernel, 256), compiled(cos_kernel, 256)
    own = code_sections(sin.binary)
    assert list(own) == [".text.sin_kernel"]
    assert own == code_sections(sin.assembled.binary)
    assert [*own.values()] != [*code_sections(cos.binary).values()]
