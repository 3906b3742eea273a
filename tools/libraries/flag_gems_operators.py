"""The operators of FlagGems that are tested: inputs, and the corresponding ATen operators.

FlagGems implements ATen's operators in Triton with ATen's signatures. Therefore both take the same
arguments, and torch's own CPU implementation is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Operator:
    """An operator of FlagGems to test, with its inputs.

    Attributes:
        name: Name of the function in `flag_gems.ops`.
        aten: Name of the corresponding ATen overload.
        arguments: Returns the arguments, given a floating-point type and a device.
        keywords: Keyword arguments of both functions.
        results: Number of results that are compared; None for all.
        types: Types in which the operator is tested.
    """

    name: str
    aten: str
    arguments: Callable[[torch.dtype, str], Arguments]
    keywords: tuple[tuple[str, Any], ...] = ()
    results: int | None = None
    types: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)


def _normal(*shapes: tuple[int, ...]) -> Callable[[torch.dtype, str], Arguments]:
    """Return a function that makes normally distributed tensors of these shapes."""
    return lambda dtype, device: tuple(_randn(shape, dtype, device) for shape in shapes)


def _randn(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    return torch.randn(shape, device=device).to(dtype)


def _then(*more: Any, shape: tuple[int, ...] = (17, 70)) -> Callable[[torch.dtype, str], Arguments]:
    """Return a function that makes a normally distributed tensor and adds the given constants."""
    return lambda dtype, device: (_randn(shape, dtype, device), *more)


def _positive(dtype: torch.dtype, device: str) -> Arguments:
    return ((torch.rand(17, 70, device=device) + 0.1).to(dtype),)


def _bits(dtype: torch.dtype, device: str) -> Arguments:
    return tuple(torch.randint(-99, 99, (17, 70), device=device) for _ in range(2))


def _flags(dtype: torch.dtype, device: str) -> Arguments:
    return (torch.rand(17, 70, device=device) < 0.9,)


def _masked(*rest: Any) -> Callable[[torch.dtype, str], Arguments]:
    return lambda dtype, device: (
        _randn((17, 70), dtype, device),
        torch.rand(17, 70, device=device) < 0.5,
        *rest,
    )


def _chosen(dtype: torch.dtype, device: str) -> Arguments:
    mask = torch.rand(17, 70, device=device) < 0.5
    return (mask, _randn((17, 70), dtype, device), _randn((17, 70), dtype, device))


def _rows(dtype: torch.dtype, device: str) -> Arguments:
    return (_randn((50, 16), dtype, device), torch.randint(50, (4, 9), device=device))


def _index_select(dtype: torch.dtype, device: str) -> Arguments:
    return (_randn((50, 16), dtype, device), 0, torch.randint(50, (9,), device=device))


def _gather(dtype: torch.dtype, device: str) -> Arguments:
    return (_randn((20, 30), dtype, device), 1, torch.randint(30, (20, 9), device=device))


def _scatter(dtype: torch.dtype, device: str) -> Arguments:
    index = torch.rand(20, 30, device=device).argsort(1)[:, :9]
    return (_randn((20, 30), dtype, device), 1, index, _randn((20, 9), dtype, device))


def _index_add(dtype: torch.dtype, device: str) -> Arguments:
    index = torch.randint(20, (9,), device=device)
    return (_randn((20, 30), dtype, device), 0, index, _randn((9, 30), dtype, device))


def _targets(dtype: torch.dtype, device: str) -> Arguments:
    x = torch.log_softmax(torch.randn(12, 50, device=device), -1).to(dtype)
    return (x, torch.randint(50, (12,), device=device), None, 1, -100)


def _distinct(dtype: torch.dtype, device: str) -> Arguments:
    """Return rows of distinct numbers that are exact in bfloat16."""
    return (torch.rand(17, 70, device=device).argsort(-1).to(dtype),)


def _whole(dtype: torch.dtype, device: str) -> Arguments:
    return (torch.randint(0, 9, (300,), device=device),)


_FLOAT = (torch.float32,)
_ROWS = (17, 70)

#: Functions of one tensor whose ATen operator is the overload `default`.
_UNARY = (
    *("abs", "acos", "angle", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1"),
    *("isfinite", "isinf", "isnan", "logical_not", "neg", "reciprocal", "relu", "round"),
    *("sigmoid", "silu", "sin", "softplus", "square", "tan", "tanh", "elu", "celu", "glu"),
    *("count_nonzero", "max", "mean", "min", "prod", "sum"),
)
_BINARY = (
    *("atan2", "fmin", "hypot", "logaddexp", "logical_and", "logical_or", "maximum", "minimum"),
    *("floor_divide", "mse_loss"),
)
_BINARY_TENSOR = ("add", "eq", "ge", "gt", "le", "lt", "mul", "ne", "remainder")


OPERATORS = (
    *(Operator(name, name, _normal(_ROWS)) for name in _UNARY),
    *(Operator(name, name, _normal(_ROWS, _ROWS)) for name in _BINARY),
    *(Operator(name, f"{name}.Tensor", _normal(_ROWS, _ROWS)) for name in _BINARY_TENSOR),
    *(Operator(name, name, _positive) for name in ("log", "log10", "rsqrt", "sqrt", "i0")),
    Operator("sub", "sub.Tensor", _normal(_ROWS, (70,))),
    Operator("true_divide", "div.Tensor", _normal(_ROWS, (17, 1))),
    Operator("bitwise_and_tensor", "bitwise_and.Tensor", _bits, types=_FLOAT),
    Operator("bitwise_or_tensor", "bitwise_or.Tensor", _bits, types=_FLOAT),
    Operator("bitwise_not", "bitwise_not", lambda d, device: _bits(d, device)[:1], types=_FLOAT),
    Operator("pow_tensor_scalar", "pow.Tensor_Scalar", _then(3)),
    Operator("clamp", "clamp", _then(-0.5, 0.5)),
    Operator("nan_to_num", "nan_to_num", _then(1.0)),
    Operator("threshold", "threshold", _then(0.3, 2.0)),
    Operator("gelu", "gelu", _normal(_ROWS)),
    Operator("gelu", "gelu", _normal(_ROWS), keywords=(("approximate", "tanh"),)),
    Operator("lerp_tensor", "lerp.Tensor", _normal(_ROWS, _ROWS, _ROWS)),
    Operator("addcmul", "addcmul", _normal(_ROWS, _ROWS, _ROWS)),
    Operator("where_self", "where.self", _chosen),
    Operator("masked_fill", "masked_fill.Scalar", _masked(1.5)),
    Operator("masked_select", "masked_select", _masked()),
    Operator("triu", "triu", _then(1)),
    Operator("tril", "tril", _then(-1)),
    Operator("flip", "flip", _then([0, 1])),
    Operator("roll", "roll", _then([3], [1])),
    Operator("repeat", "repeat", _then([2, 3])),
    Operator("diag", "diag", _then(1)),
    Operator("constant_pad_nd", "constant_pad_nd", _then([1, 2], 0.5)),
    Operator("cat", "cat", lambda d, device: (list(_normal(_ROWS, (3, 70))(d, device)),)),
    Operator("stack", "stack", lambda d, device: (list(_normal(_ROWS, _ROWS)(d, device)), 1)),
    Operator("all", "all", _flags, types=_FLOAT),
    Operator("any", "any", _flags, types=_FLOAT),
    Operator("sum_dim", "sum.dim_IntList", _then([1])),
    Operator("mean_dim", "mean.dim", _then([0])),
    Operator("max_dim", "max.dim", _then(1)),
    Operator("min_dim", "min.dim", _then(1)),
    Operator("prod_dim", "prod.dim_int", _then(1), types=_FLOAT),
    Operator("amax", "amax", _then([1])),
    Operator("argmax", "argmax", _then(1)),
    # FlagGems 5.0.2 has no masks here, so the number of rows must be a multiple of 4, and the
    # number of columns must be a power of two.
    Operator("argmin", "argmin", _then(1, shape=(16, 64))),
    Operator("var_mean", "var_mean.correction", _then([1])),
    Operator("vector_norm", "linalg_vector_norm", _then(2, [1])),
    Operator("cumsum", "cumsum", _then(1)),
    Operator("cummin", "cummin", _then(1)),
    Operator("cummax", "cummax", _then(1)),
    Operator("softmax", "_softmax", _then(-1, False)),
    Operator("log_softmax", "_log_softmax", _then(-1, False)),
    Operator("sort", "sort", _distinct),
    Operator("topk", "topk", lambda d, device: (*_distinct(d, device), 5)),
    Operator("quantile", "quantile", _then(0.3), types=_FLOAT),
    Operator("nonzero", "nonzero", _flags, types=_FLOAT),
    Operator("unique_consecutive", "unique_consecutive", _whole, types=_FLOAT),
    Operator("one_hot", "one_hot", lambda d, device: (*_whole(d, device), 9), types=_FLOAT),
    Operator("embedding", "embedding", _rows),
    Operator("index_select", "index_select", _index_select),
    Operator("gather", "gather", _gather),
    Operator("scatter", "scatter.src", _scatter),
    Operator("index_add", "index_add", _index_add),
    Operator("nll_loss_forward", "nll_loss_forward", _targets),
    Operator("mm", "mm", _normal((40, 50), (50, 30))),
    Operator("addmm", "addmm", _normal((40, 30), (40, 50), (50, 30))),
    Operator("bmm", "bmm", _normal((2, 40, 50), (2, 50, 30))),
    Operator("baddbmm", "baddbmm", _normal((2, 40, 30), (2, 40, 50), (2, 50, 30))),
    Operator("mv", "mv", _normal((40, 50), (50,))),
    Operator("dot", "dot", _normal((300,), (300,))),
    Operator("trace", "trace", _normal((20, 30)), types=_FLOAT),
    Operator("kron", "kron", _normal((4, 5), (3, 2))),
    Operator("conv2d", "conv2d", _normal((2, 3, 9, 9), (4, 3, 3, 3), (4,))),
    Operator("upsample_nearest2d", "upsample_nearest2d", _then([16, 18], shape=(2, 3, 8, 9))),
    Operator(
        "max_pool2d_with_indices",
        "max_pool2d_with_indices",
        _then([3, 3], [2, 2], shape=(2, 3, 9, 9)),
    ),
    Operator("avg_pool2d", "avg_pool2d", _then([3, 3], [2, 2], shape=(2, 3, 9, 9))),
    Operator(
        "layer_norm",
        "native_layer_norm",
        lambda d, device: (_randn(_ROWS, d, device), [70], *_normal((70,), (70,))(d, device), 1e-5),
        results=1,  # FlagGems returns means and deviations with another shape
    ),
    Operator(
        "group_norm",
        "native_group_norm",
        lambda d, device: (*_normal((2, 6, 40), (6,), (6,))(d, device), 2, 6, 40, 3, 1e-5),
    ),
    Operator(
        "scaled_dot_product_attention",
        "scaled_dot_product_attention",
        _normal((1, 2, 64, 64), (1, 2, 64, 64), (1, 2, 64, 64)),
        types=(torch.float16, torch.bfloat16),
    ),
)
