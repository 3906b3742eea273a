"""A row of the benchmark: inputs, the call of each side, and the expected result.

A call returns its results. If torch's operation accepts `out=`, the calls of torch and of Triton
write to existing memory; otherwise both allocate memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch

Tensors = tuple[torch.Tensor, ...]
Call = Callable[[], Tensors]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a workload, for implementations too slow to run all of it; see `Workload.parts`."""

    inputs: Callable[[], Tensors]
    factor: int


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One row of the benchmark.

    Attributes:
        name: Name for the option `--only`.
        title: Name in the report.
        torch_call: Returns the call that uses torch's native operations.
        triton_call: Returns the call that launches Triton kernels.
        inputs: Returns the inputs.
        tolerance: Maximum error, relative to the largest value of a result.
        wrong: Sides that give a wrong result, with the reason why they are skipped.
        parts: Parts of the workload for sides that are too slow to run all of it. The whole
            workload has `factor` times as many programs of the same cost.
        access: Kind of memory access, which determines the target for the cost of checks.
            `gathers`: loads at indices that are read from memory. `scatters`: stores at indices
            that are read from memory, so that the checks must process each stored element.
    """

    name: str
    title: str
    inputs: Callable[[], Tensors]
    torch_call: Callable[..., Call]
    triton_call: Callable[..., Call]
    tolerance: float = 1e-5
    wrong: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    access: Literal["plain", "gathers", "scatters"] = "plain"

    def make_inputs(self, side: str) -> Tensors:
        """Return the inputs; they are the same in every process of a side."""
        torch.manual_seed(0)
        return self.parts[side].inputs() if side in self.parts else self.inputs()

    def factor(self, side: str) -> int:
        """Return how many times as many programs the whole workload has as the side runs."""
        return self.parts[side].factor if side in self.parts else 1

    def expected(self, inputs: Tensors) -> Tensors:
        """Return the result of torch in double precision."""
        exact = [x.detach().double() if x.is_floating_point() else x for x in inputs]
        return self.torch_call(*exact)()


def largest_error(results: Tensors, expected: Tensors) -> float:
    """Return the largest difference, relative to the largest value of each result."""
    worst = 0.0
    for got, want in zip(results, expected, strict=True):
        scale = max(want.abs().max().item(), 1e-30)
        error = (got.detach().double() - want.detach()).abs().max().item() / scale
        worst = math.inf if math.isnan(error) else max(worst, error)
    return worst
