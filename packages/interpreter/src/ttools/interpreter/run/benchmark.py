"""Timing of kernels on the CPU, with the interfaces that Triton and its users know from CUDA."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any

from ttools.core.context_values import bound
from ttools.core.device_map import events
from ttools.core.device_map.graphs.capture import capturing, refuse_waiting
from ttools.core.errors import UsageError

# One call in this many milliseconds is enough to rank configurations of a synchronous kernel.
_WARMUP_MS = 5.0
_REP_MS = 25.0
_MODES: dict[str, Callable[[list[float]], Any]] = {
    "min": min,
    "max": max,
    "mean": statistics.fmean,
    "median": statistics.median,
    "all": list,
}


def do_bench(
    fn: Callable[[], object],
    warmup: float = _WARMUP_MS,
    rep: float = _REP_MS,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time a synchronous function, as `triton.testing.do_bench` times kernels on a GPU.

    Args:
        fn: what to time; it is called once more, before anything is timed, to compile. Kernels
            that run eagerly are not run at all: they take the same time, whatever they are.
        warmup: milliseconds to run before timing; the first call counts.
        rep: milliseconds to time; at least one call is timed.
        grad_to_none: tensors whose gradients are dropped before each timed call.
        quantiles: quantiles of the times to return, instead of `return_mode`.
        return_mode: `min`, `max`, `mean`, `median` or `all`.

    Returns:
        Milliseconds: a float, or a list for several quantiles and for `all`.

    Raises:
        UsageError: an unknown `return_mode`, or a quantile outside [0, 1].
        RuntimeError: a CUDA graph is captured, in which nothing can be timed.
    """
    capture = capturing()
    if capture is not None:
        raise capture.refuse()
    if return_mode not in _MODES:
        raise UsageError(f"return_mode={return_mode!r}: must be one of {', '.join(_MODES)}")
    if _runs_eagerly(fn):
        return _statistic([1.0], quantiles, return_mode)
    warm_until = time.perf_counter() + warmup / 1e3
    estimate = _call(fn)
    while time.perf_counter() + estimate < warm_until:
        estimate = _call(fn)
    times: list[float] = []
    spent = 0.0
    while not times or spent + estimate <= rep / 1e3:
        for tensor in grad_to_none or ():
            tensor.grad = None
        times.append(_call(fn))
        spent += times[-1]
    return _statistic([seconds * 1e3 for seconds in times], quantiles, return_mode)


def _statistic(
    milliseconds: list[float], quantiles: Sequence[float] | None, return_mode: str
) -> Any:
    if quantiles is not None:
        values = [_quantile(milliseconds, q) for q in quantiles]
        return values[0] if len(values) == 1 else values
    return _MODES[return_mode](milliseconds)


# The eager kernels that were launched to be timed; None while nothing is timed.
_eager_kernels: ContextVar[list[str] | None] = ContextVar("ttools_timed_eagerly", default=None)


def is_timed(kernel: str) -> bool:
    """Return whether an eager launch is only there to be timed, so that it need not run.

    A debugger would stop in it once for every configuration of an autotuner.
    """
    launched = _eager_kernels.get()
    if launched is None:
        return False
    launched.append(kernel)
    return True


def _runs_eagerly(fn: Callable[[], object]) -> bool:
    """Call `fn` and return whether it launched a kernel that runs eagerly."""
    launched: list[str] = []
    with bound(_eager_kernels, launched):
        fn()
    return bool(launched)


def _call(fn: Callable[[], object]) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def _quantile(times: list[float], q: float) -> float:
    import numpy as np

    if not 0 <= q <= 1:
        raise UsageError(f"quantile {q}: must be between 0 and 1")
    return float(np.quantile(times, q))


class Event(events.Event):
    """A point in time, with the interface of `torch.cuda.Event`; its own option is ignored."""

    def elapsed_time(self, end_event: events.Event) -> float:
        """Milliseconds from this event to `end_event`; never zero, for callers divide by it.

        Raises:
            UsageError: one of them was not recorded.
        """
        if self._time_ns is None or end_event._time_ns is None:
            raise UsageError("elapsed_time: both events must be recorded first")
        return max((end_event._time_ns - self._time_ns) / 1e6, 1e-6)


class CPUDeviceInterface:
    """The part of `torch.cuda` that Triton asks a driver's device interface for."""

    Event = Event

    @staticmethod
    def synchronize(device: object = None) -> None:
        """Return at once: launches are synchronous."""
        refuse_waiting()

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        """One."""
        return 1

    @staticmethod
    def current_stream(device: object = None) -> int:
        return 0

    @staticmethod
    def stream(stream: object) -> nullcontext[None]:
        """Return a context that changes nothing."""
        return nullcontext()
