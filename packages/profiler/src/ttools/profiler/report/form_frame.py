"""Forms of launches as a pandas frame: what each specialisation, grid and shape does and needs.

Owns the names, units and order of columns. Must not know how a run was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ttools.core.gpus.devices import Device
from ttools.core.reports.report import config_text
from ttools.profiler.gpu_time.roofline import bound, waves_of
from ttools.profiler.report.advice import Evidence
from ttools.profiler.report.forms import Form
from ttools.profiler.report.frames import resources_of

_COLUMNS = (
    *("kernel", "config", "grid", "specialisation", "launches", "total_s", "mean_s"),
    *("programs", "flops", "bytes", "unique_bytes", "masked_share", "bound_s", "limited_by"),
    "told_by",
    *("projected_s", "projected_low_s", "projected_high_s", "projected_outside"),
    "cannot_launch",
    *("registers", "spilled", "shared", "occupancy", "occupancy_limited_by", "waves"),
)


def form_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A row per form of launches, the longest total time of each kernel first.

    Columns: `kernel`, `config`; `grid` as `64x2`; `specialisation`, what tells it from the kernel's
    others, as `n: constant 1`; `launches`, `total_s`, `mean_s`; of each launch `programs`, `flops`,
    `bytes`, `unique_bytes`, `masked_share`; `told_by`, `estimate` for launches that were not
    counted themselves, as values in memory decide what they do; with a device `bound_s`,
    `limited_by` and `waves`, how often the programs fill it; for a run on the CPU `projected_s`
    with its interval, or `cannot_launch`, why the target refuses the launch; with a target what was
    compiled, as in the frame of kernels. Missing numbers are NaN.

    Args:
        rows: made by `form_row`.
    """
    frame = pd.DataFrame(list(rows), columns=list(_COLUMNS))
    return frame.sort_values(
        ["kernel", "config", "total_s"],
        ascending=[True, True, False],
        ignore_index=True,
        kind="stable",
    )


def form_row(
    form: Form, specialisation: str, device: Device | None, found: Evidence | None
) -> dict[str, Any]:
    """What is known of a form, and which `sample` is its first, by `id`.

    Args:
        specialisation: what tells it from the kernel's others.
        device: whose roofline bounds it.
        found: what a compiler made of it; None where that is unknown.
    """
    sample, counts = form.sample, form.sample.counts
    row: dict[str, Any] = {
        "sample": id(sample),
        "kernel": sample.kernel,
        "config": config_text(sample.config),
        "grid": "x".join(map(str, _extents(sample.grid))),
        "specialisation": specialisation,
        "launches": form.launches,
        "total_s": form.seconds,
        "mean_s": form.seconds / form.launches,
    }
    if counts is not None:
        row |= {
            "programs": counts.programs,
            "flops": counts.total.flops,
            "bytes": counts.total.bytes,
            "unique_bytes": counts.unique,
            "masked_share": counts.total.masked_share,
        }
        row["told_by"] = "estimate" if counts.estimated else "counts"
        if device is not None and not counts.estimated:
            least = bound(counts, device)
            row |= {"bound_s": least.seconds, "limited_by": least.limited_by}
    if found is not None:
        row |= resources_of(found.inspection)
        held = found.inspection.occupancy
        if held and device and counts and found.inspection.target == device.target:
            row["waves"] = waves_of(counts.programs, held.blocks, device)
    return row


def _extents(grid: Sequence[int]) -> Sequence[int]:
    """Without ones at the end, which Triton adds."""
    own = list(grid)
    while len(own) > 1 and own[-1] == 1:
        own.pop()
    return own
