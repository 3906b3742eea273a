"""Instrumented memory accesses: bounds are checked (guards) and footprints recorded.

In the common case, all active lanes are inside the memory from which the address derives, and the
guard costs a compare and a branch per chunk. Otherwise, the runtime checks lane by lane. Lanes that
are out of bounds are reported and excluded from the access. For a contiguous chunk of 16 floats at
the address `p` and a tensor of `n` bytes at the address `base`, the emitted code is:

    if (p - base) / 4 < n / 4 - 15:             # unsigned, and p - base must be a multiple of 4
        access all lanes under the mask of the kernel
    else:                                       # out of line
        lanes = check_lanes(addresses, mask)    # the runtime; reports lanes out of bounds
        access these lanes only

If the chunk is in a loop over the chunks of a tile, the whole tile is tested before the loop if
possible (`whole_tile.py`), and only a branch remains in the loop. `docs/design/instruments.md`
describes guards and footprints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.probe_layout import (
    CACHE_BASE,
    CACHE_BYTES,
    IS_SCALAR,
    OPEN_BYTES,
    PAYLOAD_ADDRESSES,
    PROBE_OPEN,
)
from ttools.interpreter.analysis.accesses import PROVED
from ttools.interpreter.analysis.strides import memory_order
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.event import (
    Destination,
    named_operands,
    payload_bytes,
    report,
    variables_of,
)
from ttools.interpreter.emit.instruments.footprint import record_chunk, record_lanes, record_tile
from ttools.interpreter.emit.instruments.probe import (
    SHADOW,
    Prober,
    bit_lanes,
    call,
    lane_bits,
    load,
)
from ttools.interpreter.emit.instruments.synchronisation import access_flags
from ttools.interpreter.emit.instruments.whole_tile import WholeTile, begins_inside, whole_tile
from ttools.interpreter.emit.out_of_line import out_of_line
from ttools.interpreter.llvm.builder import SIZES, memory_type
from ttools.interpreter.llvm.lines import Preheader
from ttools.interpreter.llvm.value import (
    NOTHING,
    PROBE,
    TRUE,
    Label,
    SSAValue,
    integer,
)
from ttools.interpreter.tiles.chunk import Affine, Chunk, Coords, Vector, uniform
from ttools.ir import (
    IntegerType,
    Operation,
    PointerType,
    element_type,
    shape_of,
)

#: Emits a comparison of memory with the values of a store, for addresses and a mask; returns i1
#: lanes that are set where they differ.
Differs = Callable[[Chunk, "Chunk | None"], SSAValue]
#: Emits the access itself, for addresses and a mask; returns the loaded value, or `NOTHING`.
Perform = Callable[[Chunk, "Chunk | None"], SSAValue]


def is_observed(e: Emitter, op: Operation) -> bool:
    """Return whether accesses of an operation are guarded or logged."""
    if e.prober is None or op.attributes.get(SHADOW):
        return False
    instruments = e.prober.instruments
    guarded = instruments.guards and not op.attributes.get(PROVED)
    return guarded or instruments.footprints


def observed(
    e: Emitter,
    op: Operation,
    kind: str,
    chunk: Chunk,
    mask: Chunk | None,
    at: Coords,
    perform: Perform,
    flags: int = 0,
) -> SSAValue:
    """Emit an access, with the instruments of the function, if it has any.

    Args:
        op: The operation; its first operand is the address.
        kind: `load`, `store` or `atomic`.
        chunk: The addresses of the lanes.
        mask: The active lanes; all if None.
        at: The coordinates of the lanes.
        perform: Emits the access itself.
        flags: Flags of the site.
    """
    prober = e.prober
    if prober is None or not is_observed(e, op):
        return perform(chunk, mask)
    if isinstance(mask, Affine) and mask.base == "true" and mask.is_uniform:
        mask = None
    access = _Access(e, prober, op, kind, chunk, mask, at, flags)
    if prober.instruments.guards and not op.attributes.get(PROVED):
        return access.guarded(perform)
    access.leave_footprint(chunk)
    return perform(chunk, mask)


def verified(
    e: Emitter, op: Operation, chunk: Chunk, mask: Chunk | None, at: Coords, differs: Differs
) -> None:
    """Report lanes of a store whose memory holds a different value, stored by other lanes.

    This is emitted after all lanes of the tile have been stored.

    Args:
        chunk: The addresses of the lanes.
        mask: The active lanes; all if None.
        at: The coordinates of the lanes.
        differs: Emits, for addresses and a mask, the lanes whose memory differs.
    """
    assert e.prober is not None
    access = _Access(e, e.prober, op, "store", chunk, mask, at, access_flags(op))
    access.report_lanes(differs)


def compared(
    e: Emitter, op: Operation, chunk: Chunk, mask: Chunk | None, at: Coords, differs: Differs
) -> None:
    """Log the lanes of a store that would change memory, instead of storing them."""
    assert e.prober is not None
    access = _Access(e, e.prober, op, "store", chunk, mask, at, access_flags(op))

    def perform(chunk: Chunk, mask: Chunk | None) -> SSAValue:
        bits = lane_bits(e.b, differs(chunk, mask))
        record_lanes(
            e, access.site, integer(access.number, "i32"), bits, at, access.store_addresses
        )
        return NOTHING

    access.guarded(perform)


@dataclass
class _Access:
    """An access of one chunk, for which instrumented code is emitted."""

    e: Emitter
    prober: Prober
    op: Operation
    kind: str
    chunk: Chunk
    mask: Chunk | None
    at: Coords
    flags: int

    def __post_init__(self) -> None:
        pointer = self.op.operands[0]
        element = element_type(pointer.type)
        assert isinstance(element, PointerType)
        self.width = self.chunk.width
        self.leaves = self.prober.leaves_footprint(pointer)
        self.site = ProbeSite(
            kind=self.kind,
            operation=self.prober.numbers[self.op],
            location=self.op.location,
            size=SIZES[memory_type(element.pointee)],
            shape=shape_of(pointer.type),
            lanes=tuple(axis.lanes for axis in self.at),
            width=self.width,
            parameter=self.prober.root(pointer),
            choices=self.prober.choices(pointer),
            leader=self.prober.leader(self.op, self.e.evaluation),
            order=(memory_order(pointer, self.e.strides) or ()) if pointer.is_tensor else (),
            flags=self.flags,
            masked=self.mask is not None,
        )
        instruments = self.prober.instruments
        self.variables = []
        if instruments.guards and instruments.explains:
            self.variables = variables_of(self.e, named_operands(self.op), self.at)
        self.first = PAYLOAD_ADDRESSES + 8 * self.width
        self.number, self.payload = self._site()

    def _site(self) -> tuple[int, int]:
        """Return the index of the site and the offset of its payload.

        Copies of the same access in unrolled code share both.
        """
        copies = self.prober.copies
        shown = tuple((variable.name, variable.value) for variable in self.variables)
        key = self.site, shown, len(self.e.iterations)
        # The numbers of synchronising accesses, which are logged in order, are in use already.
        if key not in copies or self.flags & ~IS_SCALAR:
            number = len(self.prober.sites)
            self.prober.sites.append(self.site)
            size = payload_bytes(self.first, self.at, len(self.e.iterations), self.variables)
            copies[key] = number, self.e.allocate(size)
        return copies[key]

    def guarded(self, perform: Perform) -> SSAValue:
        e, b = self.e, self.e.b
        yes, no, done = b.label("inside"), b.label("check_lanes"), b.label("accessed")
        whole = self._tile_inside()
        if whole is None:
            self._branch(self._inside(), yes, no)
        elif whole.exact:
            self._branch(whole.inside, yes, no)
        else:
            some = b.label("beside")
            self._branch(whole.inside, yes, some)
            b.start(some)
            with e.cold():
                self._branch(self._inside(), yes, no)
        b.start(yes)
        with e.cold():
            chunk = self.chunk
            if isinstance(chunk, Affine) and chunk.guard is not None:
                chunk = replace(chunk, guard=None, exact=None, ssa=None)
            if whole is None or not whole.logged:
                self.leave_footprint(chunk)
            first = perform(chunk, self.mask)
        first_block = b.block
        b.branch(done)
        b.start(no)
        to = self._destination()
        second = out_of_line(e, lambda: self._allowed(perform, to))
        second_block = b.block
        b.branch(done)
        b.start(done)
        return b.joined((first, first_block), (second, second_block))

    def _allowed(self, perform: Perform, to: Destination) -> SSAValue:
        """Emit a check by the runtime, and the access of the lanes that it allows."""
        e, b = self.e, self.e.b
        bits = self._check_lanes(to)
        if self.leaves:
            addresses = partial(self._store_addresses, to)
            record_lanes(e, self.site, to.site, bits, self.at, addresses)
        chunk = self.chunk
        if isinstance(chunk, Affine) and chunk.guard is not None:
            chunk = Vector(chunk.element, e.vector(chunk))
        lanes = bit_lanes(b, bits, self.width)
        allowed: Chunk = Vector(IntegerType(1), lanes)
        if self.width == 1:
            allowed = uniform(IntegerType(1), lanes, 1)
        return perform(chunk, allowed)

    def report_lanes(self, differs: Differs) -> None:
        """Report the lanes of a store that differ from memory.

        Only chunks whose lanes are all in bounds are compared.
        """
        b = self.e.b
        yes, done = b.label("compare"), b.label("compared")
        b.cond_branch(self._inside(), yes, done)
        b.start(yes)
        with self.e.cold():
            chunk = self.chunk
            if isinstance(chunk, Affine) and chunk.guard is not None:
                chunk = replace(chunk, guard=None, exact=None, ssa=None)
            bits = lane_bits(b, differs(chunk, self.mask))
            some = b.compare("icmp ne", bits, 0)
            bad, good = b.label("overwritten"), b.label("kept")
            b.cond_branch(some, bad, good)
            b.start(bad)
            to = self._destination()

            def emit_report() -> SSAValue:
                self._store_addresses(to)
                zero = integer(0, "i64")
                for offset, value in ((0, zero), (8, zero), (16, zero), (24, bits), (32, bits)):
                    to.store(b, offset, value)
                self._report(to, bits)
                return NOTHING

            out_of_line(self.e, emit_report)
            b.branch(good)
            b.start(good)
        b.branch(done)
        b.start(done)

    def leave_footprint(self, chunk: Chunk) -> None:
        if not self.leaves:
            return
        bits = None if self.mask is None else self._active_bits()
        record_chunk(self.e, self.site, self.number, chunk, bits, self.at, self.store_addresses)

    def _branch(self, likely: SSAValue, yes: Label, no: Label) -> None:
        b = self.e.b
        b.cond_branch(b.overloaded("expect", likely, TRUE), yes, no)

    # ---- the test for the common case
    def _tile_inside(self) -> WholeTile | None:
        """Return the test of the whole tile, which is emitted before the enclosing loop.

        The result is None if there is no loop, or if the tile cannot be tested as a whole.
        """
        e, pointer = self.e, self.op.operands[0]
        if not e.b.preheaders or self.site.parameter not in self.prober.bounds:
            return None
        if prod(self.site.shape) <= self.width or e.signature.is_foreign(pointer):
            return None
        preheader = e.b.preheaders[0]
        if not self.prober.instruments.explains:
            # Guards that only count do not change the schedule, so a load may be evaluated in
            # several loops, in any order. The test before a loop is therefore valid only in that
            # loop.
            test = preheader.known.get(("tile", self.op))
            if test is None:
                test = preheader.known["tile", self.op] = (self._emit_tile_inside(preheader),)
            return test[0]
        # With guards that pass the values of variables (`explains`), the schedule ensures that all
        # places that evaluate an access follow the first one in the same straight-line code. They
        # can therefore use its test, and so can out-of-line functions.
        tests: dict[tuple[Operation, int], WholeTile | None] = self.prober.whole_tiles
        for body in e.b.bodies:
            if (self.op, body) in tests:
                return tests[self.op, body]
        whole = self._emit_tile_inside(preheader)
        tests[self.op, e.b.bodies[-1]] = whole
        return whole

    def _emit_tile_inside(self, preheader: Preheader) -> WholeTile | None:
        """Emit the test of the whole tile before a loop."""
        e, pointer = self.e, self.op.operands[0]
        with e.b.before(preheader):
            mask, size = self.op.mask, self.site.size
            whole = whole_tile(e, pointer, mask, size, self._bounds())
            if whole is not None and self.leaves:
                whole = record_tile(e, self.site, self.number, whole)
        return whole

    def _inside(self) -> SSAValue:
        """Return an i1 that is set if every active lane is aligned and in bounds."""
        inside = self._lanes_inside()
        guard = self.chunk.guard if isinstance(self.chunk, Affine) else None
        return inside if guard is None else self.e.b.binary("and", inside, guard)

    def _lanes_inside(self) -> SSAValue:
        e, b, chunk, width = self.e, self.e.b, self.chunk, self.width
        low, bytes_ = self._bounds()
        if isinstance(chunk, Affine) and not any(n % self.site.size for n in chunk.lanes):
            first, last = min(chunk.lanes), max(chunk.lanes)
            start = b.binary("add", chunk.base, first) if first else chunk.base
            return self._fits(start, low, bytes_, (last - first) // self.site.size + 1)
        fits = self._fits(e.vector(chunk), low, bytes_, 1)
        if width == 1:
            return fits
        if self.mask is not None:
            off = b.binary("xor", e.vector(self.mask), b.splat(TRUE, width))
            fits = b.binary("or", fits, off)
        return b.all_lanes(fits)

    def _bounds(self) -> tuple[SSAValue, SSAValue]:
        """Return the address and size of the memory that may be accessed without a check.

        This is the memory of the parameter that the address derives from. If that parameter is
        unknown, it is the memory in which the runtime last found an address of this site.
        """
        bounds = self.prober.bounds.get(self.site.parameter)
        if bounds is not None:
            return bounds
        record = PROBE_OPEN + self.number * OPEN_BYTES
        base = load(self.e.b, PROBE, record + CACHE_BASE, "i64")
        return base, load(self.e.b, PROBE, record + CACHE_BYTES, "i64")

    def _fits(self, start: SSAValue, low: SSAValue, bytes_: SSAValue, elements: int) -> SSAValue:
        """Return whether `elements` aligned elements from `start` on are in bounds."""
        size = self.site.size
        capacity = self._capacity(bytes_, size.bit_length() - 1, elements)
        return begins_inside(self.e.b, start, low, capacity, size)

    def _capacity(self, bytes_: SSAValue, shift: int, elements: int) -> SSAValue:
        """Return the number of positions in memory at which an access may begin.

        Args:
            bytes_: The size of the memory.
            shift: The base-2 logarithm of the size of an element.
            elements: The number of adjacent elements that are accessed.
        """
        b, key = self.e.b, ("capacity", bytes_, shift, elements)
        if not b.preheaders or self.site.parameter not in self.prober.bounds:
            return self._emit_capacity(bytes_, shift, elements)
        preheader = b.preheaders[0]
        capacity = preheader.known.get(key)
        if capacity is None:
            with b.before(preheader):
                capacity = preheader.known[key] = self._emit_capacity(bytes_, shift, elements)
        return capacity

    def _emit_capacity(self, bytes_: SSAValue, shift: int, elements: int) -> SSAValue:
        b = self.e.b
        capacity = b.binary("lshr", bytes_, shift) if shift else bytes_
        if elements > 1:
            capacity = b.overloaded("usub.sat", capacity, integer(elements - 1, "i64"))
        return capacity

    # ---- the check by the runtime
    def _check_lanes(self, to: Destination) -> SSAValue:
        """Return the lanes that may access memory, as bits; report the others."""
        b = self.e.b
        self._store_addresses(to)
        bits = call(b, "check_lanes", to.site, to.payload, self._active_bits(), returns="i64")
        failed = load(b, to.payload, 0, "i64")
        for n in (1, 2):
            failed = b.binary("or", failed, load(b, to.payload, 8 * n, "i64"))
        self._report(to, failed)
        return bits

    def _report(self, to: Destination, failed: SSAValue) -> None:
        report(self.e, self.prober, self.number, to, failed, self.first, self.at, self.variables)

    def _destination(self) -> Destination:
        return Destination.of(self.e.b, self.number, self.payload)

    def store_addresses(self) -> SSAValue:
        """Store the lanes' addresses in the payload; return its address."""
        return self._store_addresses(self._destination())

    def _store_addresses(self, to: Destination) -> SSAValue:
        return to.store(self.e.b, PAYLOAD_ADDRESSES, self.e.vector(self.chunk))

    def _active_bits(self) -> SSAValue:
        if self.mask is None:
            return integer((1 << self.width) - 1, "i64")
        return lane_bits(self.e.b, self.e.vector(self.mask))
