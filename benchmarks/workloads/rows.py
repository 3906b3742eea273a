"""The rows of the benchmark that cover Triton's tutorials, and the list of all rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from workloads.wider_workloads import WIDER_WORKLOADS
from workloads.workload import Call, Part, Tensors, Workload

# ---- elementwise


def _vectors(count: int, dtype: torch.dtype) -> Callable[[], Tensors]:
    return lambda: tuple(torch.randn(count).to(dtype) for _ in range(2))


def _torch_add(x: torch.Tensor, y: torch.Tensor) -> Call:
    out = torch.empty_like(x)
    return lambda: (torch.add(x, y, out=out),)


def _triton_add(x: torch.Tensor, y: torch.Tensor) -> Call:
    import kernels
    import triton

    out = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, 1024),)

    def call() -> Tensors:
        kernels.add_kernel[grid](x, y, out, n, BLOCK=1024)
        return (out,)

    return call


def _indexed() -> Tensors:
    count = 1_000_000
    return torch.randn(count), torch.randint(0, count, (count,), dtype=torch.int32)


def _torch_gather(x: torch.Tensor, index: torch.Tensor) -> Call:
    out = torch.empty_like(x)
    return lambda: (torch.index_select(x, 0, index, out=out),)


def _triton_gather(x: torch.Tensor, index: torch.Tensor) -> Call:
    import kernels
    import triton

    out = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, 1024),)

    def call() -> Tensors:
        kernels.gather_kernel[grid](x, index, out, n, BLOCK=1024)
        return (out,)

    return call


def _torch_scatter(index: torch.Tensor) -> Call:
    out = torch.zeros(index.numel(), dtype=index.dtype)
    return lambda: (out.scatter_(0, index, index),)


def _triton_scatter(index: torch.Tensor) -> Call:
    import kernels
    import triton

    n = index.numel()
    out = torch.zeros(n, dtype=index.dtype)
    grid = (triton.cdiv(n, 1024),)

    def call() -> Tensors:
        kernels.scatter_kernel[grid](index, out, n, BLOCK=1024)
        return (out,)

    return call


# ---- along rows


def _matrix(rows: int, columns: int) -> Callable[[], Tensors]:
    return lambda: (torch.randn(rows, columns),)


def _torch_softmax(x: torch.Tensor) -> Call:
    out = torch.empty_like(x)
    return lambda: (torch.softmax(x, dim=1, out=out),)


def _torch_scan(x: torch.Tensor) -> Call:
    out = torch.empty_like(x)
    return lambda: (torch.cumsum(x, dim=1, out=out),)


def _by_rows(kernel: str) -> Callable[[torch.Tensor], Call]:
    def make(x: torch.Tensor) -> Call:
        import kernels
        import triton

        rows, columns = x.shape
        out = torch.empty_like(x)
        launch = getattr(kernels, kernel)[rows,]
        block = triton.next_power_of_2(columns)

        def call() -> Tensors:
            launch(x, out, columns, BLOCK=block)
            return (out,)

        return call

    return make


def _normalised() -> Tensors:
    rows, columns = 4096, 1024
    x = torch.randn(rows, columns).mul(0.5).sub(2.3)
    return x, torch.rand(columns), torch.rand(columns), torch.randn(rows, columns)


def _torch_layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dout: torch.Tensor
) -> Call:
    arguments = [t.requires_grad_() for t in (x, weight, bias)]

    def call() -> Tensors:
        out = torch.nn.functional.layer_norm(x, (x.shape[1],), weight, bias, 1e-5)
        return out.detach(), *torch.autograd.grad(out, arguments, dout)

    return call


_GROUPS = 256


def _triton_layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dout: torch.Tensor
) -> Call:
    import kernels
    import triton

    rows, columns = x.shape
    block = triton.next_power_of_2(columns)

    def call() -> Tensors:
        out, dx = torch.empty_like(x), torch.empty_like(x)
        mean, rstd = torch.empty(rows), torch.empty(rows)
        # The final sum includes groups without rows, so partial sums must start as zeros.
        partial = torch.zeros(2, _GROUPS, columns)
        gradients = torch.empty(2, columns)
        locks = torch.zeros(2 * _GROUPS, dtype=torch.int32)
        kernels.layer_norm_forward_kernel[rows,](
            x, weight, bias, out, mean, rstd, columns, 1e-5, BLOCK=block
        )
        kernels.layer_norm_backward_kernel[rows,](
            x, weight, dout, mean, rstd, dx, partial, locks, columns, GROUPS=_GROUPS, BLOCK=block
        )
        kernels.layer_norm_sum_kernel[triton.cdiv(columns, 128), 2](
            partial, gradients, columns, GROUPS=_GROUPS, BLOCK_M=32, BLOCK_N=128
        )
        return out, dx, gradients[0], gradients[1]

    return call


# ---- matrix products


def _factors(rows: int, columns: int, inner: int) -> Callable[[], Tensors]:
    return lambda: (torch.randn(rows, inner), torch.randn(inner, columns))


def _torch_matmul(a: torch.Tensor, b: torch.Tensor) -> Call:
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    return lambda: (torch.mm(a, b, out=out),)


def _triton_matmul(a: torch.Tensor, b: torch.Tensor) -> Call:
    import kernels
    import triton

    rows, inner = a.shape
    columns = b.shape[1]
    out = torch.empty(rows, columns)
    grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64))
    strides = (*a.stride(), *b.stride(), *out.stride())

    def call() -> Tensors:
        kernels.matmul_kernel[grid](
            a, b, out, rows, columns, inner, *strides, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32
        )
        return (out,)

    return call


def _queries() -> Tensors:
    return tuple(torch.randn(8, 1000, 64) for _ in range(3))


def _torch_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Call:
    attention: Any = torch.nn.functional.scaled_dot_product_attention
    # Torch uses a slow implementation for three-dimensional tensors.
    q, k, v = (t.unsqueeze(0) for t in (q, k, v))
    return lambda: (attention(q, k, v, is_causal=True).squeeze(0),)


def _triton_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Call:
    import kernels
    import triton

    heads, count, depth = q.shape
    block_m, block_n = 64, 64
    grid = (triton.cdiv(count, block_m), heads)
    scale = math.log2(math.e) / math.sqrt(depth)

    def call() -> Tensors:
        out = torch.empty_like(q)
        kernels.attention_kernel[grid](
            q, k, v, out, scale, count, D=depth, BLOCK_M=block_m, BLOCK_N=block_n
        )
        return (out,)

    return call


_UPSTREAM_BF16 = "TRITON_INTERPRET=1 adds bf16 as integers"


def _add(name: str, title: str, count: int, dtype: torch.dtype) -> Workload:
    is_bf16 = dtype == torch.bfloat16
    return Workload(
        name=name,
        title=title,
        inputs=_vectors(count, dtype),
        torch_call=_torch_add,
        triton_call=_triton_add,
        tolerance=4e-3 if is_bf16 else 1e-6,
        wrong={"upstream": _UPSTREAM_BF16} if is_bf16 else {},
    )


def _matmul(name: str, title: str, rows: int, columns: int, inner: int) -> Workload:
    return Workload(
        name=name,
        title=title,
        inputs=_factors(rows, columns, inner),
        torch_call=_torch_matmul,
        triton_call=_triton_matmul,
    )


_TUTORIALS: tuple[Workload, ...] = (
    _add("add_1m_f32", "add 1M f32", 1_000_000, torch.float32),
    _add("add_odd_f32", "add 1,000,003 f32", 1_000_003, torch.float32),
    _add("add_1m_bf16", "add 1M bf16", 1_000_000, torch.bfloat16),
    _add("add_odd_bf16", "add 1,000,003 bf16", 1_000_003, torch.bfloat16),
    Workload(
        name="softmax",
        title="softmax 4096x1000",
        inputs=_matrix(4096, 1000),
        torch_call=_torch_softmax,
        triton_call=_by_rows("softmax_kernel"),
    ),
    _matmul("matmul_512", "matmul 512³", 512, 512, 512),
    _matmul("matmul_odd", "matmul 500x507x490", 500, 507, 490),
    Workload(
        name="attention",
        title="causal attention 8x1000x64",
        inputs=_queries,
        torch_call=_torch_attention,
        triton_call=_triton_attention,
    ),
    Workload(
        name="layer_norm",
        title="layer norm fwd+bwd 4096x1024",
        inputs=_normalised,
        torch_call=_torch_layer_norm,
        triton_call=_triton_layer_norm,
    ),
    Workload(
        name="scan",
        title="associative scan 2048x1000",
        inputs=_matrix(2048, 1000),
        torch_call=_torch_scan,
        triton_call=_by_rows("scan_kernel"),
        # TRITON_INTERPRET=1 calls the combine function for every element, which takes over a
        # minute.
        parts={"upstream": Part(inputs=_matrix(64, 1000), factor=32)},
    ),
    Workload(
        name="gather",
        title="gather 1M",
        inputs=_indexed,
        torch_call=_torch_gather,
        triton_call=_triton_gather,
        access="gathers",
    ),
    Workload(
        name="scatter",
        title="scatter of a permutation, 1M",
        inputs=lambda: (torch.randperm(1_000_000),),
        torch_call=_torch_scatter,
        triton_call=_triton_scatter,
        tolerance=0.0,
        access="scatters",
    ),
    Workload(
        name="scatter_duplicates",
        title="scatter 1M to duplicates",
        inputs=lambda: (torch.randint(1_000_000, (1_000_000,)),),
        torch_call=_torch_scatter,
        triton_call=_triton_scatter,
        tolerance=0.0,
        access="scatters",
    ),
)

WORKLOADS = (*_TUTORIALS, *WIDER_WORKLOADS)


def chosen(only: str | None) -> list[Workload]:
    """Return the workloads whose names contain one of the comma-separated words."""
    words = [word.strip() for word in (only or "").split(",") if word.strip()]
    return [w for w in WORKLOADS if not words or any(word in w.name for word in words)]
