"""What of an implementation a sweep calls: its forward pass, its backward pass, or both.

Must not know how calls are timed or compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch

from ttools.core.errors import UsageError
from ttools.profiler.sweep.results import bytes_of, tensors_in

Pass = Literal["forward", "backward", "both"]


class Task:
    """One implementation with the arguments of one shape.

    Args:
        function: takes keyword arguments; returns tensors, or None if it writes to arguments.
        arguments: nobody else uses their tensors.
        which: the pass that `call` makes. A backward pass needs a forward pass, which the first
            call makes, and then uses the graph of that again.

    Attributes:
        bytes: of the tensors that the last call took and gave; of a backward pass the arguments,
            the gradients of results, and those of arguments.
    """

    def __init__(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], which: Pass
    ) -> None:
        self._function = function
        self._arguments = dict(arguments)
        self._which = which
        self._graph: list[torch.Tensor] = []
        self._weights: list[torch.Tensor] = []
        self.bytes = 0

    def call(self) -> list[torch.Tensor]:
        """Makes the pass; returns results, then gradients of the arguments that require them.

        Raises:
            UsageError: neither an argument nor a result requires gradients.
        """
        if self._which == "forward":
            returned = self._function(**self._arguments)
            self.bytes = bytes_of(self._arguments, *([] if returned is None else [returned]))
            return tensors_in(self._arguments if returned is None else returned)
        if self._which == "backward":
            self._graph = self._graph or self._forward()
            gradients = self._backward(self._graph, keep=True)
            self.bytes = bytes_of(self._arguments, self._weights, gradients)
            return gradients
        results = self._forward()
        gradients = self._backward(results, keep=False)
        self.bytes = bytes_of(self._arguments, results, self._weights, gradients)
        return [*results, *gradients]

    def _forward(self) -> list[torch.Tensor]:
        with torch.enable_grad():
            returned = self._function(**self._arguments)
        return tensors_in(self._arguments if returned is None else returned)

    def _backward(self, results: list[torch.Tensor], *, keep: bool) -> list[torch.Tensor]:
        leaves = [t for t in tensors_in(self._arguments) if t.requires_grad and t.is_leaf]
        if not leaves:
            raise UsageError("no tensor of `inputs` requires gradients: requires_grad_() does that")
        roots = [result for result in results if result.grad_fn is not None]
        if not roots:
            raise UsageError("no result requires gradients")
        self._weights = self._weights or [_weights(root) for root in roots]
        return list(
            torch.autograd.grad(
                roots, leaves, self._weights, retain_graph=keep, materialize_grads=True
            )
        )


def _weights(result: torch.Tensor) -> torch.Tensor:
    """The gradient of what follows a result: of both signs and size one, the same in each run."""
    generator = torch.Generator(device=result.device).manual_seed(result.numel())
    return torch.randn(result.shape, dtype=result.dtype, device=result.device, generator=generator)
