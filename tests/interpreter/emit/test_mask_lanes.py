"""Tests that lanes of masks are moved as words, because LLVM miscompiles moves of single bits.

With AVX-512, LLVM 22 shifts a mask of eight lanes as one of sixteen, so that undefined bits beyond
its end become lanes. Machines without AVX-512 can also compile for it, and so run these tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.lines import body_text
from ttools.interpreter.llvm.value import SSAValue, integer, zeros
from ttools.interpreter.native import jit
from ttools.ir.parser import parse_module

ROWS, COLUMNS = 8, 4


@triton.jit
def rows_apart(x_ptr, out_ptr, sums_ptr, n, STRIDE: tl.constexpr, ROWS: tl.constexpr):
    i = tl.arange(0, ROWS)[:, None]
    j = tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + i * STRIDE + j, mask=i < n, other=1)
    x = tl.flip(tl.sort(x), 1)
    tl.store(out_ptr + i * STRIDE + j, x, mask=x < 7)
    tl.store(sums_ptr + tl.arange(0, ROWS), tl.max((x < 7).to(tl.int8), 1))
    low, high = tl.split(tl.reshape(x < 5, (ROWS, 2, 2)))
    tl.store(sums_ptr + 64 + tl.arange(0, 4 * ROWS), tl.ravel(tl.join(low, high)))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "float64"])
@pytest.mark.parametrize("stride", [2, 3, 5])
def test_lanes_of_masks_are_not_moved_as_bits(dtype: str, stride: int) -> None:
    x, sums = torch.ones(256, dtype=getattr(torch, dtype)), torch.zeros(256, dtype=torch.int8)
    with interpret():
        ttir = rows_apart[1,](x, x.clone(), sums, 7, stride, 8).asm["ttir"]
    for schedule in ("fused", "materialised"):
        options = EmitOptions(lanes=16, schedule=schedule)
        text = emit_kernel(parse_module(ttir), Facts(), options).llvm_ir
        moved = re.findall(r"shufflevector <\d+ x i1>.*", text)
        assert [line for line in moved if not line.endswith("x i32> zeroinitializer")] == []


def _stored_under_one_lane(shuffle: Callable[..., SSAValue]) -> str:
    """Return AVX-512 assembly of a store of byte 0 under the mask of lane 7 of a comparison."""
    b = Builder()
    x, p = SSAValue("%x", "<8 x i8>"), SSAValue("%p", "ptr")
    mask = b.compare("icmp ult", x, b.splat(integer(7, "i8"), 8))
    mask = shuffle(b, mask, zeros(mask.type), [7, *[8] * 7], 8)
    b.intrinsic("llvm.masked.store.v8i8.p0", "void", x, ("ptr align 1", p), mask)
    body = f"{body_text(b.lines)}\n  ret void"
    head = f"define void @f(ptr %p, {x.type} %x) {{"
    text = "\n".join([*b.declarations.values(), head, body, "}"])
    jit._llvm()
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.verify()
        target = jit.Target("x86-64-v4", "-prefer-256-bit")
        return str(jit._machine(target, 2).emit_assembly(module))


def test_a_mask_is_not_shifted() -> None:
    assert "kshift" not in _stored_under_one_lane(Builder.shuffled)


@pytest.mark.xfail(reason="LLVM shifts in undefined lanes (move bits when LLVM is fixed)")
def test_llvm_moves_bits_correctly() -> None:
    # LLVM shifts sixteen lanes, the upper eight of which compare undefined elements.
    assert "kshiftrw" not in _stored_under_one_lane(Builder.shuffle_vector)


@triton.jit
def one_column(x_ptr, out_ptr, STRIDE: tl.constexpr, ROWS: tl.constexpr):
    i = tl.arange(0, ROWS)[:, None]
    j = tl.arange(0, 2)[None, :]
    x = tl.load(x_ptr + i * 2 + j)
    tl.store(out_ptr + i * STRIDE + j, x, mask=x < 7)


@pytest.mark.parametrize("opt", ["1", "2", "3"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
def test_no_lane_beyond_rows_is_written(
    dtype: str, opt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The defect occurs on machines with AVX-512.
    monkeypatch.setenv("TTOOLS_OPT", opt)
    for rows in (2, 4, 8):
        x = torch.zeros(2 * rows, dtype=getattr(torch, dtype))
        for stride in (3, 5, 7):
            out = torch.full((64,), 9, dtype=x.dtype)
            with interpret():
                one_column[1,](x, out, stride, rows)
            written = {i * stride + j for i in range(rows) for j in range(2)}
            assert {n for n in range(64) if out[n] == 0} == written
