"""Footprints: the bytes that each program accesses, logged as runs of adjacent bytes.

In the common case, a chunk begins where the last chunk of the site ended, both in memory and in the
tile. The open record of the site is then extended, which costs two compares and a store.
`docs/design/instruments.md` describes the records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.probe_layout import OPEN_BYTES, OPEN_ORIGIN, PROBE_OPEN
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.probe import call, load
from ttools.interpreter.emit.instruments.whole_tile import Hull, WholeTile
from ttools.interpreter.llvm.value import PROBE, TRUE, SSAValue, integer
from ttools.interpreter.tiles.chunk import Affine, Chunk, Coords

#: Emits code that stores the addresses of the lanes in the payload, where the runtime reads them;
#: returns the address of the first one.
StoreAddresses = Callable[[], SSAValue]


def record_chunk(
    e: Emitter,
    site: ProbeSite,
    number: int,
    chunk: Chunk,
    bits: SSAValue | None,
    at: Coords,
    addresses: StoreAddresses,
) -> None:
    """Emit code that records the bytes that the active lanes of a chunk access.

    Args:
        site: The site of the access.
        number: The number of the site.
        chunk: The addresses of the lanes.
        bits: The active lanes, as bits of an i64; all if None.
        at: The coordinates of the lanes.
        addresses: Stores the addresses of the lanes for the runtime.
    """
    b, width = e.b, site.width
    everything = (1 << width) - 1
    in_order = site.positions() == tuple(range(width))
    adjacent = isinstance(chunk, Affine) and chunk.lanes == tuple(
        lane * site.size for lane in range(width)
    )
    if not (isinstance(chunk, Affine) and adjacent and in_order):
        lanes = integer(everything, "i64") if bits is None else bits
        record_lanes(e, site, integer(number, "i32"), lanes, at, addresses)
        return
    if bits is None:
        _record_run(e, site, number, chunk.base, at)
        return
    whole = b.compare("icmp eq", bits, everything)
    full, part, done = b.label("full"), b.label("part"), b.label("noted")
    b.cond_branch(whole, full, part)
    b.start(full)
    _record_run(e, site, number, chunk.base, at)
    b.branch(done)
    b.start(part)
    record_lanes(e, site, integer(number, "i32"), bits, at, addresses)
    b.branch(done)
    b.start(done)


def _record_run(e: Emitter, site: ProbeSite, number: int, base: SSAValue, at: Coords) -> None:
    b, total = e.b, site.width * site.size
    record = PROBE_OPEN + number * OPEN_BYTES
    cell = b.offset(PROBE, record + 8)
    end = b.load("i64", cell, 8)
    continues = b.compare("icmp eq", end, base)
    first = _first_position(e, site, at)
    if site.shape:
        origin = load(b, PROBE, record + OPEN_ORIGIN, "i64")
        before = e.integers.multiply(e.integers.convert(first, "i64"), site.size)
        apart = b.binary("sub", base, before)
        own = b.binary("and", apart, site.size * prod(site.shape) - 1)
        continues = b.binary("and", continues, b.compare("icmp eq", own, origin))
    more, other, done = b.label("more"), b.label("other"), b.label("noted")
    b.cond_branch(continues, more, other)
    b.start(more)
    b.store(b.binary("add", base, total), cell, 8)
    b.branch(done)
    b.start(other)
    call(b, "footprint", integer(number, "i32"), base, integer(total, "i64"), first)
    b.branch(done)
    b.start(done)


def record_lanes(
    e: Emitter,
    site: ProbeSite,
    number: SSAValue,
    bits: SSAValue,
    at: Coords,
    addresses: StoreAddresses,
) -> None:
    """Emit a call of the runtime that records lanes one by one; adjacent lanes become one run.

    Args:
        site: The site of the access.
        number: The number of the site, an i32.
        bits: The lanes, as bits of an i64.
        at: The coordinates of the lanes.
        addresses: Stores the addresses of the lanes for the runtime.
    """
    b = e.b
    with b.only_if(b.compare("icmp ne", bits, 0), "lanes", "noted"):
        call(b, "footprint_lanes", number, addresses(), bits, _first_position(e, site, at))


def _first_position(e: Emitter, site: ProbeSite, at: Coords) -> SSAValue:
    """Return the position of the base coordinates in walk order (see `ProbeSite.positions`)."""
    return e.integers.linear_index((at[axis].base, site.shape[axis]) for axis in site.walk)


@dataclass(frozen=True)
class _Axis:
    """One or more axes of a tile that are traversed as one axis.

    Attributes:
        step: Distance between neighbouring coordinates in memory, in bytes, an i64.
        lanes: Distance between neighbouring coordinates in walk order, in lanes.
        extent: The number of coordinates.
        first: The lowest coordinate that the mask admits, an i64.
        end: The exclusive end of the coordinates that the mask admits, an i64.
    """

    step: SSAValue
    lanes: int
    extent: int
    first: SSAValue
    end: SSAValue

    @property
    def is_whole(self) -> bool:
        return (self.first, self.end) == ("0", str(self.extent))

    def continues_in(self, outer: _Axis) -> bool:
        """Return whether the coordinates of an outer axis continue the steps of this one."""
        return (
            self.is_whole
            and self.step.lstrip("-").isdigit()
            and outer.step == str(int(self.step) * self.extent)
            and outer.lanes == self.lanes * self.extent
        )

    def joined(self, e: Emitter, outer: _Axis) -> _Axis:
        """Return both axes as one, if `outer` continues the steps of this one."""
        first, end = (e.integers.multiply(n, self.extent) for n in (outer.first, outer.end))
        extent = self.extent * outer.extent
        return replace(self, extent=extent, first=first, end=end)


def record_tile(e: Emitter, site: ProbeSite, number: int, whole: WholeTile) -> WholeTile:
    """Emit, at the builder's current place, code that records a whole tile if it is in bounds.

    The box of the mask must be exact, and the tile must consist of rows at equal distances.

    Args:
        site: The site of the access.
        number: The number of the site.
        whole: The test of the tile.

    Returns:
        The test; its attribute `logged` is True if the code was emitted.
    """
    axes = _axes(e, site, whole.hull) if whole.exact else None
    if axes is None:
        return whole
    b, (run, rows) = e.b, axes
    start, lane = whole.hull.form.base, integer(0, "i64")
    for axis in (run, rows):
        start = e.integers.add(start, e.integers.multiply(axis.step, axis.first))
        lane = e.integers.add(lane, e.integers.multiply(integer(axis.lanes, "i64"), axis.first))
    active = whole.inside
    if whole.hull.idle is not None:
        active = b.binary("and", active, b.binary("xor", whole.hull.idle, TRUE))
    count = b.select(active, e.integers.subtract(rows.end, rows.first), 0)
    bytes_ = e.integers.multiply(e.integers.subtract(run.end, run.first), site.size)
    arguments = [integer(number, "i32"), start, bytes_, e.integers.convert(lane, "i32"), count]
    call(b, "footprint_tile", *arguments, rows.step, integer(rows.lanes, "i32"))
    return replace(whole, logged=True)


def _axes(e: Emitter, site: ProbeSite, hull: Hull) -> tuple[_Axis, _Axis] | None:
    """Return the two axes of a tile that consists of rows: one along a row, and one across rows.

    The elements of a row are adjacent. The result is None if the tile has another form.
    """
    zero, one = integer(0, "i64"), integer(1, "i64")
    lanes, axes = 1, [_Axis(integer(site.size, "i64"), 1, 1, zero, one)]
    for n in reversed(site.walk):
        extent, step = site.shape[n], hull.form.steps[n]
        axis = _Axis(step, lanes, extent, hull.box.first(n), hull.box.end(n))
        lanes *= extent
        if extent == 1:
            continue  # if a mask excludes the only coordinate, no lane is active at all
        if axes[-1].continues_in(axis):
            axes[-1] = axes[-1].joined(e, axis)
        elif len(axes) == 2 or not _is_row_step(axis, axes[0]):
            return None
        else:
            axes.append(axis)
    run, rows = (*axes, _Axis(zero, 0, 1, zero, one))[:2]
    return run, rows


def _is_row_step(rows: _Axis, run: _Axis) -> bool:
    """Return whether the distance between rows is allowed.

    If a row is a single element, rows must provably not be adjacent, because adjacent elements
    belong to the same run.
    """
    return run.extent > 1 or (rows.step.isdigit() and int(rows.step) > int(run.step))
