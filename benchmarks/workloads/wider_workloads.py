"""The rows of the benchmark for kernels that are typical of libraries."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional
from workloads.workload import Call, Part, Tensors, Workload

# ---- along rows


def _normalised() -> Tensors:
    return torch.randn(4096, 1024), torch.rand(1024)


def _torch_rms_norm(x: torch.Tensor, weight: torch.Tensor) -> Call:
    return lambda: (functional.rms_norm(x, (x.shape[1],), weight, 1e-6),)


def _triton_rms_norm(x: torch.Tensor, weight: torch.Tensor) -> Call:
    import triton
    from workloads import wider_kernels

    rows, columns = x.shape
    block = triton.next_power_of_2(columns)

    def call() -> Tensors:
        out = torch.empty_like(x)
        wider_kernels.rms_norm_kernel[rows,](x, weight, out, columns, 1e-6, BLOCK=block)
        return (out,)

    return call


def _classified(rows: int) -> Callable[[], Tensors]:
    return lambda: (torch.randn(rows, 32_000), torch.randint(32_000, (rows,)))


def _torch_cross_entropy(x: torch.Tensor, target: torch.Tensor) -> Call:
    return lambda: (functional.cross_entropy(x, target, reduction="none"),)


def _triton_cross_entropy(x: torch.Tensor, target: torch.Tensor) -> Call:
    from workloads import wider_kernels

    rows, columns = x.shape

    def call() -> Tensors:
        loss = torch.empty(rows)
        wider_kernels.cross_entropy_kernel[rows,](x, target, loss, columns, BLOCK=4096)
        return (loss,)

    return call


def _rotated() -> Tensors:
    positions, width = 512, 64
    turns = torch.outer(torch.arange(float(positions)), torch.rand(width // 2))
    return torch.randn(4, positions, 16, width), turns.cos(), turns.sin()


def _torch_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Call:
    cos, sin = (torch.cat((t, t), dim=-1)[None, :, None] for t in (cos, sin))

    def call() -> Tensors:
        first, second = x.chunk(2, dim=-1)
        return (x * cos + torch.cat((-second, first), dim=-1) * sin,)

    return call


def _triton_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Call:
    from workloads import wider_kernels

    batch, positions, heads, width = x.shape
    launch = wider_kernels.rope_kernel[batch * positions,]

    def call() -> Tensors:
        out = torch.empty_like(x)
        launch(x, cos, sin, out, positions, HEADS=heads, WIDTH=width)
        return (out,)

    return call


# ---- elementwise and moving


def _gated() -> Tensors:
    return torch.randn(4096, 1024), torch.randn(4096, 1024)


def _torch_swiglu(gate: torch.Tensor, up: torch.Tensor) -> Call:
    return lambda: (functional.silu(gate) * up,)


def _triton_swiglu(gate: torch.Tensor, up: torch.Tensor) -> Call:
    import triton
    from workloads import wider_kernels

    n = gate.numel()
    grid = (triton.cdiv(n, 1024),)

    def call() -> Tensors:
        out = torch.empty_like(gate)
        wider_kernels.swiglu_kernel[grid](gate, up, out, n, BLOCK=1024)
        return (out,)

    return call


def _torch_transpose(x: torch.Tensor) -> Call:
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    return lambda: (out.copy_(x.T),)


def _triton_transpose(x: torch.Tensor) -> Call:
    import triton
    from workloads import wider_kernels

    rows, columns = x.shape
    out = torch.empty(columns, rows)
    grid = (triton.cdiv(rows, 32), triton.cdiv(columns, 32))

    def call() -> Tensors:
        wider_kernels.transpose_kernel[grid](x, out, rows, columns, BLOCK=32)
        return (out,)

    return call


# ---- matrix products


def _halves() -> Tensors:
    return torch.randn(16, 256, 256).half(), torch.randn(16, 256, 256).half()


def _torch_batched(a: torch.Tensor, b: torch.Tensor) -> Call:
    out = torch.empty(a.shape[0], a.shape[1], b.shape[2], dtype=a.dtype)
    return lambda: (torch.bmm(a, b, out=out),)


def _triton_batched(a: torch.Tensor, b: torch.Tensor) -> Call:
    from workloads import wider_kernels

    batch, rows, inner = a.shape
    columns = b.shape[2]
    out = torch.empty(batch, rows, columns, dtype=a.dtype)
    launch = wider_kernels.batched_matmul_kernel[rows // 64, columns // 64, batch]

    def call() -> Tensors:
        launch(a, b, out, rows, columns, inner, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
        return (out,)

    return call


def _long() -> Tensors:
    return torch.randn(128, 16_384), torch.randn(16_384, 128)


def _torch_product(a: torch.Tensor, b: torch.Tensor) -> Call:
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    return lambda: (torch.mm(a, b, out=out),)


def _triton_split_k(a: torch.Tensor, b: torch.Tensor) -> Call:
    from workloads import wider_kernels

    rows, inner = a.shape
    columns, split = b.shape[1], 16
    launch = wider_kernels.split_k_kernel[rows // 64, columns // 64, split]

    def call() -> Tensors:
        out = torch.zeros(rows, columns)
        launch(
            a, b, out, rows, columns, inner, SPLIT=split, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32
        )  # fmt: skip
        return (out,)

    return call


# ---- sorting and counting


def _rows(rows: int, columns: int) -> Callable[[], Tensors]:
    return lambda: (torch.randn(rows, columns),)


def _torch_sort(x: torch.Tensor) -> Call:
    return lambda: (torch.sort(x, dim=1)[0],)


def _triton_sort(x: torch.Tensor) -> Call:
    from workloads import wider_kernels

    rows, columns = x.shape

    def call() -> Tensors:
        out = torch.empty_like(x)
        wider_kernels.sort_kernel[rows,](x, out, COLUMNS=columns)
        return (out,)

    return call


_BINS = 256


def _counted() -> Tensors:
    return (torch.randint(_BINS, (1_000_000,), dtype=torch.int32),)


def _torch_histogram(x: torch.Tensor) -> Call:
    return lambda: (torch.bincount(x, minlength=_BINS),)


def _triton_histogram(x: torch.Tensor) -> Call:
    import triton
    from workloads import wider_kernels

    n = x.numel()
    launch = wider_kernels.histogram_kernel[triton.cdiv(n, 4096),]

    def call() -> Tensors:
        counts = torch.zeros(_BINS, dtype=torch.int32)
        launch(x, counts, n, BINS=_BINS, BLOCK=4096)
        return (counts,)

    return call


WIDER_WORKLOADS: tuple[Workload, ...] = (
    Workload(
        name="rms_norm",
        title="RMSNorm 4096x1024",
        inputs=_normalised,
        torch_call=_torch_rms_norm,
        triton_call=_triton_rms_norm,
    ),
    Workload(
        name="cross_entropy",
        title="cross entropy 512x32000",
        inputs=_classified(512),
        torch_call=_torch_cross_entropy,
        triton_call=_triton_cross_entropy,
    ),
    Workload(
        name="rope",
        title="RoPE 4x512x16x64",
        inputs=_rotated,
        torch_call=_torch_rope,
        triton_call=_triton_rope,
    ),
    Workload(
        name="swiglu",
        title="SwiGLU 4096x1024",
        inputs=_gated,
        torch_call=_torch_swiglu,
        triton_call=_triton_swiglu,
    ),
    Workload(
        name="batched_matmul",
        title="f16 batched matmul 16x256³",
        inputs=_halves,
        torch_call=_torch_batched,
        triton_call=_triton_batched,
        tolerance=1e-3,
    ),
    Workload(
        name="split_k",
        title="split-K matmul 128x128x16384",
        inputs=_long,
        torch_call=_torch_product,
        triton_call=_triton_split_k,
    ),
    Workload(
        name="sort",
        title="sort 1024 rows of 1024",
        inputs=_rows(1024, 1024),
        torch_call=_torch_sort,
        triton_call=_triton_sort,
        tolerance=1e-7,
        parts={"upstream": Part(inputs=_rows(64, 1024), factor=16)},
    ),
    Workload(
        name="histogram",
        title="histogram 1M, 256 bins",
        inputs=_counted,
        torch_call=_torch_histogram,
        triton_call=_triton_histogram,
        tolerance=0.0,
    ),
    Workload(
        name="transpose",
        title="transpose 2048x2048",
        inputs=_rows(2048, 2048),
        torch_call=_torch_transpose,
        triton_call=_triton_transpose,
        tolerance=1e-7,
    ),
)
