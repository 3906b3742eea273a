"""Spaces, shapes and arguments of the kernels in `row_kernels`.

Must not know who tunes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
from row_kernels import (
    cross_entropy_kernel,
    cumsum_kernel,
    group_norm_kernel,
    kl_kernel,
    layer_norm_backward_kernel,
    rope_kernel,
    swiglu_backward_kernel,
)
from tuning_problem import TuningProblem, shapes

#: Groups that channels are normalised in.
_GROUPS = 32
#: Elements of a thread that its registers can hold.
_MOST_PER_THREAD = 128


def _fits(values: Mapping[str, Any]) -> bool:
    elements = values["BLOCK"] * values.get("ROWS", 1)
    return int(elements) <= _MOST_PER_THREAD * 32 * int(values["num_warps"])


def _cross_entropy(rows: int, columns: int) -> Any:
    import torch

    x = torch.randn(rows, columns, device="cuda").bfloat16()
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "target_ptr": torch.randint(0, columns, (rows,), device="cuda"),
        "loss_ptr": torch.empty(rows, device="cuda"),
        "grad_ptr": torch.empty_like(x),
    }
    return arguments | {"rows": rows, "columns": columns}, (lambda meta: (rows,))


def _kl(rows: int, columns: int) -> Any:
    import torch

    x, y = (torch.randn(rows, columns, device="cuda").bfloat16() for _ in range(2))
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "y_ptr": y,
        "loss_ptr": torch.empty(rows, device="cuda"),
    }
    return arguments | {"rows": rows, "columns": columns}, lambda meta: (
        triton.cdiv(rows, meta["ROWS"]),
    )


def _swiglu_backward(rows: int, columns: int) -> Any:
    import torch

    def matrix() -> Any:
        return torch.randn(rows, columns, device="cuda").bfloat16()

    names = ("grad_ptr", "gate_ptr", "up_ptr", "grad_gate_ptr", "grad_up_ptr")
    arguments: dict[str, Any] = {name: matrix() for name in names} | {
        "rows": rows,
        "columns": columns,
    }
    return arguments, lambda meta: (
        triton.cdiv(rows, meta["ROWS"]),
        triton.cdiv(columns, meta["BLOCK"]),
    )


def _layer_norm_backward(rows: int, columns: int) -> Any:
    import torch

    grad, x = (torch.randn(rows, columns, device="cuda").half() for _ in range(2))
    arguments: dict[str, Any] = {
        "grad_ptr": grad,
        "x_ptr": x,
        "w_ptr": torch.randn(columns, device="cuda").half(),
        "mean_ptr": x.float().mean(1),
        "spread_ptr": x.float().std(1).reciprocal(),
        "grad_x_ptr": torch.empty_like(x),
        "grad_w_ptr": torch.zeros(columns, device="cuda"),
    }
    arguments |= {"rows": rows, "columns": columns, "WIDTH": triton.next_power_of_2(columns)}
    return arguments, lambda meta: (meta["PROGRAMS"],)


def _group_norm(images: int, channels: int, pixels: int) -> Any:
    import torch

    x = torch.randn(images, channels, pixels, device="cuda").half()
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "w_ptr": torch.randn(channels, device="cuda").half(),
        "out_ptr": torch.empty_like(x),
    }
    arguments |= {"images": images, "channels": channels, "pixels": pixels}
    return arguments | {"eps": 1e-5, "GROUPS": _GROUPS}, lambda meta: (images * _GROUPS,)


def _rope(tokens: int, heads: int, head: int) -> Any:
    import torch

    x = torch.randn(tokens, heads, head, device="cuda").bfloat16()
    angles = torch.rand(tokens, head // 2, device="cuda") * 6
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "cos_ptr": angles.cos(),
        "sin_ptr": angles.sin(),
        "out_ptr": torch.empty_like(x),
    }
    return arguments | {"tokens": tokens, "heads": heads, "HALF": head // 2}, lambda meta: (
        triton.cdiv(tokens, meta["TOKENS"]),
        triton.cdiv(heads, meta["HEADS"]),
    )


def _cumsum(rows: int, columns: int) -> Any:
    import torch

    x = torch.rand(rows, columns, device="cuda")
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "out_ptr": torch.empty_like(x),
        "rows": rows,
        "columns": columns,
    }
    return arguments, lambda meta: (triton.cdiv(rows, meta["ROWS"]),)


ROW_PROBLEMS = (
    TuningProblem(
        name="cross_entropy",
        kernel=cross_entropy_kernel,
        key=("rows", "columns"),
        space={
            "BLOCK": (1024, 2048, 4096, 8192, 16384, 32768),
            "num_warps": (4, 8, 16, 32),
            "num_stages": (1, 2, 4),
        },
        shapes=shapes("rows columns", (4096, 50257), (1024, 50304), (256, 128256)),
        inputs=_cross_entropy,
        keeps=_fits,
        small={"rows": 3, "columns": 3000},
    ),
    TuningProblem(
        name="kl",
        kernel=kl_kernel,
        key=("rows", "columns"),
        space={
            "BLOCK": (512, 1024, 2048, 4096),
            "ROWS": (1, 2),
            "num_warps": (2, 4, 8, 16),
            "num_stages": (1, 3),
        },
        shapes=shapes("rows columns", (2048, 32000), (16384, 1024), (512, 50257)),
        inputs=_kl,
        keeps=_fits,
        small={"rows": 5, "columns": 1100},
    ),
    TuningProblem(
        name="swiglu_backward",
        kernel=swiglu_backward_kernel,
        key=("rows", "columns"),
        space={
            "BLOCK": (256, 512, 1024, 2048, 4096),
            "ROWS": (1, 2, 4),
            "num_warps": (1, 2, 4, 8),
        },
        shapes=shapes("rows columns", (4096, 11008), (512, 14336), (16384, 1408)),
        inputs=_swiglu_backward,
        keeps=_fits,
        small={"rows": 5, "columns": 1100},
    ),
    TuningProblem(
        name="layer_norm_backward",
        kernel=layer_norm_backward_kernel,
        key=("rows", "columns"),
        space={
            "PROGRAMS": (66, 132, 264, 528, 1056, 2112),
            "num_warps": (2, 4, 8, 16),
            "num_stages": (1, 2, 3),
        },
        shapes=shapes("rows columns", (8192, 4096), (32768, 768), (2048, 8192)),
        inputs=_layer_norm_backward,
        sums_into=("grad_w_ptr",),
        small={"rows": 140, "columns": 200},
    ),
    TuningProblem(
        name="group_norm",
        kernel=group_norm_kernel,
        key=("images", "channels", "pixels"),
        space={
            "BLOCK": (512, 1024, 2048, 4096, 8192, 16384),
            "num_warps": (2, 4, 8, 16, 32),
            "num_stages": (1, 3),
        },
        shapes=shapes("images channels pixels", (16, 512, 4096), (32, 320, 1024), (4, 128, 65536)),
        inputs=_group_norm,
        keeps=_fits,
        small={"images": 1, "channels": 64, "pixels": 300},
    ),
    TuningProblem(
        name="rope",
        kernel=rope_kernel,
        key=("tokens", "heads"),
        space={
            "TOKENS": (1, 2, 4, 8),
            "HEADS": (1, 4, 8, 16),
            "num_warps": (1, 2, 4, 8),
        },
        shapes=shapes("tokens heads head", (8192, 32, 128), (4096, 8, 128), (32768, 16, 64)),
        inputs=_rope,
        small={"tokens": 9, "heads": 6, "head": 64},
    ),
    TuningProblem(
        name="cumsum",
        kernel=cumsum_kernel,
        key=("rows", "columns"),
        space={
            "BLOCK": (128, 256, 512, 1024, 2048, 4096),
            "ROWS": (1, 2, 4),
            "num_warps": (1, 2, 4, 8),
        },
        shapes=shapes("rows columns", (4096, 8192), (32768, 512), (256, 65536)),
        inputs=_cumsum,
        keeps=_fits,
        small={"rows": 5, "columns": 300},
    ),
)
