"""A report of tunings as one self-contained HTML page.

The folder `page` contains markup and style; `charts` computes the charts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttools.core.location import shown_place
from ttools.core.reports.numbers import seconds, seconds_interval
from ttools.core.reports.page_template import PageSummary, Point, render_page
from ttools.core.reports.report import config_text, counted
from ttools.tuner.measure.confidence import median_interval
from ttools.tuner.measure.trial import Trial
from ttools.tuner.report.charts import heat_map, parallel_coordinates, progress
from ttools.tuner.report.importances import importances
from ttools.tuner.report.texts import gains, mark, projected_text, ratio_interval_text
from ttools.tuner.store.bit_equality import bit_class_summary, timed_classes
from ttools.tuner.store.ranking import (
    config_source,
    estimate,
    ranked,
    reason,
    samples,
    winning_trial,
)
from ttools.tuner.store.store import TuningEntry

_PAGE = Path(__file__).parent / "page"
#: Maximum number of tunings in the summary.
_MOST_POINTS = 3
#: Number of configurations listed for each problem, the best ones.
_LISTED = 12


def write_page(entries: Sequence[TuningEntry]) -> str:
    """Return an HTML document for the entries of a store or of a run."""
    by_kernel: dict[tuple[str, str], list[TuningEntry]] = {}
    for entry in entries:
        by_kernel.setdefault((entry.problem.kernel, entry.problem.device), []).append(entry)
    return render_page(
        _PAGE,
        summary=_summary(entries),
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


def _summary(entries: Sequence[TuningEntry]) -> PageSummary:
    """Return which configurations to use, and why."""
    if not entries:
        return PageSummary(conclusion="No tuning yet")
    left = len(entries) - _MOST_POINTS
    kernels = counted(len({entry.problem.kernel for entry in entries}), "kernel")
    tried = counted(sum(len(entry.trials) for entry in entries), "configuration")
    return PageSummary(
        conclusion=_conclusion(entries[0])
        if len(entries) == 1
        else f"{kernels} tuned for {len(entries):,} shapes and types",
        about="; ".join([f"{tried} tried", *dict.fromkeys(e.problem.device for e in entries)]),
        points=tuple(_point(entry, only=len(entries) == 1) for entry in entries[:_MOST_POINTS]),
        more=f"{counted(left, 'further winner')} below." if left > 0 else "",
    )


def _conclusion(entry: TuningEntry) -> str:
    best = winning_trial(entry)
    if best is None:
        return f"No configuration of `{entry.problem}` can win"
    others = [trial for trial in entry.trials if trial.key != best.key]
    varied = {
        name: value
        for name, value in best.values.items()
        if any(trial.values.get(name) != value for trial in others)
    }
    chosen = config_text(varied or best.values)
    return ", ".join([f"`{entry.problem}`: `{chosen}` is the winner", *gains(entry)])


def _point(entry: TuningEntry, *, only: bool) -> Point:
    """Return why the winner won, with the code that applies it."""
    best = winning_trial(entry)
    if best is None:
        whys = Counter(t.reason or t.status for t in entry.trials)
        text = "; ".join(f"{why} ({counted(n, 'configuration')})" for why, n in whys.most_common(3))
        return Point(text=text if only else f"`{entry.problem}`: {text}")
    own = estimate(entry, best) or 0.0
    timed = bool(samples(entry, best))
    time = f"measured time: {seconds(own)}" if timed else f"projected time: {projected_text(best)}"
    why = f"It is {reason(entry)}"
    return Point(
        text=why if only else f"{_conclusion(entry)}. {why}",
        place=shown_place(*entry.location) if entry.location else "",
        evidence=time,
        action=f"use `{config_source(best.values)}`",
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
        "classes": _classes(entry),
        "class_summary": bit_class_summary(entry),
        "reasons": [
            {"config": config_text(t.values), "status": t.status, "reason": t.reason}
            for t in rejected
        ],
    }


def _classes(entry: TuningEntry) -> list[dict[str, Any]]:
    """Return the classes of configurations with equal bits, the fastest first."""
    classes = timed_classes(entry)
    least = classes[0].seconds if classes else None
    return [
        {
            "first": config_text(one.first),
            "configurations": one.configurations,
            "best": config_text(one.best) if one.best else "",
            "time": seconds(one.seconds) if one.seconds is not None else "not timed",
            "ratio": f"{one.seconds / least:.3f}" if one.seconds is not None and least else "",
        }
        for one in classes
    ]


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
    """Return the key of an entry as text, such as `n=1000, float32`."""
    return ", ".join([*entry.problem.sizes, *entry.problem.dtypes]) or "one key"
