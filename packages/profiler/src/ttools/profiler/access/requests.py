"""Memory requests of warps: the sectors that they move, and the fewest sectors that would suffice.

A request is one memory instruction of a warp. In a request, each thread accesses one or more
elements, and memory moves whole sectors of 32 bytes. The addresses of the elements are known from a
launch on the host; the layout of the tile determines which thread accesses which elements. For
example, 32 threads that read one float32 each request 128 bytes: if the addresses are adjacent,
these bytes are in 4 sectors; if the addresses are 4,096 bytes apart, they are in 32 sectors.
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
#: The largest number of bits that a thread can access with one instruction.
_WIDEST = 128


@dataclass(frozen=True, kw_only=True)
class AccessQuality:
    """The efficiency of an access on the GPU for which its kernel was compiled.

    Attributes:
        layout: Layout of the accessed tile, as in TTGIR.
        bits: Number of bits that a thread accesses at once.
        possible_bits: Number of bits that a thread could access at once if the compiler knew which
            elements are adjacent in memory; equal to `bits` if no width is lost.
        group: Extents, along each axis of the tile, of the group of elements that a thread could
            access at once.
        adjacent_axis: Axis of the tile along which neighbouring elements are adjacent in memory;
            None if there is no such axis.
        regular: True if addresses change by a constant step along some axis; False if they depend
            on loaded data.
        next_thread: Distance along each axis between the first elements of two neighbouring
            threads.
        requests: Number of requests of warps with at least one active lane, in the sampled tiles.
        sectors: Number of sectors of 32 bytes that these requests move.
        ideal: The smallest number of sectors that could hold the different bytes of these requests.
        tile_sectors: Number of sectors that the tiles touch if each tile is counted as a whole;
            these sectors cross the L1 cache.
        tile_ideal: The smallest number of sectors that could hold the different bytes of whole
            tiles.
        active: Share of the lanes of these requests that are active.
        nested: True if the access is still inside a loop or a branch after compilation.
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
        """Return the position of the access in the source."""
        return self.trace.location

    @property
    def sectors_per_request(self) -> float:
        """Return the average number of sectors per request."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """Return the average number of necessary sectors per request."""
        return self.ideal / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Return the share of moved bytes that are necessary."""
        return self.ideal / self.sectors if self.sectors else 1.0


def access_qualities(traces: Sequence[AccessTrace], inspection: Inspection) -> list[AccessQuality]:
    """Return the efficiency of accesses with known layouts and at least one active lane."""
    layouts = inspection.access_layouts
    widths = _widths(inspection)
    qualities = []
    for trace in traces:
        layout = _layout_of(trace, layouts)
        if layout is None or not len(trace.addresses):
            continue
        item = 8 * trace.size
        bits = widths.get((line_of(trace.location), trace.kind), 0) or item
        quality = quality_of(trace, layout, max(item, bits))
        if quality.requests:
            qualities.append(quality)
    return qualities


def _layout_of(trace: AccessTrace, layouts: Sequence[AccessLayout]) -> AccessLayout | None:
    """Return the layout with the kind, line and shape of an access, preferably with its column."""
    alike = [
        layout
        for layout in layouts
        if (layout.kind, layout.shape, line_of(layout.location))
        == (trace.kind, trace.shape, line_of(trace.location))
    ]
    column = trace.location.column if trace.location else 0
    exact = [layout for layout in alike if layout.location and layout.location.column == column]
    return next(iter(exact or alike), None)


def _widths(inspection: Inspection) -> dict[tuple[tuple[str, int], str], int]:
    """Return the width in bits of the most frequent access instruction, by line and kind."""
    counts_by_line: dict[tuple[tuple[str, int], str], Counter[int]] = {}
    for access in inspection.accesses:
        kind = "load" if access.kind == "async copy" else access.kind
        counts_by_line.setdefault((line_of(access.location), kind), Counter())[access.bits] += (
            access.count
        )
    return {key: counts.most_common(1)[0][0] for key, counts in counts_by_line.items()}


def quality_of(trace: AccessTrace, layout: AccessLayout, bits: int) -> AccessQuality:
    """Return the efficiency of an access, given the bits that a thread accesses at once."""
    holder = layout.elements
    atomic = trace.kind == "atomic"  # atomics access one element at a time
    group = (1,) * len(trace.shape) if atomic else widest_group(trace, holder.registers)
    adjacent, regular = _steps(trace)
    # Where addresses depend on loaded data, elements are adjacent only by coincidence.
    if trace.follows_data and len(trace.shape) == 1:
        group, adjacent, regular = (1,), None, False
    first, second = holder.at(0, 0, 0), holder.at(0, min(1, holder.lanes - 1), 0)
    elements = max(1, bits // (8 * trace.size))
    index = request_elements(holder, elements, once=trace.kind != "load")
    requests = sectors = ideal = tile_sectors = tile_ideal = lanes = active = 0
    for row in trace.addresses:
        # Lanes without an access have index -1, which selects the appended column.
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
    """Return the sum over rows of the fewest sectors that can hold a row's different elements."""
    return int((-(-(distinct(rows, rows >= 0) * size) // SECTOR)).sum())


def _steps(trace: AccessTrace) -> tuple[int | None, bool]:
    """Return the axis of adjacent neighbours, and whether any axis has a constant step.

    A step counts as constant if more than half of the neighbours along the axis have it.
    """
    tiles = trace.addresses.reshape(-1, *trace.shape)
    adjacent, regular = None, False
    for axis in range(1, tiles.ndim):
        steps, active = np.diff(tiles, axis=axis), tiles >= 0
        both = active.take(range(1, tiles.shape[axis]), axis) & active.take(
            range(tiles.shape[axis] - 1), axis
        )
        values, counts = np.unique(steps[both], return_counts=True)
        if len(values) and 2 * counts.max() > counts.sum():
            regular = True
            if values[counts.argmax()] == trace.size:
                adjacent = axis - 1
    return adjacent, regular


def request_elements(holder: Holder, elements: int, *, once: bool) -> NDArray[np.int64]:
    """Return the row-major indices of the elements of each request of a warp; -1 marks no element.

    Args:
        holder: The assignment of elements to registers, lanes and warps.
        elements: Number of elements that a thread accesses at once.
        once: If True, an element that several threads hold is accessed by only one of them, as in
            stores.
    """
    strides = [prod(holder.shape[axis + 1 :]) for axis in range(len(holder.shape))]
    elements = min(elements, holder.registers)
    groups = -(-holder.registers // elements)
    register = np.arange(groups * elements).reshape(groups, 1, elements)
    lane, warp = np.arange(holder.lanes)[:, None], np.arange(holder.warps)[:, None, None, None]
    at = holder.at(register, lane, warp)
    numbers = np.zeros((holder.warps, groups, holder.lanes, elements), np.int64)
    numbers += sum(n * s for n, s in zip(at, strides, strict=True))
    numbers[:, np.broadcast_to(register, numbers.shape[1:]) >= holder.registers] = -1
    if once:
        first = np.zeros(numbers.size, np.bool_)
        first[np.unique(numbers, return_index=True)[1]] = True
        numbers[~first.reshape(numbers.shape)] = -1
    return numbers.reshape(holder.warps * groups, holder.lanes * elements)


def distinct(values: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of different values in each row, among those that `known` selects."""
    if not values.size:
        return np.zeros(len(values), np.int64)
    ordered = np.sort(np.where(known, values, -1), axis=1)
    new = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    counts: NDArray[np.int64] = new.sum(axis=1) + (ordered[:, 0] >= 0)
    return counts


def widest_group(trace: AccessTrace, registers: int) -> tuple[int, ...]:
    """Return the extents of the group of elements that a thread could access at once.

    The group is the one that the best layout allows: the widest aligned group of elements that are
    adjacent in memory along some axis and have equal masks, in all sampled tiles.

    Args:
        trace: The access, with sampled addresses.
        registers: Number of elements that a thread holds.
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
                return tuple(widest if other == axis else 1 for other in range(len(trace.shape)))
        widest //= 2
    return (1,) * len(trace.shape)
