"""Maps of the accesses of launches, one per tensor, which are updated while the programs run.

Logged addresses are converted to indices of elements in the tensors that are passed as arguments.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.reports.access_map import KINDS, AccessMap
from ttools.core.spec import TensorSpec
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.abi.region import ANYWHERE, NOWHERE, Region, region_of
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.skipped_accesses import skipped_accesses
from ttools.interpreter.runtime.access_log import access_dtype, footprints_of
from ttools.interpreter.runtime.monitor import Count

#: Maximum number of launches in a picture: per kernel, and in total.
MOST_OF_A_KERNEL = 3
MOST_LAUNCHES = 12
#: Maximum number of programs whose accesses are recorded separately.
MOST_FOLLOWED = 64
_TESTS = {
    "storage": "are outside its storage and were skipped",
    "view": "are outside the tensor's elements, but inside its storage",
    "misaligned": "are misaligned",
}


class LaunchAccesses:
    """The accesses of the launches that appear in a picture.

    Attributes:
        launches: Access maps by launch number.
        left_out: Number of launches that are not shown, by kernel.
    """

    def __init__(self) -> None:
        self.launches: dict[int, AccessMaps] = {}
        self.left_out: Counter[str] = Counter()
        self._drawn: Counter[str] = Counter()

    def wants(self, launch: KernelLaunch) -> bool:
        kernel = launch.kernel.name
        enough = self._drawn[kernel] >= MOST_OF_A_KERNEL or self._drawn.total() >= MOST_LAUNCHES
        (self.left_out if enough else self._drawn)[kernel] += 1
        return not enough

    def begin(self, launch: KernelLaunch, index: int, followed: Sequence[int]) -> AccessMaps:
        self.launches[index] = AccessMaps(launch, followed)
        return self.launches[index]


class AccessMaps:
    """The accesses of one launch.

    Args:
        followed: Programs whose accesses are recorded separately.

    Attributes:
        launch: The launch to run, compiled so that all of its accesses can be logged.
        instruments: Instruments that log the accesses; the recorder adds instruments for variables.
        regions: Memory regions of the kernel's parameters.
        maps: Access maps by the index of the parameter.
        elsewhere: Number of accessed bytes that belong to no argument.
        notes: A sentence for each problem.
    """

    def __init__(self, launch: KernelLaunch, followed: Sequence[int]) -> None:
        self.launch = launch.treating_memory_as_written()
        # If pointers are loaded from memory, the bounds of the memory that they point to are
        # unknown and cannot be checked.
        self.instruments = Instruments(
            guards=not launch.kernel.variants.effects.indirect, footprints=True
        )
        self.regions: list[Region] = [
            (region_of(argument, value) or ANYWHERE)
            if n in launch.kernel.plan.pointers
            else NOWHERE
            for n, (argument, value) in enumerate(zip(launch.arguments, launch.values, strict=True))
        ]
        self.maps: dict[int, AccessMap] = {}
        self._tensors: dict[int, TensorSpec] = {}
        for n in sorted(launch.kernel.plan.pointers):
            self._add_tensor(n, followed[:MOST_FOLLOWED])
        self.elsewhere = 0
        self.notes: list[str] = []
        self._lock = threading.Lock()

    def _add_tensor(self, n: int, followed: Sequence[int]) -> None:
        tensor = self.launch.memory(n)
        if tensor is not None and 0 not in tensor.shape and self.regions[n] is not ANYWHERE:
            self.maps[n] = AccessMap(tensor.shape, tensor.strides, followed)
            self._tensors[n] = tensor

    def take(self, log: NDArray[Any]) -> None:
        """Add logged accesses to the maps; the log has the dtype `access_log.access_dtype`."""
        monitor = self.launch.monitor
        assert monitor is not None
        sites = monitor.sites
        records = footprints_of(log.view(access_dtype())).runs()
        site = records["site"]
        kind = np.array([_KIND_NUMBERS[entry.kind] for entry in sites], np.int64)[site]
        parameter = np.array([entry.parameter for entry in sites], np.int64)[site]
        left = np.ones(len(records), np.bool_)
        with self._lock:
            for n, tensor in self._tensors.items():
                address, (low, high) = tensor.address, self.regions[n].storage
                within = (records["start"] >= low) & (records["start"] < high)
                own = left & within & ((parameter == n) | (parameter < 0))
                if own.any():
                    left &= ~own
                    chosen = records[own]
                    start = (chosen["start"] - address) // tensor.itemsize
                    stop = -((address - chosen["end"]) // tensor.itemsize)
                    self.maps[n].add(start, stop, chosen["program"], kind[own])
            rest = records[left]
            self.elsewhere += int((rest["end"] - rest["start"]).sum())

    def finish(self) -> None:
        """Process the rest of the log, and the counts of out-of-bounds accesses."""
        monitor = self.launch.monitor
        assert monitor is not None
        monitor.drain()
        counts = list(monitor.counts())
        self.notes += map(self._note, counts)
        self.launch.run.skipped += skipped_accesses(self.launch.kernel.name, counts)
        if self.elsewhere:
            self.notes.append(f"{self.elsewhere:,} bytes outside all arguments were accessed")

    def _note(self, count: Count) -> str:
        site = count.witness.site
        line = f"line {site.location.line}: " if site.location is not None else ""
        name = self.launch.kernel.plan.names[site.parameter] if site.parameter >= 0 else "memory"
        lanes = f"{count.lanes:,} lane{'s' * (count.lanes != 1)}"
        what = _TESTS.get(count.witness.test, count.witness.test)
        return (
            f"{line}{lanes} of this {site.kind} from {name} {what}; "
            f"program {count.witness.program} is the first"
        )


_KIND_NUMBERS = {name: number for number, name in enumerate(KINDS)} | {"check": 0}
