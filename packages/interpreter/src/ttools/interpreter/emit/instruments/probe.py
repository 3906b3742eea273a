"""Instruments of a function being emitted, and how it reaches the runtime's probes.

Must not know what an access or a check is: `access`, `footprint` and `lower_check` build on this.
"""

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

#: Attribute of accesses that a rewrite has added: to memory of its own, which nobody observes.
SHADOW = "ttools.shadow"
#: The operation that tells what a variable holds, see `instruments.watch`.
WATCH = "ttools.watch"


@dataclass
class Prober:
    """The instruments of one function being emitted.

    Attributes:
        instruments: what to observe.
        facts: of the launch; read-only memory leaves no footprints.
        provenance: where the function's pointers come from; None in a callee, whose pointers may
            come from anywhere.
        sites: all probes of the module so far.
        numbers: each operation's place in its module.
        bounds: per pointer parameter, the address and size of what may be accessed.
        leaders: the first site of each evaluation of an operation.
        copies: the site, and the place of its payload, of chunks that unrolled code accesses alike.
        whole_tiles: a `WholeTile`, or None, of all lanes of an access, by its operation and the
            function (of `Builder.bodies`) that it was found in.
        watches: whether the function tells what its variables hold.
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
        """Reads, where a program begins, the bounds of the parameters that are pointers.

        Args:
            pointers: their indices.
            parameter_count: how many parameters come before the monitor.
        """
        if not self.instruments.guards or self.provenance is None or not pointers:
            return
        regions = load(b, monitor_of(b, parameter_count), MONITOR["REGIONS"], "ptr")
        for index in pointers:
            region = index * REGION_BYTES
            low = load(b, regions, region + FAST_BASE, "i64")
            self.bounds[index] = low, load(b, regions, region + FAST_BYTES, "i64")

    def leader(self, op: Operation, evaluation: int) -> int:
        """The first site of an evaluation of an operation: the next site, if there is none yet."""
        return self.leaders.setdefault((op, evaluation), len(self.sites))

    def root(self, pointer: Value) -> int:
        """The one parameter that an address derives from, or -1."""
        roots = self._roots(pointer)
        (only,) = roots if len(roots) == 1 else (None,)
        return -1 if only is None else only

    def choices(self, pointer: Value) -> tuple[int, ...]:
        """The parameters of which an address derives from one; empty if that is not all."""
        roots = self._roots(pointer)
        known = sorted(root for root in roots if root is not None)
        return tuple(known) if len(known) == len(roots) > 1 else ()

    def leaves_footprint(self, pointer: Value) -> bool:
        """Whether the memory behind a pointer may be written by this launch."""
        if not self.instruments.footprints:
            return False
        return any(n is None or n not in self.facts.readonly for n in self._roots(pointer))

    def may_share(self, one: Value, other: Value) -> bool:
        """Whether two pointers may lead into the same parameter's memory."""
        roots = self._roots(one), self._roots(other)
        return None in roots[0] | roots[1] or bool(roots[0] & roots[1])

    def verifies(self, store: Operation) -> bool:
        """Whether lanes of a store may overwrite each other, which is then looked for."""
        observes = self.instruments.guards and self.instruments.footprints
        return (
            observes
            and not store.attributes.get(SHADOW)
            and not addresses_differ(store.operands[0])
        )

    def _roots(self, pointer: Value) -> frozenset[int | None]:
        return frozenset({None}) if self.provenance is None else self.provenance.of(pointer)


def load(b: Builder, base: SSAValue, offset: int, type: str) -> SSAValue:
    """Loads a field of a structure of the runtime."""
    p = b.offset(base, offset) if offset else base
    return b.load(type, p, 8)


def monitor_of(b: Builder, parameter_count: int) -> SSAValue:
    """The launch's monitor, which is passed behind the parameters."""
    return load(b, launch_field(b, "parameters"), 8 * parameter_count, "ptr")


def is_watched(b: Builder, program: SSAValue) -> SSAValue:
    """Whether the values of a program are recorded, an i1; the launch's monitor knows."""
    table = load(b, b.load("ptr", PROBE, 8), MONITOR["WATCHED"], "ptr")
    cell = b.offset(table, program)
    return b.compare("icmp ne", b.load("i8", cell), 0)


def call(b: Builder, name: str, *arguments: SSAValue, returns: str = "void") -> SSAValue:
    """Calls a function of the runtime for this thread's probe.

    Args:
        name: of `probe_layout.FUNCTIONS`.
        arguments: those after the probe.
        returns: its LLVM return type.
    """
    function = load(b, b.load("ptr", PROBE, 8), MONITOR[name.upper()], "ptr")
    return b.call(returns, function, PROBE, *arguments)


def lane_bits(b: Builder, lanes: SSAValue) -> SSAValue:
    """i1 lanes as the low bits of an i64."""
    return b.cast("zext", b.bitcast(lanes, f"i{lanes_of(lanes.type)}"), "i64")


def bit_lanes(b: Builder, bits: SSAValue, width: int) -> SSAValue:
    """The low bits of an i64 as i1 lanes."""
    return b.bitcast(b.cast("trunc", bits, f"i{width}"), vector_type("i1", width))


class ThreadProbe:
    """Emits, in the loop that runs programs, what keeps the thread's probe up to date.

    Args:
        b: the builder.
        offset: where in the arena the probe lies.
        sites: how many records it keeps open.
        logs: whether there are any.
    """

    def __init__(self, b: Builder, offset: int, sites: int, *, logs: bool) -> None:
        self._b, self._offset, self._sites, self._logs = b, offset, sites, logs

    def begin(self, monitor: SSAValue) -> None:
        """The thread begins; `%probe` is defined from here."""
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
            self._store("EPOCH", integer(0, "i64"))  # and the barriers beside it

    def end_program(self) -> None:
        if self._logs:
            call(self._b, "close")

    def end(self) -> None:
        """The thread runs no more programs."""
        if self._logs:
            call(self._b, "finish")

    def _store(self, name: str, value: SSAValue) -> None:
        cell = self._b.offset(PROBE, FIELDS[name])
        self._b.store(value, cell, 8)
