"""Samples as pandas frames: one row per kernel and configuration, one row per line of source.

Owns the names, units and order of columns. Must not know how a run was made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd

from ttools.core.compilation.inspection import Inspection
from ttools.core.gpus.devices import Device
from ttools.core.reports.report import config_text
from ttools.profiler.access.trace import line_of
from ttools.profiler.counting.counts import LaunchCounts, LineCounts
from ttools.profiler.gpu_time.roofline import bound, peaks_of
from ttools.profiler.run.launch_metrics import flops_of
from ttools.profiler.run.session import Sample

_QUANTILES = {"min_s": 0.0, "median_s": 0.5, "p95_s": 0.95, "max_s": 1.0}
_OVERHEADS = {"overhead_min_s": 0.0, "overhead_median_s": 0.5, "overhead_p95_s": 0.95}


def kernel_frame(
    samples: Sequence[Sample],
    device: Device | None,
    *,
    on_device: bool = False,
    compiled: Sequence[Inspection] | None = None,
    overheads: Mapping[tuple[str, str], Sequence[float]] = MappingProxyType({}),
) -> pd.DataFrame:
    """A row per kernel and configuration, the longest total time first.

    Columns: `kernel`, `config`, `kind` (`kernel`, or `copy` and `fill` of memory on a GPU, which
    have their direction for a name and the bytes that CUPTI recorded: `told_by` is `cupti`),
    `launches`, `total_s`, `share` of the time of all rows, `min_s`,
    `mean_s`, `median_s`, `p95_s`, `max_s`; per launch on average `programs`, `flops`, `bytes`
    (requested), `unique_bytes`, `masked_share`; `updates`, how often atomics of a line update an
    element, in the launch where they do most; and what these come to in the mean time: `gflops`,
    `gbytes`; `intensity` in operations per unique byte; `told_by`, who says what a launch does:
    `counts`, `estimate`, or `kernel` where that gives numbers of its own as `launch_metadata`,
    which win; `estimated`, why counts are estimates, or None. Where values in memory decide what a
    launch does and not every launch was counted, `counted` is how many were, the means are of all
    launches by those, `flops_min`, `flops_max`, `bytes_min` and `bytes_max` are the range of those,
    and nothing is derived from the means: rates, intensity and bounds are missing. With a device
    `bound_s`, the roofline's least time
    of a launch there, `limited_by`, `memory_s` and `compute_s`, what memory and the unit
    `compute_unit` with most to do need of it, and for a run on that device `efficiency`, the
    bound's share of the mean time. With `compiled` `registers`, `spilled`, `shared`, `occupancy`
    and `occupancy_limited_by`, of the specialisation that takes most. `overhead_min_s`,
    `overhead_median_s` and `overhead_p95_s` are what the host took for a call `kernel[grid](...)`
    beside the kernel's own time. `file` and `line` are
    the kernel's. Missing numbers are NaN.

    Args:
        device: whose roofline bounds launches.
        on_device: whether the samples were timed there.
        compiled: what a compiler made of the kernels.
        overheads: seconds of calls without the kernel, by kernel and configuration.
    """
    groups: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.kernel, config_text(sample.config)].append(sample)
    rows = [
        _kernel_row(*key, own, device) | _quantiles(overheads.get(key, ()), _OVERHEADS)
        for key, own in groups.items()
    ]
    if compiled is not None:
        rows = [{**row, **_resources(row["kernel"], row["config"], compiled)} for row in rows]
    frame = pd.DataFrame(rows, columns=_columns(device, compiled is not None))
    if device is not None and on_device:
        frame["efficiency"] = frame["bound_s"].astype(float) / frame["mean_s"]
    if len(frame):
        frame["share"] = frame["total_s"] / max(frame["total_s"].sum(), 1e-12)
    return frame.sort_values("total_s", ascending=False, ignore_index=True)


def _columns(device: Device | None, compiled: bool) -> list[str]:
    names = ["kernel", "config", "kind", "launches", "total_s", "share", "mean_s", *_QUANTILES]
    names += [*_OVERHEADS]
    names += ["programs", "flops", "bytes", "unique_bytes", "masked_share", "updates", "gflops"]
    names += ["gbytes"]
    names += ["intensity", "told_by", "estimated", *_RANGE, *(_BOUND if device else [])]
    return [*names, *(_RESOURCES if compiled else []), "file", "line"]


_RANGE = ("counted", "flops_min", "flops_max", "bytes_min", "bytes_max")
_BOUND = ("bound_s", "limited_by", "compute_s", "compute_unit", "memory_s")
_RESOURCES = ("registers", "spilled", "shared", "occupancy", "occupancy_limited_by")


def _resources(kernel: str, config: str, compiled: Sequence[Inspection]) -> dict[str, Any]:
    """Resources of the specialisation that takes most; there may be several."""
    own = [each for each in compiled if each.source.name == kernel and is_of(each, config)]
    if not own:
        return {}
    found = max(own, key=lambda each: each.resources.registers)
    return resources_of(found)


def resources_of(inspection: Inspection) -> dict[str, Any]:
    """What a compiled kernel takes, by column."""
    held = inspection.occupancy
    return {
        "registers": inspection.resources.registers,
        "spilled": inspection.resources.spilled,
        "shared": inspection.resources.shared,
        "occupancy": held.share if held else None,
        "occupancy_limited_by": held.limited_by if held else None,
    }


def is_of(inspection: Inspection, config: str) -> bool:
    """Whether a kernel was compiled with an autotuner's configuration, given as text."""
    source = inspection.source
    names = list(source.signature)
    known = {names[path[0]]: value for path, value in source.constants.items() if len(path) == 1}
    known |= source.options
    pairs = (pair.partition("=") for pair in config.split(", ") if pair)
    return all(name not in known or str(known[name]) == value for name, _, value in pairs)


def _kernel_row(
    kernel: str, config: str, samples: Sequence[Sample], device: Device | None
) -> dict[str, Any]:
    launches = sum(sample.launches for sample in samples)
    total = sum(sample.seconds for sample in samples)
    row: dict[str, Any] = {
        "kernel": kernel,
        "config": config,
        "kind": samples[0].kind,
        "launches": launches,
        "total_s": total,
        "mean_s": total / launches,
    }
    if launches == len(samples):  # else they were not timed apart
        row |= _quantiles([sample.seconds for sample in samples], _QUANTILES)
    locations = [sample.source for sample in samples if sample.source is not None]
    if locations:
        row["file"], row["line"] = locations[0]
    counted = [(sample.counts, sample.launches) for sample in samples if sample.counts is not None]
    if len(counted) == len(samples):
        row |= _work(counted, device)
    row |= _reported(samples, launches)
    row |= _rates(row)
    return row


def _quantiles(seconds: Sequence[float], wanted: Mapping[str, float]) -> dict[str, float]:
    series = pd.Series(list(seconds), dtype=float)
    return {name: float(series.quantile(q)) for name, q in wanted.items()} if seconds else {}


def _work(counted: Sequence[tuple[LaunchCounts, int]], device: Device | None) -> dict[str, Any]:
    """What launches do on average; each counts comes with how many launches have it."""
    # Divided, not multiplied by a reciprocal: equal counts have themselves for a mean.
    launches = sum(n for _, n in counted)
    lanes = sum(n * c.total.lanes for c, n in counted)
    row: dict[str, Any] = {
        "programs": sum(n * c.programs for c, n in counted) / launches,
        "flops": sum(n * c.total.flops for c, n in counted) / launches,
        "bytes": sum(n * c.total.bytes for c, n in counted) / launches,
        "unique_bytes": sum(n * c.unique for c, n in counted) / launches,
        "masked_share": sum(n * c.total.masked_off for c, n in counted) / lanes if lanes else 0.0,
        "told_by": "counts",
        "counted": sum(n for c, n in counted if not c.estimated),
    }
    for name, values in (
        ("flops", [c.total.flops for c, _ in counted]),
        ("bytes", [c.total.bytes for c, _ in counted]),
    ):
        row |= {f"{name}_min": min(values), f"{name}_max": max(values)}
    if row["counted"] < launches:
        why = f"{row['counted']:,} of {launches:,} launches were counted, as memory decides"
        return {**row, "told_by": "estimate", "estimated": why}
    if not all(c.exact for c, _ in counted):
        row |= {"told_by": "estimate", "estimated": "it depends on the order of the programs"}
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


def _reported(samples: Sequence[Sample], launches: int) -> dict[str, Any]:
    """What the kernel itself says of all its launches, on average."""
    flops = [flops_of(sample.metrics) for sample in samples]
    moved = [sample.metrics.get("bytes") for sample in samples]
    said = {"flops": flops, "bytes": moved}
    row: dict[str, Any] = {
        name: sum(v for v in values if v is not None) / launches
        for name, values in said.items()
        if None not in values
    }
    teller = "kernel" if samples[0].kind == "kernel" else "cupti"
    return {**row, "told_by": teller} if row else {}


def _rates(row: Mapping[str, Any]) -> dict[str, Any]:
    """Operations and bytes per second and per byte, as far as they are known."""
    found: dict[str, Any] = {}
    flops, moved = row.get("flops"), row.get("bytes")
    if row["mean_s"]:
        found |= {"gflops": flops / row["mean_s"] / 1e9} if flops is not None else {}
        found |= {"gbytes": moved / row["mean_s"] / 1e9} if moved is not None else {}
    if row.get("counted", row["launches"]) < row["launches"] and row["told_by"] != "kernel":
        return {}
    touched = row.get("unique_bytes", moved if row.get("told_by") == "kernel" else None)
    if flops is not None and touched and row["kind"] == "kernel":
        found["intensity"] = flops / touched
    return found


def line_frame(samples: Sequence[Sample]) -> pd.DataFrame:
    """A row per kernel and line of source, over all launches, in the order of the source.

    Columns: `kernel`, `file`, `line`, `executions` (of the line in all programs, iterations and
    launches), `loaded`, `stored`, `atomic` in bytes, `masked_share`, `flops`,
    `operations`, a text with the count of each unit, `time_s`, an estimate of the seconds spent
    there, and `time_share`, of the kernel's time. Times are NaN for kernels that were not sampled.
    `told_by` is `estimate` for kernels of which not every launch was counted, see `kernel_frame`.
    """
    lines: dict[_Line, LineCounts] = {}
    times: defaultdict[_Line, float] = defaultdict(float)
    sampled: defaultdict[str, float] = defaultdict(float)
    estimated = {each.kernel for each in samples if each.counts and each.counts.estimated}
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
            **(_time(times[key], sampled[key[0]]) if sampled[key[0]] else {}),
            "told_by": "estimate" if key[0] in estimated else "counts",
        }
        for key, counts in lines.items()
    ]
    names = ["kernel", "file", "line", "executions", "loaded", "stored", "atomic", "masked_share"]
    names += ["flops", "operations", "time_s", "time_share", "told_by"]
    return pd.DataFrame(rows, columns=names).sort_values(
        ["kernel", "file", "line"], ignore_index=True
    )


#: Kernel, file, number.
_Line = tuple[str, str, int]


def _time(seconds: float, whole: float) -> dict[str, float]:
    return {"time_s": seconds, "time_share": seconds / whole}
