"""Pairs of kernels: one to which the profiler gives a hint, and one that follows the hint.

Both kernels of a pair compute the same result. `advice_gain.py` measures both on a GPU. The tests
check that the profiler gives the hint for the first kernel and not for the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

# Kernels have no annotations except `constexpr`: the types depend on the arguments of a launch.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        inside = (rows < M)[:, None] & (columns < N)[None, :]
        total += tl.load(x_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + columns, tl.sum(total, 0), mask=columns < N)


@triton.jit
def scale_rows_kernel(x_ptr, out_ptr, stride, columns, KNOWN: tl.constexpr, BLOCK: tl.constexpr):
    """Double each row; strides and the number of columns must be multiples of KNOWN."""
    # `tl.multiple_of` has no effect on a parameter, so it is applied to an expression.
    begin = tl.program_id(0).to(tl.int64) * stride
    if KNOWN > 1:
        begin = tl.multiple_of(begin, KNOWN)
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        inside = lanes < columns
        if KNOWN > 1:
            inside = tl.max_constancy(inside, [KNOWN])
        x = tl.load(x_ptr + begin + lanes, mask=inside)
        tl.store(out_ptr + begin + lanes, x * 2.0, mask=inside)


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    TRANSPOSED: tl.constexpr = False,
):  # fmt: skip
    """Multiply matrices whose sizes are multiples of the block sizes.

    If TRANSPOSED, the second matrix is stored column by column.
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    if TRANSPOSED:
        b_ptrs = b_ptr + inner[:, None] + columns[None, :] * K
    else:
        b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total, input_precision=PRECISION)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * (1 if TRANSPOSED else N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


@triton.jit
def histogram_kernel(x_ptr, out_ptr, ONCE: tl.constexpr, BINS: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    if ONCE:
        tl.atomic_add(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))
    else:
        tl.atomic_add(out_ptr + x, 1)


@triton.jit
def settle(x, TURNS: tl.constexpr):
    """Do enough arithmetic that computing masked-off lanes costs more than the memory traffic."""
    for _ in tl.static_range(TURNS):
        x = tl.exp(-x * x)
    return x


@triton.jit
def settle_rows_kernel(x_ptr, out_ptr, columns, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside)
    tl.store(out_ptr + row * columns + lanes, settle(x, TURNS), mask=inside)


@triton.jit
def settle_flat_kernel(x_ptr, out_ptr, n, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, settle(x, TURNS), mask=inside)


@triton.jit
def weighted_kernel(x_ptr, weight_ptr, out_ptr, rows, ONCE: tl.constexpr, WIDTH: tl.constexpr):
    lanes = tl.arange(0, WIDTH)
    weight = tl.load(weight_ptr + lanes)
    first = tl.program_id(0) * rows
    for row in range(first, first + rows):
        x = tl.load(x_ptr + row * WIDTH + lanes)
        if not ONCE:
            weight = tl.load(weight_ptr + lanes)
        tl.store(out_ptr + row * WIDTH + lanes, x * weight)


@dataclass(frozen=True)
class Pair:
    """Two versions of a kernel: before and after a hint of the profiler is followed.

    Attributes:
        kind: Kind of the hint, as in the profiler's advice.
        make: Returns the launches of both kernels, given a device and whether the inputs are small.
    """

    kind: str
    make: Callable[[str, bool], tuple[Launch, Launch]]


@dataclass(frozen=True)
class Launch:
    """A function that launches a kernel, and the tensor that the kernel writes."""

    run: Callable[[], Any]
    out: torch.Tensor


def _uncoalesced(device: str, small: bool) -> tuple[Launch, Launch]:
    m, n = (256, 64) if small else (8192, 8192)
    x = torch.rand(m, n, device=device)

    def launch(wide: int, high: int) -> Launch:
        out = torch.zeros(n, device=device)
        grid = (triton.cdiv(n, wide),)
        return Launch(
            lambda: column_sum_kernel[grid](x, out, m, n, BLOCK_M=high, BLOCK_N=wide), out
        )

    return launch(1, 256), launch(32, 32)


def _narrow(device: str, small: bool) -> tuple[Launch, Launch]:
    # 4104 is a multiple of 8 but not of 16; Triton specialises only on multiples of 16.
    m, n = (16, 1032) if small else (2048, 4104)
    x = torch.rand(m, n, device=device).half()

    return scaled_rows(x, 1), scaled_rows(x, 8)


def scaled_rows(x: torch.Tensor, known: int) -> Launch:
    """Return a launch that doubles rows, assuming that their lengths are multiples of `known`."""
    (rows, columns), out = x.shape, torch.zeros_like(x)
    run = partial(scale_rows_kernel[(rows,)], x, out, columns, columns, KNOWN=known, BLOCK=1024)
    return Launch(run, out)


def _product(
    device: str,
    size: int,
    dtype: torch.dtype,
    precision: str,
    blocks: tuple[int, ...],
    depth: int | None = None,
    transposed: bool = False,
    **options: int,
) -> Launch:
    """Return a product of matrices with `size` rows and columns; the inner size is `depth`.

    If `transposed`, the second matrix is stored column by column.
    """
    torch.manual_seed(0)
    depth = depth or size
    a = torch.rand(size, depth, device=device).to(dtype)
    b = torch.rand(depth, size, device=device).to(dtype)
    b = b.t().contiguous() if transposed else b
    c = torch.zeros(size, size, device=device)
    m, n, k = blocks
    sizes = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "TRANSPOSED": transposed}

    def run() -> Any:
        return product_kernel[(size // m, size // n)](
            *(a, b, c, size, size, depth, precision), **sizes, **options
        )

    return Launch(run, c)


def _spilling(device: str, small: bool) -> tuple[Launch, Launch]:
    size, blocks = 256 if small else 4096, (128, 256, 64)
    return (
        _product(device, size, torch.float16, "tf32", blocks, num_warps=4, num_stages=3),
        _product(device, size, torch.float16, "tf32", blocks, num_warps=8, num_stages=3),
    )


def _occupancy(device: str, small: bool) -> tuple[Launch, Launch]:
    # The loop has few iterations, and more stages than iterations only reduce the occupancy.
    size, blocks, fewer = 256 if small else 8192, (64, 64, 128), (64, 64, 64)
    return (
        _product(device, size, torch.float16, "tf32", blocks, 256, num_warps=4, num_stages=6),
        _product(device, size, torch.float16, "tf32", fewer, 256, num_warps=4, num_stages=3),
    )


def _matrix_units(device: str, small: bool) -> tuple[Launch, Launch]:
    size, blocks = 128 if small else 2048, (64, 64, 32)
    return (
        _product(device, size, torch.float32, "ieee", blocks, num_warps=4, num_stages=3),
        _product(device, size, torch.float32, "tf32", blocks, num_warps=4, num_stages=3),
    )


def _masks(device: str, small: bool) -> tuple[Launch, Launch]:
    rows, columns = (16, 520) if small else (32768, 520)
    x = torch.rand(rows, columns, device=device)
    before, after = torch.zeros_like(x), torch.zeros_like(x)
    n, options = x.numel(), {"TURNS": 16, "BLOCK": 1024}
    flat = settle_flat_kernel[(triton.cdiv(n, 1024),)]
    return (
        Launch(partial(settle_rows_kernel[(rows,)], x, before, columns, **options), before),
        Launch(partial(flat, x, after, n, **options), after),
    )


def _again(device: str, small: bool) -> tuple[Launch, Launch]:
    rows, width = (64, 1024) if small else (2112, 4096)
    programs = 4 if small else 264
    x = torch.rand(rows, width, device=device).half()
    weight = torch.rand(width, device=device).half()

    def launch(once: bool) -> Launch:
        out = torch.zeros_like(x)
        count = rows // programs
        return Launch(
            lambda: weighted_kernel[(programs,)](x, weight, out, count, ONCE=once, WIDTH=width), out
        )

    return launch(False), launch(True)


def _contended(device: str, small: bool) -> tuple[Launch, Launch]:
    torch.manual_seed(0)
    programs, bins, block = 4 if small else 4096, 16, 1024
    x = torch.randint(0, bins, (programs * block,), device=device, dtype=torch.int32)

    def launch(once: bool) -> Launch:
        out = torch.zeros(bins, device=device, dtype=torch.int32)

        def run() -> None:
            out.zero_()
            histogram_kernel[(programs,)](x, out, ONCE=once, BINS=bins, BLOCK=block)

        return Launch(run, out)

    return launch(False), launch(True)


def _bank_conflicts(device: str, small: bool) -> tuple[Launch, Launch]:
    size, blocks = 128 if small else 4096, (64, 64, 32)
    before, after = (
        _product(device, size, torch.float32, "tf32", blocks, transposed=order, num_warps=4)
        for order in (False, True)
    )
    return before, after


@triton.jit
def mean_kernel(x_ptr, out_ptr, count, n, ONCE: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the mean of `n` rows of BLOCK elements."""
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    inverse = 1.0 / count
    for row in range(n):
        x = tl.load(x_ptr + row * BLOCK + at)
        if ONCE:
            total += x * inverse
        else:
            total += x / count
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, total)


def _divisions(device: str, small: bool) -> tuple[Launch, Launch]:
    rows, block, programs = (16, 1024, 1) if small else (256, 4096, 264)
    torch.manual_seed(0)
    x = torch.rand(rows, block, device=device)

    def launch(once: bool) -> Launch:
        out = torch.zeros(programs, block, device=device)
        grid = (programs,)
        return Launch(
            lambda: mean_kernel[grid](x, out, float(rows), rows, ONCE=once, BLOCK=block), out
        )

    return launch(False), launch(True)


PAIRS = (
    Pair("uncoalesced_access", _uncoalesced),
    Pair("narrow_access", _narrow),
    Pair("spilling", _spilling),
    Pair("occupancy_by_shared_memory", _occupancy),
    Pair("matrix_units_unused", _matrix_units),
    Pair("mask_overhead", _masks),
    Pair("loaded_again", _again),
    Pair("contended_atomic", _contended),
    Pair("bank_conflicts", _bank_conflicts),
    Pair("repeated_division", _divisions),
)
