"""The work of launches: bytes and operations, in total and by source line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ttools.core.location import SourceLocation
from ttools.profiler.access.trace import AccessTrace, Traffic, line_of
from ttools.profiler.counting.costs import OTHER_NAMES, OTHER_UNITS
from ttools.profiler.counting.rewrite import CountingPlan


@dataclass
class LineCounts:
    """The work of a source line in one or several launches.

    Attributes:
        location: The line; None if it is unknown.
        executions: The largest number of executions of any of its operations, over all programs and
            iterations of a launch; summed over launches.
        loaded: Bytes that loads request.
        stored: Bytes that stores request.
        atomic: Bytes that atomics request.
        lanes: Number of lanes of all accesses.
        masked_off: Number of these lanes that a mask disables.
        operations: Number of operations by unit, see `costs.cost`.
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
        """Return how many bytes all accesses request."""
        return self.loaded + self.stored + self.atomic

    @property
    def flops(self) -> int:
        """Return the number of operations that count towards a peak rate."""
        return sum(n for unit, n in self.operations.items() if unit not in OTHER_UNITS)

    @property
    def other_operations(self) -> dict[str, int]:
        """Return the operations on floats that are not flops, by their names in reports."""
        return {name: self.operations[unit] for unit, name in OTHER_NAMES.items()}

    @property
    def masked_share(self) -> float:
        """Return the share of the lanes of accesses that are disabled by a mask."""
        return self.masked_off / self.lanes if self.lanes else 0.0

    def add(self, other: LineCounts, launches: int = 1) -> None:
        """Add the counts of another line, or of the same line in other launches."""
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
    """The work of a launch.

    Attributes:
        programs: Number of programs of the launch.
        total: The sum of all lines, except that `executions` is the number of programs.
        lines: The work of each line, in the order of the source.
        unique_loaded: Number of different bytes that are loaded.
        unique_stored: Number of different bytes that are stored or atomically updated.
        depends_on_memory: True if the work of launches with equal arguments may differ, because it
            depends on the contents of memory.
        exact: False if the work may depend on the order in which programs run.
        estimated: True if these counts were taken from a different launch, or with the contents of
            memory at a different time.
        notes: Sentences that describe uncounted work.
        accesses: Accesses to tiles, with the addresses of some of them.
        updates: Average number of updates per updated element, by MLIR's name of the element type;
            the largest average if several atomic operations have this type.
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
        """Return how many bytes must cross the memory bus, even with perfect caches."""
        return self.unique_loaded + self.unique_stored


def evaluate(plan: CountingPlan, counters: Sequence[int], traffic: Traffic) -> WorkCounts:
    """Return the work of a launch.

    Args:
        plan: The meaning of the counters.
        counters: Value of each counter after the launch.
        traffic: The memory that the launch accesses.
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
        for unit, operations in compute.cost.items():
            line.operations[unit] += operations * executions
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
