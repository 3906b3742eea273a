"""Kernels with configurations and batches, from which pairs of executions are formed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch

Config = Mapping[str, Any]
Tensors = dict[str, torch.Tensor]


class Draw:
    """Random inputs of one draw, which are equal on every machine.

    Args:
        seed: Number of the draw. In every third draw, normal numbers are raised to the third
            power, so that their exponents vary more.
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._is_wide = seed % 3 == 2

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return normally distributed numbers, or their third powers."""
        x = torch.randn(shape, generator=self._generator)
        return (x**3 if self._is_wide else x).to(dtype)

    def half(self, *shape: int) -> torch.Tensor:
        """Return such numbers as f16."""
        return self.normal(*shape, dtype=torch.float16)

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """Return integers from 0 to `high - 1`, of 32 bits."""
        return torch.randint(high, shape, generator=self._generator, dtype=torch.int32)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A function that launches a kernel.

    Attributes:
        name: Name of the function.
        run: The function; its arguments are a configuration, and tensors by name.
        inputs: Creates the tensors of a draw.
        configs: The configurations, all of which are compared with each other.
        batch: Axis of the batch in each tensor that has one; empty for no comparison of batches.
    """

    name: str
    run: Callable[..., Any]
    inputs: Callable[[Draw], Tensors]
    configs: Sequence[Config]
    batch: Mapping[str, int] = field(default_factory=dict)


class Cases(dict[str, Case]):
    """The cases of a module, by name."""

    def add(
        self,
        configs: Sequence[Config],
        inputs: Callable[[Draw], Tensors],
        **batch: int,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that adds a function; see `Case` for the arguments."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            name = function.__name__
            self[name] = Case(name=name, run=function, inputs=inputs, configs=configs, batch=batch)
            return function

        return decorate


def configs(**values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return all combinations of some values."""
    return [dict(zip(values, one, strict=True)) for one in product(*values.values())]
