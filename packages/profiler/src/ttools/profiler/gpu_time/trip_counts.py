"""Trip counts of the loops of machine code, from the counts of source lines.

A loop that counts by constants has its trip count in the code. For other loops it follows from the
counts of the source lines in it, divided by the number of copies that the compiler made of the
body: an iteration loads as many bytes and does as many f32 operations as its source lines. Lines
with functions and divisions are ignored, since these become many operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath

from ttools.core.compilation.machine_code import Line, MachineCode, constant_trip_count
from ttools.profiler.counting.counts import LineCounts, WorkCounts

_WARP = 32
_FLOPS = {"FFMA": 2, "FADD": 1, "FMUL": 1, "HFMA2": 4}


def trip_counts(code: MachineCode, counts: WorkCounts, warps: int) -> list[float]:
    """Return the trip count of each loop for a warp, summed over the iterations of outer loops.

    Args:
        warps: Number of warps per program.
    """
    lines = {
        (PurePath(each.location.file).name, each.location.line): each
        for each in counts.lines
        if each.location
    }
    trips = [1.0] * len(code.loops)
    for number in reversed(range(len(code.loops))):
        loop = code.loops[number]
        outer = 1.0 if loop.parent is None else trips[loop.parent]
        constant = constant_trip_count(code, loop)
        if constant:
            trips[number] = constant * outer
            continue
        executions = Counter(
            lines[each.line].executions / max(1, counts.programs)
            for _, each in code.body(number)
            if each.line in lines
        )
        # A stray line of another loop is not the loop's.
        usual = [times for times, n in executions.items() if n >= 0.1 * executions.total()]
        trips[number] = max(usual, default=outer) / _copies(code, number, lines, warps)
    return trips


def _copies(code: MachineCode, number: int, lines: Mapping[Line, LineCounts], warps: int) -> int:
    """Return the least number of copies of a loop's body that the loop contains."""
    flops: Counter[Line] = Counter()
    loaded: Counter[Line] = Counter()
    for _, instruction in code.body(number):
        line = instruction.line
        if line is None or line not in lines:
            continue
        if instruction.name in _FLOPS:
            flops[line] += _FLOPS[instruction.name]
        elif instruction.name in ("LDG", "LDGSTS"):
            loaded[line] += instruction.bytes
    ratios: list[float] = []
    for line, n in flops.items():
        operations, executions = lines[line].operations, lines[line].executions
        if operations.get("fp32") and not {"function", "divide"} & operations.keys():
            ratios.append(n * _WARP * warps / (operations["fp32"] / executions))
    for line, n in loaded.items():
        counted = lines[line]
        if counted.loaded and counted.lanes > counted.masked_off:
            whole = counted.loaded * counted.lanes / (counted.lanes - counted.masked_off)
            ratios.append(n * _WARP * warps / (whole / counted.executions))
    return max(1, round(min(ratios, default=1)))
