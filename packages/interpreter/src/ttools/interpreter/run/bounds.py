"""Keeps launches inside the memory of tensors: accesses outside are skipped, counted and reported.

The guards are those of memcheck (`emit/instruments`), with bounds of storages instead of views and
without the values of variables. An access whose address derives from an argument is compared with
the storage behind it; any other, such as one through a pointer that was loaded from memory, with
all storages that are known (`address_book`). A pointer argument that does not say how large its
memory is, such as a raw address, is not guarded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ttools.core.spec import Extent, storage_extent
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.abi.probe_layout import LARGEST_ELEMENT
from ttools.interpreter.abi.region import ANYWHERE, NOWHERE, Region
from ttools.interpreter.analysis.launch_bounds import Memory
from ttools.interpreter.run.skipped_accesses import SkippedAccess, announce, skipped_accesses
from ttools.interpreter.runtime.launch import Kernel, LaunchReport
from ttools.interpreter.runtime.launch import run as run_launch
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor
from ttools.ir import as_signed

if TYPE_CHECKING:
    from ttools.interpreter.abi.arguments import ArgumentPlan
    from ttools.interpreter.run.variants import Variants

#: Instruments of guarded launches without an observer.
GUARDS = Instruments(guards=True, explains=False)


#: Number of sets of proved accesses that a kernel is compiled for. Further launches use one of them
#: that fits.
_MOST_VARIANTS = 3
#: Number of launches whose guards each kernel caches, and limit in seconds for analysing others.
_MOST_LAUNCHES = 256
_MOST_SECONDS = 0.5


class Guards(NamedTuple):
    """The guards of a launch.

    Attributes:
        instruments: Guards of the accesses that are not proved; None where all are.
        regions: The storages that parameters may access.
    """

    instruments: Instruments | None
    regions: Sequence[Region]


UNGUARDED = Guards(None, ())


class GuardChooser:
    """Chooses which accesses of the launches of one kernel are guarded.

    Args:
        variants: Compiled variants of the kernel, which hold its module.
        plan: Parameters of the kernel.
    """

    def __init__(self, variants: Variants, plan: ArgumentPlan) -> None:
        self._variants = variants
        self._pointers = tuple(sorted(plan.pointers))
        self._scalars = tuple(
            (n, int(kind[1:]))
            for n, kind in enumerate(variants.parameters)
            if kind in ("i8", "i16", "i32", "i64")
        )
        self._numbers = tuple(n for n, _ in self._scalars)
        self._count = len(variants.parameters)
        self._known: dict[object, Instruments | Literal[False]] = {}
        self._last: tuple[tuple[Extent, ...], Sequence[int], Sequence[int], Guards] | None = None
        self._instruments: dict[tuple[int, ...], Instruments] = {}
        self._seconds, self._different = 0.0, 0

    def choose(
        self, extents: tuple[Extent, ...], raw: Sequence[int], grid: Sequence[int]
    ) -> Guards:
        """Return the guards of a launch.

        Args:
            extents: First address and end of the storage behind each pointer.
            raw: Arguments as 64-bit numbers.
            grid: Number of programs along each axis.
        """
        last = self._last
        if last is not None and last[0] == extents and last[1] == raw and last[2] == grid:
            return last[3]
        addresses = [raw[n] for n in self._pointers]
        places = tuple(
            [
                None if extent is None else (address - extent[0], extent[1] - extent[0])
                for extent, address in zip(extents, addresses, strict=True)
            ]
        )
        remainders = [address % LARGEST_ELEMENT for address in addresses]
        key = (*grid, *[raw[n] for n in self._numbers], places, *remainders)
        instruments = self._known.get(key)
        if instruments is None:
            if len(self._known) >= _MOST_LAUNCHES:
                self._known.clear()
            instruments = self._known[key] = self._prove(raw, grid, places, remainders)
        guards = UNGUARDED
        if instruments:
            guards = Guards(instruments, _regions(self._count, self._pointers, extents))
        self._last = extents, list(raw), grid, guards
        return guards

    def all(self, extents: tuple[Extent, ...]) -> Guards:
        """Return guards of all accesses, without proving any."""
        return Guards(GUARDS, _regions(self._count, self._pointers, extents))

    def _prove(
        self,
        raw: Sequence[int],
        grid: Sequence[int],
        places: Sequence[tuple[int, int] | None],
        remainders: Sequence[int],
    ) -> Instruments | Literal[False]:
        """Return guards of the accesses that are not proved; False if all are proved."""
        self._different += 1
        if self._seconds > _MOST_SECONDS and self._different > _MOST_LAUNCHES:
            return GUARDS  # too many different launches to analyse each
        start = time.perf_counter()
        memory = {
            n: None if place is None else Memory(*place, remainder)
            for n, place, remainder in zip(self._pointers, places, remainders, strict=True)
        }
        scalars = {n: as_signed(raw[n] & ((1 << w) - 1), w) for n, w in self._scalars}
        count, proved = self._variants.proved(grid, scalars, memory)
        self._seconds += time.perf_counter() - start
        return self._guarding(proved) if len(proved) < count else False

    def _guarding(self, proved: tuple[int, ...]) -> Instruments:
        """Return guards of all accesses but the proved ones.

        If there are too many variants, an existing one with more guards is used.
        """
        variants = self._instruments
        if proved not in variants and len(variants) < _MOST_VARIANTS:
            variants[proved] = replace(GUARDS, proved=proved)
        if proved in variants:
            return variants[proved]
        fits = [variant for variant in variants if set(variant) <= set(proved)]
        return variants[max(fits, key=len)] if fits else GUARDS


@lru_cache(maxsize=64)
def _regions(
    count: int, pointers: tuple[int, ...], extents: tuple[Extent, ...]
) -> Sequence[Region]:
    regions = [NOWHERE] * count
    for index, extent in zip(pointers, extents, strict=True):
        region = Region(extent, extent, checks_view=False) if extent is not None else ANYWHERE
        regions[index] = region
    return regions


def storage_regions(values: Sequence[Any], pointers: Iterable[int]) -> Sequence[Region]:
    """Return for each parameter the storage that it may access.

    Args:
        values: Arguments, one per parameter.
        pointers: Indices of the pointer parameters.
    """
    indices = tuple(sorted(pointers))
    return _regions(len(values), indices, tuple(storage_extent(values[n]) for n in indices))


def guarding_monitor(
    kernel: Kernel, regions: Sequence[Region], *, searches: bool, **observed: Any
) -> Monitor:
    """Return the monitor of a launch that is guarded by storages.

    Args:
        kernel: The kernel that is launched.
        regions: Regions of the parameters, without hidden ones.
        searches: If True, pointers of unknown origin may lead to any tensor of the process, else
            only to the arguments.
        observed: Further arguments of the monitor.
    """
    more = len(kernel.emitted.parameters) - 1 - len(regions)
    if more:
        regions = [*regions, *(NOWHERE for _ in range(more))]
    if not kernel.probes.searches:
        return Monitor(kernel.emitted, kernel.probes, regions, **observed)
    own = sorted({region.storage for region in regions if region.storage[1]})
    if not searches:
        return Monitor(kernel.emitted, kernel.probes, regions, own, **observed)
    from ttools.interpreter.run.address_book import StorageFinder  # imports NumPy

    finder = StorageFinder()
    allocations = finder.known(own)
    return Monitor(
        kernel.emitted, kernel.probes, regions, allocations, finds=finder.find, **observed
    )


@dataclass
class Guarded:
    """A launch that is guarded by storages.

    Attributes:
        kernel: Name of the kernel.
        record: The file that the launch comes from, if any.
        skipped: List that the skipped accesses are appended to.
    """

    kernel: str
    record: Path | None
    skipped: list[SkippedAccess] | None

    def run(
        self,
        native: Kernel,
        params: Sequence[int],
        grid: Sequence[int],
        options: LaunchOptions,
        monitor: Monitor,
    ) -> LaunchReport:
        """Run the programs, and report skipped accesses even if the launch fails."""
        try:
            return run_launch(native, params, grid, options, monitor)
        finally:
            if monitor.fails:
                accesses = skipped_accesses(self.kernel, monitor.counts())
                if self.skipped is not None:
                    self.skipped += accesses
                announce(accesses, None if self.record is None else str(self.record))
