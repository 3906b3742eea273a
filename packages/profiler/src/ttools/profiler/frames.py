"""Samples as pandas frames: one row per kernel and configuration, one row per line of source.

Owns the names, units and order of columns. Must not know how a run was made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ttools.profiler.counting.counts import LineCounts
from ttools.profiler.devices import Device
from ttools.profiler.roofline import bound
from ttools.profiler.session import Sample

_QUANTILES = {"min_s": 0.0, "median_s": 0.5, "p95_s": 0.95, "max_s": 1.0}


def kernel_frame(
    samples: Sequence[Sample], device: Device | None, *, on_device: bool = False
) -> pd.DataFrame:
    """A row per kernel and configuration, the longest total time first.

    Columns: `kernel`, `config`, `launches`, `total_s`, `share` of all kernels' time, `min_s`,
    `median_s`, `p95_s`, `max_s`; per launch on average `programs`, `flops`, `bytes` (requested),
    `unique_bytes`, `masked_share`, and what these come to in the median time: `gflops`, `gbytes`;
    `intensity` in operations per unique byte. With a device `bound_s`, the roofline's least time
    of a launch there, `limited_by`, and for a run on that device `efficiency`, the bound's share of
    the median time. Missing numbers are NaN.

    Args:
        samples: of a run.
        device: whose roofline bounds launches.
        on_device: whether the samples were timed there.
    """
    groups: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.kernel, config_text(sample.config)].append(sample)
    rows = [_kernel_row(kernel, config, g, device) for (kernel, config), g in groups.items()]
    frame = pd.DataFrame(rows, columns=_columns(device))
    if device is not None and on_device:
        frame["efficiency"] = frame["bound_s"].astype(float) / frame["median_s"]
    if len(frame):
        frame["share"] = frame["total_s"] / max(frame["total_s"].sum(), 1e-12)
    return frame.sort_values("total_s", ascending=False, ignore_index=True)


def _columns(device: Device | None) -> list[str]:
    names = ["kernel", "config", "launches", "total_s", "share", *_QUANTILES, "programs", "flops"]
    names += ["bytes", "unique_bytes", "masked_share", "gflops", "gbytes", "intensity"]
    return [*names, "bound_s", "limited_by"] if device else names


def _kernel_row(
    kernel: str, config: str, samples: Sequence[Sample], device: Device | None
) -> dict[str, Any]:
    seconds = pd.Series([sample.seconds for sample in samples])
    row: dict[str, Any] = {
        "kernel": kernel,
        "config": config,
        "launches": len(samples),
        "total_s": float(seconds.sum()),
        **{name: float(seconds.quantile(q)) for name, q in _QUANTILES.items()},
    }
    counted = [sample.counts for sample in samples if sample.counts is not None]
    if len(counted) < len(samples):
        return row
    mean = 1 / len(counted)
    lanes = sum(c.total.lanes for c in counted)
    unique = [c.unique for c in counted if c.unique is not None]
    row |= {
        "programs": sum(c.programs for c in counted) * mean,
        "flops": sum(c.total.flops for c in counted) * mean,
        "bytes": sum(c.total.bytes for c in counted) * mean,
        "masked_share": sum(c.total.masked_off for c in counted) / lanes if lanes else 0.0,
    }
    if len(unique) == len(counted):
        row["unique_bytes"] = sum(unique) * mean
        row["intensity"] = row["flops"] / row["unique_bytes"] if row["unique_bytes"] else None
    if row["median_s"]:
        row["gflops"] = row["flops"] / row["median_s"] / 1e9
        row["gbytes"] = row["bytes"] / row["median_s"] / 1e9
    if device is not None:
        bounds = [bound(counts, device) for counts in counted]
        row["bound_s"] = sum(b.seconds for b in bounds) * mean
        row["limited_by"] = max(bounds, key=lambda b: b.seconds).limited_by
    return row


def line_frame(samples: Sequence[Sample]) -> pd.DataFrame:
    """A row per kernel and line of source, over all launches, the most bytes and flops first.

    Columns: `kernel`, `file`, `line`, `executions` (of the line in all programs and iterations, the
    largest of a launch), `loaded`, `stored`, `atomic` in bytes, `masked_share`, `flops`, and
    `operations`, a text that tells them by unit.
    """
    lines: dict[tuple[str, str, int], LineCounts] = {}
    for sample in samples:
        for line in sample.counts.lines if sample.counts else ():
            place = line.location
            key = (sample.kernel, place.file if place else "", place.line if place else 0)
            lines.setdefault(key, LineCounts(place)).add(line)
    rows = [
        {
            "kernel": kernel,
            "file": file,
            "line": number,
            "executions": counts.executions,
            "loaded": counts.loaded,
            "stored": counts.stored,
            "atomic": counts.atomic,
            "masked_share": counts.masked_share,
            "flops": counts.flops,
            "operations": ", ".join(f"{n:,} {u}" for u, n in counts.operations.most_common()),
        }
        for (kernel, file, number), counts in lines.items()
    ]
    names = ["kernel", "file", "line", "executions", "loaded", "stored", "atomic", "masked_share"]
    return pd.DataFrame(rows, columns=[*names, "flops", "operations"]).sort_values(
        ["kernel", "file", "line"], ignore_index=True
    )


def config_text(config: Mapping[str, Any] | None) -> str:
    """`BLOCK=64, num_warps=4`; empty without one."""
    return ", ".join(f"{name}={value}" for name, value in (config or {}).items())
