"""Spaces, shapes and arguments of the kernels in `memory_kernels`.

Must not know who tunes them.
"""

from __future__ import annotations

from typing import Any

import triton
from memory_kernels import (
    adam_kernel,
    conv1d_kernel,
    embedding_backward_kernel,
    histogram_kernel,
    paged_gather_kernel,
    stencil_kernel,
)
from tuning_problem import TuningProblem, shapes

#: Tokens of a page.
_PAGE = 16


def _adam(n: int) -> Any:
    import torch

    p, m, v = (torch.rand(n, device="cuda") for _ in range(3))
    arguments: dict[str, Any] = {
        "p_ptr": p,
        "g_ptr": torch.randn(n, device="cuda").bfloat16(),
        "m_ptr": m,
    }
    return arguments | {"v_ptr": v, "n": n, "rate": 1e-3}, lambda meta: (
        triton.cdiv(n, meta["BLOCK"] * meta["TURNS"]),
    )


def _conv1d(batch: int, length: int, channels: int) -> Any:
    import torch

    x = torch.randn(batch, length, channels, device="cuda").bfloat16()
    w = torch.randn(4, channels, device="cuda").bfloat16()
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "w_ptr": w,
        "out_ptr": torch.empty_like(x),
        "length": length,
    }
    return arguments | {"channels": channels, "TAPS": 4}, lambda meta: (
        triton.cdiv(length, meta["BLOCK_L"]),
        triton.cdiv(channels, meta["BLOCK_C"]),
        batch,
    )


def _stencil(height: int, width: int) -> Any:
    import torch

    x = torch.randn(height, width, device="cuda")
    arguments: dict[str, Any] = {
        "x_ptr": x,
        "out_ptr": torch.empty_like(x),
        "height": height,
        "width": width,
    }
    return arguments, lambda meta: (
        triton.cdiv(width, meta["BLOCK_X"]),
        triton.cdiv(height, meta["BLOCK_Y"]),
    )


def _histogram(n: int) -> Any:
    import torch

    counts = torch.zeros(256, device="cuda", dtype=torch.int32)
    arguments: dict[str, Any] = {
        "x_ptr": torch.rand(n, device="cuda"),
        "count_ptr": counts,
        "n": n,
        "BINS": 256,
    }
    return arguments, lambda meta: (triton.cdiv(n, meta["BLOCK"] * meta["TURNS"]),)


def _embedding_backward(tokens: int, words: int, columns: int) -> Any:
    import torch

    arguments: dict[str, Any] = {
        "grad_ptr": torch.randn(tokens, columns, device="cuda").half(),
        "index_ptr": torch.randint(0, words, (tokens,), device="cuda"),
        "table_ptr": torch.zeros(words, columns, device="cuda"),
    }
    return arguments | {"tokens": tokens, "columns": columns}, lambda meta: (
        triton.cdiv(tokens, meta["TOKENS"]),
        triton.cdiv(columns, meta["BLOCK"]),
    )


def _paged_gather(sequences: int, length: int, width: int) -> Any:
    import torch

    pages = triton.cdiv(length, _PAGE)
    table = torch.randperm(sequences * pages, device="cuda").to(torch.int32)
    arguments: dict[str, Any] = {
        "pages_ptr": torch.randn(sequences * pages, _PAGE, width, device="cuda").half(),
        "table_ptr": table.reshape(sequences, pages),
        "out_ptr": torch.empty(sequences, length, width, device="cuda", dtype=torch.float16),
    }
    arguments |= {"length": length, "width": width, "pages": pages, "PAGE": _PAGE}
    return arguments, lambda meta: (
        triton.cdiv(length, meta["BLOCK_T"]),
        triton.cdiv(width, meta["BLOCK"]),
        sequences,
    )


MEMORY_PROBLEMS = (
    TuningProblem(
        name="adam",
        kernel=adam_kernel,
        key=("n",),
        space={
            "BLOCK": (256, 512, 1024, 2048, 4096, 8192),
            "TURNS": (1, 2),
            "num_warps": (1, 2, 4, 8, 16),
        },
        shapes=shapes("n", (1 << 25,), (1 << 21,), (3_000_000,)),
        inputs=_adam,
        small={"n": 20_000},
    ),
    TuningProblem(
        name="conv1d",
        kernel=conv1d_kernel,
        key=("length", "channels"),
        space={
            "BLOCK_L": (8, 16, 32, 64, 128),
            "BLOCK_C": (32, 64, 128, 256),
            "num_warps": (1, 2, 4, 8),
        },
        shapes=shapes("batch length channels", (8, 2048, 4096), (2, 8192, 1536), (64, 512, 768)),
        inputs=_conv1d,
        small={"batch": 2, "length": 40, "channels": 70},
    ),
    TuningProblem(
        name="stencil",
        kernel=stencil_kernel,
        key=("height", "width"),
        space={
            "BLOCK_Y": (1, 2, 4, 8, 16),
            "BLOCK_X": (64, 128, 256, 512),
            "num_warps": (1, 2, 4, 8),
        },
        shapes=shapes("height width", (8192, 8192), (1080, 1920), (2048, 2048)),
        inputs=_stencil,
        small={"height": 20, "width": 100},
    ),
    TuningProblem(
        name="histogram",
        kernel=histogram_kernel,
        key=("n",),
        space={
            "BLOCK": (512, 1024, 2048, 4096, 8192),
            "TURNS": (1, 4, 16),
            "num_warps": (2, 4, 8, 16),
        },
        shapes=shapes("n", (1 << 25,), (1 << 22,), (5_000_000,)),
        inputs=_histogram,
        sums_into=("count_ptr",),
        small={"n": 20_000},
    ),
    TuningProblem(
        name="embedding_backward",
        kernel=embedding_backward_kernel,
        key=("tokens", "columns"),
        space={
            "BLOCK": (128, 256, 512, 1024),
            "TOKENS": (1, 2, 4, 8),
            "num_warps": (1, 2, 4, 8),
        },
        shapes=shapes(
            "tokens words columns", (8192, 8192, 2048), (2048, 4096, 4096), (32768, 16384, 512)
        ),
        inputs=_embedding_backward,
        sums_into=("table_ptr",),
        small={"tokens": 20, "words": 7, "columns": 200},
    ),
    TuningProblem(
        name="paged_gather",
        kernel=paged_gather_kernel,
        key=("length", "width"),
        space={
            "BLOCK_T": (1, 4, 16, 32),
            "BLOCK": (128, 256, 512, 1024),
            "num_warps": (1, 2, 4, 8),
        },
        shapes=shapes("sequences length width", (64, 2048, 1024), (8, 8192, 512), (256, 300, 1024)),
        inputs=_paged_gather,
        small={"sequences": 2, "length": 50, "width": 200},
    ),
)
