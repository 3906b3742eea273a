"""How often each loop of the machine code turns in a launch, by the counts of its source lines.

Where a loop counts by constants, the code says how often it turns; else the counts of the lines in
it do, divided by the copies that compilers made of its body: an iteration has as many bytes to load
and operations on f32 as its source lines, not more. Functions and divisions become many operations,
so lines with them say nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath

from ttools.core.compilation.machine_code import Line, MachineCode, constant_trip_count
from ttools.profiler.counting.counts import LineCounts, WorkCounts

_WARP = 32
_FLOPS = {"FFMA": 2, "FADD": 1, "FMUL": 1, "HFMA2": 4}


def loop_turns(code: MachineCode, counts: WorkCounts, warps: int) -> list[float]:
    """Turns of a warp in each loop, over all turns of the loops around it.

    Args:
        warps: of a program.
    """
    lines = {
        (PurePath(each.location.file).name, each.location.line): each
        for each in counts.lines
        if each.location
    }
    turns = [1.0] * len(code.loops)
    for number in reversed(range(len(code.loops))):
        loop = code.loops[number]
        outer = 1.0 if loop.parent is None else turns[loop.parent]
        constant = constant_trip_count(code, loop)
        if constant:
            turns[number] = constant * outer
            continue
        own = Counter(
            lines[each.line].executions / max(1, counts.programs)
            for _, each in code.body(number)
            if each.line in lines
        )
        # A stray line of another loop is not the loop's.
        usual = [times for times, n in own.items() if n >= 0.1 * own.total()]
        turns[number] = max(usual, default=outer) / _copies(code, number, lines, warps)
    return turns


def _copies(code: MachineCode, number: int, lines: Mapping[Line, LineCounts], warps: int) -> int:
    """How often the body of a loop stands in it, at least."""
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
    found: list[float] = []
    for line, n in flops.items():
        operations, executions = lines[line].operations, lines[line].executions
        if operations.get("fp32") and not {"function", "divide"} & operations.keys():
            found.append(n * _WARP * warps / (operations["fp32"] / executions))
    for line, n in loaded.items():
        each = lines[line]
        if each.loaded and each.lanes > each.masked_off:
            whole = each.loaded * each.lanes / (each.lanes - each.masked_off)
            found.append(n * _WARP * warps / (whole / each.executions))
    return max(1, round(min(found, default=1)))
