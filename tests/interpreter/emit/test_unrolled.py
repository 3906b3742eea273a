"""Tests that kernels unrolled to thousands of operations become code that LLVM compiles quickly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.native.jit import QUICK, QUICKEST
from ttools.ir.parser import parse_module


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with interpret():
        yield


@triton.jit
def added(x_ptr, out_ptr, n, other, CHUNK: tl.constexpr, OTHER: tl.constexpr):
    """Add masked scalar loads from different addresses."""
    pid = tl.program_id(0)
    total = tl.full((), 0, tl.float64)
    for i in tl.static_range(CHUNK):
        index = pid * CHUNK + i
        if OTHER:
            x = tl.load(x_ptr + index, mask=index < n, other=other)
        else:
            x = tl.load(x_ptr + index, mask=index < n)
        total += x.to(tl.float64)
    tl.store(out_ptr + pid, total)


@triton.jit
def hashed(x_ptr, out_ptr, n, TILES: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.full((), 0, tl.int32)
    for t in tl.static_range(TILES):
        offs = (pid * TILES + t) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n, other=0)
        total += tl.sum((x ^ (offs * 40503)) * 27, 0)
    tl.store(out_ptr + pid, total)


def emitted(kernel: Any, *arguments: Any, **constants: Any) -> str:
    compiled = kernel[(1,)](*arguments, **constants)
    module = parse_module(compiled.asm["cputtir"].decode())
    return emit_kernel(module, Facts(readonly=frozenset({0})), EmitOptions()).llvm_ir


def blocks(text: str) -> int:
    return len(re.findall(r"^\w+:$", text, re.MULTILINE))


TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64]
TYPES += [torch.bool, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("with_other", [False, True])
def test_masked_scalars(dtype: torch.dtype, with_other: bool) -> None:
    x = (torch.arange(1, 21) % 5).to(dtype)
    out = torch.zeros(3, dtype=torch.float64)
    added[(3,)](x, out, 20, 1.0, CHUNK=8, OTHER=with_other)
    values = x.to(torch.float64).numpy()
    filled = np.concatenate([values, np.full(4, float(with_other))])
    assert out.tolist() == filled.reshape(3, 8).sum(1).tolist()


def test_masked_off_scalars_are_not_accessed() -> None:
    """Load through a null pointer with a mask that is off; an access would crash the process."""
    out = torch.ones(2, dtype=torch.float64)
    nowhere = torch.empty(0)
    added[(2,)](nowhere, out, 0, 3, CHUNK=4, OTHER=True)
    assert out.tolist() == [12.0, 12.0]


def test_masked_scalars_need_no_branches() -> None:
    x, out = torch.ones(64), torch.zeros(8, dtype=torch.float64)
    few, many = (emitted(added, x, out, 20, 0, CHUNK=n, OTHER=True) for n in (4, 40))
    assert blocks(few) == blocks(many)
    assert many.count("\n") > few.count("\n")


def test_many_scalars_are_compiled_with_the_fewest_passes() -> None:
    x, out = torch.ones(1024), torch.zeros(8, dtype=torch.float64)
    assert emitted(added, x, out, 20, 0, CHUNK=512, OTHER=False).startswith(QUICKEST)
    assert not emitted(added, x, out, 20, 0, CHUNK=16, OTHER=False).startswith((QUICK, QUICKEST))
    assert out[0].item() == 16.0


def test_many_unrolled_tiles_are_compiled_with_few_passes() -> None:
    x, out = torch.arange(16384, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    text = emitted(hashed, x, out, 16000, TILES=64, BLOCK=256)
    assert text.startswith(QUICK)
    indices = np.arange(16384, dtype=np.int64)
    values = np.where(indices < 16000, x.numpy(), 0).astype(np.int64)
    expected = ((values ^ (indices * 40503)) * 27).sum()
    assert out.item() == int(np.int64(expected).astype(np.int32))
    assert not emitted(hashed, x, out, 16000, TILES=4, BLOCK=256).startswith(QUICK)
