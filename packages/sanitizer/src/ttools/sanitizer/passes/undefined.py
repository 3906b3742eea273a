"""The pass behind `initcheck`: checks where undefined lanes of a value matter.

A lane computed from an undefined lane is undefined until an operation discards it (see
`undefined_lanes`). It is a defect if such a lane determines a branch, an address, a mask, an
assertion or a stored value. No checks are emitted for values that are proved to be defined: the
pass determines at compile time whether one mask implies another.

Storages with undefined bytes are *tracked*: for each such parameter the kernel gets hidden
parameters (`shadow_memory.hidden_parameters`) through which it reads and writes a shadow of the
storage. Memory behind other pointers is looked up by address in a table of such storages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.ir import Module, Operation, PointerType, Value, shape_of
from ttools.ir.dialects.traits import ATOMIC, LOADS, READS, STRUCTURED
from ttools.ir.rewriting import Builder, Rewriter
from ttools.sanitizer.analysis.dataflow import is_access, is_read, operations
from ttools.sanitizer.analysis.pointer_tables import tables_of
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.implication import implies
from ttools.sanitizer.passes.lanes import lane_builder, outside, within
from ttools.sanitizer.passes.shadow_memory import Shadows, add_hidden_parameters, add_table
from ttools.sanitizer.passes.sinks import Sink, sinks
from ttools.sanitizer.passes.tracking import Key, Tracking
from ttools.sanitizer.passes.undefined_lanes import (
    LEFT_OUT,
    Decided,
    Mark,
    Source,
    SourceKind,
    UndefinedLanes,
    leaves_lanes_undefined,
    mask_of,
    may_leave_axis,
)
from ttools.sanitizer.passes.witnesses import CheckSite, address_shown, values_shown

#: Maximum number of checks in a kernel; more checks would take too long to compile.
_MOST_CHECKS = 96
#: The part of messages about memory to which a list of the unwritten elements can be added.
UNWRITTEN = "elements that were never written"
_ORIGINS = {
    "masked": "lanes that the mask of this access leaves out are undefined",
    "unpadded": "lanes of this block that lie out of bounds are undefined",
    "memory": f"{UNWRITTEN} are read",
    "behind": f"{UNWRITTEN} are read through a computed pointer",
}
#: Help for undefined lanes of a load, and for undefined lanes of an atomic.
_FILL = "give the load an `other` (or a `padding_option`)"
_CHOOSE = "use the result only where the mask holds, for example with tl.where"
#: Such lanes are reported only as a warning, because current GPUs return zeros for them, and much
#: code relies on this.
_PAD = 'give the load `padding_option="zero"`; without one the lanes need not be zero'


def reads(module: Module) -> frozenset[int]:
    """Return the indices of the parameters through which a kernel may read memory."""
    kernel = module.kernel
    provenance = Provenance(kernel)
    parameters: set[int] = set()
    for op in kernel.walk():
        if is_read(op):
            roots = provenance.of(op.operands[0])
            parameters |= (
                _pointers(kernel) if None in roots else {r for r in roots if r is not None}
            )
    return frozenset(parameters)


def follows_addresses(module: Module) -> bool:
    """Return whether a kernel accesses memory by pointers that derive from no parameter."""
    kernel = module.kernel
    provenance = Provenance(kernel)
    return any(None in provenance.of(op.operands[0]) for op in kernel.walk() if is_access(op))


def may_report(module: Module) -> bool:
    """Return whether a kernel may have undefined lanes even if its arguments are initialised."""
    return any(may_leave_axis(op) or leaves_lanes_undefined(op) for op in module.kernel.walk())


def _pointers(kernel: Operation) -> set[int]:
    arguments = kernel.regions[0].entry.arguments
    return {n for n, v in enumerate(arguments) if isinstance(v.type, PointerType)}


def apply(
    module: Module,
    tracked: frozenset[int] = frozenset(),
    by_address: bool = False,
    unpadded: frozenset[Position] = frozenset(),
) -> list[Note]:
    """Insert the checks for uninitialised values into a kernel without calls.

    Args:
        module: The module to rewrite.
        tracked: Pointer parameters that get hidden parameters for shadow memory: parameters whose
            storages have undefined bytes and are read by the kernel, all other parameters of the
            same storages, and parameters to whose storages undefined elements may be copied without
            harm.
        by_address: If True, other storages with undefined bytes are looked up by address, for
            pointers that do not derive from a parameter.
        unpadded: Positions of loads through block pointers without padding.

    Returns:
        What could not be checked.
    """
    return _Instrument(module.kernel, tracked, by_address, unpadded).run()


class _Instrument:
    def __init__(
        self,
        kernel: Operation,
        tracked: frozenset[int],
        by_address: bool,
        unpadded: frozenset[Position],
    ) -> None:
        self.kernel, self.tracked = kernel, tracked
        self.unpadded = unpadded
        self.provenance = Provenance(kernel)
        self.ops = list(operations(kernel))
        # The accesses are collected before the pass adds operations of its own.
        accesses = [op for op in self.ops if is_access(op)]
        self.roots = {op: self.provenance.of(op.operands[0]) for op in accesses}
        hidden = add_hidden_parameters(kernel, tracked)
        others = [add_table(kernel)] if by_address else []
        self.by_address = by_address
        self.memories: dict[Operation, list[Shadows]] = {
            op: [
                *(hidden[r] for r in self._tracked_roots(op)),
                *(others if None in self.roots[op] else ()),
            ]
            for op in accesses
        }
        self.rewriter = Rewriter()
        sources = {op: own for op in accesses if (own := list(self._sources(op)))}
        sources |= {op: [Source(op, "gathered", -1)] for op in self.ops if may_leave_axis(op)}
        self.tracking = Tracking(kernel, UndefinedLanes(sources, self.memories), self.rewriter)

    def _tracked_roots(self, op: Operation) -> list[int]:
        roots = self.roots[op]
        return [r for r in sorted(self.tracked) if r in roots or None in roots]

    def _argument(self, op: Operation) -> int:
        """Return the parameter an access goes through or loads its pointer from; -1 if none."""
        if self.roots[op] == {None}:
            entry = self.kernel.regions[0].entry
            tables = tables_of(op.operands[0], self.provenance, entry)
            return tables.pop() if len(tables) == 1 else -1
        roots = self.roots[op] if len(self.roots[op]) == 1 else self._tracked_roots(op)
        return next((root for root in roots if root is not None), -1)

    def _sources(self, op: Operation) -> Iterator[Source]:
        argument = self._argument(op)
        if leaves_lanes_undefined(op):
            is_block = position_of(op.location) in self.unpadded
            yield Source(op, "unpadded" if is_block else "masked", argument, mask_of(op))
        if op.has(LOADS) and self.memories[op]:
            kind: SourceKind = "behind" if self.roots[op] == {None} else "memory"
            yield Source(op, kind, argument)

    def run(self) -> list[Note]:
        uses = [
            (sink, source, keys)
            for op in self.ops
            for sink in sinks(op)
            for source, keys in self._keys(sink).items()
        ]
        count = self.tracking.affordable(
            [(sink.value, key) for key in keys] for sink, _, keys in uses[:_MOST_CHECKS]
        )
        what = "uses of values that may be undefined"
        notes = self.tracking.left_out(f"only the first {count}", count, len(uses), what)
        checked = uses[:count]
        carried = {op: self._carried(op) for op in self.ops if op.name == "tt.store"}
        for op, sources in carried.items():
            for source in sources:
                self.tracking.demand(op.operands[1], source)
        notes += self._unknown()
        self.tracking.build()
        for sink, source, keys in checked:
            self._check(sink, source, keys)
        for op in self.ops:
            if self.memories.get(op):
                self._write(op, carried.get(op, []))
        self.rewriter.apply()
        return notes

    def _unknown(self) -> Iterator[Note]:
        for op in self.ops:
            is_followed = is_read(op) or op.has(STRUCTURED) or lane_builder(op) is not None
            if op.results and not is_followed and any(self.tracking.state(v) for v in op.operands):
                text = f"{op.name} of values that may be undefined is not followed"
                yield Note(op.location, text)

    # ---- checks
    def _keys(self, sink: Sink) -> dict[Source, list[Key]]:
        """Return the sources whose undefined lanes, or values chosen by them, may reach a sink."""
        keys: dict[Source, list[Key]] = {}
        for key, mark in self.tracking.state(sink.value).items():
            assert isinstance(key, Source | Decided)
            assert isinstance(mark, Mark)
            if isinstance(key, Decided) and sink.allows_choices:
                continue
            if sink.mask is not None and mark.mask is not None and implies(sink.mask, mark.mask):
                continue
            source = key.source if isinstance(key, Decided) else key
            if sink.allows_copies and self._is_carried(sink.op, source, mark):
                continue
            keys.setdefault(source, []).append(key)
        return keys

    def _check(self, sink: Sink, source: Source, keys: Sequence[Key]) -> None:
        b = self.rewriter.before(sink.op)
        shadows = [self._mattering(b, sink, key) for key in keys]
        condition = b.any_of([shadow for shadow in shadows if shadow is not None])
        condition = within(b, condition, sink.mask)
        if source.kind == "gathered":
            index = [("index", source.op.operands[1])]
            shown = list(
                values_shown(index, source.op, CheckSite(b, sink.op, sink.value, condition))
            )
        else:
            shown = list(address_shown(source.op, sink.op, condition))
        insert_check(b, condition, _defect(source, sink.use, sink.op.location), shown)

    def _mattering(self, b: Builder, sink: Sink, key: Key) -> Value | None:
        """Return the undefined lanes of a sink, except lanes copied to memory that has shadows."""
        shadow = self.tracking.shadow(sink.value, key)
        mark = self.tracking.state(sink.value)[key]
        assert isinstance(mark, Mark)
        if shadow is None or not sink.allows_copies or not isinstance(key, Source):
            return shadow
        if not self._may_be_carried(sink.op, key, mark):
            return shadow
        followed = b.any_of([m.holds(b, sink.op.operands[0]) for m in self.memories[sink.op]])
        return outside(b, shadow, followed)

    # ---- shadow memory
    def _is_carried(self, op: Operation, source: Source, mark: Mark) -> bool:
        return None not in self.roots[op] and self._may_be_carried(op, source, mark)

    def _may_be_carried(self, op: Operation, source: Source, mark: Mark) -> bool:
        """Return whether a store copies elements to memory that may have shadows."""
        tracked = self.tracked
        return (
            source.kind not in LEFT_OUT
            and mark.copied
            and all(self.by_address if r is None else r in tracked for r in self.roots[op])
        )

    def _carried(self, op: Operation) -> list[Source]:
        """Return the sources whose undefined lanes a store carries into shadow memory."""
        if not self.memories.get(op):
            return []
        state = self.tracking.state(op.operands[1])
        return [
            key
            for key, mark in state.items()
            if isinstance(key, Source)
            and isinstance(mark, Mark)
            and self._may_be_carried(op, key, mark)
        ]

    def _write(self, op: Operation, carried: Sequence[Source]) -> None:
        """Update the shadow of the memory that an access writes."""
        if op.has(LOADS):
            return
        b, mask, undefined = self.rewriter.before(op), mask_of(op), None
        if op.name == "tt.store":
            shadows = [self.tracking.shadow(op.operands[1], key) for key in carried]
            present = [shadow for shadow in shadows if shadow is not None]
            undefined = b.any_of(present) if present else None
        else:
            exchanges = op.attributes.get("atomic_rmw_op") == "exch" or not op.has(READS)
            if not exchanges or any(result.uses for result in op.results):
                self._check_atomic(b, op, mask)
            if not exchanges:
                return  # memory stays undefined: every program that adds to it counts
        for memory in self.memories[op]:
            memory.store(b, op.operands[0], mask, undefined)

    def _check_atomic(self, b: Builder, op: Operation, mask: Value | None) -> None:
        defect = Defect(
            check="initcheck",
            kind="uninit_read",
            message=f"an atomic reads {UNWRITTEN}",
            location=op.location,
            argument=self._argument(op),
        )
        condition = b.any_of([m.load(b, op.operands[0], mask) for m in self.memories[op]])
        insert_check(b, condition, defect, list(address_shown(op, op, condition)))


def _help_masked(op: Operation) -> str:
    return _CHOOSE if op.has(ATOMIC) else _FILL


def _defect(source: Source, use: str, location: SourceLocation | None) -> Defect:
    where = f" at line {location.line}" if location is not None and location.line else ""
    if source.kind == "gathered":
        axis = source.op.axis
        extent = shape_of(source.op.operands[0].type)[axis]
        return Defect(
            check="initcheck",
            kind="oob_gather",
            message=f"lanes come from beyond axis {axis} of {extent} elements, and {use}{where}",
            location=source.op.location,
        )
    is_unpadded = source.kind == "unpadded"
    return Defect(
        check="initcheck",
        kind="uninit_read",
        message=f"{_ORIGINS[source.kind]}, and {use}{where}",
        location=source.op.location,
        argument=source.argument,
        help=_PAD if is_unpadded else _help_masked(source.op) if source.kind == "masked" else "",
        severity="warning" if is_unpadded else "",
        origin=source.kind,
        origins=(location,),
    )
