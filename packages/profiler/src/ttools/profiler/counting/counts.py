"""What a launch does: bytes and operations, in all and by line of source.

Owns the arithmetic from counters to counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ttools.core.location import SourceLocation
from ttools.profiler.access.trace import AccessTrace, Traffic, line_of
from ttools.profiler.counting.costs import OTHER_UNITS
from ttools.profiler.counting.rewrite import CountingPlan


@dataclass
class LineCounts:
    """What a line of source does in a launch, or in several.

    Attributes:
        location: of the line; None where unknown.
        executions: of its operations, over all programs and iterations of a launch, the most of
            any of them; summed over launches.
        loaded: bytes that loads request.
        stored: bytes that stores request.
        atomic: bytes that atomics request.
        lanes: of all accesses.
        masked_off: of these, how many a mask holds back.
        operations: by unit, see `costs.cost`.
    """

    location: SourceLocation | None
    executions: int = 0
    loaded: int = 0
    stored: int = 0
    atomic: int = 0
    lanes: int = 0
    masked_off: int = 0
    operations: Counter[str] = field(default_factory=Counter)

    @property
    def bytes(self) -> int:
        """Requested by all accesses."""
        return self.loaded + self.stored + self.atomic

    @property
    def flops(self) -> int:
        """Operations that count for a peak rate: arithmetic and matrix products."""
        return sum(n for unit, n in self.operations.items() if unit not in OTHER_UNITS)

    @property
    def masked_share(self) -> float:
        """Share of the lanes of accesses that a mask holds back."""
        return self.masked_off / self.lanes if self.lanes else 0.0

    def add(self, other: LineCounts, launches: int = 1) -> None:
        """Adds the counts of another line, or of the same in so many other launches."""
        self.executions += launches * other.executions
        self.loaded += launches * other.loaded
        self.stored += launches * other.stored
        self.atomic += launches * other.atomic
        self.lanes += launches * other.lanes
        self.masked_off += launches * other.masked_off
        for unit, count in other.operations.items():
            self.operations[unit] += launches * count


@dataclass(frozen=True)
class WorkCounts:
    """What a launch does.

    Attributes:
        programs: how many ran.
        total: of all lines; its executions are of programs.
        lines: by line, in the order of the source.
        unique_loaded: bytes that are loaded at least once.
        unique_stored: bytes that are stored or changed atomically at least once.
        depends_on_memory: whether equal launches may do something else, by what is in memory.
        exact: whether other runs do the same; False where it depends on the order of programs.
        estimated: Whether these are counts of another launch, or of memory as it was at another
            time, so that this launch may do something else.
        notes: what is not counted, a sentence each.
        accesses: to tiles, with the addresses of some of them.
        updates: by MLIR's name of an element's type, how often atomics of one operation update one,
            on average.
    """

    programs: int
    total: LineCounts
    lines: tuple[LineCounts, ...]
    unique_loaded: int = 0
    unique_stored: int = 0
    depends_on_memory: bool = False
    exact: bool = True
    estimated: bool = False
    notes: tuple[str, ...] = ()
    accesses: tuple[AccessTrace, ...] = field(default=(), compare=False)
    updates: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def unique(self) -> int:
        """Bytes that must cross the memory bus, however good the caches."""
        return self.unique_loaded + self.unique_stored


def evaluate(plan: CountingPlan, counters: Sequence[int], traffic: Traffic) -> WorkCounts:
    """The counts of a launch.

    Args:
        counters: of one launch, by number.
    """
    lines: defaultdict[SourceLocation | None, LineCounts] = defaultdict(lambda: LineCounts(None))
    for executed, blocks in plan.executed.items():
        lines[executed].executions = max(counters[block] for block in blocks)
    for access in plan.accesses:
        line = lines[access.location]
        executions = counters[access.block]
        lanes = executions * access.lanes
        active = lanes if access.mask is None else counters[access.mask]
        line.executions = max(line.executions, executions)
        line.lanes += lanes
        line.masked_off += lanes - active
        size = active * access.item
        if access.kind == "load":
            line.loaded += size
        elif access.kind == "store":
            line.stored += size
        else:
            line.atomic += size
    for compute in plan.computes:
        line = lines[compute.location]
        executions = counters[compute.block]
        line.executions = max(line.executions, executions)
        for unit, each in compute.cost.items():
            line.operations[unit] += each * executions
    total = LineCounts(None)
    for location, line in lines.items():
        line.location = location
        total.add(line)
    total.executions = counters[0]
    ordered = sorted(lines.values(), key=lambda line: line_of(line.location))
    return WorkCounts(
        programs=counters[0],
        total=total,
        lines=tuple(ordered),
        unique_loaded=traffic.unique_loaded,
        unique_stored=traffic.unique_stored,
        depends_on_memory=plan.reads,
        exact=not plan.depends_on_writes,
        notes=tuple(plan.unsupported),
        accesses=traffic.accesses,
        updates=dict(traffic.updates),
    )
