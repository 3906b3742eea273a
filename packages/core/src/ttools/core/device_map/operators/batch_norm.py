"""CPU implementations of the steps of `SyncBatchNorm`, between which processes exchange sums.

torch implements these operators for GPUs only. All functions take and return CPU tensors; sums and
values derived from them have at least the precision of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def replacements() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the names of operators in aten, each with the function that implements it."""
    yield "batch_norm_stats", _stats
    yield "batch_norm_elemt", _normalised
    yield "batch_norm_gather_stats_with_counts", _gathered
    yield "batch_norm_backward_reduce", _reduced
    yield "batch_norm_backward_elemt", _gradient


def _wide(x: Any) -> Any:
    return x if x.dtype == torch.float64 else x.float()


def _per_channel(value: Any, like: Any) -> Any:
    """Return a vector over channels, reshaped to broadcast along the second dimension."""
    return value.view(1, -1, *(1,) * (like.dim() - 2))


def _others(x: Any) -> list[int]:
    return [axis for axis in range(x.dim()) if axis != 1]


def _stats(x: Any, eps: float) -> tuple[Any, Any]:
    """Return the mean and the inverse standard deviation of each channel."""
    variance, mean = torch.var_mean(_wide(x), _others(x), correction=0)
    return mean, torch.rsqrt(variance + eps)


def _normalised(x: Any, weight: Any, bias: Any, mean: Any, invstd: Any, eps: float) -> Any:
    result = (_wide(x) - _per_channel(mean, x)) * _per_channel(invstd, x)
    if weight is not None:
        result = result * _per_channel(weight, x)
    if bias is not None:
        result = result + _per_channel(bias, x)
    return result.to(x.dtype)


def _gathered(
    x: Any,
    means: Any,
    invstds: Any,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
    counts: Any,
) -> tuple[Any, Any]:
    """Combine statistics of shape (processes, channels), weighted by `counts`."""
    weights = (counts / counts.sum()).to(means.dtype)[:, None]
    mean = (means * weights).sum(0)
    squares = invstds.pow(-2) - eps + (means - mean) ** 2
    variance = (squares * weights).sum(0)
    if running_mean is not None:
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        total = counts.sum()
        unbiased = variance * (total / (total - 1))
        running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    return mean, torch.rsqrt(variance + eps)


def _reduced(
    gradient: Any,
    x: Any,
    mean: Any,
    invstd: Any,
    weight: Any,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Any, Any, Any, Any]:
    """Return the sums of gradient and gradient * (x - mean), and the weight and bias gradients."""
    wide = _wide(gradient)
    total = wide.sum(_others(x))
    product = (wide * (_wide(x) - _per_channel(mean, x))).sum(_others(x))
    kind = total.dtype if weight is None else weight.dtype
    return (
        total if input_g else None,
        product if input_g else None,
        (product * invstd).to(kind) if weight_g else None,
        total.to(kind) if bias_g else None,
    )


def _gradient(
    gradient: Any,
    x: Any,
    mean: Any,
    invstd: Any,
    weight: Any,
    total: Any,
    product: Any,
    counts: Any,
) -> Any:
    """Return the gradient of the input from the sums of all processes."""
    number = counts.sum()
    centred = _wide(x) - _per_channel(mean, x)
    along = centred * _per_channel(invstd**2 * product / number, x)
    result = _wide(gradient) - _per_channel(total / number, x) - along
    scale = invstd if weight is None else invstd * weight
    return (result * _per_channel(scale, x)).to(x.dtype)
