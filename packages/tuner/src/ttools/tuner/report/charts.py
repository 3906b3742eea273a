"""Charts of a tuning run, as data for SVG: progress, parallel coordinates, and a heat map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ttools.core.reports.numbers import seconds
from ttools.core.reports.report import config_text
from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import distinct_values
from ttools.tuner.store.ranking import estimate
from ttools.tuner.store.store import TuningEntry

#: Size of a chart, and the margins around its contents.
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 260, 64, 14, 20, 40
TIMES = "\N{MULTIPLICATION SIGN}"
#: Ratios to the best time are clipped at this value.
_WORST = 4.0
#: Number of configurations in a heat map: the best configurations over all shapes.
_MAPPED = 24


def progress(entry: TuningEntry) -> dict[str, Any] | None:
    """Return each trial's cost and the lowest cost so far, in the order of the trials.

    Returns:
        None if nothing was timed.
    """
    costs = [trial.cost for trial in entry.trials]
    measured = [cost for cost in costs if cost is not None]
    if not measured:
        return None
    best = min(measured)
    highest = math.log(min(_WORST, max(measured) / best) * 1.05)

    def x(index: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * index / max(1, len(costs) - 1), 1)

    def y(cost: float) -> float:
        share = math.log(min(_WORST, cost / best)) / highest if highest else 0.0
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share, 1)

    least = math.inf
    steps: list[tuple[float, float]] = []
    dots: list[dict[str, Any]] = []
    for index, (trial, cost) in enumerate(zip(entry.trials, costs, strict=True)):
        if cost is None:
            dots.append({"x": x(index), "y": TOP, "kind": "rejected", "text": _label(trial, cost)})
            continue
        if cost < least:
            if steps:
                steps.append((x(index), steps[-1][1]))
            least = cost
        steps.append((x(index), y(least)))
        kind = "winner" if trial.key == entry.winner else "timed"
        dots.append({"x": x(index), "y": y(cost), "kind": kind, "text": _label(trial, cost)})
    ratios = [r for r in (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0) if math.log(r) <= highest]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "bottom": HEIGHT - BOTTOM,
        "line": " ".join(f"{px},{py}" for px, py in steps),
        "dots": dots,
        "ticks": _apart([{"y": y(best * ratio), "text": f"{ratio:g}{TIMES}"} for ratio in ratios]),
        "last": len(costs),
    }


def _apart(ticks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Select ticks whose labels do not overlap."""
    kept: list[dict[str, Any]] = []
    for tick in ticks:
        if not kept or kept[-1]["y"] - tick["y"] >= 14:
            kept.append(tick)
    return kept


def _label(trial: Trial, cost: float | None) -> str:
    return f"{config_text(trial.values)}: " + (
        seconds(cost, digits=4) if cost is not None else f"{trial.status}: {trial.reason}"
    )


def parallel_coordinates(entry: TuningEntry) -> dict[str, Any] | None:
    """Return a line per configuration through its values; lines of faster ones are darker.

    Returns:
        None if fewer than two configurations were timed, or all of them have the same values.
    """
    timed = [trial for trial in entry.trials if trial.cost is not None]
    names = list(dict.fromkeys(name for trial in timed for name in trial.values))
    values = {name: distinct_values(trial.values.get(name) for trial in timed) for name in names}
    names = [name for name in names if len(values[name]) > 1]
    if len(timed) < 2 or not names:
        return None
    costs = {trial.key: estimate(entry, trial) or 0.0 for trial in timed}
    best = min(costs.values())
    step = (WIDTH - 2 * LEFT) / len(names)

    def y(index: int, count: int) -> float:
        return round(TOP + 16 + (HEIGHT - TOP - BOTTOM - 16) * (1 - index / (count - 1)), 1)

    axes = [
        {
            "x": round(LEFT + n * step, 1),
            "name": name,
            "ticks": [
                {"y": y(index, len(values[name])), "text": str(value)}
                for index, value in enumerate(values[name])
            ],
        }
        for n, name in enumerate(names)
    ]
    lines = []
    for trial in sorted(timed, key=lambda trial: -costs[trial.key]):
        ratio = costs[trial.key] / best
        points = [
            (axis["x"], y(values[name].index(trial.values.get(name)), len(values[name])))
            for axis, name in zip(axes, names, strict=True)
        ]
        points.append((round(WIDTH - LEFT, 1), _speed(ratio)))
        lines.append(
            {
                "points": " ".join(f"{px},{py}" for px, py in points),
                "color": color(ratio),
                "winner": trial.key == entry.winner,
                "text": _label(trial, costs[trial.key]),
            }
        )
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "top": TOP + 16,
        "bottom": HEIGHT - BOTTOM,
        "axes": axes,
        "lines": lines,
        "end": {
            "x": WIDTH - LEFT,
            "ticks": [{"y": _speed(r), "text": f"{r:g}{TIMES}"} for r in (1.0, 1.5, 2.0, 4.0)],
        },
    }


def _speed(ratio: float) -> float:
    share = math.log(min(_WORST, ratio)) / math.log(_WORST)
    return round(TOP + 16 + (HEIGHT - TOP - BOTTOM - 16) * share, 1)


def heat_map(entries: Sequence[TuningEntry]) -> dict[str, Any] | None:
    """Return the ratio of each configuration's time to the best time, for each shape.

    Returns:
        None if no configuration was timed for any shape.
    """
    costs = [
        {t.key: cost for t in e.trials if (cost := estimate(e, t)) is not None} for e in entries
    ]
    values = {trial.key: trial.values for entry in entries for trial in entry.trials}
    best = [min(own.values(), default=None) for own in costs]
    ratios = {
        key: [
            own[key] / least if least and key in own else None
            for own, least in zip(costs, best, strict=True)
        ]
        for key in values
    }
    ratios = {key: row for key, row in ratios.items() if any(r is not None for r in row)}
    if not ratios:
        return None
    winners = {entry.winner for entry in entries}
    ordered = sorted(ratios, key=lambda key: _mean(ratios[key]))
    shown = set(ordered[:_MAPPED]) | (winners & ratios.keys())
    ordered = [key for key in ordered if key in shown]
    return {
        "columns": [_short(entry) for entry in entries],
        "rows": [
            {
                "config": config_text(_varying(values, key)),
                "cells": [
                    {
                        "text": "" if ratio is None else f"{ratio:.2f}",
                        "color": "transparent" if ratio is None else color(ratio),
                        "dark": ratio is not None and ratio < 1.7,
                        "winner": entry.winner == key,
                    }
                    for ratio, entry in zip(ratios[key], entries, strict=True)
                ],
            }
            for key in ordered
        ],
        "left_out": len(ratios) - len(ordered),
    }


def _mean(row: Sequence[float | None]) -> float:
    """Return the geometric mean; missing ratios count as the worst, so complete rows rank first."""
    logs = [math.log(_WORST if ratio is None else min(_WORST, ratio)) for ratio in row]
    return sum(logs) / len(logs)


def _varying(values: dict[str, Any], key: str) -> dict[str, Any]:
    names = {n for config in values.values() for n in config if config[n] != values[key].get(n)}
    return {name: value for name, value in values[key].items() if name in names} or values[key]


def _short(entry: TuningEntry) -> str:
    return " ".join(entry.problem.sizes) or ", ".join(entry.problem.dtypes) or "one key"


def color(ratio: float) -> str:
    """Return a colour: dark for the best configuration, pale for four times its time."""
    share = min(1.0, math.log(max(1.0, ratio)) / math.log(_WORST)) ** 0.6
    start, end = (12, 74, 110), (226, 236, 243)
    mixed = [round(a + (b - a) * share) for a, b in zip(start, end, strict=True)]
    return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})"
