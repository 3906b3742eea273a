"""Instructions that the warps of a launch execute, and their bank conflicts in shared memory.

Both are computed from the machine code and the trip counts of its loops.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttools.core.compilation.machine_code import Line, MachineCode
from ttools.core.compilation.shared_banks import least_wavefronts, shared_wavefronts
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu_time.trip_counts import trip_counts
from ttools.profiler.gpu_time.units import unit_of

#: Maps units to the kinds of instructions that reports show; other units keep their own name.
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
    """The instructions that a warp executes.

    Attributes:
        units: Number of instructions by unit, see `units.unit_of`.
        lines: Number of instructions by unit, for each source line; the key None stands for unknown
            lines.
        shared: Number of wavefronts, which are the passes that an access to shared memory takes
            (one or more).
        conflicts: Number of additional wavefronts due to lanes that request different words of one
            bank, by line of the user's code: the line that makes the access, or that calls the
            library function which makes it. The key None stands for unknown lines.
    """

    units: Counter[str]
    lines: Mapping[Line | None, Counter[str]]
    shared: float
    conflicts: Mapping[Line | None, float]

    @property
    def mix(self) -> Mapping[str, float]:
        """Return the share of each kind of instruction, the largest first."""
        return self._shares(self.units)

    def mix_of_line(self, line: Line) -> Mapping[str, float]:
        """Return the share of the kernel's instructions that a line has, for each kind."""
        return self._shares(self.lines.get(line, Counter()))

    def _shares(self, units: Counter[str]) -> Mapping[str, float]:
        kinds: Counter[str] = Counter()
        for unit, n in units.items():
            kinds[_KINDS.get(unit, unit)] += n
        total = self.units.total()
        return {kind: n / total for kind, n in kinds.most_common() if n}

    @property
    def conflict_share(self) -> float | None:
        """Return the share of wavefronts due to conflicts; None if shared memory is not used."""
        return sum(self.conflicts.values()) / self.shared if self.shared else None

    @property
    def conflict_lines(self) -> Mapping[str, float]:
        """Return the share of wavefronts due to conflicts by line, the largest first."""
        located = ((line, n) for line, n in self.conflicts.items() if line is not None)
        most = sorted(located, key=lambda pair: (-pair[1], pair[0]))
        return {f"{file}:{number}": n / self.shared for (file, number), n in most}


def executed_of(code: MachineCode, trips: Sequence[float]) -> Executed:
    """Return the instructions that a warp executes.

    Args:
        trips: Trip count of each loop, see `trip_counts`.
    """
    units: Counter[str] = Counter()
    shared, banks = 0.0, shared_wavefronts(code)
    conflicts: dict[Line | None, float] = {}
    lines: defaultdict[Line | None, Counter[str]] = defaultdict(Counter)
    for number, times in (*enumerate(trips), (None, 1.0)):
        for at, instruction in code.body(number):
            if instruction.rare:
                continue
            unit = unit_of(instruction)
            units[unit] += times  # type: ignore[assignment]
            lines[instruction.line][unit] += times  # type: ignore[assignment]
            if at in banks:
                shared += times * banks[at]
                if (more := banks[at] - least_wavefronts(instruction)) > 0:
                    line = instruction.user_line
                    conflicts[line] = conflicts.get(line, 0.0) + times * more
    return Executed(units=units, lines=lines, shared=shared, conflicts=conflicts)


def executed_by(code: MachineCode, counts: WorkCounts, warps: int) -> Executed:
    """Return the instructions that a warp of a counted launch executes.

    Args:
        warps: Number of warps per program.
    """
    return executed_of(code, trip_counts(code, counts, warps))
