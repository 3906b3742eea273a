"""The examples of the repository with references and inputs, for `ttools verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from autotuned import row_sum as row_sum
from descriptors import transpose as transpose
from flash_attention import Attention
from layer_norm import LayerNorm
from matmul import matmul as multiply
from softmax import softmax as softmax
from strided_views import add_one as add_in_place
from vector_add import add as add

#: Arguments that have to be contiguous according to the examples' docstrings.
CONTIGUOUS = ["x", "y", "wide", "scale", "shift", "q", "k", "v"]
FINITE = ["wide", "scale", "shift", "q", "k", "v"]
INPLACE = ["view"]
Rows = Annotated[int, (1, 40)]
Columns = Annotated[int, (1, 300)]
Eight = Annotated[int, (1, 8)]
Types = Annotated[str, ["float32", "float16"]]
Gradients = Annotated[bool, [True, False]]


def drawn(seed: int, *shape: int, dtype: str = "float32", grad: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype)).requires_grad_(grad)


def rows(M: Rows, N: Columns, seed: int) -> dict[str, Any]:
    return {"x": drawn(seed, M, N)}


def softmax_reference(x: Tensor) -> Tensor:
    return torch.softmax(x, 1)


def row_sum_reference(x: Tensor) -> Tensor:
    return x.float().sum(1)


def fours(M: Annotated[int, (1, 20)], N: Annotated[int, (1, 40)], seed: int) -> dict[str, Any]:
    return {"x": drawn(seed, 4 * M, 4 * N)}


def transpose_reference(x: Tensor) -> Tensor:
    return x.t().contiguous()


def pairs(N: Annotated[int, (1, 5000)], dtype: Types, seed: int) -> dict[str, Any]:
    return {"x": drawn(seed, N, dtype=dtype), "y": drawn(seed + 1, N, dtype=dtype)}


def add_reference(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def small(M: Eight, N: Eight, seed: int) -> dict[str, Any]:
    return {"view": drawn(seed, M, N)}


def add_one(view: Tensor) -> Tensor:
    add_in_place(view)
    return view


def add_one_reference(view: Tensor) -> Tensor:
    return view.add_(1)


def factors(
    M: Annotated[int, (1, 100)],
    N: Annotated[int, (1, 100)],
    K: Annotated[int, (1, 300)],
    dtype: Types,
    seed: int,
) -> dict[str, Any]:
    return {"a": drawn(seed, M, K, dtype=dtype), "b": drawn(seed + 1, K, N, dtype=dtype)}


def matmul(a: Tensor, b: Tensor) -> Tensor:
    return multiply(a, b, a.dtype)


def matmul_reference(a: Tensor, b: Tensor) -> Tensor:
    return (a.float() @ b.float()).to(a.dtype)


def normalised(M: Rows, N: Columns, grad: Gradients, seed: int) -> dict[str, Any]:
    wide, scale, shift = (
        drawn(seed + step, *shape, grad=grad) for step, shape in enumerate([(M, N), (N,), (N,)])
    )
    return {"wide": wide, "scale": scale, "shift": shift}


def layer_norm(wide: Tensor, scale: Tensor, shift: Tensor) -> Any:
    return LayerNorm.apply(wide, scale, shift, 1e-5)


def layer_norm_reference(wide: Tensor, scale: Tensor, shift: Tensor) -> Any:
    return F.layer_norm(wide, scale.shape, scale, shift, 1e-5)


def heads(
    H: Annotated[int, (1, 3)],
    N: Annotated[int, (1, 150)],
    D: Annotated[int, [16, 64]],
    dtype: Types,
    seed: int,
) -> dict[str, Any]:
    return {name: drawn(seed + step, H, N, D, dtype=dtype) for step, name in enumerate("qkv")}


def attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return Attention.apply(q, k, v)


def attention_reference(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)
