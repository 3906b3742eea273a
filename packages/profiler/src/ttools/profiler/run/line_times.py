"""Estimates how the time of a kernel is distributed over its source lines, by sampling launches.

A launch is repeated for sampling. The timed launch itself cannot be sampled, because the threads
that run its programs receive no signals.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from ttools.core.errors import UnsupportedError
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.line_samples import line_samples
from ttools.interpreter.run.variants import Variants
from ttools.profiler.counting.rewrite import user_line

#: The approximate time for which a launch is repeated, in seconds.
_SECONDS = 0.05
#: A launch is sampled if it takes at least this many times as long as the longest launch sampled
#: before.
_LONGER = 2.0

Shares = dict[tuple[str, int], float]


class LineTimes:
    """Samples the first launch of each compiled kernel, and later launches that take much longer.

    Args:
        notes: Receives the reason why the lines of a kernel have no times, by kernel.
    """

    def __init__(self, notes: dict[str, str]) -> None:
        self._notes = notes
        self._lock = threading.Lock()
        #: Seconds of the longest sampled launch of each kernel.
        self._longest: WeakKeyDictionary[Variants, float] = WeakKeyDictionary()
        self._shares: WeakKeyDictionary[Variants, Shares] = WeakKeyDictionary()

    def of(self, launch: KernelLaunch, seconds: float) -> Mapping[tuple[str, int], float]:
        """Return the share of each line in the time of a launch, by file and line.

        Args:
            launch: The launch, which may be repeated.
            seconds: Time of the launch.
        """
        with self._lock:
            longest = self._longest.get(launch.kernel.variants)
            if longest is not None and seconds < _LONGER * longest:
                return self._shares.get(launch.kernel.variants, {})
            self._longest[launch.kernel.variants] = seconds
        shares = self._shares[launch.kernel.variants] = self._sampled(launch)
        return shares

    def _sampled(self, launch: KernelLaunch) -> Shares:
        try:
            locations = line_samples(launch, seconds=_SECONDS)
        except UnsupportedError as error:
            self._notes.setdefault(launch.kernel.name, error.what)
            return {}
        shares: defaultdict[tuple[str, int], float] = defaultdict(float)
        whole = locations.total()
        for location, samples in locations.items():
            line = user_line(location)
            if line is not None:
                shares[line.file, line.line] += samples / whole
        return dict(shares)
