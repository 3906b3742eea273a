"""Kernels in many configurations, some of which do not fit on a GPU.

`against_driver.py` compares the resources that `ttools inspect` reports for them with those that
the driver reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import advice_pairs
import kernels as k
import torch
import triton
from workloads import gpu_kernels as g
from workloads import wider_kernels as w

_OPTIONS = ("num_warps", "num_stages", "num_ctas")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A launch of a kernel in several configurations.

    Attributes:
        kernel: A `@triton.jit` function.
        names: Names of the parameters and launch options that the configurations set.
        rows: Values of these names, one tuple for each configuration.
        arguments: Positional arguments of the kernel, without those that the configurations set.
        constants: Further arguments by name.
        grid: Returns the grid for the values of a configuration.
    """

    kernel: Any
    names: str
    rows: Sequence[tuple[int, ...]]
    arguments: Sequence[Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]

    def configs(self) -> list[Any]:
        """Return the configurations."""
        configs = []
        for row in self.rows:
            values = dict(zip(self.names.split(), row, strict=True))
            options = {name: values.pop(name) for name in _OPTIONS if name in values}
            configs.append(triton.Config(values, **options))
        return configs


def cases() -> dict[str, Callable[[], Case]]:
    """Return functions that create the tensors of each case on torch's current device."""
    return {
        function.__name__.strip("_"): function
        for function in (
            _half_product, _fp8_product, _f32_product, _descriptor_product, _batched_product,
            _grouped_product, _split_k, _convolution, _matrix_vector, _flash_attention,
            _f32_attention, _layer_norm, _softmax, _welford, _group_norm, _scan, _sort, _top_k,
            _counters, _histogram, _transpose, _adamw, _functions, _clusters,
        )
    }  # fmt: skip


def _tiles(m: int, n: int, rows: str, columns: str, *more: str) -> Any:
    """Return the grid of a product: tiles of its rows and columns, and further axes by name."""
    return lambda c: (
        triton.cdiv(m, c[rows]), triton.cdiv(n, c[columns]), *(c[name] for name in more)
    )  # fmt: skip


def _blocks(n: int) -> Any:
    return lambda c: (triton.cdiv(n, c["BLOCK"]),)


def _halves(size: int = 512) -> list[torch.Tensor]:
    return [torch.rand(size, size).half() for _ in range(3)]


def _half_product() -> Case:
    return Case(
        kernel=g.half_product_kernel,
        names="BM BN BK num_warps num_stages",
        rows=[
            (64, 64, 32, 4, 2), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (128, 128, 64, 4, 4),
            (128, 256, 64, 4, 3), (256, 128, 64, 8, 4), (256, 256, 64, 8, 4),
            (128, 128, 128, 4, 4), (64, 128, 128, 4, 5), (128, 128, 32, 16, 2),
            (64, 64, 64, 64, 2),
        ],
        arguments=(*_halves(), 512, 512, 512),
        grid=_tiles(512, 512, "BM", "BN"),
    )  # fmt: skip


def _fp8_product() -> Case:
    a, b, c = _halves()
    return Case(
        kernel=g.fp8_product_kernel,
        names="BM BN BK num_warps num_stages",
        rows=[
            (64, 64, 64, 4, 3), (128, 128, 128, 8, 3), (128, 256, 128, 8, 4),
            (256, 256, 128, 8, 4), (128, 128, 128, 4, 6),
        ],
        arguments=(a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), c, 512, 512, 512),
        grid=_tiles(512, 512, "BM", "BN"),
    )  # fmt: skip


def _f32_product() -> Case:
    a, b, c = (torch.rand(512, 512) for _ in range(3))
    return Case(
        kernel=advice_pairs.product_kernel,
        names="BLOCK_M BLOCK_N BLOCK_K num_warps num_stages",
        rows=[
            (64, 64, 32, 4, 3), (128, 128, 32, 8, 3), (128, 128, 32, 4, 2), (128, 64, 32, 4, 8),
            (256, 128, 32, 8, 5),
        ],
        arguments=(a, b, c, 512, 512, 512, "ieee"),
        grid=_tiles(512, 512, "BLOCK_M", "BLOCK_N"),
    )  # fmt: skip


def _descriptor_product() -> Case:
    return Case(
        kernel=w.descriptor_product_kernel,
        names="BM BN BK SPECIALISED num_warps num_stages",
        rows=[
            (64, 64, 64, False, 4, 3), (128, 128, 64, False, 8, 4), (128, 256, 64, False, 8, 4),
            (256, 256, 64, False, 8, 4), (128, 128, 64, True, 4, 3),
        ],
        arguments=(*_halves(), 512, 512, 512),
        grid=_tiles(512, 512, "BM", "BN"),
    )  # fmt: skip


def _batched_product() -> Case:
    a, b, c = (torch.rand(4, 256, 256).half() for _ in range(3))
    return Case(
        kernel=w.batched_matmul_kernel,
        names="BLOCK_M BLOCK_N BLOCK_K num_warps num_stages",
        rows=[
            (64, 64, 32, 4, 3), (128, 128, 32, 8, 4), (128, 128, 64, 4, 3), (256, 256, 64, 16, 4),
            (32, 128, 64, 2, 2),
        ],
        arguments=(a, b, c, 256, 256, 256),
        grid=lambda c: (256 // c["BLOCK_M"], 256 // c["BLOCK_N"], 4),
    )  # fmt: skip


def _grouped_product() -> Case:
    lengths = torch.tensor([0, 100, 37, 200, 175])
    rows, weight, out = torch.rand(512, 256), torch.rand(5, 256, 128), torch.empty(512, 128)
    offsets = torch.cat([torch.zeros(1), lengths.cumsum(0)]).int()
    return Case(
        kernel=w.grouped_product_kernel,
        names="BM BN BK num_warps num_stages",
        rows=[(32, 32, 32, 4, 3), (64, 128, 64, 4, 3), (128, 128, 64, 8, 4), (128, 128, 128, 8, 5)],
        arguments=(rows.bfloat16(), weight.bfloat16(), out.bfloat16(), offsets, 128, 256),
        grid=lambda c: (5, 128 // c["BN"]),
    )


def _split_k() -> Case:
    a, b, c = torch.rand(256, 1024), torch.rand(1024, 256), torch.zeros(256, 256)
    return Case(
        kernel=w.split_k_kernel,
        names="SPLIT BLOCK_M BLOCK_N BLOCK_K num_warps",
        rows=[(8, 32, 32, 32, 4), (4, 64, 64, 32, 4), (2, 64, 64, 32, 8), (4, 32, 128, 32, 2)],
        arguments=(a, b, c, 256, 256, 1024),
        grid=_tiles(256, 256, "BLOCK_M", "BLOCK_N", "SPLIT"),
    )


def _convolution() -> Case:
    x, weight = torch.rand(32 * 32, 64).half(), torch.rand(9 * 64, 64).half()
    return Case(
        kernel=g.implicit_convolution_kernel,
        names="BP BO BC num_warps num_stages",
        rows=[(64, 64, 32, 4, 3), (128, 64, 32, 8, 3), (128, 64, 64, 4, 2), (256, 64, 64, 4, 6)],
        arguments=(x, weight, torch.empty_like(x), 32, 32, 64, 64),
        grid=_tiles(32 * 32, 64, "BP", "BO"),
    )


def _matrix_vector() -> Case:
    a, x, out = torch.rand(512, 1024).half(), torch.rand(1024).half(), torch.empty(512)
    return Case(
        kernel=g.gemv_kernel,
        names="BM BK num_warps",
        rows=[(8, 256, 4), (32, 256, 4), (64, 512, 4), (64, 512, 8)],
        arguments=(a, x, out, 512, 1024),
        grid=lambda c: (512 // c["BM"],),
    )


def _flash_attention() -> Case:
    q, key, v, out = (torch.rand(4, 512, 128).half() for _ in range(4))
    return Case(
        kernel=g.flash_kernel,
        names="BM BN num_warps num_stages",
        rows=[
            (64, 32, 4, 2), (64, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (128, 64, 4, 2),
            (128, 128, 4, 2), (128, 128, 8, 4), (256, 64, 8, 2),
        ],
        arguments=(q, key, v, out, 0.18, 512),
        constants={"D": 128},
        grid=lambda c: (512 // c["BM"], 4),
    )  # fmt: skip


def _f32_attention() -> Case:
    q, key, v, out = (torch.rand(2, 256, 64) for _ in range(4))
    return Case(
        kernel=k.attention_kernel,
        names="BLOCK_M BLOCK_N num_warps num_stages",
        rows=[(32, 32, 4, 2), (64, 32, 4, 3), (64, 64, 8, 3), (64, 64, 4, 8)],
        arguments=(q, key, v, out, 0.18, 256),
        constants={"D": 64},
        grid=lambda c: (256 // c["BLOCK_M"], 2),
    )


def _layer_norm() -> Case:
    x, weight, bias = torch.rand(8, 1000), torch.rand(1000), torch.rand(1000)
    outputs = torch.empty_like(x), torch.empty(8), torch.empty(8)
    return Case(
        kernel=k.layer_norm_forward_kernel,
        names="BLOCK num_warps",
        rows=[
            (1024, 1), (1024, 4), (1024, 32), (2048, 8), (8192, 4), (8192, 32), (16384, 8),
            (1024, 64),
        ],
        arguments=(x, weight, bias, *outputs, 1000, 1e-5),
        grid=lambda c: (8,),
    )  # fmt: skip


def _softmax() -> Case:
    x = torch.rand(8, 1000)
    return Case(
        kernel=k.softmax_kernel,
        names="BLOCK num_warps",
        rows=[(1024, 1), (1024, 4), (4096, 4), (16384, 16), (32768, 8)],
        arguments=(x, torch.empty_like(x), 1000),
        grid=lambda c: (8,),
    )


def _welford() -> Case:
    return Case(
        kernel=g.welford_kernel,
        names="BLOCK num_warps",
        rows=[(1024, 2), (2048, 8), (4096, 4), (8192, 8)],
        arguments=(torch.rand(8, 1000), torch.empty(8), torch.empty(8), 1000),
        grid=lambda c: (8,),
    )


def _group_norm() -> Case:
    x = torch.rand(64, 4000)
    return Case(
        kernel=g.group_norm_kernel,
        names="BLOCK num_warps",
        rows=[(512, 2), (1024, 4), (4096, 8), (16384, 4)],
        arguments=(x, torch.rand(32), torch.empty_like(x), 4000),
        constants={"GROUPS": 32},
        grid=lambda c: (64,),
    )


def _scan() -> Case:
    x = torch.rand(8, 1000)
    return Case(
        kernel=k.scan_kernel,
        names="BLOCK num_warps",
        rows=[(1024, 1), (1024, 8), (4096, 4), (8192, 16), (1024, 32)],
        arguments=(x, torch.empty_like(x), 1000),
        grid=lambda c: (8,),
    )


def _sort() -> Case:
    x = torch.rand(1 << 14)
    return Case(
        kernel=w.sort_kernel,
        names="COLUMNS num_warps",
        rows=[(256, 4), (256, 1), (1024, 4), (1024, 16)],
        arguments=(x, torch.empty_like(x)),
        grid=lambda c: ((1 << 14) // c["COLUMNS"],),
    )


def _top_k() -> Case:
    return Case(
        kernel=g.top_k_kernel,
        names="ROWS num_warps",
        rows=[(1, 1), (4, 4), (16, 4), (16, 8)],
        arguments=(torch.rand(64, 256), torch.empty(64, 8)),
        constants={"N": 256, "K": 8},
        grid=lambda c: (64 // c["ROWS"],),
    )


def _counters() -> Case:
    n = 1 << 16
    index = torch.randint(0, 4096, (n,), dtype=torch.int32)
    return Case(
        kernel=g.counters_kernel,
        names="BLOCK num_warps",
        rows=[(256, 4), (1024, 4), (4096, 8), (8192, 2)],
        arguments=(index, torch.zeros(4096, dtype=torch.int32), n),
        grid=_blocks(n),
    )


def _histogram() -> Case:
    n = 1 << 16
    index = torch.randint(0, 256, (n,), dtype=torch.int32)
    return Case(
        kernel=w.histogram_kernel,
        names="BLOCK num_warps",
        rows=[(1024, 4), (4096, 8), (1024, 16)],
        arguments=(index, torch.zeros(256, dtype=torch.int32), n),
        constants={"BINS": 256},
        grid=_blocks(n),
    )


def _transpose() -> Case:
    x = torch.rand(500, 500)
    return Case(
        kernel=w.transpose_kernel,
        names="BLOCK num_warps",
        rows=[(32, 4), (64, 4), (128, 8), (256, 32), (256, 8)],
        arguments=(x, torch.empty_like(x), 500, 500),
        grid=lambda c: (triton.cdiv(500, c["BLOCK"]),) * 2,
    )


def _adamw() -> Case:
    n = 1 << 16
    return Case(
        kernel=g.adamw_kernel,
        names="BLOCK num_warps",
        rows=[(1024, 4), (4096, 4), (8192, 2), (16384, 32)],
        arguments=(*(torch.rand(n) for _ in range(4)), n, 1e-9),
        grid=_blocks(n),
    )


def _functions() -> Case:
    n = 1 << 14
    x = torch.rand(n)
    return Case(
        kernel=g.functions_kernel,
        names="BLOCK num_warps",
        rows=[(256, 4), (1024, 4), (4096, 4)],
        arguments=(x, torch.empty_like(x), n),
        constants={"TURNS": 8},
        grid=_blocks(n),
    )


def _clusters() -> Case:
    n = 1 << 16
    x, y = torch.rand(n), torch.rand(n)
    return Case(
        kernel=k.add_kernel,
        names="BLOCK num_ctas",
        rows=[(4096, 1), (4096, 2), (4096, 4), (4096, 8), (8192, 16), (16384, 32)],
        arguments=(x, y, torch.empty_like(x), n),
        grid=_blocks(n),
    )
