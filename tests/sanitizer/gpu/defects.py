"""Kernels with a defect that a GPU shows, launched by name: `defects.py NAME…`.

Tests run this file under compute-sanitizer, and `record.py` records what that prints.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl

N = 100
#: All threads store to the same four words.
STORE_SHARED = tl.constexpr(
    "{ .reg .u32 a; and.b32 a, $1, 3; shl.b32 a, a, 2;"
    " st.shared.b32 [a], $1; ld.shared.b32 $0, [a]; }"
)
#: Forty threads wait at a barrier for sixty-four.
WAIT = tl.constexpr("{ .reg .pred p; setp.lt.u32 p, $1, 40; @p bar.sync 1, 64; mov.u32 $0, $1; }")


@triton.jit
def total_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


@triton.jit
def spread_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + 2 * offs, x, mask=offs < n)


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=offs < n)


@triton.jit
def load_row(ptr, offs):
    return tl.load(ptr + offs)


@triton.jit
def through_helper_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = load_row(x_ptr, offs)
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))


@triton.jit(noinline=True)
def store_apart(ptr, index):
    tl.store(ptr + index, 2.0)


@triton.jit
def called_kernel(x_ptr, out_ptr):
    store_apart(out_ptr, 40 * tl.program_id(0))


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@triton.jit
def hazard_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + offs), axis=0)  # takes shared memory
    y = tl.inline_asm_elementwise(STORE_SHARED, "=r,r", [offs], tl.int32, False, 1)
    tl.store(out_ptr + offs, y + total)


@triton.jit
def divergent_kernel(out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    y = tl.inline_asm_elementwise(WAIT, "=r,r", [offs], tl.int32, False, 1)
    tl.store(out_ptr + offs, y)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [N, M], [M, 1], [BLOCK, BLOCK])
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out.store([column, row], x.load([row, column]).T)


@triton.jit
def spin_kernel(flag_ptr):
    while tl.load(flag_ptr, volatile=True) == 0:
        pass


tuned_kernel = triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64)], key=[])(
    total_kernel
)


def ones(n: int = N, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(n, dtype=dtype, device="cuda")


def oob_load() -> None:
    total_kernel[(2,)](ones(), ones(2), BLOCK=64)


def oob_store() -> None:
    spread_kernel[(2,)](ones(), ones(), N, BLOCK=64)


def oob_atomic() -> None:
    bins = torch.full((N,), 70, dtype=torch.int32, device="cuda")
    histogram_kernel[(2,)](bins, ones(64, torch.int32), N, BLOCK=64)


def oob_slice() -> None:
    total_kernel[(1,)](ones()[60:], ones(2), BLOCK=64)


def oob_helper() -> None:
    through_helper_kernel[(2,)](ones(), ones(2), BLOCK=64)


def oob_called() -> None:
    called_kernel[(4,)](ones(), ones())


def oob_tuned() -> None:
    tuned_kernel[(2,)](ones(80), ones(2))


def misaligned() -> None:
    class Between:
        dtype = torch.float32

        def __init__(self) -> None:
            self.bytes = ones(1024, torch.uint8)

        def data_ptr(self) -> int:
            return self.bytes.data_ptr() + 2

    copy_kernel[(2,)](Between(), ones(), N, BLOCK=64)


def uninit_read() -> None:
    copy_kernel[(2,)](torch.empty(N, device="cuda"), ones(), N, BLOCK=64)


def hazard() -> None:
    hazard_kernel[(1,)](ones(256, torch.int32), ones(256, torch.int32), BLOCK=256)


def divergent() -> None:
    divergent_kernel[(1,)](ones(256, torch.int32), BLOCK=256)


def other_kernel() -> None:
    print(float((torch.empty(N, device="cuda") + 1)[0]) > 0)


def graph() -> None:
    x, out = ones(), ones(2)
    total_kernel[(1,)](x, out, BLOCK=64)  # compiled before
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        total_kernel[(2,)](x, out, BLOCK=64)
    captured.replay()


def descriptors() -> None:
    def scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(scratch)
    x, out = torch.arange(64.0 * 64, device="cuda").view(64, 64), torch.empty(64, 64, device="cuda")
    transpose_kernel[(2, 2)](x, out, 64, 64, BLOCK=32)
    copied = torch.zeros(64 * 64, device="cuda")
    copy_kernel[(64,)](out, copied, 64 * 64, BLOCK=64)
    print("right:", bool((copied.view(64, 64) == x.T).all()))


def spin() -> None:
    print("spinning", flush=True)
    spin_kernel[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"))


def clean() -> None:
    x, out = torch.arange(float(N), device="cuda"), ones()
    copy_kernel[(2,)](x, out, N, BLOCK=64)
    print("right:", bool((x == out).all()))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
        torch.cuda.synchronize()
