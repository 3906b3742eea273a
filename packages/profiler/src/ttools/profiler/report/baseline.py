"""Figures of the launches of a compiled kernel, for performance baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.lock import PROJECTED, RunCosts
from ttools.core.gpus.devices import device_of
from ttools.core.location import SourceLocation
from ttools.profiler.access.requests import AccessQuality, access_qualities
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu_time.projection import is_projected, project
from ttools.profiler.report.signatures import requested, signatures_of
from ttools.profiler.run.session import Sample


def costs_of(
    inspection: Inspection, samples: Iterable[Sample], variants: Mapping[Any, KernelSource]
) -> RunCosts | None:
    """Return bytes, operations and sectors of the largest launch, and the time of all launches.

    The largest launch is the one that requests the most bytes. The time is the projected time on
    the target. Counts that depend on memory are used only for the time, because only times are
    compared with a tolerance.

    Args:
        inspection: The kernel, compiled for the target.
        samples: Launches of a run.
        variants: The specialisation of each sample, see `Sample.variant`.

    Returns:
        None if there is no launch of this specialisation, or if its counts depend on the order of
        programs, so that the counts of another run may differ.
    """
    own = [
        sample
        for sample in samples
        if sample.counts is not None
        and sample.variant is not None
        and sample.variant in variants
        and variants[sample.variant].specialises_like(inspection.source)
    ]
    largest = max(own, key=requested, default=None)
    if largest is None or largest.counts is None:
        return None
    counts = largest.counts
    if not _is_repeatable(counts):
        return None
    time = _projected(own, inspection)
    if counts.depends_on_memory:
        return RunCosts(figures=time, lines={}) if time else None
    costs = _costs(counts, access_qualities(counts.accesses, inspection))
    return replace(costs, figures={**time, **costs.figures})


def _is_repeatable(counts: WorkCounts) -> bool:
    """Return whether another run on the same data would give the same counts."""
    return counts.exact and not counts.notes


def _projected(samples: Sequence[Sample], inspection: Inspection) -> dict[str, float]:
    """Return the projected microseconds of all launches; empty if there is no projection."""
    device = device_of(inspection.target.name)
    if device is None or not is_projected(device) or inspection.broken_rules:
        return {}
    seconds = 0.0
    for signatures in signatures_of(samples).values():
        for signature in signatures:
            counts = signature.sample.counts
            if counts is None or not _is_repeatable(counts):
                return {}
            accesses = access_qualities(counts.accesses, inspection)
            seconds += signature.launches * project(counts, inspection, device, accesses).seconds
    return {PROJECTED: float(f"{seconds * 1e6:.5g}")}


def _costs(counts: WorkCounts, accesses: Sequence[AccessQuality]) -> RunCosts:
    figures = {
        "bytes": float(counts.total.bytes),
        "unique bytes": float(counts.unique),
        "flops": float(counts.total.flops),
    }
    lines: dict[str, dict[SourceLocation, float]] = {
        "bytes": {line.location: float(line.bytes) for line in counts.lines if line.location},
        "flops": {line.location: float(line.flops) for line in counts.lines if line.location},
    }
    lines["unique bytes"] = lines["bytes"]
    requests = sum(access.requests for access in accesses)
    if requests:
        figures["sectors per request"] = sum(access.sectors for access in accesses) / requests
        lines["sectors per request"] = _sectors(accesses)
    return RunCosts(figures=figures, lines=lines)


def _sectors(accesses: Sequence[AccessQuality]) -> dict[SourceLocation, float]:
    sectors: Counter[SourceLocation] = Counter()
    requests: Counter[SourceLocation] = Counter()
    for access in accesses:
        if access.location is not None:
            sectors[access.location] += access.sectors
            requests[access.location] += access.requests
    return {at: sectors[at] / requests[at] for at in sectors if requests[at]}
