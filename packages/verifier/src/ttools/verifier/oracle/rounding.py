"""Disturbs what a reference computes, function by function, as rounding does.

Sums that cancel lose what was rounded before: `exp(x) - 1` near 0, whose argument is exact. A
kernel that computes as the reference says may lose as much. What one function of torch does inside
is not disturbed: how `softplus` avoids to lose is its business.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ttools.verifier.oracle.decisions import makes_or_moves

#: Of an interval about 0 in which numbers have a mean square of 1.
_WIDTH = 12**0.5


class Rounding(TorchFunctionMode):
    """Changes floats that are computed while it is active by a relative step of either sign.

    Args:
        step: the root of its mean square.
        generator: of signs and sizes.

    Attributes:
        count: how many functions were disturbed.
    """

    def __init__(self, step: float, generator: torch.Generator) -> None:
        super().__init__()
        self._step, self._generator = step, generator
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if makes_or_moves(getattr(func, "__name__", "")) or "out" in (kwargs or {}):
            return result
        before, self.count = self.count, self.count + 1
        changed = self._disturbed(result)
        if changed is result:
            self.count = before
        return changed

    def _disturbed(self, result: Any) -> Any:
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            noise = torch.rand(
                result.shape, generator=self._generator, dtype=torch.float64, device="cpu"
            )
            return result * (1 + self._step * _WIDTH * (noise - 0.5)).to(result.dtype)
        if type(result) in (tuple, list):
            changed = [self._disturbed(each) for each in result]
            if any(one is not other for one, other in zip(changed, result, strict=True)):
                return type(result)(changed)
        return result
