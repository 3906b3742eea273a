"""References and inputs for operators of FlagGems, for `ttools verify`.

They are separate from the candidates, so that the reference's process does not load FlagGems.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor

#: Arguments with finite values, since norms, losses and products of other values are unspecified.
FINITE = ["x", "w", "b", "m", "n"]
Rows = Annotated[int, (1, 40)]
Columns = Annotated[int, (1, 600)]
Types = Annotated[str, ["float32", "bfloat16"]]


def drawn(seed: int, dtype: str, *shape: int) -> Tensor:
    """Return normally distributed numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


def rows(M: Rows, N: Columns, dtype: Types, seed: int) -> dict[str, Any]:
    return {"x": drawn(seed, dtype, M, N)}


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, -1)


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


def cumsum(x: Tensor) -> Tensor:
    return torch.cumsum(x, 1)


def argmax(x: Tensor) -> Tensor:
    return torch.argmax(x, 1)


def amax(x: Tensor) -> Tensor:
    return torch.amax(x, 1)


def sum_dim(x: Tensor) -> Tensor:
    return torch.sum(x, [1])


def mean_dim(x: Tensor) -> Tensor:
    return torch.mean(x, [1])


def var_mean(x: Tensor) -> Any:
    return torch.var_mean(x, [1], correction=0)


def top(M: Rows, N: Annotated[int, (5, 600)], dtype: Types, seed: int) -> dict[str, Any]:
    return {"x": drawn(seed, dtype, M, N)}


def topk(x: Tensor) -> Any:
    return torch.topk(x, 5).values


def norms(M: Rows, N: Columns, dtype: Types, seed: int) -> dict[str, Any]:
    return {
        "x": drawn(seed, dtype, M, N),
        "w": drawn(seed + 1, dtype, N),
        "b": drawn(seed + 2, dtype, N),
    }


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[1],), w, b)


def rms_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[1],), w, 1e-5)


def products(
    M: Rows, N: Annotated[int, (1, 90)], K: Annotated[int, (1, 200)], dtype: Types, seed: int
) -> dict[str, Any]:
    return {
        "m": drawn(seed, dtype, M, K),
        "n": drawn(seed + 1, dtype, K, N),
        "b": drawn(seed + 2, dtype, N),
    }


def mm(m: Tensor, n: Tensor, b: Tensor) -> Tensor:
    return m @ n


def addmm(m: Tensor, n: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(b, m, n)


def tables(
    M: Rows, N: Annotated[int, (1, 300)], V: Annotated[int, (1, 50)], dtype: Types, seed: int
) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "w": drawn(seed, dtype, V, N),
        "indices": torch.randint(0, V, (M, 3), generator=generator),
    }


def embedding(w: Tensor, indices: Tensor) -> Tensor:
    return F.embedding(indices, w)


def classes(M: Rows, N: Columns, dtype: Types, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, N, (M,), generator=generator)
    return {"x": drawn(seed, dtype, M, N), "target": target}


def cross_entropy_loss(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target)
