"""Trip counts of the loops in machine code.

If a loop's counter has a constant start, end and step, the trip count is read from the code.
Otherwise it is the number of executions of the source lines in the loop, divided by the number of
copies of the body that the compiler made when it unrolled the loop. The number of copies is derived
from bytes and operations. For example, if a line loads 4 bytes per lane and iteration and appears
as four 4-byte load instructions, it was copied four times, so 1,000 executions are 250 iterations.
Lines with elementary functions or divisions are not used, because each of these becomes many
operations.
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
        code: Machine code of the launched kernel.
        counts: Work of the launch.
        warps: Number of warps per program.
    """
    lines = {
        (PurePath(line.location.file).name, line.location.line): line
        for line in counts.lines
        if line.location
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
            lines[instruction.line].executions / max(1, counts.programs)
            for _, instruction in code.body(number)
            if instruction.line in lines
        )
        # The compiler moves single instructions of other lines into a loop; such lines are ignored.
        usual = [times for times, n in executions.items() if n >= 0.1 * executions.total()]
        trips[number] = max(usual, default=outer) / _copies(code, number, lines, warps)
    return trips


def _copies(code: MachineCode, number: int, lines: Mapping[Line, LineCounts], warps: int) -> int:
    """Return the smallest number of copies of a source loop's body in a loop of machine code."""
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
