"""How long configurations of a kernel are timed, and by what, where its decorator says so.

What `warmup`, `rep` and `do_bench` of `triton.autotune` mean here. Must not know which
configurations are tried, nor on what device.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ttools.core.errors import UsageError

#: Triton asks a benchmark function for these quantiles, the median first.
QUANTILES = (0.5, 0.2, 0.8)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What a decorator asks for.

    Attributes:
        warmup: milliseconds of launches before those that are timed.
        rep: milliseconds of launches that are timed.
        do_bench: times in our place: takes a function that launches, and the quantiles it is to
            return, in milliseconds.
    """

    warmup: float | None = None
    rep: float | None = None
    do_bench: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name in ("warmup", "rep"):
            given = getattr(self, name)
            is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
            if given is not None and not (is_number and 0 <= given < math.inf):
                raise UsageError(f"{name}={given!r}: must be milliseconds")
        if self.do_bench is not None and not callable(self.do_bench):
            raise UsageError(f"do_bench={self.do_bench!r}: must be a function")

    def asked(self, launch: Callable[[], object]) -> list[float]:
        """What the given function says of a launch, in seconds; the median is the first.

        Raises:
            UsageError: it returns something else than times.
        """
        assert self.do_bench is not None
        said = self.do_bench(launch, quantiles=QUANTILES)
        try:
            times = [float(each) for each in (said if _is_several(said) else [said])]
        except (TypeError, ValueError):
            times = []
        if not times or any(math.isnan(each) or each < 0 for each in times):
            raise UsageError(f"do_bench returned {said!r}; must be milliseconds")
        return [each * 1e-3 for each in times]


def _is_several(said: Any) -> bool:
    """Of an array without axes, Python's iteration is an error."""
    return isinstance(said, Iterable) and getattr(said, "ndim", 1) > 0


def name_of(do_bench: Callable[..., Any] | None) -> str:
    """A benchmark function by name and text; empty for none. Times of others are not its own."""
    if do_bench is None:
        return ""
    name = getattr(do_bench, "__qualname__", type(do_bench).__qualname__)
    try:
        text = inspect.getsource(do_bench)
    except (OSError, TypeError):  # typed in, or an object
        text = ""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8] if text else ""
    return f"{getattr(do_bench, '__module__', '')}.{name} {digest}".strip()


def timing_of(tuner: Any) -> Timing:
    """What the decorator of an autotuner asks for; nothing of one of Triton's own."""
    found = getattr(tuner, "timing", None)
    return found if isinstance(found, Timing) else Timing()
