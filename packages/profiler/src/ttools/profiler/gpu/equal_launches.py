"""Groups launches with equal work, and samples launches whose work depends on memory.

All launches of a kernel with the same grid and the same scalar arguments that determine the work
share one `EqualCalls` object. If the work also depends on memory, this object only represents the
kind of the launches: each sampled launch has its own `EqualCalls` with copies of the memory, and
the work of all other launches of the kind is estimated from the nearest sampled launch.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace as replace_fields

from ttools.core.spec import CallSite, LaunchSpec
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu.count_request import CountRequest
from ttools.profiler.gpu.counting_processes import Answer
from ttools.profiler.gpu.host_count import HostCounter
from ttools.profiler.gpu.launched_kernel import GpuKernel, Words
from ttools.profiler.gpu.memory_samples import (
    CopiedBytes,
    StratifiedSample,
    can_copy,
    copied,
    key_of,
    on_host,
)

#: The time limit for counting the sampled launches of one kind, in seconds.
MOST_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class CountedWork:
    """A launch on the GPU and its work.

    Attributes:
        spec: The launch without arguments and configuration; None if it is unknown.
        counts: Work of the launch; None if it cannot be counted or counts were not requested.
        source: File and first line of the kernel.
    """

    spec: LaunchSpec | None = None
    counts: WorkCounts | None = None
    source: tuple[str, int] | None = None

    @property
    def kernel(self) -> str:
        """Return the name of the kernel; empty if the launch is unknown."""
        return "" if self.spec is None else self.spec.kernel


class MadeCall(NamedTuple):
    """One launch of the program.

    Attributes:
        launch: The launch and its work; equal launches share this object.
        compiled: The kernel that Triton compiled for the launch.
        config: The autotuner's configuration for the launch.
        stack: Scopes around the launch, if they are recorded.
        metrics: Figures from the kernel's `launch_metadata`.
        warmup: True if the launch only warms up.
        trial: True if the launch only tries a configuration and is to be left out.
        alias: Name of the launch in Proton's hook, if it differs from the kernel's name.
    """

    launch: CountedWork = CountedWork()
    compiled: Any = None
    config: Mapping[str, Any] | None = None
    stack: tuple[str, ...] = ()
    metrics: Mapping[str, float] = MappingProxyType({})
    warmup: bool = False
    trial: bool = False
    alias: str = ""

    @property
    def spec(self) -> LaunchSpec | None:
        """Return the launch without its arguments, but with its configuration."""
        spec = self.launch.spec
        if spec is None or self.config is None:
            return spec
        return replace_fields(spec, site=CallSite(config=self.config))


class EqualCalls:
    """Launches of a kernel with equal work, or one sampled launch of a kind.

    Attributes:
        spec: One of the launches, without its arguments.
        request: Request to count the first launch; None if the launch was counted or cannot be
            counted.
        asked: Future answer of another process to this request.
        first: The first launch with its work, if the work is known.
        later: All later launches with their work, if the work is known.
        deciding: Tensors whose contents determine the work; None if the work does not depend on
            contents, or if they are not copied.
        sample: Sampled launches of this kind; None if the contents of memory do not determine the
            work.
        kind: For a sampled launch, the object of its kind; otherwise the object itself.
        contents: Copies of the memory that determines the work of a sampled launch.
        replayed: True if the copies were made before the replay of a graph that contains the
            launch; kernels of the graph may have changed the memory since.
    """

    __slots__ = (
        *("asked", "contents", "deciding", "first", "kernel", "kind", "later"),
        *("request", "replayed", "sample", "spec"),
    )

    def __init__(self, kernel: GpuKernel, spec: LaunchSpec) -> None:
        self.kernel, self.spec = kernel, spec
        self.request: CountRequest | None = None
        self.asked: Future[Any] | None = None
        self.later = CountedWork(spec=spec, source=kernel.source)
        self.first = self.later
        self.deciding: list[Any] | None = None
        self.sample: StratifiedSample[EqualCalls] | None = None
        self.kind = self
        self.contents: dict[int, CopiedBytes] | None = None
        self.replayed = False

    def made(self, words: Words) -> EqualCalls:
        """Return the record of a launch of this kind that is about to be made."""
        if self.sample is None or not self.sample.wants():
            return self
        return self._sampled(self.kernel.deciding(words) or [])

    def captured(self, words: Words) -> EqualCalls:
        """Return the record of a launch of this kind that is about to be captured."""
        if self.sample is None:
            return self
        own = EqualCalls(self.kernel, self.spec)
        own.kind, own.deciding = self, self.kernel.deciding(words)
        return own

    def again(self) -> EqualCalls:
        """Return the record of a captured launch whose graph is about to be replayed."""
        sample = self.kind.sample
        if sample is None or self.deciding is None:
            return self
        if not sample.wants():
            return self.kind
        own = self.kind._sampled(self.deciding)
        own.replayed = True
        return own

    def _sampled(self, deciding: Sequence[Any]) -> EqualCalls:
        assert self.sample is not None
        own = EqualCalls(self.kernel, self.spec)
        own.kind, own.request, own.contents = self, self.request, copied(deciding)
        for dropped in self.sample.add(own):
            dropped.request = dropped.contents = None
        return own

    def ask(self, counter: HostCounter) -> None:
        """Have another process count the first launch, or compile the sample-counting kernel."""
        if self.request is not None and self.asked is None:
            if self.sample is None:
                self.asked = counter.ask(self.request)
            else:
                self.asked = counter.prepare(self.request)

    def ask_for_all(self, counter: HostCounter) -> None:
        """Have other processes count the first launch, or all sampled ones.

        Samples with equal contents are counted once.
        """
        if self.sample is None:
            self.ask(counter)
            return
        asked: dict[tuple[bytes, ...], Future[Answer] | None] = {}
        for call in halving(self.sample.kept):
            if call.request is None or call.contents is None:
                continue
            contents = on_host(call.contents)
            call.request, call.contents = replace(call.request, contents=contents), None
            key = key_of(contents)
            if key not in asked:
                asked[key] = counter.ask(call.request)
            call.asked = asked[key]

    def is_being_counted(self) -> bool:
        """Return whether another process is counting the first launch."""
        return self.asked is not None and self.asked.running()

    def count(self, counter: HostCounter) -> None:
        """Count the launches that were not counted when they were made."""
        if self.sample is None:
            if self.request is not None:
                counts = counter.of_request(self.request, self.asked)
                self.first = self.later = replace(self.later, counts=counts)
            self.request = self.asked = None
            return
        counted: dict[tuple[bytes, ...], WorkCounts | None] = {}
        began: float | None = None
        for call in halving(self.sample.kept):
            if call.request is None:
                continue
            key = key_of(call.request.contents)
            if key not in counted:
                late = began is not None and time.perf_counter() - began > MOST_SECONDS
                if late and not _is_answered(call.asked):
                    continue
                counted[key] = counter.of_request(call.request, call.asked)
                began = began or time.perf_counter()  # after the first, which includes compilation
            counts = counted[key]
            if counts is not None and call.replayed:
                counts = replace(counts, estimated=True)
            call.first = call.later = replace(call.later, counts=counts)
            call.request = call.asked = None


def _is_answered(asked: Future[Answer] | None) -> bool:
    """Return whether a request was answered; cancel it if no process has begun to answer it."""
    return asked is not None and not asked.cancel() and asked.done()


def halving(elements: Sequence[EqualCalls]) -> list[EqualCalls]:
    """Return the first and last element, then elements that successively halve the gaps."""
    last = len(elements) - 1
    places = {0: None, last: None} if elements else {}
    step = last
    while step > 1:
        step = -(-step // 2)
        places |= dict.fromkeys(range(step, last, step))
    places |= dict.fromkeys(range(len(elements)))
    return [elements[n] for n in places]


def launches_of(made: Sequence[EqualCalls]) -> list[CountedWork]:
    """Return the work of each launch; if it depends on memory, use the nearest counted launch.

    Args:
        made: All launches in the order of the program.
    """
    numbers: Counter[EqualCalls] = Counter()
    works: list[CountedWork] = []
    places: defaultdict[EqualCalls, list[int]] = defaultdict(list)
    for place, call in enumerate(made):
        numbers[call.kind] += 1
        works.append(call.first if numbers[call.kind] == 1 else call.later)
        if call.kind.sample is not None:
            places[call.kind].append(place)
    for own in places.values():
        counted = [n for n, place in enumerate(own) if works[place].counts is not None]
        # The first launch was not chosen at random and often warms up, so it does not represent
        # others.
        counted = counted[1:] if len(counted) > 1 and counted[0] == 0 else counted
        for n, place in enumerate(own):
            if counted and works[place].counts is None:
                after = bisect_left(counted, n)
                near = min(counted[max(0, after - 1) : after + 1], key=lambda at: abs(at - n))
                works[place] = estimated(works[own[near]])
    return works


def estimated(launch: CountedWork) -> CountedWork:
    """Return a launch whose counts are marked as estimates."""
    if launch.counts is None:
        return launch
    return replace(launch, counts=replace(launch.counts, estimated=True))


def first_of_kind(
    kernel: GpuKernel, words: Words, counter: HostCounter, *, capturing: bool
) -> EqualCalls | None:
    """Return the record for a new kind of launches, counted as far as possible.

    Args:
        kernel: The compiled kernel that is launched.
        words: Words of the first launch of the kind, see `launched_kernel`.
        counter: Counter for launches that must be counted now.
        capturing: True if the launch is captured by a graph.

    Returns:
        None if counting would need copies of all tensors, which is impossible during the capture of
        a graph.
    """
    kind = EqualCalls(kernel, kernel.signature(words))
    if not kernel.needs_memory:
        kind.request = kernel.request(words)
    elif (deciding := kernel.deciding(words)) is not None and can_copy(deciding):
        kind.request = kernel.request(words)
        kind.sample = None if kind.request is None else StratifiedSample()
    if kind.request is None:
        if capturing:
            return None
        counts = counter.of_launch(kernel, kind.spec.grid, words)
        kind.first = replace(kind.later, counts=counts)
        depends = counts is not None and counts.depends_on_memory
        kind.later = estimated(kind.first) if depends else kind.first
    return kind
