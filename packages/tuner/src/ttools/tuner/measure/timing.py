"""The parameters `warmup`, `rep` and `do_bench` of `triton.autotune`, as the tuner applies them."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ttools.core.errors import UsageError

#: Quantiles that Triton requests from a benchmark function; the first is the median.
QUANTILES = (0.5, 0.2, 0.8)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The timing that a decorator requests.

    Attributes:
        warmup: Milliseconds of untimed launches before the timed launches.
        rep: Milliseconds of timed launches.
        do_bench: Function that measures the times in place of ttools. It is called with a function
            that launches the kernel and with the quantiles that it should return in milliseconds.
    """

    warmup: float | None = None
    rep: float | None = None
    do_bench: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name in ("warmup", "rep"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 <= value < math.inf):
                raise UsageError(f"{name}={value!r}: must be a number of milliseconds, 0 or more")
        if self.do_bench is not None and not callable(self.do_bench):
            raise UsageError(f"do_bench={self.do_bench!r}: must be a function")

    def asked(self, launch: Callable[[], object]) -> list[float]:
        """Time a launch with the user's function; return times in seconds, the median first.

        Raises:
            UsageError: The function returns something other than times.
        """
        assert self.do_bench is not None
        returned = self.do_bench(launch, quantiles=QUANTILES)
        try:
            times = [float(value) for value in (returned if _is_several(returned) else [returned])]
        except (TypeError, ValueError):
            times = []
        if not times or any(math.isnan(value) or value < 0 for value in times):
            raise UsageError(
                f"do_bench returned {returned!r}; it must return times in milliseconds"
            )
        return [value * 1e-3 for value in times]


def _is_several(value: Any) -> bool:
    """Return whether a value can be iterated over; iterating over an array without axes fails."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def name_of(do_bench: Callable[..., Any] | None) -> str:
    """Identify a benchmark function by name and source; return an empty text for None.

    Times measured by different functions are not comparable, so a change of the source changes the
    identity.
    """
    if do_bench is None:
        return ""
    name = getattr(do_bench, "__qualname__", type(do_bench).__qualname__)
    try:
        text = inspect.getsource(do_bench)
    except (OSError, TypeError):  # defined interactively, or a callable object
        text = ""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8] if text else ""
    return f"{getattr(do_bench, '__module__', '')}.{name} {digest}".strip()


def timing_of(tuner: Any) -> Timing:
    """Return the timing that an autotuner's decorator requests; for Triton's own, the default."""
    timing = getattr(tuner, "timing", None)
    return timing if isinstance(timing, Timing) else Timing()
