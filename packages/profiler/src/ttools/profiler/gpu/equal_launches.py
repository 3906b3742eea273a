"""Launches that do the same, and those of them whose memory was copied because it decides.

Launches are kept as one `EqualCalls` for each kernel, grid and set of numbers that decide. Where
memory decides, too, they are only one kind: each launch of it that was sampled is an
`EqualCalls` of its own, with copies of that memory, and what the others do is estimated from
those that are nearest in time.
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

#: Seconds that counting the sampled launches of one kind may take.
MOST_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class CountedWork:
    """A launch on the GPU and its work.

    Attributes:
        spec: The launch without arguments and configuration; None if it is unknown.
        counts: Its work; None if that cannot be counted or was not requested.
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
    """A launch with what is its own; others may do the same.

    Attributes:
        compiled: the kernel that Triton compiled for it.
        config: of the autotuner that made it.
        stack: scopes around it, where these were asked for.
        metrics: what its kernel tells of it.
        warmup: whether it only warms up.
        trial: whether it only tries a configuration, and is to be left out.
        alias: what Proton's hook calls it, if not by its kernel's name.
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
        """Return the launch with its configuration, without its arguments."""
        spec = self.launch.spec
        if spec is None or self.config is None:
            return spec
        return replace_fields(spec, site=CallSite(config=self.config))


class EqualCalls:
    """Launches of a kernel that do the same, or a sampled one of a kind of them.

    Attributes:
        spec: One of the launches without its arguments.
        request: The first, to be counted later; None where that cannot be done, and once
            it is counted.
        asked: What will hold its counts, if another process counts it.
        first: what the first does, where it was counted when it was made.
        later: what the others do, as far as that is known.
        deciding: Tensors whose contents decide; None where contents do not, or are not copied.
        sample: Which launches of this kind were copied; None where `deciding` is.
        kind: The kind that this launch is a sample of; itself for others.
        contents: The copies of a sampled launch.
        replayed: Whether the copies were made before the replay of a graph that holds the launch,
            so that kernels of the graph may have changed the memory since.
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
        """Return what stands for a launch of this kind that is about to be made."""
        if self.sample is None or not self.sample.wants():
            return self
        return self._sampled(self.kernel.deciding(words) or [])

    def captured(self, words: Words) -> EqualCalls:
        """Return what stands for a launch of this kind that is about to be captured."""
        if self.sample is None:
            return self
        own = EqualCalls(self.kernel, self.spec)
        own.kind, own.deciding = self, self.kernel.deciding(words)
        return own

    def again(self) -> EqualCalls:
        """Return what stands for a captured launch whose graph is about to be replayed."""
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
        """Have another process count the first launch, or prepare that if memory decides."""
        if self.request is not None and self.asked is None:
            if self.sample is None:
                self.asked = counter.ask(self.request)
            else:
                self.asked = counter.prepare(self.request)

    def ask_for_all(self, counter: HostCounter) -> None:
        """Have other processes count the first launch, or the sampled ones.

        Samples with equal contents are counted once.
        """
        if self.sample is None:
            self.ask(counter)
            return
        asked: dict[tuple[bytes, ...], Future[Answer] | None] = {}
        for each in halving(self.sample.kept):
            if each.request is None or each.contents is None:
                continue
            contents = on_host(each.contents)
            each.request, each.contents = replace(each.request, contents=contents), None
            key = key_of(contents)
            if key not in asked:
                asked[key] = counter.ask(each.request)
            each.asked = asked[key]

    def is_being_counted(self) -> bool:
        """Return whether another process counts the first launch now."""
        return self.asked is not None and self.asked.running()

    def count(self, counter: HostCounter) -> None:
        """Count the launches that were not counted when they were made."""
        if self.sample is None:
            if self.request is not None:
                counts = counter.of_request(self.request, self.asked)
                self.first = self.later = replace(self.later, counts=counts)
            self.request = self.asked = None
            return
        known: dict[tuple[bytes, ...], WorkCounts | None] = {}
        began: float | None = None
        for each in halving(self.sample.kept):
            if each.request is None:
                continue
            key = key_of(each.request.contents)
            if key not in known:
                late = began is not None and time.perf_counter() - began > MOST_SECONDS
                if late and not _is_answered(each.asked):
                    continue
                known[key] = counter.of_request(each.request, each.asked)
                began = began or time.perf_counter()  # the first one compiles
            counts = known[key]
            if counts is not None and each.replayed:
                counts = replace(counts, estimated=True)
            each.first = each.later = replace(each.later, counts=counts)
            each.request = each.asked = None


def _is_answered(asked: Future[Answer] | None) -> bool:
    """Return whether a request has its answer; one that no process has begun is cancelled."""
    return asked is not None and not asked.cancel() and asked.done()


def halving(elements: Sequence[EqualCalls]) -> list[EqualCalls]:
    """Return the first and the last element, then those between, ever closer to each other."""
    last = len(elements) - 1
    places = {0: None, last: None} if elements else {}
    step = last
    while step > 1:
        step = -(-step // 2)
        places |= dict.fromkeys(range(step, last, step))
    places |= dict.fromkeys(range(len(elements)))
    return [elements[n] for n in places]


def launches_of(made: Sequence[EqualCalls]) -> list[CountedWork]:
    """Return what each launch does; of a kind that memory decides, by its nearest counted launch.

    Args:
        made: All launches in their order.
    """
    seen: Counter[EqualCalls] = Counter()
    found: list[CountedWork] = []
    places: defaultdict[EqualCalls, list[int]] = defaultdict(list)
    for place, each in enumerate(made):
        seen[each.kind] += 1
        found.append(each.first if seen[each.kind] == 1 else each.later)
        if each.kind.sample is not None:
            places[each.kind].append(place)
    for own in places.values():
        counted = [n for n, place in enumerate(own) if found[place].counts is not None]
        # The first launch was not chosen at random, and often warms up: it is no other's measure.
        counted = counted[1:] if len(counted) > 1 and counted[0] == 0 else counted
        for n, place in enumerate(own):
            if counted and found[place].counts is None:
                after = bisect_left(counted, n)
                near = min(counted[max(0, after - 1) : after + 1], key=lambda at: abs(at - n))
                found[place] = estimated(found[own[near]])
    return found


def estimated(launch: CountedWork) -> CountedWork:
    """Return the same for a launch that may do something else."""
    if launch.counts is None:
        return launch
    return replace(launch, counts=replace(launch.counts, estimated=True))


def first_of_kind(
    kernel: GpuKernel, words: Words, counter: HostCounter, *, capturing: bool
) -> EqualCalls | None:
    """Return what stands for launches of which this is the first, to be counted as far as possible.

    Returns:
        None if only copies of all its tensors would do, which would end the capture of a graph.
    """
    found = EqualCalls(kernel, kernel.signature(words))
    if not kernel.needs_memory:
        found.request = kernel.request(words)
    elif (deciding := kernel.deciding(words)) is not None and can_copy(deciding):
        found.request = kernel.request(words)
        found.sample = None if found.request is None else StratifiedSample()
    if found.request is None:
        if capturing:
            return None
        counts = counter.of_launch(kernel, found.spec.grid, words)
        found.first = replace(found.later, counts=counts)
        depends = counts is not None and counts.depends_on_memory
        found.later = estimated(found.first) if depends else found.first
    return found
