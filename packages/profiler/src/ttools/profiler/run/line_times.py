"""How the time of kernels spreads over their lines, estimated from samples of their launches."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from ttools.core.errors import UnsupportedError
from ttools.core.location import SourceLocation
from ttools.interpreter.run.line_samples import LaunchSampler, line_samples
from ttools.interpreter.run.observation import ObservedLaunch
from ttools.interpreter.run.variants import Variants
from ttools.profiler.counting.rewrite import user_line

#: With fewer samples a kernel's lines have no time: a share of one half would be known to within
#: 14 percentage points only, 19 times in 20.
FEWEST = 50
#: With so many samples a kernel's launches are no longer sampled.
_ENOUGH = 2000
#: A launch after one that took less is not sampled: setting up the timer would take longer.
_SHORTEST = 50e-6
#: Seconds for which a launch is repeated, about.
_SECONDS = 0.05
#: A launch is repeated if it takes so many times as long as those that were.
_LONGER = 2.0


@dataclass
class _Kernel:
    """What is known of a compiled kernel.

    Attributes:
        samples: How many fell on each location.
        shares: The share of each line by file and number; all launches have this object.
        latest: Seconds that the latest launch took; None before the first.
        longest: Seconds that the longest launch took that was repeated.
    """

    samples: Counter[SourceLocation | None] = field(default_factory=Counter)
    shares: dict[tuple[str, int], float] = field(default_factory=dict)
    latest: float | None = None
    longest: float | None = None


class LineTimes:
    """Samples the launches of kernels.

    Args:
        notes: Takes why a kernel's lines have no time.
        repeat: True makes the first launch of each kernel again to take samples, and others that
            take much longer. False takes samples while launches are timed, which makes them about
            a hundredth longer.
    """

    def __init__(self, notes: dict[str, str], *, repeat: bool) -> None:
        self._notes, self._repeat = notes, repeat
        self._lock = threading.Lock()
        self._sampler = LaunchSampler()
        self._kernels: WeakKeyDictionary[Variants, _Kernel] = WeakKeyDictionary()

    @contextmanager
    def timing(self, launch: ObservedLaunch) -> Iterator[None]:
        """Take samples of a launch that is made in the context."""
        kernel = self._of(launch)
        short = kernel.latest is not None and kernel.latest < _SHORTEST
        if self._repeat or short or kernel.samples.total() >= _ENOUGH:
            yield
            return
        with self._sampler.sampling():
            yield
        found = self._sampler.places(launch)
        with self._lock:
            kernel.samples.update(found)
            _share_out(kernel)

    def of(self, launch: ObservedLaunch, seconds: float) -> Mapping[tuple[str, int], float]:
        """Return the share by file and line of the time of a launch that has taken so many seconds.

        Later launches improve the estimate. It is empty while there are too few samples.
        """
        kernel = self._of(launch)
        kernel.latest = seconds
        if self._repeat:
            with self._lock:
                if kernel.longest is not None and seconds < _LONGER * kernel.longest:
                    return kernel.shares
                kernel.longest = seconds
            try:
                kernel.samples = line_samples(launch, seconds=_SECONDS)
            except UnsupportedError as error:
                self._notes.setdefault(launch.kernel, error.what)
            # Earlier launches keep the shares of the launch that stood for them.
            kernel.shares = {}
            _share_out(kernel, fewest=1)
        return kernel.shares

    def _of(self, launch: ObservedLaunch) -> _Kernel:
        with self._lock:
            return self._kernels.setdefault(launch.variants, _Kernel())


def _share_out(kernel: _Kernel, *, fewest: int = FEWEST) -> None:
    """Compute the shares of lines from samples, if there are enough."""
    whole = kernel.samples.total()
    if whole < fewest:
        return
    kernel.shares.clear()
    for location, samples in kernel.samples.items():
        line = user_line(location)
        if line is not None:
            place = line.file, line.line
            kernel.shares[place] = kernel.shares.get(place, 0.0) + samples / whole
