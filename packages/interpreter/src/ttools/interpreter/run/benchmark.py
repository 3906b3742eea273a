"""Timing of kernels on the CPU, with the interfaces of Triton and `torch.cuda`."""

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

#: Explains why timing fails while a CUDA graph is captured, and what to do.
TUNED_IN_CAPTURE = (
    "an autotuned kernel is launched for the first time while a CUDA graph is captured, and timing "
    "its configurations waits for the GPU; launch it once with the same key before the capture"
)

# Milliseconds of warm-up and of the measurement. If a kernel takes longer, a single call suffices
# to rank its configurations.
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
        fn: The function to time. It is called once before the measurement, so that its kernels are
            compiled. Kernels that run eagerly are not executed: their time is always reported as
            one millisecond.
        warmup: Milliseconds of calls before the measurement, including the first call.
        rep: Milliseconds of timed calls; at least one call is timed.
        grad_to_none: Tensors whose gradients are set to None before each timed call.
        quantiles: Quantiles of the times to return, instead of `return_mode`.
        return_mode: `min`, `max`, `mean`, `median` or `all`.

    Returns:
        Milliseconds: a float, or a list for several quantiles and for `all`.

    Raises:
        UsageError: The `return_mode` is unknown, or a quantile is outside [0, 1].
        RuntimeError: A CUDA graph is being captured.
    """
    capture = capturing()
    if capture is not None:
        error = capture.refuse()
        raise type(error)(f"{error}; {TUNED_IN_CAPTURE}")
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


# Names of the eager kernels launched inside `do_bench`; None outside it.
_eager_kernels: ContextVar[list[str] | None] = ContextVar("ttools_timed_eagerly", default=None)


def is_timed(kernel: str) -> bool:
    """Record an eager launch, and return whether it is only made for timing and can be skipped.

    If it were not skipped, a debugger would stop once for each configuration of an autotuner.
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
    """A point in time, with the interface of `torch.cuda.Event`."""

    def elapsed_time(self, end_event: events.Event) -> float:
        """Return the milliseconds from this event to `end_event`, at least 1e-6.

        The result is never zero, because callers divide by it.

        Raises:
            UsageError: One of the events was not recorded.
        """
        if self._time_ns is None or end_event._time_ns is None:
            raise UsageError("elapsed_time: both events must be recorded first")
        return max((end_event._time_ns - self._time_ns) / 1e6, 1e-6)


class CPUDeviceInterface:
    """The functions of `torch.cuda` that Triton calls on a driver's device interface."""

    Event = Event

    @staticmethod
    def synchronize(device: object = None) -> None:
        """Return immediately, because launches are synchronous."""
        refuse_waiting()

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        """Return 1."""
        return 1

    @staticmethod
    def current_stream(device: object = None) -> int:
        return 0

    @staticmethod
    def stream(stream: object) -> nullcontext[None]:
        """Return a context that changes nothing."""
        return nullcontext()
