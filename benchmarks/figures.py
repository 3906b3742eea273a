"""Summary figures of the measurements, compared with the project's targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sides import TITLES, Row

UPSTREAM_MEAN, UPSTREAM_EACH = 500.0, 200.0
TORCH_MEAN, TORCH_EACH = 1.5, 3.0
COMPILE_MS, COMPILE_ATTENTION_MS = 150.0, 400.0
LAUNCH_US = 100.0
#: Targets for the slowdown that checks cause: for the mean of all rows, and for each row by its
#: kind of access.
CHECKED_MEAN = {"memcheck": 1.2, "checks": 2.0}
CHECKED_EACH = {
    "memcheck": {"plain": 1.5, "gathers": 2.0, "scatters": 2.0},
    "checks": {"plain": 6.0, "gathers": 6.0},
}
SCATTER_S = 1.0
CHECKED_COMPILE = 2.5


@dataclass(frozen=True)
class Figure:
    """A measured figure and its target.

    Attributes:
        name: Description of the figure.
        value: Measured value with its unit.
        limit: Target with its unit.
        reached: True if the measurement meets the target.
        missed_by: Titles of the rows that do not meet the target.
    """

    name: str
    value: str
    limit: str
    reached: bool
    missed_by: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def speed_figures(rows: Sequence[Row]) -> list[Figure]:
    """Return figures that compare ttools with other implementations, for each number of threads."""
    figures = []
    for threads in sorted({row.threads for row in rows}):
        on = f"{threads} thread" + ("s" if threads > 1 else "")
        mine = [row for row in rows if row.threads == threads]
        wrong = tuple(r.title for r in mine if "ours" in r.times and not r.times["ours"].right)
        if wrong:
            figures.append(Figure(f"right results, {on}", f"{len(wrong)}", "0", False, wrong))
        # Rows with scattered accesses exist only to measure the checks, because their speed without
        # checks depends on memory alone.
        mine, everything = [row for row in mine if row.access != "scatters"], mine
        faster = {r.title: 1 / ratio for r in mine if (ratio := r.ratio("upstream"))}
        if faster:
            figures += _upstream(faster, on)
        slower = {r.title: ratio for r in mine if (ratio := r.ratio("torch"))}
        if slower:
            figures += _torch(slower, on)
        figures += _checked(everything, on)
    return figures


def _checked(rows: Sequence[Row], on: str) -> list[Figure]:
    """Return figures for the slowdown that the checks cause."""
    figures = []
    for side, limit in CHECKED_MEAN.items():
        chosen = [row for row in rows if row.access in CHECKED_EACH[side]]
        slower = [(row, ratio) for row in chosen if (ratio := row.slowdown(side))]
        name = f"time under {TITLES[side]}"
        if slower:
            mean = geometric_mean([ratio for _, ratio in slower])
            title = f"{name}, geometric mean, {on}"
            figures.append(Figure(title, f"{mean:.2f}x", f"≤ {limit}x", mean <= limit))
        for access, most in CHECKED_EACH[side].items():
            ratios = {row.title: ratio for row, ratio in slower if row.access == access}
            if ratios:
                title = f"{name}, most{'' if access == 'plain' else f' of {access}'}, {on}"
                figures.append(_most(title, ratios, most))
    times = {
        row.title: row.times["checks"].median
        for row in rows
        if row.access == "scatters" and "checks" in row.times and row.times["checks"].samples
    }
    if times:
        name = f"scatter under {TITLES['checks']}, most, {on}"
        missed = tuple(title for title, seconds in times.items() if seconds > SCATTER_S)
        value, wanted = f"{max(times.values()):.2f} s", f"≤ {SCATTER_S:.0f} s"
        figures.append(Figure(name, value, wanted, not missed, missed))
    return figures


def _most(name: str, ratios: dict[str, float], limit: float) -> Figure:
    most = max(ratios.values())
    missed = tuple(title for title, value in ratios.items() if value > limit)
    return Figure(name, f"{most:.2f}x", f"≤ {limit}x", not missed, missed)


def _upstream(faster: dict[str, float], on: str) -> list[Figure]:
    mean, least = geometric_mean(list(faster.values())), min(faster.values())
    missed = tuple(title for title, value in faster.items() if value < UPSTREAM_EACH)
    return [
        Figure(
            f"faster than TRITON_INTERPRET=1, geometric mean, {on}",
            f"{mean:,.0f}x",
            f"≥ {UPSTREAM_MEAN:.0f}x",
            mean >= UPSTREAM_MEAN,
        ),
        Figure(
            f"faster than TRITON_INTERPRET=1, least, {on}",
            f"{least:,.0f}x",
            f"≥ {UPSTREAM_EACH:.0f}x",
            not missed,
            missed,
        ),
    ]


def _torch(slower: dict[str, float], on: str) -> list[Figure]:
    mean, most = geometric_mean(list(slower.values())), max(slower.values())
    missed = tuple(title for title, value in slower.items() if value > TORCH_EACH)
    return [
        Figure(
            f"time relative to torch, geometric mean, {on}",
            f"{mean:.2f}x",
            f"≤ {TORCH_MEAN}x",
            mean <= TORCH_MEAN,
        ),
        Figure(
            f"time relative to torch, most, {on}",
            f"{most:.2f}x",
            f"≤ {TORCH_EACH:.0f}x",
            not missed,
            missed,
        ),
    ]


def compile_limit_ms(kernel: str) -> float:
    """Return the target for a kernel's cold compilation in milliseconds."""
    return COMPILE_ATTENTION_MS if kernel == "attention_kernel" else COMPILE_MS


#: Phases in which Triton translates Python to TTIR, which do not depend on the backend.
FRONT_END = ("make_ir", "ttir passes")


def compile_figures(compilation: dict[str, list[dict[str, Any]]]) -> list[Figure]:
    """Return figures of cold compilation, with and without the time of Triton's front end."""
    whole: dict[float, dict[str, float]] = {}
    back_end: dict[float, dict[str, float]] = {}
    for record in compilation["cold"][1:]:
        name = f"{record['kernel']} ({record['title']})"
        limit, phases = compile_limit_ms(record["kernel"]), record["phases"]
        front_end = sum(phases.get(phase, 0.0) for phase in FRONT_END)
        whole.setdefault(limit, {})[name] = phases["total"] * 1e3
        back_end.setdefault(limit, {})[name] = (phases["total"] - front_end) * 1e3
    figures = []
    for without, groups in (("", whole), (" without Triton's front end", back_end)):
        for limit, times in sorted(groups.items()):
            missed = tuple(name for name, ms in times.items() if ms > limit)
            group = "attention" if limit == COMPILE_ATTENTION_MS else "most"
            value = f"{max(times.values()):.0f} ms"
            name = f"cold compilation{without}, {group}"
            figures.append(Figure(name, value, f"≤ {limit:.0f} ms", not missed, missed))
    return figures


def checked_compile_figures(compilation: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return figures of cold compilation with checks, relative to compilation without."""
    figures = []
    for side in CHECKED_MEAN:
        ratios = {
            f"{record['kernel']} ({record['title']})": record[side] / record["ours"]
            for record in compilation
        }
        if ratios:
            name = f"cold compilation under {TITLES[side]}"
            mean, limit = geometric_mean(list(ratios.values())), CHECKED_COMPILE
            figures += [
                Figure(f"{name}, geometric mean", f"{mean:.2f}x", f"≤ {limit}x", mean <= limit),
                _most(f"{name}, most", ratios, limit),
            ]
    return figures


def launch_figure(launch: dict[str, Any]) -> Figure:
    us = launch["overhead_s"] * 1e6
    name = "tiny warm launch above Triton's own path"
    return Figure(name, f"{us:.1f} µs", f"≤ {LAUNCH_US:.0f} µs", us <= LAUNCH_US)
