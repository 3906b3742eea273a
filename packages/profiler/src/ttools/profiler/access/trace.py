"""Addresses of the accesses of a launch: the bytes that each lane of a tile touches, by program.

The addresses are read from footprints. They show how often a program touches the same bytes, and
how many programs share the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ttools.core.location import SourceLocation
from ttools.core.ranges import ranges
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.runtime.access_log import Footprints
from ttools.interpreter.runtime.monitor import Monitor

#: The maximum number of programs whose addresses are kept, and the maximum number of elements per
#: access that are kept for all of these programs together.
_MOST_PROGRAMS = 16
_MOST_ELEMENTS = 1 << 17
#: With more cells per run of bytes than this, `touched` sorts runs instead of counting in cells.
_MOST_CELLS_PER_RUN = 8


@dataclass(frozen=True, kw_only=True)
class TileReuse:
    """Repeated accesses of programs to the same tiles, averaged over the sampled programs.

    Attributes:
        again: Number of times that a program accesses each of its tiles.
        in_a_row: Number of consecutive accesses to one tile, without an access to a different tile
            in between.
        bytes: Total size of the distinct tiles of a program.
    """

    again: float = 1.0
    in_a_row: float = 1.0
    bytes: float = 0.0


@dataclass(frozen=True, eq=False)
class AccessTrace:
    """An access to tiles, over all programs.

    Attributes:
        kind: Kind of the access: `load`, `store` or `atomic`.
        location: Position of the access in the source; None if it is unknown.
        shape: Shape of the tile.
        size: Number of bytes of an element.
        requested: Number of bytes that all programs request.
        again: Average number of times that a program touches a byte, over the bytes that it
            touches.
        reuse: Repeated accesses to whole tiles. Parts of overlapping tiles are not considered,
            because a kernel can keep only whole tiles.
        unique: Number of bytes that at least one program touches.
        addresses: Addresses of the elements of some tiles, one row per tile in row-major order; -1
            for masked elements.
        sampled: True if the launch accesses more tiles than `addresses` contains.
        follows_data: True if addresses depend on data that the kernel reads.
    """

    kind: str
    location: SourceLocation | None
    shape: tuple[int, ...]
    size: int
    requested: int
    again: float
    reuse: TileReuse
    unique: int
    addresses: NDArray[np.int64]
    sampled: bool
    follows_data: bool = False

    @property
    def shared_by(self) -> float | None:
        """Return the average number of programs that touch a byte; None if unknown."""
        return self.requested / self.again / self.unique if self.unique else None


@dataclass(frozen=True, eq=False)
class Traffic:
    """The memory that a launch accesses.

    Attributes:
        unique_loaded: Number of different bytes that are loaded.
        unique_stored: Number of different bytes that are stored or atomically updated.
        accesses: Accesses to tiles, in the order of the program.
        updates: Average number of updates per updated element, by MLIR's name of the element type;
            the largest average if several atomic operations have this type.
    """

    unique_loaded: int
    unique_stored: int
    accesses: tuple[AccessTrace, ...]
    updates: Mapping[str, float]


def line_of(location: SourceLocation | None) -> tuple[str, int]:
    """Return file and line of a location, for comparisons."""
    return (location.file, location.line) if location else ("", 0)


def traffic(
    monitor: Monitor,
    stand_ins: Mapping[int, str] = MappingProxyType({}),
    following: Collection[int] = (),
    atomics: Mapping[int, str] = MappingProxyType({}),
) -> Traffic:
    """Return the memory that a launch accessed, from its footprints.

    Args:
        monitor: The monitor of a launch with footprints.
        stand_ins: The original kinds of accesses that were replaced by loads, by index of the
            operation; see `counting.rewrite.StandIns`.
        following: Indices of loads whose addresses depend on loaded data.
        atomics: MLIR's name of the element type of each atomic operation, by index.
    """
    footprints, _ = monitor.footprints()
    operation_of = np.array([site.operation for site in monitor.sites], np.int64)
    operations = operation_of[footprints.records["site"]]
    loaded: list[Spans] = []
    stored: list[Spans] = []
    traces: list[AccessTrace] = []
    updates: dict[str, float] = {}
    for operation in np.unique(operations).tolist():
        own = footprints.take(np.flatnonzero(operations == operation))
        site = monitor.sites[int(np.flatnonzero(operation_of == operation)[0])]
        kind = stand_ins.get(operation, site.kind)
        if kind == "atomic" and operation not in atomics:
            kind = "store"  # an atomic store, which reads nothing
        spans = merged(*own.spans())
        (loaded if kind == "load" else stored).append(spans)
        if kind == "atomic":
            often = _requested(own) / covered(spans)
            element = atomics[operation]
            updates[element] = max(updates.get(element, 0.0), often)
        if site.shape:
            trace = _trace(kind, site, own, covered(spans))
            traces.append(replace(trace, follows_data=operation in following))
    return Traffic(united(loaded), united(stored), tuple(traces), updates)


def _requested(footprints: Footprints) -> int:
    return int((_size(footprints) * footprints.count).sum())


def _trace(kind: str, site: ProbeSite, footprints: Footprints, unique: int) -> AccessTrace:
    records = footprints.records
    programs = footprints.take(np.flatnonzero(_chosen(records["program"]))).runs()
    programs = programs[np.lexsort((programs["site"], programs["program"]))]
    requested = int((programs["end"] - programs["start"]).sum())
    elements = np.cumsum((programs["end"] - programs["start"]) // site.size)
    few = programs[: max(1, int(np.searchsorted(elements, _MOST_ELEMENTS, side="right")))]
    addresses, program = tile_addresses(few, site)
    return AccessTrace(
        kind=kind,
        location=site.location,
        shape=site.shape,
        size=site.size,
        requested=_requested(footprints),
        again=requested / touched(programs["start"], programs["end"], programs["program"]),
        reuse=_reuse(addresses, program, site.size),
        unique=unique,
        addresses=addresses,
        sampled=len(few) < int(footprints.count.sum()),
    )


def _reuse(addresses: NDArray[np.int64], program: NDArray[np.int64], size: int) -> TileReuse:
    if not len(program):
        return TileReuse()
    tiles = np.column_stack([program, addresses])
    different = np.unique(tiles, axis=0)
    rows = 1 + int((tiles[1:] != tiles[:-1]).any(axis=1).sum())
    total = int((different[:, 1:] >= 0).sum()) * size
    return TileReuse(
        again=len(tiles) / len(different),
        in_a_row=len(tiles) / rows,
        bytes=total / len(np.unique(program)),
    )


def _chosen(program: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each record belongs to one of a few evenly spread programs."""
    low, high = int(program.min()), int(program.max())
    if high - low < _MOST_PROGRAMS:
        return np.ones(len(program), np.bool_)
    present = np.zeros(high - low + 1, np.bool_)
    present[program - low] = True
    ids = np.flatnonzero(present) + low
    wanted = np.zeros(len(present), np.bool_)
    wanted[ids[np.linspace(0, len(ids) - 1, _MOST_PROGRAMS).astype(np.int64)] - low] = True
    chosen: NDArray[np.bool_] = wanted[program - low]
    return chosen


def _size(footprints: Footprints) -> NDArray[np.int64]:
    """Return the length in bytes of the runs of each record."""
    records, steps = footprints.records, (footprints.count - 1) * footprints.stride
    size: NDArray[np.int64] = records["end"] - records["start"] - steps
    return size


#: The start and end addresses of runs of bytes; ends are exclusive.
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]


def merged(start: NDArray[np.int64], end: NDArray[np.int64]) -> Spans:
    """Return the union of runs as ordered runs that neither overlap nor touch.

    The accesses of many programs often merge into one run, such as a whole tensor.
    """
    if not len(start):
        return start, end
    if not (start[1:] >= start[:-1]).all():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    begins = np.flatnonzero(np.concatenate([[True], start[1:] > reached[:-1]]))
    return start[begins], reached[np.concatenate([begins[1:] - 1, [len(end) - 1]])]


def covered(spans: Spans) -> int:
    """Return the total length in bytes of runs that do not overlap."""
    return int((spans[1] - spans[0]).sum())


def united(spans: Sequence[Spans]) -> int:
    """Return the number of bytes in the union of several sets of runs."""
    if not spans:
        return 0
    start, end = (np.concatenate([span[side] for span in spans]) for side in (0, 1))
    return covered(merged(start, end))


def touched(
    start: NDArray[np.int64], end: NDArray[np.int64], program: NDArray[np.int64] | None = None
) -> int:
    """Return the number of bytes in the union of runs.

    Args:
        start: Start addresses of the runs.
        end: End addresses of the runs, exclusive.
        program: The program of each run; if given, the union of each program's runs is counted
            separately and the numbers are added up.
    """
    if not len(start):
        return 0
    low = start.min()
    if program is not None:
        # Shift the runs of each program to a separate range of addresses.
        extent = int(end.max() - low)
        _, rank = np.unique(program, return_inverse=True)
        shift = rank.astype(np.int64) * extent - low
        start, end = start + shift, end + shift
        low = start.min()
    start, end = start - low, end - low
    bits = int(np.bitwise_or.reduce(start) | np.bitwise_or.reduce(end))
    if not bits:
        return 0
    # The starts and ends of all runs are multiples of a power of two, which becomes the size of a
    # cell.
    grain = (bits & -bits).bit_length() - 1
    cells = (int(end.max()) >> grain) + 1
    if cells > _MOST_CELLS_PER_RUN * len(start):
        return covered(merged(start, end))
    opened = np.bincount(start >> grain, minlength=cells)
    opened -= np.bincount(end >> grain, minlength=cells)
    return int(np.count_nonzero(np.cumsum(opened))) << grain


def tile_addresses(
    records: NDArray[np.void], site: ProbeSite
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the addresses of tiles, one row per tile, and the program of each row.

    A run that reaches the end of a tile continues at the beginning of the next tile. A run that
    begins before the end of the preceding run of the same site belongs to a later tile, unless it
    fills gaps left by earlier runs, because tiles are traversed in strips, one after the other.

    Args:
        records: Records of one access (runs of adjacent bytes), sorted by program and site, and by
            time for each site.
        site: The access, with its shape and order of traversal.
    """
    start, total = records["start"], prod(site.shape)
    counts = (records["end"] - start) // site.size
    first = records["lane"].astype(np.int64)
    last = first + counts - 1
    ordinal = _ordinals(records, first, last, total)
    step, which = ranges(0, counts)
    position = first[which] + step
    iteration = ordinal[which] + position // total
    most = int(iteration.max()) + 1 if len(iteration) else 1
    tiles, row = np.unique(records["program"][which] * most + iteration, return_inverse=True)
    rows = np.full((int(row.max()) + 1 if len(row) else 0, total), -1, np.int64)
    rows[row, _row_major(site)[position % total]] = start[which] + step * site.size
    return rows, tiles // most


def _ordinals(
    records: NDArray[np.void], first: NDArray[np.int64], last: NDArray[np.int64], total: int
) -> NDArray[np.int64]:
    """Return the number of the tile in which each run begins, counted by site and program."""
    program, site = records["program"], records["site"]
    same = np.zeros(len(records), np.bool_)
    same[1:] = (program[1:] == program[:-1]) & (site[1:] == site[:-1])
    later = np.zeros(len(records), np.int64)
    later[1:] = (first[1:] <= last[:-1] % total) + last[:-1] // total
    _join_strips(later, same, first, last, total)
    every = np.cumsum(np.where(same, later, 0))
    begin = np.maximum.accumulate(np.where(same, 0, np.arange(len(records))))
    ordinals: NDArray[np.int64] = every - every[begin]
    return ordinals


def _join_strips(
    later: NDArray[np.int64],
    same: NDArray[np.bool_],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    total: int,
) -> None:
    """Assign runs that begin before the end of the previous run, but fill a gap, to its tile."""
    begins = np.flatnonzero((later > 0) | ~same)
    covered, low, high = np.zeros(total, np.bool_), 0, -1
    for begin, end in zip(begins, [*begins[1:], len(first)], strict=True):
        counts = last[begin:end] - first[begin:end] + 1
        lanes = ranges(first[begin:end], counts)[0] % total
        lowest, highest = int(lanes.min()), int(lanes.max())
        whole = same[begin] and last[begin - 1] < total and last[end - 1] < total
        if whole and lowest < high and highest > low and not covered[lanes].any():
            later[begin] = 0
            low, high = min(low, lowest), max(high, highest)
        else:
            covered[:] = False
            low, high = lowest, highest
        covered[lanes] = True


def _row_major(site: ProbeSite) -> NDArray[np.int64]:
    """Return the row-major index of each position of the traversal."""
    index: NDArray[np.int64] = np.arange(prod(site.shape)).reshape(site.shape)
    walked: NDArray[np.int64] = index.transpose(site.walk).reshape(-1)
    return walked
