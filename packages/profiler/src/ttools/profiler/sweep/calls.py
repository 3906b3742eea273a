"""Calls of the implementations in a sweep: results, passes and times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ttools.core.errors import UsageError

Pass = Literal["forward", "backward", "both"]
#: Minimum duration of a sample in seconds; as many calls are timed together as are needed to reach
#: it.
_SAMPLE_S = 1e-3
#: Minimum number of samples, even if a single one takes longer than the requested time.
_FEWEST = 3
#: The quantiles for the median and for the bounds that enclose three in five samples, as in
#: Triton's autotuner.
QUANTILES = (0.5, 0.2, 0.8)


# --- results --------------------------------------------------------------------------------------


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors in nested tuples, lists and dicts, in the order of the structure."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copied tensors, so that no call can change tensors of other calls."""
    return _with_tensors(arguments, torch.Tensor.clone)


def on_gpu(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with their tensors on the GPU."""
    return _with_tensors(arguments, torch.Tensor.cuda)


def _with_tensors(
    arguments: Mapping[str, Any], change: Callable[[torch.Tensor], torch.Tensor]
) -> dict[str, Any]:
    """Return arguments with replaced tensors; a tensor passed twice is replaced by one tensor."""
    changed: dict[int, torch.Tensor] = {}

    def replace(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in changed:
            changed[id(leaf)] = change(leaf.detach()).requires_grad_(leaf.requires_grad)
        return changed[id(leaf)]

    result: dict[str, Any] = pytree.tree_map(replace, dict(arguments))
    return result


def bytes_of(*values: Any) -> int:
    """Return the total bytes of the tensors in values; a tensor counts once in each value."""
    return sum(
        tensor.numel() * tensor.element_size()
        for value in values
        for tensor in {id(tensor): tensor for tensor in tensors_in(value)}.values()
    )


def mismatch(results: list[torch.Tensor], wanted: list[torch.Tensor]) -> str:
    """Return why results cannot be compared with the baseline's; empty if they can be compared."""
    if len(results) != len(wanted):
        return f"returns {len(results)} tensors, but the baseline returns {len(wanted)}"
    for own, other in zip(results, wanted, strict=True):
        if own.shape != other.shape:
            own_shape, wanted_shape = list(own.shape), list(other.shape)
            return f"returns a tensor of shape {own_shape}, but the baseline one of {wanted_shape}"
    return ""


def greatest_error(results: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """Return the largest difference of an element, relative to the baseline's largest magnitude.

    The error is infinite if only one of two elements is NaN or infinite, or if all elements of the
    baseline are zero and some element of the result is not.
    """
    return max((_error(o, w) for o, w in zip(results, wanted, strict=True)), default=0.0)


def _error(own: torch.Tensor, other: torch.Tensor) -> float:
    if not own.numel():
        return 0.0
    a, b = _as_f64(own), _as_f64(other)
    equal = (a == b) | (a.isnan() & b.isnan())
    difference = (
        torch.where(equal, 0.0, (a - b).abs())
        .nan_to_num(nan=torch.inf, posinf=torch.inf)
        .max()
        .item()
    )
    if difference == 0:
        return 0.0
    scale = torch.where(b.isfinite(), b, 0.0).abs().max().item()
    return float(difference / scale) if scale else float("inf")


def _as_f64(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().cpu()
    return (torch.view_as_real(plain) if plain.is_complex() else plain).to(torch.float64)


# --- passes ---------------------------------------------------------------------------------------


class Task:
    """One implementation with the arguments for one shape.

    Args:
        function: Function that takes keyword arguments and returns tensors, or None if it writes to
            its arguments.
        arguments: Arguments whose tensors are not shared with other tasks.
        which: The pass that `call` runs. The first backward pass is preceded by a forward pass,
            whose autograd graph all later backward passes use.

    Attributes:
        bytes: Number of bytes of the tensors that the last call read and wrote. For a backward
            pass, these tensors are the arguments and the gradients of results and of arguments.
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
        """Run the pass; return results, then gradients of the arguments that require them.

        Raises:
            UsageError: Neither an argument nor a result requires gradients.
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
            raise UsageError(
                "no tensor of `inputs` requires gradients; call requires_grad_() on one"
            )
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
    """Return a gradient for a result, with positive and negative values, equal in each run."""
    generator = torch.Generator(device=result.device).manual_seed(result.numel())
    return torch.randn(result.shape, dtype=result.dtype, device=result.device, generator=generator)


# --- times ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Duration:
    """The time of a call in seconds.

    Attributes:
        median: Median of all samples.
        low: The time below which a fifth of the samples lies.
        high: The time above which a fifth of the samples lies.
        samples: All samples, in seconds.
    """

    median: float
    low: float
    high: float
    samples: Sequence[float] = ()

    @classmethod
    def of(cls, samples: Sequence[float]) -> Duration:
        """Summarise samples in seconds."""
        median, low, high = (float(end) for end in np.quantile(samples, QUANTILES))
        return cls(median=median, low=low, high=high, samples=tuple(samples))


def time_on_gpu(call: Callable[[], object], repeat_s: float) -> Duration:
    """Return the GPU time of a call, with the cache emptied before each repetition."""
    import triton.testing

    times = triton.testing.do_bench(call, rep=repeat_s * 1e3, return_mode="all")
    return Duration.of([time * 1e-3 for time in times])


def time_alternately(
    calls: Mapping[str, Callable[[], object]], repeat_s: float
) -> dict[str, Duration | Exception]:
    """Time synchronous calls alternately, so that disturbances of the machine affect all of them.

    Args:
        calls: Calls that have been made before, so that nothing remains to be compiled.
        repeat_s: Seconds for which each call is repeated.

    Returns:
        The time of each call, or the exception that it raised.
    """
    outcomes: dict[str, Duration | Exception] = {}
    samples: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for name, call in calls.items():
        try:
            counts[name] = max(1, math.ceil(_SAMPLE_S / _sample(call, 1)))
            samples[name] = []
        except Exception as error:  # noqa: BLE001 - the implementation's
            outcomes[name] = error
    ends = time.perf_counter() + repeat_s * len(samples)
    rounds = 0
    while samples.keys() - outcomes.keys() and (rounds < _FEWEST or time.perf_counter() < ends):
        rounds += 1
        for name in samples.keys() - outcomes.keys():
            try:
                samples[name].append(_sample(calls[name], counts[name]))
            except Exception as error:  # noqa: BLE001 - the implementation's
                outcomes[name] = error
    for name in samples.keys() - outcomes.keys():
        outcomes[name] = Duration.of(samples[name])
    return outcomes


def _sample(call: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        call()
    return max((time.perf_counter() - began) / count, 1e-9)
