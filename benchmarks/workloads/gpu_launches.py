"""Launches of many kernels with several shapes, on which the model of GPU times is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import advice_pairs
import kernels as k
import torch
import triton
from workloads import gpu_kernels as g
from workloads import wider_kernels as w

#: Name of the kernel, its shape as text, and a function that launches the kernel.
Launch = tuple[str, str, Callable[[], Any]]


def launches(device: str) -> Iterator[Launch]:
    """Yield launches of each kernel; their functions keep the tensors alive."""
    with torch.device(device):
        for group in (_elements, _neighbours, _atomics, _rows, _row_loops, _products, _others):
            yield from group()


def _call(kernel: Any, grid: tuple[int, ...], *arguments: Any, **named: Any) -> Callable[[], Any]:
    return partial(kernel[grid], *arguments, **named)


def _elements() -> Iterator[Launch]:
    for n, block in ((1 << 17, 256), (1 << 21, 1024), (1 << 24, 1024), (3_000_000, 4096)):
        grid, at = (triton.cdiv(n, block),), f"{n:,} by {block}"
        x, y, out = torch.rand(n), torch.rand(n), torch.empty(n)
        half, narrow = x.half(), torch.empty(n, dtype=torch.float8_e4m3fn)
        ints = torch.randint(1, 1 << 30, (n,), dtype=torch.int32)
        hashed = torch.empty_like(ints)
        yield "add", at, _call(k.add_kernel, grid, x, y, out, n, BLOCK=block)
        yield "swiglu", at, _call(w.swiglu_kernel, grid, x, y, out, n, BLOCK=block)
        yield "copy half", at, _call(g.copy_kernel, grid, half, half.clone(), n, BLOCK=block)
        yield "cast fp8", at, _call(g.cast_fp8_kernel, grid, x, narrow, n, BLOCK=block)
        yield "GELU tanh", at, _call(g.gelu_tanh_kernel, grid, x, out, n, BLOCK=block)
        yield "GELU erf", at, _call(g.gelu_erf_kernel, grid, x, out, n, BLOCK=block)
        yield "functions", at, _call(g.functions_kernel, grid, x, out, n, TURNS=8, BLOCK=block)
        yield "polynomial", at, _call(g.polynomial_kernel, grid, x, out, n, TURNS=256, BLOCK=block)
        yield "dropout", at, _call(g.dropout_kernel, grid, x, out, n, 0.3, 7, BLOCK=block)
        yield "hash", at, _call(g.hash_kernel, grid, ints, hashed, n, TURNS=64, BLOCK=block)
        other = torch.randint(1, 1000, (n,), dtype=torch.int32)
        yield "division", at, _call(g.division_kernel, grid, ints, other, hashed, n, BLOCK=block)
        p, m, v = torch.rand(n), torch.rand(n), torch.rand(n)
        yield "AdamW", at, _call(g.adamw_kernel, grid, p, y, m, v, n, 1e-9, BLOCK=block)
    for n, block in ((1 << 18, 256), (1 << 23, 1024)):
        grid, at = (triton.cdiv(n, block),), f"{n:,} by {block}"
        x, y = torch.rand(n, dtype=torch.float64), torch.rand(n, dtype=torch.float64)
        yield "double", at, _call(g.double_kernel, grid, x, y, y.clone(), n, BLOCK=block)
        far, out = torch.rand(n * 8), torch.empty(n)
        copied = _call(g.strided_copy_kernel, grid, far, out, n, STRIDE=8, BLOCK=block)
        yield "strided copy", at, copied
        packed, scale = torch.randint(0, 255, (n // 2,), dtype=torch.uint8), torch.rand(n // 64)
        dequantised = _call(g.dequantise_kernel, grid, packed, scale, out, n, GROUP=64, BLOCK=block)
        yield "dequantise", at, dequantised
    for width, height, turns in ((640, 480, 60), (1920, 1080, 200)):
        out, grid = torch.empty(width * height), (triton.cdiv(width * height, 512),)
        run = _call(g.mandelbrot_kernel, grid, out, width, height, turns, BLOCK=512)
        yield "Mandelbrot", f"{width}x{height}, {turns} turns", run


def _neighbours() -> Iterator[Launch]:
    grid: tuple[int, ...]
    for n in (1 << 18, 1 << 23):
        x, out, grid = torch.rand(n), torch.empty(n), (triton.cdiv(n, 1024),)
        yield "stencil", f"{n:,}", _call(g.stencil_kernel, grid, x, out, n, BLOCK=1024)
        index = torch.randperm(n).int()
        yield "gather", f"{n:,}", _call(k.gather_kernel, grid, x, index, out, n, BLOCK=1024)
        placed = torch.empty(n, dtype=torch.int32)
        yield "scatter", f"{n:,}", _call(k.scatter_kernel, grid, index, placed, n, BLOCK=1024)
    for n in (512, 3000):
        x, out = torch.rand(n, n), torch.empty(n, n)
        grid, blocks = (triton.cdiv(n, 16), triton.cdiv(n, 128)), {"BM": 16, "BN": 128}
        yield "stencil 2D", f"{n}", _call(g.stencil_2d_kernel, grid, x, out, n, n, **blocks)
        yield "triangle", f"{n}", _call(g.triangle_kernel, grid, x, out, n, **blocks)
        turned = _call(w.transpose_kernel, (triton.cdiv(n, 64),) * 2, x, out, n, n, BLOCK=64)
        yield "transpose", f"{n}", turned
    for length, channels in ((512, 256), (4096, 2048)):
        x, weight = torch.rand(length, channels), torch.rand(4, channels)
        grid = (triton.cdiv(length, 32), triton.cdiv(channels, 64))
        out = torch.empty_like(x)
        run = _call(g.depthwise_kernel, grid, x, weight, out, length, channels, BL=32, BC=64)
        yield "depthwise", f"{length}x{channels}", run
    for rows, width in ((256, 512), (8192, 4096)):
        index, table = torch.randint(0, 20000, (rows,)), torch.rand(20000, width)
        out = torch.empty(rows, width)
        run = _call(g.embedding_kernel, (rows,), index, table, out, width, BLOCK=1024)
        yield "embedding", f"{rows}x{width}", run


def _atomics() -> Iterator[Launch]:
    grid: tuple[int, ...]
    for n in (1 << 17, 1 << 22):
        grid = (triton.cdiv(n, 1024),)
        x = torch.rand(n)
        yield (
            "one address",
            f"{n:,}",
            _call(g.one_address_kernel, grid, x, torch.zeros(1), n, BLOCK=1024),
        )
        for bins in (16, 4096):
            index = torch.randint(0, bins, (n,), dtype=torch.int32)
            counts = torch.zeros(bins, dtype=torch.int32)
            run = _call(g.counters_kernel, grid, index, counts, n, BLOCK=1024)
            yield "counters", f"{n:,} in {bins}", run
        index = torch.randint(0, 256, (n,), dtype=torch.int32)
        counts = torch.zeros(256, dtype=torch.int32)
        run = _call(w.histogram_kernel, grid, index, counts, n, BINS=256, BLOCK=1024)
        yield "histogram", f"{n:,}", run
    for rows, segments in ((4096, 64), (65536, 8192)):
        x, out = torch.rand(rows, 64), torch.zeros(segments, 64)
        row = torch.randint(0, segments, (rows,)).sort().values.int()
        run = _call(g.segments_kernel, (rows // 32,), x, row, out, D=64, BLOCK=32)
        yield "segments", f"{rows} in {segments}", run
    for rows, columns in ((64, 1 << 14), (1024, 1 << 13)):
        x, out = torch.rand(rows, columns), torch.zeros(rows)
        run = _call(g.maximum_kernel, (rows, columns // 1024), x, out, columns, BLOCK=1024)
        yield "atomic maximum", f"{rows}x{columns}", run
    for size, inner, split in ((256, 2048, 8), (512, 8192, 16)):
        a, b, c = torch.rand(size, inner), torch.rand(inner, size), torch.zeros(size, size)
        grid = (size // 32, size // 32, split)
        blocks = {"SPLIT": split, "BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
        run = _call(w.split_k_kernel, grid, a, b, c, size, size, inner, **blocks)
        yield "split K", f"{size}x{size}x{inner} in {split}", run


def _rows() -> Iterator[Launch]:
    for m, n in ((256, 500), (4096, 1024), (8192, 4096), (1024, 16000)):
        x, out, at = torch.rand(m, n), torch.empty(m, n), f"{m}x{n}"
        weight, bias, block = torch.rand(n), torch.rand(n), triton.next_power_of_2(n)
        one, two = torch.empty(m), torch.empty(m)
        warps = {"num_warps": 8 if block > 2048 else 4}
        yield "softmax", at, _call(k.softmax_kernel, (m,), x, out, n, BLOCK=block, **warps)
        norm = _call(
            k.layer_norm_forward_kernel, (m,), x, weight, bias, out, one, two, n, 1e-5, BLOCK=block,
            **warps,
        )  # fmt: skip
        yield "layer norm", at, norm
        scaled = _call(w.rms_norm_kernel, (m,), x, weight, out, n, 1e-5, BLOCK=block, **warps)
        yield "RMS norm", at, scaled
        yield "scan", at, _call(k.scan_kernel, (m,), x, out, n, BLOCK=block, **warps)
        yield "Welford", at, _call(g.welford_kernel, (m,), x, one, two, n, BLOCK=block, **warps)
        place = torch.empty(m, dtype=torch.int32)
        yield "argmax", at, _call(g.argmax_kernel, (m,), x, place, n, BLOCK=block, **warps)
        small = torch.empty(m, n, dtype=torch.int8)
        yield "quantise", at, _call(g.quantise_kernel, (m,), x, small, one, n, BLOCK=block, **warps)
    for m, n in ((1024, 256), (8192, 1024)):
        x = torch.rand(m, n)
        yield "sort", f"{m}x{n}", _call(w.sort_kernel, (m,), x, torch.empty_like(x), COLUMNS=n)
        best = torch.empty(m, 8)
        run = _call(g.top_k_kernel, (m // 4,), x, best, N=n, K=8, ROWS=4)
        yield "top k", f"{m}x{n}", run
    for m, n in ((5000, 16), (400_000, 32)):
        x = torch.rand(m, n)
        run = _call(
            g.small_rows_kernel, (triton.cdiv(m, 64),), x, torch.empty_like(x), m, N=n, ROWS=64
        )
        yield "small rows", f"{m}x{n}", run


def _row_loops() -> Iterator[Launch]:
    for m, n in ((128, 4000), (512, 32000), (4096, 8192)):
        x, y, out, at = torch.rand(m, n), torch.rand(m, n), torch.empty(m), f"{m}x{n}"
        target = torch.zeros(m, dtype=torch.int32)
        yield "log-sum-exp", at, _call(g.log_sum_exp_kernel, (m,), x, out, n, BLOCK=1024)
        yield "group norm", at, _call(
            g.group_norm_kernel, (m,), x, torch.rand(32), torch.empty_like(x), n, GROUPS=32,
            BLOCK=1024,
        )  # fmt: skip
        halves = x.bfloat16(), y.bfloat16()
        yield "divergence", at, _call(g.divergence_kernel, (m,), *halves, out, n, BLOCK=2048)
        yield (
            "running sum",
            at,
            _call(g.running_sum_kernel, (m,), x, torch.empty_like(x), n, BLOCK=1024),
        )
        entropy = _call(w.cross_entropy_kernel, (m,), x, target, out, n, BLOCK=1024)
        yield "cross entropy", at, entropy
        total = _call(
            advice_pairs.column_sum_kernel, (triton.cdiv(n, 32),), x, torch.empty(n), m, n,
            BLOCK_M=32, BLOCK_N=32,
        )  # fmt: skip
        yield "column sum", at, total
    for items, width in ((64, 64), (4096, 128)):
        lengths = torch.arange(items) * 37 % 200
        offsets = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()
        x, out = torch.rand(int(lengths.sum()), width), torch.empty(items, width)
        run = _call(g.jagged_mean_kernel, (items,), x, offsets, out, D=width, BLOCK=16)
        yield "jagged mean", f"{items}x{width}", run


def _products() -> Iterator[Launch]:
    for m, n, inner, block in ((512, 512, 512, 64), (1024, 2048, 1024, 128), (64, 4096, 4096, 64)):
        at = f"{m}x{n}x{inner} by {block}"
        grid, blocks = (m // block, n // block), {"BM": block, "BN": block, "BK": 64}
        a, b = torch.rand(m, inner), torch.rand(inner, n)
        half, c = (a.half(), b.half()), torch.empty(m, n, dtype=torch.float16)
        sizes = m, n, inner
        for warps in (4, 8):
            run = _call(g.half_product_kernel, grid, *half, c, *sizes, **blocks, num_warps=warps)
            yield "half product", f"{at}, {warps} warps", run
        narrow = torch.randint(-128, 127, (inner, n), dtype=torch.int8), torch.rand(n)
        run = _call(g.int8_weight_kernel, grid, half[0], *narrow, c, *sizes, **blocks)
        yield "int8 weights", at, run
        eights = a.to(torch.float8_e4m3fn), b.t().contiguous().to(torch.float8_e4m3fn)
        yield "fp8 product", at, _call(g.fp8_product_kernel, grid, *eights, c, *sizes, **blocks)
        whole, shallow = torch.empty(m, n), {**blocks, "BK": 32}
        yield "tf32 product", at, _call(g.tf32_product_kernel, grid, a, b, whole, *sizes, **shallow)
        yield "f32 product", at, _call(
            advice_pairs.product_kernel, grid, a, b, whole, *sizes, "ieee",
            BLOCK_M=block, BLOCK_N=block, BLOCK_K=32,
        )  # fmt: skip
        run = _call(
            w.batched_matmul_kernel, (*grid, 4), *(x.repeat(4, 1, 1) for x in half),
            torch.empty(4, m, n, dtype=torch.float16), *sizes,
            BLOCK_M=block, BLOCK_N=block, BLOCK_K=32,
        )  # fmt: skip
        yield "batched product", at, run
    for m, inner in ((1024, 1024), (8192, 4096)):
        a, x, out = torch.rand(m, inner).half(), torch.rand(inner).half(), torch.empty(m)
        run = _call(g.gemv_kernel, (m // 8,), a, x, out, m, inner, BM=8, BK=256)
        yield "matrix-vector", f"{m}x{inner}", run
    for n, depth in ((512, 16), (2048, 64)):
        x, y, out = torch.rand(depth, n), torch.rand(depth, n), torch.empty(n, n)
        run = _call(g.distances_kernel, (n // 64, n // 64), x, y, out, n, n, depth, BM=64, BN=64)
        yield "distances", f"{n}x{n}x{depth}", run


def _others() -> Iterator[Launch]:
    for heads, n in ((8, 512), (16, 2048)):
        q, key, v = (torch.rand(heads, n, 64).half() for _ in range(3))
        for rows in (64, 128):
            run = _call(
                g.flash_kernel, (n // rows, heads), q, key, v, torch.empty_like(q), 0.18, n,
                D=64, BM=rows, BN=64,
            )  # fmt: skip
            yield "flash attention", f"{heads}x{n}x64 by {rows}", run
        wide = [torch.rand(heads, n, 64) for _ in range(3)]
        run = _call(
            k.attention_kernel, (n // 64, heads), *wide, torch.empty_like(wide[0]), 0.18, n,
            D=64, BLOCK_M=64, BLOCK_N=32,
        )  # fmt: skip
        yield "f32 attention", f"{heads}x{n}x64", run
    for heads, n in ((32, 1024), (256, 4096)):
        q, keys = torch.rand(heads, 128).half(), torch.rand(2, heads, n, 128).half()
        out = torch.empty_like(q)
        run = _call(g.decode_kernel, (heads,), q, keys[0], keys[1], out, 0.09, n, D=128, BN=64)
        yield "decoding", f"{heads}x{n}x128", run
    for size, channels in ((32, 64), (64, 256)):
        x = torch.rand(size * size, channels).half()
        weight = torch.rand(9 * channels, channels).half()
        out, grid = torch.empty_like(x), (size * size // 64, channels // 64)
        run = _call(
            g.implicit_convolution_kernel, grid, x, weight, out, size, size, channels, channels,
            BP=64, BO=64, BC=32,
        )  # fmt: skip
        yield "convolution", f"{size}x{size}x{channels}", run
