"""A report of tunings as one self-contained HTML page.

The folder `page` contains markup and style; `charts` computes the charts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttools.core.reports.numbers import seconds, seconds_interval
from ttools.core.reports.page_template import render_page
from ttools.core.reports.report import config_text
from ttools.tuner.measure.confidence import median_interval
from ttools.tuner.measure.trial import Trial
from ttools.tuner.report.charts import heat_map, parallel_coordinates, progress
from ttools.tuner.report.importances import importances
from ttools.tuner.report.texts import mark, projected_text, ratio_interval_text
from ttools.tuner.store.ranking import estimate, ranked, reason, samples
from ttools.tuner.store.store import TuningEntry

_PAGE = Path(__file__).parent / "page"
#: Number of configurations listed for each problem, the best ones.
_LISTED = 12


def write_page(entries: Sequence[TuningEntry], title: str) -> str:
    """Return an HTML document.

    Args:
        entries: Entries of a store or of a run.
        title: Title of the page.
    """
    by_kernel: dict[tuple[str, str], list[TuningEntry]] = {}
    for entry in entries:
        by_kernel.setdefault((entry.problem.kernel, entry.problem.device), []).append(entry)
    return render_page(
        _PAGE,
        title=title,
        kernels=[
            {
                "name": kernel,
                "device": device,
                "map": heat_map(own) if len(own) > 1 else None,
                "problems": [_problem(entry) for entry in own],
            }
            for (kernel, device), own in by_kernel.items()
        ],
    )


def _problem(entry: TuningEntry) -> dict[str, Any]:
    ordered = [trial for trial in ranked(entry) if trial.cost is not None]
    rejected = [trial for trial in entry.trials if trial.status != "ok"]
    best = estimate(entry, ordered[0]) if ordered else None
    return {
        "title": key_text(entry),
        "versions": entry.problem.versions,
        "tried": len(entry.trials),
        "rejected": len(rejected),
        "complete": entry.complete,
        "reason": reason(entry),
        "importance": str(importances(entry) or ""),
        "progress": progress(entry),
        "axes": parallel_coordinates(entry),
        "less_certain": "; ".join(
            dict.fromkeys(
                f"it {text}"
                for t in ordered[:_LISTED]
                if t.projection
                for text in t.projection["outside"]
            )
        ),
        "predicted": bool(ordered) and not any(trial.samples for trial in ordered),
        "rows": [_row(entry, trial, best) for trial in ordered[:_LISTED]],
        "left_out": max(0, len(ordered) - _LISTED),
        "reasons": [
            {"config": config_text(t.values), "status": t.status, "reason": t.reason}
            for t in rejected
        ],
    }


def _row(entry: TuningEntry, trial: Trial, best: float | None) -> dict[str, Any]:
    own, timed = estimate(entry, trial) or 0.0, samples(entry, trial)
    interval = median_interval(timed)
    return {
        "mark": mark(entry, trial),
        "config": config_text(trial.values),
        "time": seconds(own) if timed else projected_text(trial),
        "interval": "" if interval is None else seconds_interval(*interval),
        "samples": len(timed),
        "ratio": f"{own / best:.3f}" if best else "",
        "within": ratio_interval_text(entry, trial),
    }


def key_text(entry: TuningEntry) -> str:
    """Return the key of an entry as text: `n=1000, float32`."""
    return ", ".join([*entry.problem.sizes, *entry.problem.dtypes]) or "one key"
