"""Kernels whose compiled code is predictable, shared by the tests of compilation."""

from __future__ import annotations

from functools import cache
from typing import Any

import triton
import triton.language as tl

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import source_of_signature
from ttools.core.compilation.stages import compile_for
from ttools.core.gpus.targets import read_target


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride, mask=offs < n)
    tl.store(out_ptr + offs, x, mask=offs < n)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, KB: tl.constexpr):
    rows, columns, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, KB)
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, KB):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * N + columns[None, :])
        total += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


SIGNATURES = {
    # Accesses are contiguous if the stride is 1, with 16 bytes per thread if the block is large.
    "copy": (copy_kernel, "*fp32:16,*fp32:16,i32:16,1,1024"),
    "strided copy": (copy_kernel, "*fp32:16,*fp32:16,i32:16,i32,1024"),
    "unaligned copy": (copy_kernel, "*fp32,*fp32,i32,1,1024"),
    "matmul": (matmul_kernel, "*fp16:16,*fp16:16,*fp32:16,i32:16,64,64,32"),
    "float matmul": (matmul_kernel, "*fp32:16,*fp32:16,*fp32:16,i32:16,16,16,16"),
}


@cache
def inspected(name: str, target: str, **options: int) -> Inspection:
    function, signature = SIGNATURES[name]
    source = source_of_signature(function, signature, options)
    return Inspection(compile_for(source, read_target(target)))


def line_of(function: Any, text: str) -> int:
    """Return the number of the line of a kernel's source that contains a text."""
    start = function.starting_line_number
    lines = function.raw_src
    (offset,) = [n for n, line in enumerate(lines) if text in line]
    return start + offset
