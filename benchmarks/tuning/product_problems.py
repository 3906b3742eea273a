"""Spaces, shapes and arguments of the products in `product_kernels`.

Must not know who tunes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import triton
from product_kernels import (
    batched_kernel,
    conv2d_kernel,
    decode_kernel,
    experts_kernel,
    int4_kernel,
    rms_int8_kernel,
    split_k_kernel,
)
from tuning_problem import TuningProblem, shapes

#: Weights of four bits that share a scale, and rows that are one expert's.
_GROUP, _ALIGNED = 128, 128


def _tiles(m: int, n: int) -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
    """A program per tile, columns first."""
    return lambda meta: (triton.cdiv(n, meta["BLOCK_N"]), triton.cdiv(m, meta["BLOCK_M"]))


def _all_tiles(m: int, n: int, *more: int) -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
    """The same on one axis, and others."""
    return lambda meta: (
        triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
        *more,
    )


def _rms_int8(m: int, n: int, k: int) -> Any:
    import torch

    arguments: dict[str, Any] = {
        "x_ptr": torch.randn(m, k, device="cuda").half(),
        "w_ptr": torch.randint(-127, 128, (n, k), device="cuda", dtype=torch.int8),
        "scale_ptr": torch.rand(n, device="cuda") / 64,
        "out_ptr": torch.empty(m, n, device="cuda", dtype=torch.float16),
    }
    return arguments | {"M": m, "N": n, "K": k, "eps": 1e-6}, _tiles(m, n)


def _int4(m: int, n: int, k: int) -> Any:
    import torch

    words = torch.randint(-(1 << 31), 1 << 31, (k // 8, n), device="cuda", dtype=torch.int64)
    arguments: dict[str, Any] = {
        "x_ptr": torch.randn(m, k, device="cuda").half(),
        "w_ptr": words.to(torch.int32),
        "scale_ptr": (torch.rand(k // _GROUP, n, device="cuda") / 16).half(),
        "out_ptr": torch.empty(m, n, device="cuda", dtype=torch.float16),
    }
    return arguments | {"M": m, "N": n, "K": k, "GROUP": _GROUP}, _tiles(m, n)


def _conv2d(batch: int, side: int, channels: int, filters: int) -> Any:
    import torch

    arguments: dict[str, Any] = {
        "x_ptr": torch.randn(batch, side, side, channels, device="cuda").half(),
        "w_ptr": (torch.randn(3, 3, channels, filters, device="cuda") / channels**0.5).half(),
        "out_ptr": torch.empty(batch, side, side, filters, device="cuda", dtype=torch.float16),
    }
    arguments |= {"batch": batch, "height": side, "width": side, "channels": channels}
    pixels = batch * side * side

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return triton.cdiv(pixels, meta["BLOCK_M"]), triton.cdiv(filters, meta["BLOCK_N"])

    return arguments | {"filters": filters, "SIDE": 3}, grid


def _batched(batch: int, m: int, n: int, k: int) -> Any:
    import torch

    def stack(rows: int, columns: int) -> Any:
        return torch.randn(batch, rows, columns, device="cuda").bfloat16()

    arguments: dict[str, Any] = {"a_ptr": stack(m, k), "b_ptr": stack(k, n), "c_ptr": stack(m, n)}
    return arguments | {"batch": batch, "M": m, "N": n, "K": k}, _all_tiles(m, n, batch)


def _split_k(m: int, n: int, k: int) -> Any:
    import torch

    a, b = (torch.randn(size, k, device="cuda").half() for size in (m, n))
    c = torch.zeros(m, n, device="cuda")

    def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
        return *_all_tiles(m, n)(meta), meta["SPLIT"]

    return {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": m, "N": n, "K": k}, grid


def _experts(tokens: int, experts: int, n: int, k: int) -> Any:
    import torch

    # Each expert has its share of the tokens, half to one and a half times as many as others.
    order, owners, first = [], [], 0
    mixed = torch.randperm(tokens, generator=torch.Generator().manual_seed(0)).tolist()
    for expert in range(experts):
        share = (2 * expert + experts) * tokens // (2 * experts * experts)
        own = mixed[first:] if expert == experts - 1 else mixed[first : first + share]
        first += len(own)
        own += [tokens] * (-len(own) % _ALIGNED)
        order += own
        owners += [expert] * (len(own) // _ALIGNED)
    arguments: dict[str, Any] = {
        "x_ptr": torch.randn(tokens, k, device="cuda").half(),
        "w_ptr": (torch.randn(experts, n, k, device="cuda") / k**0.5).half(),
        "out_ptr": torch.empty(tokens, n, device="cuda", dtype=torch.float16),
        "order_ptr": torch.tensor(order, dtype=torch.int32, device="cuda"),
        "expert_ptr": torch.tensor(owners, dtype=torch.int32, device="cuda"),
    }
    arguments |= {"tokens": tokens, "N": n, "K": k, "ALIGNED": _ALIGNED}
    return arguments, _all_tiles(len(order), n)


def _decode(groups: int, length: int, head: int) -> Any:
    import torch

    k, v = (torch.randn(groups, length, head, device="cuda").half() for _ in range(2))
    arguments: dict[str, Any] = {
        "q_ptr": torch.randn(groups, 16, head, device="cuda").half(),
        "k_ptr": k,
        "v_ptr": v,
        "out_ptr": torch.zeros(groups, 16, head, device="cuda"),
        "weight_ptr": torch.zeros(groups, 16, device="cuda"),
    }
    arguments |= {"length": length, "scale": 1.4426950408889634 / head**0.5, "HEAD": head}
    return arguments | {"QUERIES": 16}, lambda meta: (groups, meta["PARTS"])


PRODUCT_PROBLEMS = (
    TuningProblem(
        name="rms_int8",
        kernel=rms_int8_kernel,
        key=("M", "N", "K"),
        space={
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (64, 128),
            "BLOCK_K": (32, 64),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        shapes=shapes("m n k", (2048, 4096, 4096), (64, 4096, 4096), (512, 11008, 2048)),
        inputs=_rms_int8,
        small={"m": 80, "n": 128, "k": 256},
    ),
    TuningProblem(
        name="int4",
        kernel=int4_kernel,
        key=("M", "N", "K"),
        space={
            "BLOCK_M": (16, 32, 64),
            "BLOCK_N": (64, 128, 256),
            "BLOCK_K": (64, 128),
            "num_warps": (4, 8),
            "num_stages": (2, 4),
        },
        shapes=shapes("m n k", (16, 4096, 4096), (64, 11008, 4096), (512, 4096, 4096)),
        inputs=_int4,
        small={"m": 24, "n": 128, "k": 256},
    ),
    TuningProblem(
        name="conv2d",
        kernel=conv2d_kernel,
        key=("batch", "height", "channels", "filters"),
        space={
            "BLOCK_M": (64, 128, 256),
            "BLOCK_N": (64, 128),
            "BLOCK_K": (32, 64),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        shapes=shapes(
            "batch side channels filters", (32, 28, 256, 256), (16, 56, 64, 64), (32, 14, 512, 512)
        ),
        inputs=_conv2d,
        sizes=lambda side, **others: {"height": side, **others},
        small={"batch": 1, "side": 6, "channels": 40, "filters": 72},
    ),
    TuningProblem(
        name="batched",
        kernel=batched_kernel,
        key=("batch", "M", "N", "K"),
        space={
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (64, 128),
            "BLOCK_K": (32, 64),
            "num_warps": (4, 8),
            "num_stages": (2, 3, 4),
        },
        shapes=shapes(
            "batch m n k", (64, 512, 512, 512), (256, 128, 1024, 64), (32, 1000, 1000, 72)
        ),
        inputs=_batched,
        small={"batch": 2, "m": 70, "n": 100, "k": 72},
    ),
    TuningProblem(
        name="split_k",
        kernel=split_k_kernel,
        key=("M", "N", "K"),
        space={
            "BLOCK_M": (16, 64, 128),
            "BLOCK_N": (64, 128),
            "BLOCK_K": (64, 128),
            "SPLIT": (1, 2, 4, 8, 16),
            "num_warps": (4,),
            "num_stages": (3,),
        },
        shapes=shapes("m n k", (64, 4096, 8192), (16, 2048, 16384), (512, 1024, 8192)),
        inputs=_split_k,
        sums_into=("c_ptr",),
        small={"m": 24, "n": 72, "k": 512},
    ),
    TuningProblem(
        name="experts",
        kernel=experts_kernel,
        key=("tokens", "N", "K"),
        space={
            "BLOCK_M": (32, 64, 128),
            "BLOCK_N": (64, 128, 256),
            "BLOCK_K": (32, 64),
            "num_warps": (4, 8),
            "num_stages": (3, 4),
        },
        shapes=shapes(
            "tokens experts n k",
            (4096, 16, 2048, 1024),
            (512, 8, 4096, 2048),
            (8192, 8, 1408, 2048),
        ),
        inputs=_experts,
        small={"tokens": 150, "experts": 3, "n": 72, "k": 128},
    ),
    TuningProblem(
        name="decode",
        kernel=decode_kernel,
        key=("length", "HEAD"),
        space={
            "BLOCK_N": (32, 64, 128),
            "PARTS": (1, 2, 4, 8, 16, 32),
            "num_warps": (2, 4),
            "num_stages": (2, 4),
        },
        shapes=shapes("groups length head", (64, 8192, 128), (256, 2048, 64), (16, 32768, 128)),
        inputs=_decode,
        sums_into=("out_ptr", "weight_ptr"),
        small={"groups": 2, "length": 300, "head": 64},
    ),
)
