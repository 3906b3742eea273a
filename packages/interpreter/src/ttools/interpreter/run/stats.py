"""Counts and times of each kernel in a run of `interpret()`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

SCHEMA = "ttools.interpret/1"


@dataclass
class KernelStats:
    """Counts and times of one kernel in a run.

    Attributes:
        programs: Number of programs that ran, over all launches.
        front_end_s: Seconds in Triton's front end, its passes and its cache.
        compile_s: Seconds for parsing TTIR and compiling native code, or loading it from the cache.
        run_s: Seconds in which programs ran.
        cache_hits: Number of native variants that were found in the object cache.
    """

    kernel: str
    launches: int = 0
    programs: int = 0
    front_end_s: float = 0.0
    compile_s: float = 0.0
    run_s: float = 0.0
    cache_hits: int = 0


def stats_as_data(
    kernels: Sequence[KernelStats], script: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the figures of a run as data for JSON, schema `ttools.interpret/1`.

    Args:
        kernels: Figures of each kernel.
        script: Name and exit status of the program; None if there is no program.
    """
    return {"schema": SCHEMA, "script": script, "kernels": [asdict(kernel) for kernel in kernels]}


class Statistics:
    """Counts and times of the kernels of a run; any thread may add to them.

    Attributes:
        kernels: One entry per kernel, in the order of first launch or compilation.
    """

    def __init__(self) -> None:
        self.kernels: list[KernelStats] = []
        self._by_name: dict[str, KernelStats] = {}
        self._lock = threading.Lock()

    def of(self, kernel: str) -> KernelStats:
        """Return the entry of a kernel, which is created at its first use."""
        entry = self._by_name.get(kernel)
        if entry is None:
            with self._lock:
                entry = self._by_name.get(kernel)
                if entry is None:
                    entry = self._by_name[kernel] = KernelStats(kernel)
                    self.kernels.append(entry)
        return entry

    def count_launch(self, kernel: str, programs: int, seconds: float) -> None:
        entry = self._by_name.get(kernel) or self.of(kernel)
        with self._lock:
            entry.launches += 1
            entry.programs += programs
            entry.run_s += seconds

    def count_front_end(self, kernel: str, seconds: float) -> None:
        """Add a pass through Triton's front end."""
        entry = self.of(kernel)
        with self._lock:
            entry.front_end_s += seconds

    def count_compilation(self, kernel: str, seconds: float, hit: bool) -> None:
        """Count a native variant that was compiled or found in the object cache."""
        entry = self.of(kernel)
        with self._lock:
            entry.compile_s += seconds
            entry.cache_hits += hit


class JointStatistics(Statistics):
    """Statistics that forward each count to the statistics of several runs.

    Args:
        parts: The statistics of these runs; at least one.
    """

    def __init__(self, parts: Sequence[Statistics]) -> None:
        super().__init__()
        self._parts = parts
        self.kernels = parts[0].kernels

    def of(self, kernel: str) -> KernelStats:
        first, *_ = [part.of(kernel) for part in self._parts]
        return first

    def count_launch(self, kernel: str, programs: int, seconds: float) -> None:
        for part in self._parts:
            part.count_launch(kernel, programs, seconds)

    def count_front_end(self, kernel: str, seconds: float) -> None:
        for part in self._parts:
            part.count_front_end(kernel, seconds)

    def count_compilation(self, kernel: str, seconds: float, hit: bool) -> None:
        for part in self._parts:
            part.count_compilation(kernel, seconds, hit)
