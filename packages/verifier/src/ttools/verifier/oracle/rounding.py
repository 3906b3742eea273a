"""Simulates rounding errors inside a function, by a small change of each operator's results.

In some results, terms cancel for all inputs, as in the gradient of softmax or in the cross entropy
of one class. Perturbed inputs do not show the size of these terms. A kernel that computes the terms
differently from torch has an error as large as the rounding errors of the terms.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from ttools.verifier.cases.tensors import map_tensors
from ttools.verifier.oracle.decisions import JUMPING
from ttools.verifier.oracle.decisions import MOVING as CHOOSING
from ttools.verifier.replay.operators import MOVING

#: Matches operators that are decomposed, so that the operators inside them are also perturbed. For
#: a row of one element, the terms in these operators cancel.
_COMPOSED = re.compile(r".*(softmax|logsumexp|norm|_backward)")


class Rounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Perturbs, while active, the results of all operators that do more than move elements.

    Results of types other than f64 and complex128 are not perturbed.

    Args:
        step: Maximum relative perturbation of a result.
        generator: Random generator for the perturbations.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False, so that torch does not import its compiler, see `workers.operators`."""
        return False

    def __init__(self, step: float, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._step, self._generator = step, generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        if _COMPOSED.match(name) and (parts := decomposition_table.get(func)) is not None:
            with self:
                return parts(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        is_exact = name in MOVING or name in CHOOSING or name in JUMPING or name == "index"
        if is_exact or any(value.alias_info for value in func._schema.returns):
            return result
        return map_tensors(self._perturbed, result, torch.Tensor)

    def _perturbed(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in (torch.float64, torch.complex128):
            return tensor
        noise = torch.rand(
            tensor.shape, generator=self._generator, dtype=torch.float64, device="cpu"
        )
        return tensor * (1 + self._step * (2 * noise - 1))
