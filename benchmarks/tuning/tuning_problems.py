"""Spaces, shapes and arguments of the kernels in `tuning_kernels`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
from tuning_kernels import (
    add_norm_kernel,
    block_scaled_kernel,
    depthwise_kernel,
    quantize_kernel,
    route_kernel,
    selective_scan_kernel,
    window_attention_kernel,
)
from tuning_problem import TuningProblem, shapes

#: Maximum number of elements per thread, so that they fit into its registers.
_MOST_PER_THREAD = 128
_STATES, _EXPERTS = 16, 64


def _fits(values: Mapping[str, Any]) -> bool:
    elements = 1
    for name in ("BLOCK", "WIDTH", "ROWS"):
        elements *= int(values.get(name, 1))
    return elements <= _MOST_PER_THREAD * 32 * int(values["num_warps"])


def _block_scaled(m: int, n: int, k: int) -> Any:
    import torch

    a, b = (torch.randn(size, k, device="cuda").to(torch.float8_e4m3fn) for size in (m, n))
    arguments: dict[str, Any] = {
        "a_ptr": a,
        "b_ptr": b,
        "a_scale_ptr": torch.rand(m, k // 128, device="cuda"),
        "b_scale_ptr": torch.rand(triton.cdiv(n, 128), k // 128, device="cuda"),
        "c_ptr": torch.empty(m, n, device="cuda", dtype=torch.bfloat16),
    }
    return arguments | {"M": m, "N": n, "K": k}, lambda meta: (
        triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
    )


def _selective_scan(batch: int, length: int, channels: int) -> Any:
    import torch

    def randoms(last: int) -> Any:
        return torch.randn(batch, length, last, device="cuda").bfloat16()

    x = randoms(channels)
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "step_ptr": torch.rand(batch, length, channels, device="cuda").bfloat16(),
        "a_ptr": -torch.rand(channels, _STATES, device="cuda"),
        "b_ptr": randoms(_STATES),
        "c_ptr": randoms(_STATES),
        "out_ptr": torch.empty_like(x),
    }
    arguments |= {"length": length, "channels": channels, "STATES": _STATES}
    return arguments, lambda meta: (triton.cdiv(channels, meta["BLOCK"]), batch)


def _add_norm(rows: int, columns: int) -> Any:
    import torch

    x, residual = (torch.randn(rows, columns, device="cuda").bfloat16() for _ in range(2))
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "residual_ptr": residual,
        "w_ptr": torch.randn(columns, device="cuda").bfloat16(),
        "out_ptr": torch.empty_like(x),
    }
    arguments |= {"rows": rows, "columns": columns, "eps": 1e-6}
    arguments["WIDTH"] = triton.next_power_of_2(columns)
    return arguments, lambda meta: (triton.cdiv(rows, meta["ROWS"]),)


def _depthwise(batch: int, side: int, channels: int) -> Any:
    import torch

    x = torch.randn(batch, side, side, channels, device="cuda").half()
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "w_ptr": torch.randn(9, channels, device="cuda"),
        "out_ptr": torch.empty_like(x),
    }
    return arguments | {"height": side, "width": side, "channels": channels}, lambda meta: (
        triton.cdiv(side * side, meta["BLOCK_P"]),
        triton.cdiv(channels, meta["BLOCK_C"]),
        batch,
    )


def _quantize(rows: int, columns: int) -> Any:
    import torch

    arguments: dict[str, Any] = {
        "x_ptr": torch.randn(rows, columns, device="cuda").half(),
        "out_ptr": torch.empty(rows, columns, device="cuda", dtype=torch.int8),
        "scale_ptr": torch.empty(rows, device="cuda"),
    }
    return arguments | {"rows": rows, "columns": columns}, lambda meta: (
        triton.cdiv(rows, meta["ROWS"]),
    )


def _window_attention(heads: int, length: int, head: int) -> Any:
    import torch

    q = torch.randn(heads, length, head, device="cuda").half()
    k, v = (torch.randn(heads // 4, length, head, device="cuda").half() for _ in range(2))
    arguments: dict[str, Any] = {"q_ptr": q, "k_ptr": k, "v_ptr": v, "out_ptr": torch.empty_like(q)}
    scale = 1.4426950408889634 / head**0.5
    arguments |= {"length": length, "window": min(1024, length), "scale": scale, "HEAD": head}
    return arguments, lambda meta: (triton.cdiv(length, meta["BLOCK_M"]), heads)


def _route(rows: int) -> Any:
    import torch

    arguments: dict[str, Any] = {
        "x_ptr": torch.randn(rows, _EXPERTS, device="cuda").half(),
        "weight_ptr": torch.empty(rows, 2, device="cuda"),
        "expert_ptr": torch.empty(rows, 2, device="cuda", dtype=torch.int32),
    }
    return arguments | {"rows": rows, "EXPERTS": _EXPERTS}, lambda meta: (
        triton.cdiv(rows, meta["ROWS"]),
    )


PROBLEMS = (
    TuningProblem(
        name="block_scaled",
        kernel=block_scaled_kernel,
        key=("M", "N", "K"),
        space={
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (32, 64, 128),
            "GROUP": (1, 8),
            "num_warps": (4, 8),
            "num_stages": (3, 4),
        },
        shapes=shapes("m n k", (2048, 4096, 4096), (64, 7168, 2048), (512, 2048, 7168)),
        inputs=_block_scaled,
        small={"m": 50, "n": 70, "k": 256},
    ),
    TuningProblem(
        name="selective_scan",
        kernel=selective_scan_kernel,
        key=("length", "channels"),
        space={
            "BLOCK": (8, 16, 32, 64, 128),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3),
        },
        shapes=shapes("batch length channels", (8, 1024, 4096), (2, 4096, 1536), (32, 256, 2048)),
        inputs=_selective_scan,
        small={"batch": 2, "length": 9, "channels": 20},
    ),
    TuningProblem(
        name="add_norm",
        kernel=add_norm_kernel,
        key=("rows", "columns"),
        space={
            "ROWS": (1, 2, 4, 8),
            "num_warps": (1, 2, 4, 8, 16, 32),
            "num_stages": (1, 2, 3),
        },
        keeps=lambda values: 4096 * values["ROWS"] <= _MOST_PER_THREAD * 32 * values["num_warps"],
        shapes=shapes("rows columns", (8192, 4096), (32768, 768), (512, 8192)),
        inputs=_add_norm,
        small={"rows": 10, "columns": 200},
    ),
    TuningProblem(
        name="depthwise",
        kernel=depthwise_kernel,
        key=("channels",),
        space={
            "BLOCK_P": (8, 16, 32, 64, 128),
            "BLOCK_C": (32, 64, 128),
            "num_warps": (1, 2, 4, 8),
        },
        shapes=shapes("batch side channels", (32, 56, 384), (64, 14, 512), (16, 112, 96)),
        inputs=_depthwise,
        small={"batch": 2, "side": 7, "channels": 40},
    ),
    TuningProblem(
        name="quantize",
        kernel=quantize_kernel,
        key=("rows", "columns"),
        space={
            "BLOCK": (256, 512, 1024, 2048, 4096),
            "ROWS": (1, 2, 4),
            "num_warps": (1, 2, 4, 8, 16),
        },
        keeps=_fits,
        shapes=shapes("rows columns", (16384, 4096), (2048, 14336), (512, 5120)),
        inputs=_quantize,
        small={"rows": 10, "columns": 300},
    ),
    TuningProblem(
        name="window_attention",
        kernel=window_attention_kernel,
        key=("length",),
        space={
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (32, 64, 128),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        shapes=shapes("heads length head", (32, 8192, 64), (16, 4096, 128), (64, 2048, 64)),
        inputs=_window_attention,
        small={"heads": 4, "length": 70, "head": 16},
    ),
    TuningProblem(
        name="route",
        kernel=route_kernel,
        key=("rows",),
        space={
            "ROWS": (1, 2, 4, 8, 16, 32, 64),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 3),
        },
        shapes=shapes("rows", (131072,), (8192,), (1000000,)),
        inputs=_route,
        small={"rows": 100},
    ),
)
