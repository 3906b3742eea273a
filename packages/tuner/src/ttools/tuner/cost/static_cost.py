"""Estimation of the cost of configurations on a GPU before any of them is timed.

Compilation determines the registers, shared memory and spills; the grid determines the number of
programs. The cost is estimated by a polynomial of numbers derived from these, which was fitted to
recorded spaces of seven kernels (`benchmarks/tuning/fit_static_cost.py`). `leave_one_out.py` in the
same folder tests the fit on kernels that were not used for it. The estimate ranks configurations of
one launch; it is not a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

#: Fitted weights for each number that `numbers_of` returns: the linear and the quadratic
#: coefficient.
Weights = Mapping[str, tuple[float, float]]
WEIGHTS: Weights = {
    "spilled": (-0.4666, 0.1733),
    "registers": (-0.3642, 0.0209),
    "resident_warps": (-0.2595, -0.0055),
    "last_wave": (0.4356, -0.0231),
    "programs": (0.1116, 0.0013),
    "warps": (0.0727, 0.0241),
    "shared": (-0.0158, -0.0176),
}
_FEWEST_REGISTERS, _SPILL_UNIT, _MOST_SPILLS, _WARP = 16, 16, 4.0, 32


@dataclass(frozen=True, kw_only=True)
class StaticFacts:
    """Facts about a compiled configuration of a launch.

    Attributes:
        registers: Number of registers per thread.
        spilled: Spilled bytes per thread.
        shared: Shared memory per block in bytes.
        threads: Number of threads per block.
        blocks: Number of blocks that a multiprocessor holds at the same time.
        programs: Number of programs of the launch.
    """

    registers: int
    spilled: int
    shared: int
    threads: int
    blocks: int
    programs: int


def numbers_of(facts: StaticFacts, processors: int) -> dict[str, float]:
    """Return the numbers from which the cost is estimated, as binary logarithms."""
    programs = max(1, facts.programs)
    warps = facts.threads / _WARP
    waves = -(-programs // processors)
    resident = min(max(1, facts.blocks), waves) * warps
    return {
        "spilled": min(_MOST_SPILLS, math.log2(1 + facts.spilled / _SPILL_UNIT)),
        "registers": math.log2(max(facts.registers, _FEWEST_REGISTERS)),
        "resident_warps": math.log2(resident),
        "last_wave": math.log2(waves * processors / programs),
        "programs": math.log2(programs / processors),
        "warps": math.log2(warps),
        "shared": math.log2(1 + facts.shared / 1024),
    }


def expected_costs(
    facts: Mapping[str, StaticFacts | None], processors: int, weights: Weights = WEIGHTS
) -> dict[str, float]:
    """Return estimated logarithmic costs up to a constant, by key; empty if there are no facts.

    Args:
        facts: Static facts of configurations of one launch, by key. Configurations that failed to
            compile or took too long have no facts; their estimate is that of the worst
            configuration.
        processors: Number of multiprocessors of the GPU.
        weights: Linear and quadratic coefficient of each number.
    """
    estimates = {
        key: _expected(numbers_of(own, processors), weights)
        for key, own in facts.items()
        if own is not None
    }
    if not estimates:
        return {}
    mean, worst = sum(estimates.values()) / len(estimates), max(estimates.values())
    return {key: estimates.get(key, worst) - mean for key in facts}


def _expected(numbers: Mapping[str, float], weights: Weights) -> float:
    weighed = ((number, *weights[name]) for name, number in numbers.items())
    return sum(linear * number + square * number * number for number, linear, square in weighed)
