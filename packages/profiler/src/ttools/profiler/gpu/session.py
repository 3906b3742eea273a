"""One profiled run on a GPU: launches counted on the host, timed by Proton.

Owns the joining of the two. Must not know how samples are summed up or shown.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ttools.profiler.gpu.counted_launches import CountedLaunches, GpuLaunch
from ttools.profiler.gpu.proton import KernelTime, kernel_times, trace_path, tracing
from ttools.profiler.session import Sample


class GpuSession:
    """Samples of a run on a GPU.

    Args:
        only: names of the kernels to profile; all by default.
        counts: whether to count what launches do.

    Attributes:
        samples: in the order of the launches, once the run has ended.
        notes: what could not be counted or joined, by kernel.
    """

    place = "the GPU"

    def __init__(self, only: Sequence[str] | None, *, counts: bool = True) -> None:
        self.samples: list[Sample] = []
        self._only = only
        self._watch = CountedLaunches(only, counts=counts)
        self.notes = self._watch.notes

    @contextmanager
    def running(self) -> Iterator[None]:
        """Profiles what is launched while the context lasts."""
        with tempfile.TemporaryDirectory() as folder:
            path = trace_path(Path(folder))
            with tracing(path), self._watch.watching():
                yield
            times = kernel_times(path) if path.exists() else []
        if self._only is not None:
            times = [each for each in times if each.kernel in self._only]
        self.samples += join(times, self._watch.launches, self.notes)


def join(
    times: Sequence[KernelTime], launches: Sequence[GpuLaunch], notes: dict[str, str]
) -> list[Sample]:
    """Gives each time the counts of its launch: of one name, the first belongs to the first.

    Where a kernel has more or fewer times than launches (a graph that was captured once and
    replayed, launches on several streams), its counts are used only if they are all the same.

    Args:
        times: of all kernels that ran on the GPU, those of libraries included.
        launches: that Triton made.
        notes: takes a sentence for each kernel whose counts could not be joined.
    """
    by_name: defaultdict[str, list[GpuLaunch]] = defaultdict(list)
    for made in launches:
        by_name[made.kernel].append(made)
    numbers = Counter(each.kernel for each in times)
    seen: Counter[str] = Counter()
    samples = []
    for each in times:
        own = by_name[each.kernel]
        launch: GpuLaunch | None = None
        if len(own) == numbers[each.kernel]:
            launch = own[seen[each.kernel]]
        elif own and all(other == own[0] for other in own):
            launch = own[0]
        elif own:
            notes.setdefault(
                each.kernel,
                f"{len(own)} launches but {numbers[each.kernel]} times, so counts are left out",
            )
        seen[each.kernel] += 1
        samples.append(
            Sample(
                kernel=each.kernel,
                config=None,
                grid=launch.grid if launch else (),
                seconds=each.seconds,
                counts=launch.counts if launch else None,
            )
        )
    return samples
