"""The spaces and shapes that tuners are compared on, and arguments for each.

Must not know who tunes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import triton
from held_out.problems import HELD_OUT_PROBLEMS
from memory_problems import MEMORY_PROBLEMS
from product_problems import PRODUCT_PROBLEMS
from row_problems import ROW_PROBLEMS
from tuning_kernels import (
    attention_kernel,
    gelu_kernel,
    grouped_matmul_kernel,
    layer_norm_kernel,
    matmul_kernel,
    softmax_kernel,
)
from tuning_problem import TuningProblem, Values
from tuning_shapes import MORE_SHAPES


def _matmul(dtype: str) -> Callable[..., Any]:
    def inputs(m: int, n: int, k: int) -> Any:
        import torch

        a, b = (torch.randn(s, k, device="cuda", dtype=torch.float16) for s in (m, n))
        if dtype == "fp8":
            a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        c = torch.empty(m, n, device="cuda", dtype=torch.float16)
        arguments = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": m, "N": n, "K": k}
        return arguments, lambda meta: (
            triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
        )

    return inputs


def _attention(heads: int, length: int, head: int) -> Any:
    import torch

    q, k, v = (torch.randn(heads, length, head, device="cuda").half() for _ in range(3))
    arguments: dict[str, Any] = {"q_ptr": q, "k_ptr": k, "v_ptr": v, "out_ptr": torch.empty_like(q)}
    arguments |= {"length": length, "scale": 1.4426950408889634 / head**0.5, "HEAD": head}
    return arguments, lambda meta: (triton.cdiv(length, meta["BLOCK_M"]), heads)


def _rows(with_weight: bool) -> Callable[..., Any]:
    def inputs(rows: int, columns: int) -> Any:
        import torch

        x = torch.randn(rows, columns, device="cuda").half()
        arguments = {"x_ptr": x, "out_ptr": torch.empty_like(x), "rows": rows, "columns": columns}
        if with_weight:
            arguments |= {"w_ptr": torch.randn(columns, device="cuda").half(), "eps": 1e-5}
        return arguments, lambda meta: (triton.cdiv(rows, meta["ROWS"]),)

    return inputs


def _gelu(n: int) -> Any:
    import torch

    x, y = (torch.randn(n, device="cuda").half() for _ in range(2))
    arguments = {"x_ptr": x, "y_ptr": y, "out_ptr": torch.empty_like(x), "n": n}
    return arguments, lambda meta: (triton.cdiv(n, meta["BLOCK"] * meta["TURNS"]),)


def _heights(groups: int, m: int) -> list[int]:
    """Groups of 0.5 to 1.5 times `m` rows."""
    return [m // 2 + m * (7 * group % groups) // max(1, groups - 1) for group in range(groups)]


def _grouped_sizes(groups: int, m: int, n: int, k: int) -> Mapping[str, int]:
    return {"groups": groups, "M": max(_heights(groups, m)), "N": n, "K": k}


def _grouped(groups: int, m: int, n: int, k: int) -> Any:
    import torch

    heights = _heights(groups, m)
    tables = {
        "a_table": [torch.randn(height, k, device="cuda").half() for height in heights],
        "b_table": [torch.randn(k, n, device="cuda").half() for _ in heights],
        "c_table": [torch.empty(height, n, device="cuda").half() for height in heights],
    }
    arguments: dict[str, Any] = {
        name: torch.tensor([each.data_ptr() for each in matrices], device="cuda")
        for name, matrices in tables.items()
    }
    arguments |= {"heights": torch.tensor(heights, dtype=torch.int32, device="cuda")}
    arguments |= _grouped_sizes(groups, m, n, k)
    _alive.append(tables)

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        tiles = triton.cdiv(max(heights), meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"])
        return tiles, groups

    return arguments, grid


#: Matrices that only tables of addresses lead to, of the latest launches.
_alive: deque[Any] = deque(maxlen=8)


def _tiles(block_k: Sequence[int]) -> Values:
    return {
        "BLOCK_M": (64, 128, 256),
        "BLOCK_N": (64, 128, 256),
        "BLOCK_K": block_k,
        "GROUP_M": (8,),
        "num_warps": (4, 8),
        "num_stages": (3, 4),
    }


_PRODUCTS = ({"m": 4096, "n": 4096, "k": 4096}, {"m": 512, "n": 4096, "k": 2048})
_ROW_SPACE = {
    "BLOCK": (256, 512, 1024, 2048, 4096),
    "ROWS": (1, 2, 4),
    "num_warps": (1, 2, 4, 8, 16),
}
#: Elements of a thread that its registers can hold.
_MOST_PER_THREAD = 128


def _fits_rows(values: Mapping[str, Any]) -> bool:
    threads = 32 * int(values["num_warps"])
    return int(values["ROWS"] * values["BLOCK"]) <= _MOST_PER_THREAD * threads


def _fits_tile(values: Mapping[str, Any]) -> bool:
    return int(values["BLOCK_M"] * values["BLOCK_N"]) <= 256 * 128


_ROW_SHAPES = (
    {"rows": 8192, "columns": 4096},
    {"rows": 32768, "columns": 768},
    {"rows": 512, "columns": 8192},
)
PROBLEMS = (
    TuningProblem(
        name="gelu",
        kernel=gelu_kernel,
        key=("n",),
        space={
            "BLOCK": (256, 512, 1024, 2048, 4096, 8192),
            "TURNS": (1, 2),
            "num_warps": (1, 2, 4, 8, 16),
        },
        shapes=({"n": 1 << 26}, {"n": 1 << 22}, {"n": 1 << 18}),
        more_shapes=MORE_SHAPES["gelu"],
        inputs=_gelu,
    ),
    TuningProblem(
        name="softmax",
        kernel=softmax_kernel,
        key=("rows", "columns"),
        space=_ROW_SPACE,
        shapes=_ROW_SHAPES,
        more_shapes=MORE_SHAPES["softmax"],
        inputs=_rows(with_weight=False),
        keeps=_fits_rows,
    ),
    TuningProblem(
        name="layer_norm",
        kernel=layer_norm_kernel,
        key=("rows", "columns"),
        space=_ROW_SPACE,
        shapes=_ROW_SHAPES,
        more_shapes=MORE_SHAPES["layer_norm"],
        inputs=_rows(with_weight=True),
        keeps=_fits_rows,
    ),
    TuningProblem(
        name="matmul_fp16",
        kernel=matmul_kernel,
        key=("M", "N", "K"),
        space=_tiles((32, 64)),
        shapes=(*_PRODUCTS, {"m": 8192, "n": 1024, "k": 1024}),
        more_shapes=MORE_SHAPES["matmul_fp16"],
        inputs=_matmul("fp16"),
        keeps=_fits_tile,
    ),
    TuningProblem(
        name="matmul_fp8",
        kernel=matmul_kernel,
        key=("M", "N", "K"),
        space=_tiles((64, 128)),
        shapes=(*_PRODUCTS, {"m": 8192, "n": 2048, "k": 8192}),
        more_shapes=MORE_SHAPES["matmul_fp8"],
        inputs=_matmul("fp8"),
        keeps=_fits_tile,
    ),
    TuningProblem(
        name="attention",
        kernel=attention_kernel,
        key=("length", "HEAD"),
        space={
            "BLOCK_M": (64, 128),
            "BLOCK_N": (32, 64, 128),
            "num_warps": (4, 8),
            "num_stages": (1, 2, 3, 4),
        },
        shapes=(
            {"heads": 32, "length": 4096, "head": 64},
            {"heads": 64, "length": 1024, "head": 64},
            {"heads": 16, "length": 4096, "head": 128},
        ),
        more_shapes=MORE_SHAPES["attention"],
        inputs=_attention,
    ),
    TuningProblem(
        name="grouped_matmul",
        kernel=grouped_matmul_kernel,
        key=("groups", "M", "N", "K"),
        space={
            "BLOCK_M": (64, 128),
            "BLOCK_N": (64, 128),
            "BLOCK_K": (32, 64),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        shapes=(
            {"groups": 8, "m": 512, "n": 1024, "k": 2048},
            {"groups": 32, "m": 128, "n": 2048, "k": 1024},
            {"groups": 4, "m": 2048, "n": 4096, "k": 1024},
        ),
        more_shapes=MORE_SHAPES["grouped_matmul"],
        inputs=_grouped,
        sizes=_grouped_sizes,
    ),
    *PRODUCT_PROBLEMS,
    *ROW_PROBLEMS,
    *MEMORY_PROBLEMS,
    *HELD_OUT_PROBLEMS,
)
