"""A problem for the comparison of tuners: a kernel, its search space, shapes and arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import triton

Values = Mapping[str, Sequence[Any]]
_OPTIONS = ("num_warps", "num_stages")


@dataclass(frozen=True, kw_only=True)
class TuningProblem:
    """A kernel with the space over which it is tuned.

    Attributes:
        name: Name of the problem in the comparison.
        kernel: A `@triton.jit` function.
        key: Names of the arguments for whose values `triton.autotune` tunes separately.
        space: Values by parameter. Configurations are all combinations that `keeps` accepts.
        shapes: Sizes by name; each shape is one launch.
        inputs: Returns the arguments by name, and the grid, for a shape.
        keeps: Returns whether a user would consider a combination; if not, it is not in the space.
        small: A shape that the CPU can launch, to check the kernel.
    """

    name: str
    kernel: Any
    key: Sequence[str]
    space: Values
    shapes: Sequence[Mapping[str, int]]
    inputs: Callable[..., tuple[dict[str, Any], Callable[[Mapping[str, Any]], tuple[int, ...]]]]
    keeps: Callable[[Mapping[str, Any]], bool] = lambda values: True
    small: Mapping[str, int]

    def key_of(self, shape: Mapping[str, int]) -> dict[str, int]:
        """Return the tuning key of a shape's launch, without its dtypes."""
        return {name: shape[name.lower()] for name in self.key}

    def configs(self) -> list[Any]:
        """Return all configurations; the last parameter varies fastest."""
        chosen = itertools.product(*self.space.values())
        values = (dict(zip(self.space, combination, strict=True)) for combination in chosen)
        return [config_of(combination) for combination in values if self.keeps(combination)]

    def autotuned(self, kernel: Any = None) -> Any:
        """Return the kernel, or a copy of it, decorated with `triton.autotune`."""
        return triton.autotune(self.configs(), list(self.key))(kernel or self.kernel)


def config_of(values: Mapping[str, Any]) -> Any:
    """Return a `triton.Config` from parameters and launch options."""
    own = {name: value for name, value in values.items() if name not in _OPTIONS}
    return triton.Config(own, **{n: values[n] for n in _OPTIONS if n in values})


def shapes(names: str, *sizes: tuple[int, ...]) -> Sequence[Mapping[str, int]]:
    """Return shapes as mappings from the given names to sizes."""
    return tuple(dict(zip(names.split(), row, strict=True)) for row in sizes)
