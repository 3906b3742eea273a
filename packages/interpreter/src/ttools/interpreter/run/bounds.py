"""Keeps launches inside the memory of tensors: accesses outside are skipped, counted and reported.

The guards are those of memcheck (`emit/instruments`), but with bounds of storages instead of views,
and without reports of variables. If the address of an access derives from an argument, it must be
in the storage of this argument. Any other address, such as one that was loaded from memory, must be
in one of the known storages (`address_book.py`). Accesses through an argument whose memory has no
known size, such as a raw address, are not guarded.

For example, consider a kernel with a load from `x` and a store to `out`, both with the mask `offs <
n`, which is launched with an `n` that exceeds the size of `x` but not that of `out`. With
`analysis/launch_bounds.py`, `GuardChooser` proves that the store is in bounds, but cannot prove
this for the load. It selects the instruments with the index of the store in `proved`, so a variant
of the kernel is compiled in which only the load has a guard. A launch with a smaller `n`, for which
both accesses are proved, runs the variant without guards. `docs/design/instruments.md` describes
guards.
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


#: The maximum number of guarded variants of a kernel, each for a different set of proved accesses.
#: Once it is reached, a launch uses an existing variant that has at least the guards that the
#: launch needs.
_MOST_VARIANTS = 3
#: The number of launches per kernel for which guards are cached. After this number of different
#: launches, no further ones are analysed if the analyses so far have taken `_MOST_SECONDS`.
_MOST_LAUNCHES = 256
_MOST_SECONDS = 0.5


class Guards(NamedTuple):
    """The guards of a launch.

    Attributes:
        instruments: Instruments that guard the accesses that are not proved to be in bounds; None
            if all are proved.
        regions: The storage that each parameter may access.
    """

    instruments: Instruments | None
    regions: Sequence[Region]


UNGUARDED = Guards(None, ())


class GuardChooser:
    """Chooses which accesses of one kernel are guarded in each launch.

    Args:
        variants: The compiled variants of the kernel, and its module.
        plan: The parameters of the kernel.
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
        """Return guards for all accesses, without trying to prove any in bounds."""
        return Guards(GUARDS, _regions(self._count, self._pointers, extents))

    def _prove(
        self,
        raw: Sequence[int],
        grid: Sequence[int],
        places: Sequence[tuple[int, int] | None],
        remainders: Sequence[int],
    ) -> Instruments | Literal[False]:
        """Return the instruments that guard all unproved accesses; False if all are proved."""
        self._different += 1
        if self._seconds > _MOST_SECONDS and self._different > _MOST_LAUNCHES:
            return GUARDS  # there are too many different launches to analyse all of them
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
        """Return the instruments that guard all accesses except the proved ones.

        If there are too many variants already, the instruments of an existing variant with more
        guards are returned.
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
    """Return the storage that each parameter may access.

    Args:
        values: Arguments, one per parameter.
        pointers: Indices of the pointer parameters.
    """
    indices = tuple(sorted(pointers))
    return _regions(len(values), indices, tuple(storage_extent(values[n]) for n in indices))


def guarding_monitor(
    kernel: Kernel, regions: Sequence[Region], *, searches: bool, **observed: Any
) -> Monitor:
    """Return the monitor of a launch that is guarded by the bounds of storages.

    Args:
        kernel: The kernel that is launched.
        regions: The regions of the parameters, except for hidden ones.
        searches: If True, pointers of unknown origin may point to any tensor of the process,
            otherwise only to the arguments.
        observed: Further arguments for the monitor.
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
    """A launch that is guarded by the bounds of storages.

    Attributes:
        kernel: Name of the kernel.
        record: The file that contains the launch, if any.
        skipped: The list to which skipped accesses are appended, if any.
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
