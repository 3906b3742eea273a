"""Estimates what configurations cost on a GPU before any is timed.

Compilation yields registers, spills and shared memory, the grid the number of programs. From
these come a few numbers, and from the numbers an expectation: a polynomial fitted to recorded
spaces of seven kernels (`benchmarks/tuning/fit_static_cost.py`; `leave_one_out.py` beside it tests
it on kernels it was fitted without). It ranks configurations of one launch and is not a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

#: By number of `numbers_of`: what it weighs, and what its square does. Fitted.
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
    """What is known of a compiled configuration of a launch.

    Attributes:
        registers: of a thread.
        spilled: bytes of a thread.
        shared: bytes of a block.
        threads: of a block.
        blocks: of these, how many a multiprocessor holds at a time.
        programs: of the launch.
    """

    registers: int
    spilled: int
    shared: int
    threads: int
    blocks: int
    programs: int


def numbers_of(facts: StaticFacts, processors: int) -> dict[str, float]:
    """What the expectation is made of, in doublings."""
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
    """Logarithmic costs up to a constant, by key; empty if nothing is known.

    Args:
        facts: of configurations of one launch, by key; those without any, which did not compile or
            not in time, are expected to be as bad as the worst.
        weights: of each number and of its square.
    """
    found = {
        key: _expected(numbers_of(own, processors), weights)
        for key, own in facts.items()
        if own is not None
    }
    if not found:
        return {}
    mean, worst = sum(found.values()) / len(found), max(found.values())
    return {key: found.get(key, worst) - mean for key in facts}


def _expected(numbers: Mapping[str, float], weights: Weights) -> float:
    weighed = ((number, *weights[name]) for name, number in numbers.items())
    return sum(linear * number + square * number * number for number, linear, square in weighed)
