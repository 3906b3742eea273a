"""How long calls take: on a GPU by Triton's benchmark, on the CPU in turns.

Must not know what is called.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

#: One sample lasts so long at least: many short calls, or one.
_SAMPLE_S = 1e-3
#: Samples of each call, also where one lasts longer than all of them should.
_FEWEST = 3
#: The median, and between which times three of five samples lie; what Triton's autotuner asks for.
QUANTILES = (0.5, 0.2, 0.8)


@dataclass(frozen=True, kw_only=True)
class Duration:
    """How long a call takes, in seconds.

    Attributes:
        median: of all samples.
        low: a fifth of the samples is shorter.
        high: a fifth of them is longer.
    """

    median: float
    low: float
    high: float


def time_on_gpu(call: Callable[[], object], repeat_s: float) -> Duration:
    """The time that a GPU spends on a call, with its cache emptied before each."""
    import triton.testing

    times = triton.testing.do_bench(call, rep=repeat_s * 1e3, quantiles=list(QUANTILES))
    return Duration(**dict(zip(("median", "low", "high"), (t * 1e-3 for t in times), strict=True)))


def time_in_turns(
    calls: Mapping[str, Callable[[], object]], repeat_s: float
) -> dict[str, Duration | Exception]:
    """Times of calls that wait for their end; what disturbs the machine disturbs all of them.

    Args:
        calls: each has been made before, so that nothing of it is yet to be compiled.
        repeat_s: how long each of them is repeated.

    Returns:
        For each its time, or what it raised.
    """
    found: dict[str, Duration | Exception] = {}
    samples: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for name, call in calls.items():
        try:
            counts[name] = max(1, math.ceil(_SAMPLE_S / _sample(call, 1)))
            samples[name] = []
        except Exception as error:  # noqa: BLE001 - the implementation's
            found[name] = error
    ends = time.perf_counter() + repeat_s * len(samples)
    turns = 0
    while samples.keys() - found.keys() and (turns < _FEWEST or time.perf_counter() < ends):
        turns += 1
        for name in samples.keys() - found.keys():
            try:
                samples[name].append(_sample(calls[name], counts[name]))
            except Exception as error:  # noqa: BLE001 - the implementation's
                found[name] = error
    for name in samples.keys() - found.keys():
        median, low, high = np.quantile(samples[name], QUANTILES)
        found[name] = Duration(median=float(median), low=float(low), high=float(high))
    return found


def _sample(call: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        call()
    return max((time.perf_counter() - began) / count, 1e-9)
