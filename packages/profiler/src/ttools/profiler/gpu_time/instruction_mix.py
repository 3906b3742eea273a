"""Which instructions a launch's warps execute, and how often shared memory makes them wait.

Read off the machine code, times the turns of its loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttools.core.compilation.machine_code import Line, MachineCode
from ttools.core.compilation.shared_banks import least_wavefronts, shared_wavefronts
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu_time.loop_turns import loop_turns
from ttools.profiler.gpu_time.units import unit_of

#: Kinds of instructions as people call them, by unit; the others have their unit's name.
_KINDS = {
    **dict.fromkeys(("integer", "add", "move", "uniform", "product"), "integer"),
    **dict.fromkeys(("load", "copy", "store"), "global memory"),
    **dict.fromkeys(("shared load", "shared store", "shared atomic"), "shared memory"),
    **dict.fromkeys(("shuffle", "vote"), "shuffle"),
    "float": "floating point",
    "double": "f64",
    "function": "special function",
    "local": "local memory",
}


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What a warp executes.

    Attributes:
        units: instructions by unit, see `units.unit_of`.
        shared: turns of shared memory.
        conflicts: how many of them banks cause that several lanes ask for different words, by the
            line of the access, None where that is not known.
    """

    units: Counter[str]
    shared: float
    conflicts: Mapping[Line | None, float]

    @property
    def mix(self) -> Mapping[str, float]:
        """The share of each kind, the largest first."""
        kinds: Counter[str] = Counter()
        for unit, n in self.units.items():
            kinds[_KINDS.get(unit, unit)] += n
        total = kinds.total()
        return {kind: n / total for kind, n in kinds.most_common() if n}

    @property
    def conflict_share(self) -> float | None:
        """Conflicts by all turns of shared memory; None where it is not used."""
        return sum(self.conflicts.values()) / self.shared if self.shared else None

    @property
    def conflict_lines(self) -> Mapping[str, float]:
        """Where they are, `k.py:3`, with their share of those turns, the largest first."""
        known = ((line, n) for line, n in self.conflicts.items() if line is not None)
        most = sorted(known, key=lambda each: (-each[1], each[0]))
        return {f"{file}:{number}": n / self.shared for (file, number), n in most}


def executed_of(code: MachineCode, turns: Sequence[float]) -> Executed:
    """What a warp executes.

    Args:
        turns: of each of its loops, see `loop_turns`.
    """
    units: Counter[str] = Counter()
    shared, banks = 0.0, shared_wavefronts(code)
    conflicts: dict[Line | None, float] = {}
    for number, times in (*enumerate(turns), (None, 1.0)):
        for at, instruction in code.body(number):
            if instruction.rare:
                continue
            units[unit_of(instruction)] += times  # type: ignore[assignment]
            if at in banks:
                shared += times * banks[at]
                if (more := banks[at] - least_wavefronts(instruction)) > 0:
                    line = instruction.line
                    conflicts[line] = conflicts.get(line, 0.0) + times * more
    return Executed(units=units, shared=shared, conflicts=conflicts)


def executed_by(code: MachineCode, counts: WorkCounts, warps: int) -> Executed:
    """What a warp of a counted launch executes; `warps` are those of a program."""
    return executed_of(code, loop_turns(code, counts, warps))
