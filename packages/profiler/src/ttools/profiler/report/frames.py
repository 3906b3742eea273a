"""Tables of a profile as pandas frames: kernels, launch signatures, source lines, accesses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import pandas as pd

from ttools.core.compilation.inspection import Inspection
from ttools.core.gpus.devices import Device
from ttools.core.reports.report import config_text
from ttools.profiler.access.requests import AccessQuality
from ttools.profiler.access.trace import line_of
from ttools.profiler.counting.counts import LineCounts, WorkCounts
from ttools.profiler.gpu_time.instruction_mix import Executed
from ttools.profiler.gpu_time.roofline import bound, peaks_of, waves_of
from ttools.profiler.metrics import (
    ACCESSES,
    KERNELS,
    LINES,
    SIGNATURES,
    Metric,
    Needs,
    column_names,
)
from ttools.profiler.report.signatures import SignatureStats, is_of
from ttools.profiler.run.launch_metrics import flops_of
from ttools.profiler.run.session import Sample

_QUANTILES = {"min_s": 0.0, "median_s": 0.5, "p95_s": 0.95, "max_s": 1.0}
_OVERHEADS = {"overhead_min_s": 0.0, "overhead_median_s": 0.5, "overhead_p95_s": 0.95}


# --- kernels --------------------------------------------------------------------------------------


def kernel_frame(
    samples: Sequence[Sample],
    device: Device | None,
    *,
    on_device: bool = False,
    compiled: Sequence[Inspection] | None = None,
    overheads: Mapping[tuple[str, str], Sequence[float]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return one row per kernel and configuration, sorted by total time, longest first.

    If the work of launches depends on memory and not every launch was counted, the means of the
    counts are estimates, so rates, intensity and bounds are missing. Missing numbers are NaN.

    Args:
        samples: Launches of a run.
        device: The device whose roofline bounds launches.
        on_device: True if the samples were timed on this device.
        compiled: Compiled kernels; if None, the columns derived from them are omitted.
        overheads: The host's overhead of each call in seconds, by kernel and configuration.
    """
    groups: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.kernel, config_text(sample.config)].append(sample)
    rows = [
        _kernel_row(*key, own, device) | _quantiles(overheads.get(key, ()), _OVERHEADS)
        for key, own in groups.items()
    ]
    if compiled is not None:
        rows = [{**row, **_most_resources(row["kernel"], row["config"], compiled)} for row in rows]
    present: list[Needs] = ["device"] if device else []
    present += ["target"] if compiled is not None else []
    present += ["measured"] if device and on_device else []
    for row in rows:
        derive(row, KERNELS, present)
    # The first column that needs machine code and all columns after it are added later.
    last = next(n for n, metric in enumerate(KERNELS) if metric.needs == "cuda")
    frame = pd.DataFrame(rows, columns=column_names(KERNELS[:last], *present))
    if len(frame):
        frame["share"] = frame["total_s"] / max(frame["total_s"].sum(), 1e-12)
    return frame.sort_values("total_s", ascending=False, ignore_index=True)


def derive(row: dict[str, Any], table: Iterable[Metric], present: Iterable[Needs]) -> None:
    """Compute the columns of a row that are derived from other columns."""
    for metric in table:
        if metric.derive is not None and (not metric.needs or metric.needs in present):
            value = metric.derive(row)
            if value is not None:
                row[metric.name] = value


def _most_resources(kernel: str, config: str, compiled: Sequence[Inspection]) -> dict[str, Any]:
    """Return the resources of the specialisation with the most registers."""
    own = [
        inspection
        for inspection in compiled
        if inspection.source.name == kernel and is_of(inspection, config)
    ]
    return (
        _resources(max(own, key=lambda inspection: inspection.resources.registers)) if own else {}
    )


def _resources(inspection: Inspection) -> dict[str, Any]:
    occupancy = inspection.occupancy
    return {
        "registers": inspection.resources.registers,
        "spilled": inspection.resources.spilled,
        "shared": inspection.resources.shared,
        "occupancy": occupancy.share if occupancy else None,
        "occupancy_limited_by": occupancy.limited_by if occupancy else None,
    }


def _kernel_row(
    kernel: str, config: str, samples: Sequence[Sample], device: Device | None
) -> dict[str, Any]:
    launches = sum(sample.launches for sample in samples)
    row: dict[str, Any] = {
        "kernel": kernel,
        "config": config,
        "kind": samples[0].kind,
        "launches": launches,
        "total_s": sum(sample.seconds for sample in samples),
    }
    if launches == len(samples):  # each launch was timed on its own
        row |= _quantiles([sample.seconds for sample in samples], _QUANTILES)
    locations = [sample.source for sample in samples if sample.source is not None]
    if locations:
        row["file"], row["line"] = locations[0]
    counted = [(sample.counts, sample.launches) for sample in samples if sample.counts is not None]
    if len(counted) == len(samples):
        row |= _work(counted, device)
    return row | _reported(samples, launches)


def _quantiles(seconds: Sequence[float], wanted: Mapping[str, float]) -> dict[str, float]:
    series = pd.Series(list(seconds), dtype=float)
    return {name: float(series.quantile(q)) for name, q in wanted.items()} if seconds else {}


def _work(counted: Sequence[tuple[WorkCounts, int]], device: Device | None) -> dict[str, Any]:
    """Return the mean work of launches, given pairs of counts and their number of launches."""
    # Sums are divided instead of multiplied by a reciprocal, so that the mean of equal counts is
    # exactly this count.
    launches = sum(n for _, n in counted)
    lanes = sum(n * c.total.lanes for c, n in counted)
    row: dict[str, Any] = {
        "programs": sum(n * c.programs for c, n in counted) / launches,
        "flops": sum(n * c.total.flops for c, n in counted) / launches,
        "bytes": sum(n * c.total.bytes for c, n in counted) / launches,
        "unique_bytes": sum(n * c.unique for c, n in counted) / launches,
        "masked_share": sum(n * c.total.masked_off for c, n in counted) / lanes if lanes else 0.0,
        "other_operations": _other_operations(counted, launches),
        "told_by": "counts",
        "counted": sum(n for c, n in counted if not c.estimated),
    }
    for name, values in (
        ("flops", [c.total.flops for c, _ in counted]),
        ("bytes", [c.total.bytes for c, _ in counted]),
    ):
        row |= {f"{name}_min": min(values), f"{name}_max": max(values)}
    if row["counted"] < launches:
        why = (
            f"{row['counted']:,} of {launches:,} launches were counted; their work depends on the "
            "contents of memory"
        )
        return {**row, "told_by": "estimate", "estimated": why}
    if not all(c.exact for c, _ in counted):
        row |= {"told_by": "estimate", "estimated": "the work depends on the order of the programs"}
    if updates := [max(c.updates.values(), default=0.0) for c, _ in counted]:
        row["updates"] = max(updates)
    if device is not None:
        bounds = [(bound(c, device), n) for c, n in counted]
        row["bound_s"] = sum(n * b.seconds for b, n in bounds) / launches
        row["limited_by"] = max(bounds, key=lambda pair: pair[0].seconds)[0].limited_by
        peaks = [(peaks_of(c, device), n) for c, n in counted]
        row["memory_s"] = sum(n * p.memory for p, n in peaks) / launches
        row["compute_s"] = sum(n * p.compute for p, n in peaks) / launches
        row["compute_unit"] = max(peaks, key=lambda pair: pair[0].compute)[0].unit
    return row


def _other_operations(counted: Sequence[tuple[WorkCounts, int]], launches: int) -> str:
    """Return, e.g., `2,032 comparisons, 1,616 divisions`: the mean over launches."""
    total = Counter[str]()
    for counts, n in counted:
        total.update({name: n * times for name, times in counts.total.other_operations.items()})
    return ", ".join(f"{n / launches:,.0f} {name}" for name, n in total.most_common() if n)


def _reported(samples: Sequence[Sample], launches: int) -> dict[str, Any]:
    """Return the means of the figures that a kernel reported for all of its launches."""
    flops = [flops_of(sample.metrics) for sample in samples]
    moved = [sample.metrics.get("bytes") for sample in samples]
    reported = {"flops": flops, "bytes": moved}
    row: dict[str, Any] = {
        name: sum(v for v in values if v is not None) / launches
        for name, values in reported.items()
        if None not in values
    }
    source = "kernel" if samples[0].kind == "kernel" else "cupti"
    return {**row, "told_by": source} if row else {}


# --- signatures -----------------------------------------------------------------------------------


def signature_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a frame of rows of `signature_row`, sorted by total time within each kernel."""
    frame = pd.DataFrame(list(rows), columns=[metric.name for metric in SIGNATURES])
    return frame.sort_values(
        ["kernel", "config", "total_s"],
        ascending=[True, True, False],
        ignore_index=True,
        kind="stable",
    )


def signature_row(
    signature: SignatureStats,
    specialisation: str,
    device: Device | None,
    inspection: Inspection | None,
) -> dict[str, Any]:
    """Return the figures of a signature without a projection.

    Args:
        signature: The launches of the signature.
        specialisation: Text that distinguishes this specialisation from the kernel's other
            specialisations.
        device: The device whose roofline bounds the launches.
        inspection: The kernel compiled for the target; None if it is not compiled.
    """
    counts = signature.sample.counts
    row: dict[str, Any] = {
        "kernel": signature.key.kernel,
        "config": signature.key.config,
        "grid": signature.grid,
        "specialisation": specialisation,
        "launches": signature.launches,
        "total_s": signature.seconds,
    }
    if counts is not None:
        row |= {
            "programs": counts.programs,
            "flops": counts.total.flops,
            "bytes": counts.total.bytes,
            "unique_bytes": counts.unique,
            "masked_share": counts.total.masked_share,
            "told_by": "estimate" if counts.estimated else "counts",
        }
        if device is not None and not counts.estimated:
            least = bound(counts, device)
            row |= {"bound_s": least.seconds, "limited_by": least.limited_by}
    if inspection is not None:
        row |= _resources(inspection)
        occupancy = inspection.occupancy
        if occupancy and device and counts and inspection.target == device.target:
            row["waves"] = waves_of(counts.programs, occupancy.blocks, device)
    derive(row, SIGNATURES, ())
    return row


# --- accesses -------------------------------------------------------------------------------------

#: Columns of a signature's row that are copied to the rows of its accesses.
_OF_SIGNATURE = ("kernel", "config", "grid", "specialisation", "launches")


def access_frame(
    signatures: Iterable[tuple[Mapping[str, Any], Sequence[AccessQuality]]],
) -> pd.DataFrame:
    """Return a row per access of each launch signature, in the order of the source.

    Args:
        signatures: The row and the accesses of each signature.
    """
    rows = [
        {name: signature[name] for name in _OF_SIGNATURE} | _access_row(access)
        for signature, accesses in signatures
        for access in accesses
    ]
    return pd.DataFrame(rows, columns=[metric.name for metric in ACCESSES]).sort_values(
        ["kernel", "config", "file", "line"], ignore_index=True, kind="stable"
    )


def _access_row(access: AccessQuality) -> dict[str, Any]:
    location = access.location
    return {
        "file": location.file if location else "",
        "line": location.line if location else 0,
        "kind": access.trace.kind,
        "bits": access.bits,
        "possible_bits": access.possible_bits,
        "sectors_per_request": access.sectors_per_request,
        "ideal_per_request": access.ideal_per_request,
        "efficiency": access.efficiency,
        "active": access.active,
        "shared_by": access.trace.shared_by,
        "again": access.trace.again,
        "layout": access.layout,
        "sampled": access.trace.sampled,
    }


# --- lines ----------------------------------------------------------------------------------------

#: Kernel, file and line number.
_Line = tuple[str, str, int]


def line_frame(
    samples: Sequence[Sample], executed: Mapping[str, Executed] | None = None
) -> pd.DataFrame:
    """Return one row per kernel and source line, over all launches, in the order of the source.

    Times are NaN for kernels that were not sampled.

    Args:
        samples: Launches of a run.
        executed: The instructions that each kernel executes on the GPU; None without an NVIDIA GPU.
    """
    lines: dict[_Line, LineCounts] = {}
    times: defaultdict[_Line, float] = defaultdict(float)
    sampled: defaultdict[str, float] = defaultdict(float)
    estimated = {sample.kernel for sample in samples if sample.counts and sample.counts.estimated}
    for sample in samples:
        for line in sample.counts.lines if sample.counts else ():
            key = (sample.kernel, *line_of(line.location))
            lines.setdefault(key, LineCounts(line.location)).add(line, sample.launches)
        if sample.lines:
            sampled[sample.kernel] += sample.seconds
        for (file, number), share in sample.lines.items():
            key = (sample.kernel, file, number)
            times[key] += share * sample.seconds
            lines.setdefault(key, LineCounts(None))
    rows = [
        {
            **dict(zip(("kernel", "file", "line"), key, strict=True)),
            "executions": counts.executions,
            "loaded": counts.loaded,
            "stored": counts.stored,
            "atomic": counts.atomic,
            "masked_share": counts.masked_share,
            "flops": counts.flops,
            "operations": ", ".join(f"{n:,} {u}" for u, n in counts.operations.most_common()),
            **(
                {"time_s": times[key], "time_share": times[key] / sampled[key[0]]}
                if sampled[key[0]]
                else {}
            ),
            "told_by": "estimate" if key[0] in estimated else "counts",
            **_instructions((executed or {}).get(key[0]), key),
        }
        for key, counts in lines.items()
    ]
    present: list[Needs] = [] if executed is None else ["cuda"]
    return pd.DataFrame(rows, columns=column_names(LINES, *present)).sort_values(
        ["kernel", "file", "line"], ignore_index=True
    )


def _instructions(executed: Executed | None, line: _Line) -> dict[str, Any]:
    """Return a line's share of the instructions; an empty dictionary if they are unknown."""
    if executed is None:
        return {}
    mix = executed.mix_of_line((PurePath(line[1]).name, line[2]))
    return {"instruction_share": sum(mix.values()), "instruction_mix": dict(mix)}
