"""Rounding errors inside of a function: what each of its operators computes is a little off.

Where a result cancels whatever the inputs are, as the gradient of softmax or the cross entropy of
one class, disturbed inputs do not show of what size the numbers were that cancelled. A kernel that
computes them in another way than torch is off by a rounding error of those.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from ttools.verifier.cases.tensors import map_tensors
from ttools.verifier.oracle.decisions import JUMPING
from ttools.verifier.oracle.decisions import MOVING as CHOOSING
from ttools.verifier.workers.operators import MOVING

#: Operators whose logarithm of what they have computed cancels for one element.
_COMPOSED = frozenset(("_log_softmax", "logsumexp"))


class Rounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Disturbs what operators compute in f64 while it is active; what only moves is exact.

    Args:
        step: the largest relative disturbance.
        generator: of random numbers.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, see `workers.operators`."""
        return False

    def __init__(self, step: float, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._step, self._generator = step, generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        if name in _COMPOSED and (parts := decomposition_table.get(func)) is not None:
            with self:
                return parts(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        is_exact = name in MOVING or name in CHOOSING or name in JUMPING or name == "index"
        if is_exact or any(value.alias_info for value in func._schema.returns):
            return result
        return map_tensors(self._disturbed, result, torch.Tensor)

    def _disturbed(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != torch.float64:
            return tensor
        noise = torch.rand(
            tensor.shape, generator=self._generator, dtype=torch.float64, device="cpu"
        )
        return tensor * (1 + self._step * (2 * noise - 1))
