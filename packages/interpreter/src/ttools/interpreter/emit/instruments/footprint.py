"""Footprints: the bytes that each program accesses, logged as runs of adjacent bytes.

In the common case a chunk begins where the site's last one ended and has the lanes that follow.
This costs two compares and a store.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.probe_layout import OPEN_BYTES, OPEN_ORIGIN, PROBE_OPEN
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.probe import call, load
from ttools.interpreter.llvm.value import PROBE, SSAValue, integer
from ttools.interpreter.tiles.chunk import Affine, Chunk, Coords

#: Stores the lanes' addresses for the runtime; returns the address.
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
    """Record what the active lanes of a chunk access.

    Args:
        site: The site of the access.
        number: The number of the site.
        bits: The active lanes, an i64; all if None.
        at: The coordinates of the lanes.
        addresses: See `StoreAddresses`.
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
    """Record lanes one by one; adjacent ones still make one run. `number` is an i32."""
    b = e.b
    with b.only_if(b.compare("icmp ne", bits, 0), "lanes", "noted"):
        call(b, "footprint_lanes", number, addresses(), bits, _first_position(e, site, at))


def _first_position(e: Emitter, site: ProbeSite, at: Coords) -> SSAValue:
    """Return the position of the base coordinates in the walk of the tile."""
    return e.integers.linear_index((at[axis].base, site.shape[axis]) for axis in site.walk)
