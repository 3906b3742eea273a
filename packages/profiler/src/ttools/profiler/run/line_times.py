"""How the time of kernels spreads over their lines, estimated from samples of a few launches.

Launches are made again to be sampled. Sampling them while they are timed would need no further run,
but their programs run on threads that take no signals.
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

#: Seconds for which a launch is made again, about.
_SECONDS = 0.05
#: A launch is sampled if it takes so many times as long as those that were.
_LONGER = 2.0

Shares = dict[tuple[str, int], float]


class LineTimes:
    """Samples the first launch of each compiled kernel, and others that take much longer.

    Args:
        notes: Takes why a kernel's lines have no time.
    """

    def __init__(self, notes: dict[str, str]) -> None:
        self._notes = notes
        self._lock = threading.Lock()
        #: Of each kernel the longest launch sampled, in seconds.
        self._longest: WeakKeyDictionary[Variants, float] = WeakKeyDictionary()
        self._shares: WeakKeyDictionary[Variants, Shares] = WeakKeyDictionary()

    def of(self, launch: KernelLaunch, seconds: float) -> Mapping[tuple[str, int], float]:
        """Return the share by file and line of the time of a launch that took so many seconds."""
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
