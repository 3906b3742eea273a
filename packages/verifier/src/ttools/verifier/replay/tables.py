"""Finds results among the constants of a plan.

A result that depends on no input can be computed outside of kernels and stored as a constant, which
a kernel then only copies or scales. Its values are those of the constant, in any order. They may
also be operands of operators, arguments of launches, or constants in the code of a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from msgspec.structs import replace

from ttools.core.spec import TensorSpec
from ttools.verifier.replay.plan import Items, LaunchStep, Plan

#: Results of fewer elements, or of fewer different values, are not compared.
_FEWEST, _FEWEST_DIFFERENT = 8, 4
#: Larger constants are not compared.
_MOST = 1 << 20
#: Relative difference of values that are equal in types of different precision.
_CLOSE = 5e-3
#: A constant with dense values contains nearly any result. Such a constant also contains the result
#: multiplied by this factor, and is then not reported.
_CHANGED = 1.05
#: A float in the TTIR of a kernel; the text of one that is not finite is hexadecimal.
_LITERAL = re.compile(r"arith\.constant (?:dense<)?(-?\d+\.\d+(?:[eE][-+]?\d+)?)>? : ")


class ConstantValues:
    """The constants of a plan that its results may contain.

    Args:
        numbers: Constants that are not in memory, see `numbers_of`.
    """

    def __init__(self, numbers: Iterable[float] = ()) -> None:
        self._tables: list[torch.Tensor] = []
        self._numbers = torch.tensor(list(numbers), dtype=torch.float64, device="cpu")

    def load(self, tensors: Iterable[torch.Tensor]) -> None:
        """Remember the values of constants before a launch."""
        for tensor in tensors:
            if _FEWEST <= tensor.numel() <= _MOST and not tensor.is_complex():
                self._tables.append(tensor.clone())

    def contain(self, result: torch.Tensor) -> bool:
        """Return whether a result consists of values of a constant, perhaps of scaled ones."""
        if result.numel() < _FEWEST or result.is_complex():
            return False
        values = _sorted(result)
        different = int((values.diff() != 0).sum()) + 1
        if different < _FEWEST_DIFFERENT or _is_linear(values):
            return False
        # The code contains a number once.
        if _contains(_sorted(self._numbers), torch.unique_consecutive(values)):
            return True
        return any(_contains(_sorted(table), values) for table in self._tables)


def numbers_of(plan: Plan) -> Iterator[float]:
    """Yield the floats among operands, arguments of launches, and in the code of kernels."""
    for step in plan.steps:
        if isinstance(step, LaunchStep):
            yield from _floats_of([argument.value for argument in step.spec.arguments])
        else:
            yield from _floats_of((*step.arguments, *step.keywords.values()))
    for ttir in plan.kernels:
        yield from map(float, _LITERAL.findall(ttir))


def _floats_of(values: Iterable[Any]) -> Iterator[float]:
    for value in values:
        if isinstance(value, Items):
            yield from _floats_of(value.items)
        elif isinstance(value, float):
            yield value


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
