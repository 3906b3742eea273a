"""Operators of FlagGems as candidates for `ttools verify`, with `GEMS_VENDOR=nvidia`."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from typing import Any

from flag_gems import fused, ops
from torch import Tensor


def softmax(x: Tensor) -> Any:
    return ops.softmax(x, -1)


def log_softmax(x: Tensor) -> Any:
    return ops.log_softmax(x, -1)


def gelu(x: Tensor) -> Any:
    return ops.gelu(x)


def cumsum(x: Tensor) -> Any:
    return ops.cumsum(x, 1)


def argmax(x: Tensor) -> Any:
    return ops.argmax(x, 1)


def amax(x: Tensor) -> Any:
    return ops.amax(x, [1])


def sum_dim(x: Tensor) -> Any:
    return ops.sum_dim(x, [1])


def mean_dim(x: Tensor) -> Any:
    return ops.mean_dim(x, [1])


def var_mean(x: Tensor) -> Any:
    return ops.var_mean(x, [1], correction=0)


def topk(x: Tensor) -> Any:
    return ops.topk(x, 5)[0]


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return ops.layer_norm(x, (x.shape[1],), w, b)[0]


def rms_norm(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return ops.rms_norm(x, (x.shape[1],), w, 1e-5)


def mm(m: Tensor, n: Tensor, b: Tensor) -> Any:
    return ops.mm(m, n)


def addmm(m: Tensor, n: Tensor, b: Tensor) -> Any:
    return ops.addmm(b, m, n)


def embedding(w: Tensor, indices: Tensor) -> Any:
    return ops.embedding(w, indices)


def cross_entropy_loss(x: Tensor, target: Tensor) -> Any:
    return fused.cross_entropy_loss(x, target)
