"""Tests that stores of short integers write only their own bytes.

With AVX-512, LLVM 22 stores one lane of a truncated vector without truncation if the mask is
constant (llvm/llvm-project#179489). Machines without AVX-512 can also compile for it, and so run
most of these tests: the instruction shows the number of bytes that it stores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import llvmlite.binding as llvm
import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.llvm.builder import SIZES, Builder
from ttools.interpreter.llvm.lines import body_text
from ttools.interpreter.llvm.value import FALSE, TRUE, SSAValue
from ttools.interpreter.native import jit
from ttools.ir.parser import parse_module


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the test's kernels natively at LLVM's default level, also on machines with a GPU."""
    monkeypatch.setenv("TTOOLS_OPT", "2")
    with interpret():
        yield


AVX512 = "x86-64-v4"
#: Stands for the size of a whole vector register.
WHOLE = 0
#: Bytes that each instruction stores, for those that can store one lane.
STORES = {
    "vmovups": WHOLE, "vmovaps": WHOLE, "vmovdqu": WHOLE, "vmovdqa": WHOLE, "vmovdqu64": WHOLE,
    "vmovss": 4, "vmovd": 4, "vextractps": 4, "movl": 4, "vpextrd": 4, "vmovsd": 8, "vmovlps": 8,
    "vmovq": 8, "movq": 8, "vpextrw": 2, "movw": 2, "vpextrb": 1, "movb": 1,
}  # fmt: skip


def _stored_bytes(text: str) -> list[int]:
    """Return the sizes of all stores to the memory of the first parameter."""
    jit._llvm()
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.verify()
        assembly = jit._machine(jit.Target(AVX512, "-prefer-256-bit"), 2).emit_assembly(module)
    instructions = re.findall(r"^\s+(\w+)\s.*, -?\d*\(%rdi\)$", assembly, re.MULTILINE)
    return [STORES[name] for name in instructions]


def _one_lane(wide: str, stored: str, width: int, lane: int, *, fenced: bool, select: bool) -> str:
    """Return a function that stores one lane of a truncated vector, with a mask or a `select`."""
    b = Builder()
    mask = b.constant_vector([TRUE if n == lane else FALSE for n in range(width)])
    vec = f"<{width} x {stored}>"
    x, p = SSAValue("%x", f"<{width} x {wide}>"), SSAValue("%p", "ptr")
    value = b.cast("trunc", x, stored)
    if select:
        old = b.load(vec, p, 1)
        value = b.select(mask, value, old)
    if fenced:
        value = b.fenced(value)
    if select:
        b.store(value, p, 1)
    else:
        name = f"llvm.masked.store.v{width}{stored}.p0"
        b.intrinsic(name, "void", value, ("ptr align 1", p), mask)
    body = f"{body_text(b.lines)}\n  ret void"
    head = f"define void @f(ptr %p, <{width} x {wide}> %x) {{"
    return "\n".join([*b.declarations.values(), head, body, "}"])


@pytest.mark.parametrize("wide, stored", [  # noqa: PT006
    ("i16", "i8"), ("i32", "i8"), ("i64", "i8"), ("i32", "i16"), ("i64", "i16"), ("i64", "i32"),
])  # fmt: skip
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
def test_one_lane_of_a_mask_stores_its_own_bytes(wide: str, stored: str, width: int) -> None:
    for lane in {0, 1, width - 1}:
        text = _one_lane(wide, stored, width, lane, fenced=True, select=False)
        assert _stored_bytes(text) == [SIZES[stored]]


@pytest.mark.parametrize("stored", ["i8", "i16"])
def test_a_select_of_old_and_new_lanes_is_stored_as_a_vector(stored: str) -> None:
    text = _one_lane("i32", stored, 16, 0, fenced=True, select=True)
    assert _stored_bytes(text) == [WHOLE]


@triton.jit
def narrow(x_ptr, out_ptr, n, WIDE: tl.constexpr, SHORT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0).to(WIDE)
    kept = x.to(SHORT)
    for step in range(2):
        kept = tl.where(i < 1, (x + step).to(SHORT), kept)
    tl.store(out_ptr + i, kept, mask=i < n)
    tl.store(out_ptr + BLOCK + tl.flip(i, 0), x.to(SHORT))
    tl.store(out_ptr + 2 * BLOCK + i * 2, x.to(SHORT), mask=i < n)


@pytest.mark.parametrize("short", ["int8", "int16", "int32", "bfloat16", "float8e5", "float8e4nv"])
def test_every_store_of_short_lanes_is_fenced(short: str, native: None) -> None:
    wide, dtype = (tl.int64, "int64") if short.startswith("int") else (tl.float32, "float32")
    named = {"float8e5": "float8_e5m2", "float8e4nv": "float8_e4m3fn"}.get(short, short)
    x, out = torch.arange(64).to(getattr(torch, dtype)), torch.zeros(256).to(getattr(torch, named))
    ttir = narrow[1,](x, out, 33, wide, getattr(tl, short), 64).asm["ttir"]
    for schedule in ("fused", "materialised"):
        options = EmitOptions(lanes=16, schedule=schedule)
        text = emit_kernel(parse_module(ttir), Facts(), options).llvm_ir
        definitions = dict(re.findall(r"^  (%[\w.]+) = (.*)$", text, re.MULTILINE))
        stored = re.findall(r"store <\d+ x i(?:8|16|32)> (%\w+), ptr", text)
        stored += re.findall(r"masked\.store\.v\d+i(?:8|16|32)\.p0\(<[^>]*> (%\w+)", text)
        assert stored
        for value in stored:
            match = re.search(r"bitcast .* (%\w+) to", definitions[value])
            assert match is not None, definitions[value]
            assert "llvm.arithmetic.fence" in definitions[match[1]]


@pytest.mark.parametrize("n", [1, 17, 33])
@pytest.mark.parametrize("short", ["int8", "int16", "int32", "bfloat16", "float8e5", "float8e4nv"])
def test_no_lane_beyond_the_mask_is_written(short: str, n: int, native: None) -> None:
    # The defect occurs on machines with AVX-512. Triton makes a bound of 1 a constant.
    named = {"float8e5": "float8_e5m2", "float8e4nv": "float8_e4m3fn"}.get(short, short)
    dtype = getattr(torch, named)
    x = torch.arange(1, 65).to(torch.int64 if short.startswith("int") else torch.float32)
    out = torch.zeros(64).to(dtype)
    masked_copy[1,](x, out, n, getattr(tl, short), 64)
    expected = x.to(torch.float32).to(dtype).float()
    expected[n:] = 0
    assert torch.equal(out.float(), expected)


@triton.jit
def masked_copy(x_ptr, out_ptr, n: tl.constexpr, SHORT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0).to(SHORT), mask=i < n)


@pytest.mark.xfail(
    reason="LLVM stores the lane without truncation (remove the fences when LLVM is fixed)"
)
@pytest.mark.parametrize("select", [False, True])
def test_llvm_needs_no_fence(select: bool) -> None:
    text = _one_lane("i32", "i16", 16, 0, fenced=False, select=select)
    assert _stored_bytes(text) == [2]
