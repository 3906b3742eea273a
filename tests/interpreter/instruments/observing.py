"""Functions that run kernels with instruments and return the observations, without any checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import Instruments, ProbeSite
from ttools.interpreter.abi.region import NOWHERE, Region, region_of
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.monitor import Count

GUARDS = Instruments(guards=True)
FOOTPRINTS = Instruments(footprints=True)
EVERYTHING = Instruments(guards=True, footprints=True, synchronised=True)


@dataclass
class Observed:
    """The observations of the monitor of one launch."""

    counts: list[Count]
    accesses: np.ndarray
    syncs: np.ndarray
    sites: tuple[ProbeSite, ...]

    def bytes_of(self, *kinds: str) -> set[tuple[int, int]]:
        """Return each pair of program and byte address that sites of these kinds logged."""
        return {
            (int(row["program"]), byte)
            for row in self.accesses
            if self.sites[row["site"]].kind in kinds
            for byte in range(row["start"], row["end"])
        }

    def lanes(self) -> set[tuple[int, int, int, int]]:
        """Return site, program, address and lane of each logged element."""
        return {
            (int(row["site"]), int(row["program"]), address, site.lane_at(int(row["lane"]) + n))
            for row in self.accesses
            for site in [self.sites[row["site"]]]
            for n, address in enumerate(range(row["start"], row["end"], site.size))
        }

    @property
    def only(self) -> Count:
        (count,) = self.counts
        return count


@dataclass
class Recorder:
    """An observer that runs every launch once.

    Args:
        instruments: Instruments of the launches.
        regions: Regions by parameter name, which replace those of the arguments.
        allocations: Start and end of the memory to which pointers of unknown origin may point.
        lanes: Lanes of a vector; by default those of the host.
        rewrite: Function that changes the module, as in `KernelLaunch.execute`.
    """

    instruments: Instruments
    regions: Mapping[str, Region] = field(default_factory=dict)
    allocations: Sequence[tuple[int, int]] = ()
    lanes: int | None = None
    rewrite: Callable[[Any], None] | None = None
    launches: list[Observed] = field(default_factory=list, init=False)

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        if self.lanes is not None:
            options = replace(launch.kernel.emit_options(launch.run), lanes=self.lanes)
            launch.kernel = copy(launch.kernel)
            launch.kernel._emit_options = {launch.run.emits: options}
        regions = []
        for index, name in enumerate(launch.kernel.plan.names):
            region = self.regions.get(name)
            if region is None and index in launch.kernel.plan.pointers:
                region = region_of(launch.arguments[index], launch.values[index])
            regions.append(region or NOWHERE)
        report = launch.execute(
            self.instruments,
            regions=regions,
            allocations=lambda: self.allocations,
            rewrite=self.rewrite,
        )
        monitor = launch.monitor
        assert monitor is not None
        self.launches.append(Observed(monitor.counts(), *monitor.records(), monitor.sites))
        return report


def observe(
    launch: Callable[[], object],
    instruments: Instruments = GUARDS,
    *,
    regions: Mapping[str, Region] | None = None,
    allocations: Sequence[tuple[int, int]] = (),
    lanes: int | None = None,
    rewrite: Callable[[Any], None] | None = None,
    schedule: Literal["fused", "materialised"] = "fused",
    threads: int = 1,
) -> Observed:
    """Call `launch`, which must launch one kernel, and return the observations."""
    recorder = Recorder(instruments, regions or {}, allocations, lanes, rewrite)
    with interpret(observer=recorder, schedule=schedule, threads=threads):
        launch()
    (observed,) = recorder.launches
    return observed


def part_of(tensor: Any, start: int, end: int) -> Region:
    """Return the region of the elements `start` to `end` of a dense tensor, as a whole storage."""
    first, item = int(tensor.data_ptr()), int(tensor.element_size())
    extent = (first + start * item, first + end * item)
    return Region(extent, extent, item=item)
