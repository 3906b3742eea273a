"""Requests of warps to memory: how many sectors they move, beside the fewest that would do.

A warp's instruction accesses some elements of each of its threads at once; memory answers in
sectors of 32 bytes. Addresses come from a launch on the host, the threads from the layout of the
tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.layouts.accesses import AccessLayout
from ttools.core.compilation.layouts.ttgir import Holder
from ttools.core.location import SourceLocation
from ttools.profiler.access.trace import AccessTrace, line_of

SECTOR = 32
#: Bits that a thread accesses at most at once.
_WIDEST = 128


@dataclass(frozen=True, kw_only=True)
class AccessQuality:
    """How well an access suits the GPU that its kernel was compiled for.

    Attributes:
        layout: of its tile, as TTGIR writes it.
        bits: that a thread accesses at once.
        possible_bits: what a thread could access at once, had the compiler known that its
            elements lie side by side in memory; `bits` where nothing is lost.
        group: elements of the tile, by axis, that a thread could access at once.
        adjacent_axis: of the tile, along which neighbours lie side by side in memory; None if
            there is none.
        regular: whether addresses change by the same step along some axis: those that follow
            the data do not.
        next_thread: how far apart along each axis the elements of neighbouring threads are.
        requests: of warps with any lane in use, in the tiles looked at.
        sectors: of 32 bytes that these move.
        ideal: sectors that as many different bytes fit into.
        tile_sectors: of 32 bytes that whole tiles touch, which is what goes beyond the L1 cache.
        tile_ideal: sectors that as many different bytes of whole tiles fit into.
        active: share of the lanes of these requests that are in use.
        nested: whether the compiler left it inside a loop or a branch.
    """

    trace: AccessTrace
    layout: str
    bits: int
    possible_bits: int
    group: tuple[int, ...]
    adjacent_axis: int | None
    regular: bool
    next_thread: tuple[int, ...]
    requests: int
    sectors: int
    ideal: int
    tile_sectors: int
    tile_ideal: int
    active: float
    nested: bool

    @property
    def location(self) -> SourceLocation | None:
        """Where the access is in the source."""
        return self.trace.location

    @property
    def sectors_per_request(self) -> float:
        """On average."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """On average, the fewest."""
        return self.ideal / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Share of the bytes that sectors move which could not be left out."""
        return self.ideal / self.sectors if self.sectors else 1.0


def access_qualities(traces: Sequence[AccessTrace], inspection: Inspection) -> list[AccessQuality]:
    """The accesses of a kernel whose layouts are known; those without lanes in use are left out."""
    layouts = inspection.access_layouts
    widths = _widths(inspection)
    found = []
    for trace in traces:
        layout = _layout_of(trace, layouts)
        if layout is None or not len(trace.addresses):
            continue
        item = 8 * trace.size
        bits = widths.get((line_of(trace.location), trace.kind), 0) or item
        quality = quality_of(trace, layout, max(item, bits))
        if quality.requests:
            found.append(quality)
    return found


def _layout_of(trace: AccessTrace, layouts: Sequence[AccessLayout]) -> AccessLayout | None:
    """The layout of the same kind, line and shape; of several the one of the same column."""
    alike = [
        each
        for each in layouts
        if (each.kind, each.shape, line_of(each.location))
        == (trace.kind, trace.shape, line_of(trace.location))
    ]
    column = trace.location.column if trace.location else 0
    exact = [each for each in alike if each.location and each.location.column == column]
    return next(iter(exact or alike), None)


def _widths(inspection: Inspection) -> dict[tuple[tuple[str, int], str], int]:
    """Bits of the accesses at each line, by kind: those of most of its instructions."""
    found: dict[tuple[tuple[str, int], str], Counter[int]] = {}
    for access in inspection.accesses:
        kind = "load" if access.kind == "async copy" else access.kind
        found.setdefault((line_of(access.location), kind), Counter())[access.bits] += access.count
    return {key: counts.most_common(1)[0][0] for key, counts in found.items()}


def quality_of(trace: AccessTrace, layout: AccessLayout, bits: int) -> AccessQuality:
    """Counts the sectors of an access, given how wide a thread's accesses are."""
    held = layout.elements
    atomic = trace.kind == "atomic"  # made one by one
    group = (1,) * len(trace.shape) if atomic else widest_group(trace, held.registers)
    adjacent, regular = _steps(trace)
    if trace.follows_data and len(trace.shape) == 1:  # that they lie in a row is by chance
        group, adjacent, regular = (1,), None, False
    first, second = held.at(0, 0, 0), held.at(0, min(1, held.lanes - 1), 0)
    elements = max(1, bits // (8 * trace.size))
    index = request_elements(held, elements, once=trace.kind != "load")
    requests = sectors = ideal = tile_sectors = tile_ideal = lanes = active = 0
    for row in trace.addresses:
        # The last column stands for lanes that make no access.
        padded = np.append(row, -1)[index]
        padded = padded[(padded >= 0).any(axis=1)]
        requests += len(padded)
        sectors += int(distinct(padded // SECTOR, padded >= 0).sum())
        ideal += _fewest(padded, trace.size)
        tile_sectors += int(distinct(row[None] // SECTOR, row[None] >= 0).sum())
        tile_ideal += _fewest(row[None], trace.size)
        lanes += padded.size
        active += int((padded >= 0).sum())
    return AccessQuality(
        trace=trace,
        layout=layout.layout,
        bits=bits,
        possible_bits=max(bits, prod(group) * trace.size * 8),
        group=group,
        adjacent_axis=adjacent,
        regular=regular,
        next_thread=tuple(abs(b - a) for a, b in zip(first, second, strict=True)),
        requests=requests,
        sectors=sectors,
        ideal=ideal,
        tile_sectors=tile_sectors,
        tile_ideal=tile_ideal,
        active=active / lanes if lanes else 1.0,
        nested=layout.nested,
    )


def _fewest(rows: NDArray[np.int64], size: int) -> int:
    """Sectors that the bytes of each row fit into, of all rows."""
    return int((-(-(distinct(rows, rows >= 0) * size) // SECTOR)).sum())


def _steps(trace: AccessTrace) -> tuple[int | None, bool]:
    """An axis along which most neighbours lie side by side; whether any has a step of its own."""
    tiles = trace.addresses.reshape(-1, *trace.shape)
    adjacent, regular = None, False
    for axis in range(1, tiles.ndim):
        steps, known = np.diff(tiles, axis=axis), tiles >= 0
        both = known.take(range(1, tiles.shape[axis]), axis) & known.take(
            range(tiles.shape[axis] - 1), axis
        )
        values, counts = np.unique(steps[both], return_counts=True)
        if len(values) and 2 * counts.max() > counts.sum():
            regular = True
            if values[counts.argmax()] == trace.size:
                adjacent = axis - 1
    return adjacent, regular


def request_elements(held: Holder, elements: int, *, once: bool) -> NDArray[np.int64]:
    """The row-major elements that each request of a warp accesses; -1 for none.

    Args:
        elements: that a thread accesses at once.
        once: of elements that several threads hold only one accesses each, as stores do.
    """
    strides = [prod(held.shape[axis + 1 :]) for axis in range(len(held.shape))]
    elements = min(elements, held.registers)
    groups = -(-held.registers // elements)
    register = np.arange(groups * elements).reshape(groups, 1, elements)
    lane, warp = np.arange(held.lanes)[:, None], np.arange(held.warps)[:, None, None, None]
    at = held.at(register, lane, warp)
    numbers = np.zeros((held.warps, groups, held.lanes, elements), np.int64)
    numbers += sum(n * s for n, s in zip(at, strides, strict=True))
    numbers[:, np.broadcast_to(register, numbers.shape[1:]) >= held.registers] = -1
    if once:
        first = np.zeros(numbers.size, np.bool_)
        first[np.unique(numbers, return_index=True)[1]] = True
        numbers[~first.reshape(numbers.shape)] = -1
    return numbers.reshape(held.warps * groups, held.lanes * elements)


def distinct(values: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many different values each row has, of those that are known."""
    if not values.size:
        return np.zeros(len(values), np.int64)
    ordered = np.sort(np.where(known, values, -1), axis=1)
    new = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    counts: NDArray[np.int64] = new.sum(axis=1) + (ordered[:, 0] >= 0)
    return counts


def widest_group(trace: AccessTrace, registers: int) -> tuple[int, ...]:
    """What a thread could access at once in another layout, had the compiler known addresses.

    The widest aligned groups of elements, side by side in memory along some axis and masked alike,
    that every tile looked at consists of.

    Args:
        registers: elements that a thread holds.

    Returns:
        Elements along each axis.
    """
    tiles = trace.addresses.reshape(-1, *trace.shape)
    widest = min(_WIDEST // (8 * trace.size), registers)
    while widest > 1:
        for axis, extent in enumerate(trace.shape):
            if extent % widest:
                continue
            groups = np.moveaxis(tiles, axis + 1, -1).reshape(-1, widest)
            active = groups >= 0
            whole = groups[active.all(axis=1)]
            alike = bool((active.any(axis=1) == active.all(axis=1)).all())
            adjacent = bool((np.diff(whole, axis=1) == trace.size).all())
            if alike and adjacent and bool((whole[:, 0] % (widest * trace.size) == 0).all()):
                return tuple(widest if each == axis else 1 for each in range(len(trace.shape)))
        widest //= 2
    return (1,) * len(trace.shape)
