"""What a row of the benchmark is: inputs, the call of each side, and the result both must give.

A call returns what it computed. Where torch's operation takes `out=`, both sides write to memory
given to them; where it does not, both allocate. Must not know how calls are timed.
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
    """A part of a workload; see `Workload.parts`."""

    inputs: Callable[[], Tensors]
    factor: int


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One row of the benchmark.

    Attributes:
        name: as the option `--only` matches it.
        title: as the report shows it.
        torch_call: makes the call that torch does natively.
        triton_call: makes the call that launches kernels of `kernels.py`.
        inputs: makes the inputs.
        tolerance: largest error, relative to the largest value of a result.
        wrong: sides that give a wrong result, and why they are skipped.
        parts: sides too slow to run it all, and the part that they run: inputs of which the
            whole has `factor` times as many programs of the same cost.
        access: what decides how much checks may cost: `gathers` loads by indices from memory,
            `scatters` stores by them, so that each element stored has to be looked at.
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
        """The same inputs in every process of a side."""
        torch.manual_seed(0)
        return self.parts[side].inputs() if side in self.parts else self.inputs()

    def factor(self, side: str) -> int:
        """How many times the programs that the side runs there would be."""
        return self.parts[side].factor if side in self.parts else 1

    def expected(self, inputs: Tensors) -> Tensors:
        """The result of torch in double precision."""
        exact = [x.detach().double() if x.is_floating_point() else x for x in inputs]
        return self.torch_call(*exact)()


def largest_error(results: Tensors, expected: Tensors) -> float:
    """The largest difference relative to the largest value of each result."""
    worst = 0.0
    for got, want in zip(results, expected, strict=True):
        scale = max(want.abs().max().item(), 1e-30)
        error = (got.detach().double() - want.detach()).abs().max().item() / scale
        worst = math.inf if math.isnan(error) else max(worst, error)
    return worst
