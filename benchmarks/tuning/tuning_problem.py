"""What tuners are compared on: a kernel, a space, shapes, and arguments for each."""

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
    """A kernel with the space it is tuned over.

    Attributes:
        name: of the comparison.
        kernel: a jit function.
        key: what is tuned apart.
        space: values by parameter; all combinations that `keeps` keeps are configurations.
        shapes: sizes by name, each a launch.
        inputs: arguments by name, and the grid, of a shape.
        keeps: whether a combination is one that somebody would write down.
        small: a shape that the CPU can launch, to check the kernel with.
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
        """The key of a shape's launch, without its dtypes."""
        return {name: shape[name.lower()] for name in self.key}

    def configs(self) -> list[Any]:
        """All configurations, the last parameter running fastest."""
        chosen = itertools.product(*self.space.values())
        values = (dict(zip(self.space, each, strict=True)) for each in chosen)
        return [config_of(each) for each in values if self.keeps(each)]

    def autotuned(self, kernel: Any = None) -> Any:
        """The kernel, or a copy of it, under `triton.autotune`."""
        return triton.autotune(self.configs(), list(self.key))(kernel or self.kernel)


def config_of(values: Mapping[str, Any]) -> Any:
    """A `triton.Config` of parameters and launch options."""
    own = {name: value for name, value in values.items() if name not in _OPTIONS}
    return triton.Config(own, **{n: values[n] for n in _OPTIONS if n in values})


def shapes(names: str, *sizes: tuple[int, ...]) -> Sequence[Mapping[str, int]]:
    """Shapes of the sizes that are named, in that order."""
    return tuple(dict(zip(names.split(), each, strict=True)) for each in sizes)
