"""Finds results among the constants of a plan.

A result that depends on no input can be computed outside of kernels and stored as a constant, which
a kernel then only copies or scales. Its values are those of the constant, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from msgspec.structs import replace

from ttools.core.spec import TensorSpec

#: Results of fewer elements, or of fewer different values, are not compared.
_FEWEST, _FEWEST_DIFFERENT = 8, 4
#: Larger constants are not compared.
_MOST = 1 << 20
#: Relative difference of values that are equal in types of different precision.
_CLOSE = 5e-3
#: A constant with dense values contains nearly any result. Such a constant also contains the result
#: multiplied by this factor, and is then not reported.
_CHANGED = 1.05


class ConstantValues:
    """The constants that the kernels of a plan load."""

    def __init__(self) -> None:
        self._tables: list[torch.Tensor] = []

    def load(self, tensors: Iterable[torch.Tensor]) -> None:
        """Remember the values of constants before a launch."""
        for tensor in tensors:
            if _FEWEST <= tensor.numel() <= _MOST and not tensor.is_complex():
                self._tables.append(tensor.clone())

    def contain(self, result: torch.Tensor) -> bool:
        """Return whether a result consists of values of a constant, perhaps of scaled ones."""
        if result.numel() < _FEWEST or not self._tables or result.is_complex():
            return False
        values = _sorted(result)
        different = int((values.diff() != 0).sum()) + 1
        if different < _FEWEST_DIFFERENT or _is_linear(values):
            return False
        return any(_contains(_sorted(table), values) for table in self._tables)


def whole_view(view: TensorSpec, size: int) -> TensorSpec:
    """Return the view of a whole storage with the type of a view.

    Args:
        view: A view of the storage.
        size: Size of the storage in bytes.
    """
    return replace(view, offset=0, shape=(size // view.itemsize,), strides=(1,))


def _sorted(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach().reshape(-1).double()
    return values[values.isfinite()].sort().values


def _is_linear(values: torch.Tensor) -> bool:
    """Return whether sorted values have equal distances, such as consecutive indices."""
    steps = values.diff()
    return bool((steps == steps[:1]).all())


def _contains(table: torch.Tensor, values: torch.Tensor) -> bool:
    if table.numel() < values.numel() or not values.numel():
        return False
    if table.numel() == values.numel():
        scale = table.abs().max()
        scaled = values / values.abs().max() * scale
        margin = _CLOSE * scale
        return any(
            bool(((table - other).abs() <= margin).all()) for other in (scaled, -scaled.flip(0))
        )
    return _shares(table, values) == 1.0 and _shares(table, values * _CHANGED) < 0.5


def _shares(table: torch.Tensor, values: torch.Tensor) -> float:
    """Return the share of values that are in a sorted table."""
    at = torch.searchsorted(table, values).clamp(1, table.numel() - 1)
    nearest = torch.minimum((table[at] - values).abs(), (table[at - 1] - values).abs())
    return float((nearest <= 1e-3 * values.abs()).double().mean())
