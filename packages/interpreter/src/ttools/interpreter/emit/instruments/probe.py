"""The instruments of a function being emitted, and its calls of the runtime's probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ttools.interpreter.abi.module import Facts, Instruments, ProbeSite
from ttools.interpreter.abi.probe_layout import (
    FAST_BASE,
    FAST_BYTES,
    MONITOR,
    OPEN_BYTES,
    PROBE_OPEN,
    REGION_BYTES,
)
from ttools.interpreter.abi.probe_layout import PROBE as FIELDS
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.analysis.strides import addresses_differ
from ttools.interpreter.emit.launch_fields import launch_field
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.lines import Instruction
from ttools.interpreter.llvm.value import (
    ARENA,
    FALSE,
    LAUNCH,
    PROBE,
    SSAValue,
    integer,
    lanes_of,
    vector_type,
)
from ttools.ir import Operation, Value

#: Attribute of accesses that a rewrite has inserted. They access memory of the observer, so they
#: are not observed themselves.
SHADOW = "ttools.shadow"
#: The operation that records the value of a variable, see `inserted_operations.py`.
WATCH = "ttools.watch"


@dataclass
class Prober:
    """The instruments of one function being emitted.

    Attributes:
        instruments: The instruments to emit.
        facts: Facts of the launch; accesses to read-only memory leave no footprints.
        provenance: The origins of the function's pointers; None in a called function, in which the
            origins are unknown.
        sites: All probes of the module so far.
        numbers: The index of each operation in its module.
        bounds: The address and size of the memory that may be accessed, by pointer parameter.
        leaders: The first site of each evaluation of an operation.
        copies: The site and payload offset that the copies of an access in unrolled code share.
        whole_tiles: The test of all lanes of an access, a `WholeTile` or None, by its operation and
            the function (of `Builder.bodies`) in which it was emitted.
        watches: If True, the function records the values of its variables.
    """

    instruments: Instruments
    facts: Facts
    provenance: Provenance | None
    sites: list[ProbeSite]
    numbers: dict[Operation, int]
    bounds: dict[int, tuple[SSAValue, SSAValue]] = field(default_factory=dict)
    leaders: dict[tuple[Operation, int], int] = field(default_factory=dict)
    copies: dict[object, tuple[int, int]] = field(default_factory=dict)
    whole_tiles: dict[tuple[Operation, int], Any] = field(default_factory=dict)
    watches: bool = True

    def bind(self, b: Builder, pointers: Sequence[int], parameter_count: int) -> None:
        """Load, at the beginning of a program, the bounds of pointer parameters.

        Args:
            pointers: Indices of the pointer parameters.
            parameter_count: The number of parameters before the monitor.
        """
        if not self.instruments.guards or self.provenance is None or not pointers:
            return
        regions = load(b, monitor_of(b, parameter_count), MONITOR["REGIONS"], "ptr")
        for index in pointers:
            region = index * REGION_BYTES
            low = load(b, regions, region + FAST_BASE, "i64")
            self.bounds[index] = low, load(b, regions, region + FAST_BYTES, "i64")

    def leader(self, op: Operation, evaluation: int) -> int:
        """Return the index of the first site of an evaluation of an operation.

        If the evaluation has no site yet, this is the index of the site that is added next.
        """
        return self.leaders.setdefault((op, evaluation), len(self.sites))

    def root(self, pointer: Value) -> int:
        """Return the index of the parameter that an address derives from; -1 if it is not known."""
        roots = self._roots(pointer)
        (only,) = roots if len(roots) == 1 else (None,)
        return -1 if only is None else only

    def choices(self, pointer: Value) -> tuple[int, ...]:
        """Return the indices of the parameters from which an address may derive.

        The result is empty if there is only one, or if the address may have an unknown origin.
        """
        roots = self._roots(pointer)
        parameters = sorted(root for root in roots if root is not None)
        return tuple(parameters) if len(parameters) == len(roots) > 1 else ()

    def leaves_footprint(self, pointer: Value) -> bool:
        """Return whether accesses through a pointer to memory that may be written are logged."""
        if not self.instruments.footprints:
            return False
        return any(n is None or n not in self.facts.readonly for n in self._roots(pointer))

    def may_share(self, one: Value, other: Value) -> bool:
        """Return whether two pointers may point to the same parameter's memory."""
        roots = self._roots(one), self._roots(other)
        return None in roots[0] | roots[1] or bool(roots[0] & roots[1])

    def verifies(self, store: Operation) -> bool:
        """Return whether to check that lanes of a store do not overwrite each other."""
        observes = self.instruments.guards and self.instruments.footprints
        return (
            observes
            and not store.attributes.get(SHADOW)
            and not addresses_differ(store.operands[0])
        )

    def _roots(self, pointer: Value) -> frozenset[int | None]:
        return frozenset({None}) if self.provenance is None else self.provenance.of(pointer)


def load(b: Builder, base: SSAValue, offset: int, type: str) -> SSAValue:
    """Load a field of a probe or a monitor."""
    p = b.offset(base, offset) if offset else base
    return b.load(type, p, 8)


def monitor_of(b: Builder, parameter_count: int) -> SSAValue:
    """Return the launch's monitor, which follows the parameters."""
    return load(b, launch_field(b, "parameters"), 8 * parameter_count, "ptr")


def is_watched(b: Builder, program: SSAValue) -> SSAValue:
    """Return an i1 that is set if the values of a program are recorded."""
    table = load(b, b.load("ptr", PROBE, 8), MONITOR["WATCHED"], "ptr")
    cell = b.offset(table, program)
    return b.compare("icmp ne", b.load("i8", cell), 0)


def call(b: Builder, name: str, *arguments: SSAValue, returns: str = "void") -> SSAValue:
    """Call a function of the runtime with this thread's probe.

    Args:
        name: A name in `probe_layout.FUNCTIONS`.
        arguments: The arguments after the probe.
        returns: The LLVM return type.
    """
    function = load(b, b.load("ptr", PROBE, 8), MONITOR[name.upper()], "ptr")
    return b.call(returns, function, PROBE, *arguments)


def lane_bits(b: Builder, lanes: SSAValue) -> SSAValue:
    """Return i1 lanes as the low bits of an i64."""
    return b.cast("zext", b.bitcast(lanes, f"i{lanes_of(lanes.type)}"), "i64")


def bit_lanes(b: Builder, bits: SSAValue, width: int) -> SSAValue:
    """Return the low bits of an i64 as i1 lanes."""
    return b.bitcast(b.cast("trunc", bits, f"i{width}"), vector_type("i1", width))


class ThreadProbe:
    """Emits the updates of the thread's probe in the loop that runs programs.

    Args:
        offset: The offset of the probe in the arena.
        sites: The number of sites, each of which has an open record.
        logs: If True, accesses are logged.
    """

    def __init__(self, b: Builder, offset: int, sites: int, *, logs: bool) -> None:
        self._b, self._offset, self._sites, self._logs = b, offset, sites, logs

    def begin(self, monitor: SSAValue) -> None:
        """Emit the beginning of a thread, which defines `%probe`."""
        b = self._b
        head = "getelementptr inbounds i8, ptr "
        b.record(Instruction(PROBE, (head, ARENA, f", i64 {self._offset}")))
        b.store(monitor, PROBE, 8)
        self._store("LOGGED", integer(0, "i64"))
        records = b.offset(PROBE, PROBE_OPEN)
        size = integer(self._sites * OPEN_BYTES, "i64")
        b.intrinsic("llvm.memset.p0.i64", "void", records, integer(0, "i8"), size, FALSE)

    def begin_program(self, program: SSAValue) -> None:
        self._store("PROGRAM", program)
        self._store("LAUNCH", LAUNCH)
        if self._logs:
            self._store("EPOCH", integer(0, "i64"))  # 8 bytes, so this clears BARRIER, too

    def end_program(self) -> None:
        if self._logs:
            call(self._b, "close")

    def end(self) -> None:
        """Emit the end of a thread."""
        if self._logs:
            call(self._b, "finish")

    def _store(self, name: str, value: SSAValue) -> None:
        cell = self._b.offset(PROBE, FIELDS[name])
        self._b.store(value, cell, 8)
