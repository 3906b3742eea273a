"""Distances between two tensors of one type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tools.gpu_op_table.rows import Bound

Array = np.ndarray[Any, Any]
_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


@dataclass(frozen=True, kw_only=True)
class Distance:
    """The distance between two results.

    Attributes:
        elements: Number of compared elements.
        different: Number of elements with different bits.
        outside: Number of elements whose distance exceeds the bound.
        ulps: Largest distance in units in the last place, ignoring results that are within the
            absolute bound; infinite if one of two results is NaN.
        absolute: Largest distance of finite values.
        worst: Index of the element with the largest distance, or None if all are equal.
    """

    elements: int = 0
    different: int = 0
    outside: int = 0
    ulps: float = 0.0
    absolute: float = 0.0
    worst: int | None = None


def _bits(tensor: torch.Tensor) -> Array:
    array: Array = tensor.contiguous().view(_UNSIGNED[tensor.dtype.itemsize]).numpy()
    return array.reshape(-1)


def _wide(tensor: torch.Tensor) -> Array:
    wide: Array = tensor.to(torch.float64).numpy()
    return wide.reshape(-1)


def _ordered(bits: Array, dtype: torch.dtype) -> Array:
    """Return unsigned integers in the order of the values that the bits encode."""
    top = bits.dtype.type(1 << (bits.dtype.itemsize * 8 - 1))
    if dtype.is_floating_point:
        negative = (bits & top) != 0
        # Zeros of both signs become `top`.
        ordered: Array = np.where(negative, top - (bits ^ top), bits | top)
        return ordered
    return bits ^ top if dtype.is_signed else bits


def distance(actual: torch.Tensor, expected: torch.Tensor, bound: Bound) -> Distance:
    """Compare the engine's result with that of the reference; both tensors are on the host."""
    dtype = actual.dtype
    if dtype is torch.bool:
        actual, expected, dtype = actual.byte(), expected.byte(), torch.uint8
    bits, wanted = _bits(actual), _bits(expected)
    values, wanted_values = _wide(actual), _wide(expected)
    both_nan = np.isnan(values) & np.isnan(wanted_values)
    one_nan = np.isnan(values) != np.isnan(wanted_values)
    same = (bits == wanted) | both_nan
    a, b = _ordered(bits, dtype), _ordered(wanted, dtype)
    ulps = (np.maximum(a, b) - np.minimum(a, b)).astype(np.float64)
    ulps[same], ulps[one_nan] = 0, np.inf
    with np.errstate(invalid="ignore"):
        gap = np.abs(values - wanted_values)
    finite = np.isfinite(gap)
    within = same | ((ulps <= bound.ulps) & (bound.ulps > 0))
    covered = finite & (gap <= bound.absolute) & (bound.absolute > 0)
    covered |= finite & (gap == 0) & bound.zeros
    within |= covered
    # If there are elements that exceed the bound, the worst element is one of them.
    blame = np.where(same, -1.0, ulps) + np.where(within, 0.0, 1e30)
    return Distance(
        elements=len(bits),
        different=int((~same).sum()),
        outside=int((~within).sum()),
        ulps=float(ulps[~covered].max(initial=0)),
        absolute=float(gap[finite].max(initial=0)),
        worst=None if same.all() else int(blame.argmax()),
    )


def combined(parts: list[Distance]) -> Distance:
    """Return the summed counts and the largest errors of several results; `worst` is None."""
    return Distance(
        elements=sum(p.elements for p in parts),
        different=sum(p.different for p in parts),
        outside=sum(p.outside for p in parts),
        ulps=max(p.ulps for p in parts),
        absolute=max(p.absolute for p in parts),
        worst=None,
    )
