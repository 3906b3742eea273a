"""The first part of a profile's page: which kernel takes the time, what limits it, what to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ttools.core.location import excerpt, shown_path
from ttools.core.reports.numbers import is_known, percent, seconds
from ttools.core.reports.page_template import PageSummary, Point
from ttools.core.reports.report import counted
from ttools.profiler.gpu_time.projection import projection_text
from ttools.profiler.report.advice import Advice, lines_text
from ttools.profiler.report.analysis import ProfileAnalysis

#: Maximum number of pieces of advice in the summary; the rest of the page lists all of them.
_MOST_ADVICE = 3
_WITHOUT_GPU = (
    "`--gpu h100`, or another GPU, adds bounds, projected times and advice; the GPU need not be "
    "present."
)


def page_summary(
    profiled: ProfileAnalysis,
    rows: Sequence[Mapping[str, Any]],
    advice: Sequence[Advice],
    target: str,
) -> PageSummary:
    """Return the summary at the beginning of a profile's page.

    Args:
        profiled: Profile that the page shows.
        rows: Kernels of the profile, with their metrics.
        advice: Advice for kernels of the profile.
        target: The command line of the run.
    """
    counts = f"{counted(len({row['kernel'] for row in rows}), 'kernel')}, "
    counts += f"{counted(profiled.launches, 'launch', 'launches')} on {profiled.timed_on}"
    about = f"`{target}`; {counts}" if target else counts
    if not rows:
        return PageSummary(conclusion="No kernel was launched", about=about)
    projected = _is_projected(profiled, rows)
    by_time = sorted(rows, key=lambda row: _time(row, projected), reverse=True)
    places = {(row["kernel"], row["config"]): place for place, row in enumerate(by_time)}
    ordered = sorted(advice, key=lambda one: places.get((one.kernel, one.config), len(rows)))
    left = len(ordered) - _MOST_ADVICE
    more = (
        f"{counted(left, 'further piece', 'further pieces')} of advice below." if left > 0 else ""
    )
    on_cpu = profiled.timed_on == "the CPU"
    return PageSummary(
        conclusion=_conclusion(profiled, by_time, projected),
        about=about,
        points=(
            *_limits(profiled, by_time),
            *(_advice_point(one) for one in ordered[:_MOST_ADVICE]),
        ),
        more=_WITHOUT_GPU if on_cpu and profiled.device is None else more,
    )


def _conclusion(
    profiled: ProfileAnalysis, rows: Sequence[Mapping[str, Any]], projected: bool
) -> str:
    """Return a statement about the kernel that takes most of the time."""
    what = "CPU time" if profiled.timed_on == "the CPU" else "time"
    if projected and profiled.device is not None:
        what = f"projected time on {profiled.device.name}"
    row, most = rows[0], _time(rows[0], projected)
    taken = f"{seconds(most)} in {counted(row['launches'], 'launch', 'launches')}"
    if len(rows) == 1:
        return f"`{_name(row)}` takes {taken} ({what})"
    share = most / (sum(_time(one, projected) for one in rows) or 1.0)
    return f"`{_name(row)}` takes {percent(share)} of the {what}: {taken}"


def _is_projected(profiled: ProfileAnalysis, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether times on the CPU can be replaced by projections for a GPU."""
    on_cpu = profiled.timed_on == "the CPU"
    return on_cpu and all(is_known(row.get("projected_s")) for row in rows)


def _time(row: Mapping[str, Any], projected: bool) -> float:
    return float(row["projected_s"] * row["launches"] if projected else row["total_s"] or 0)


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['kernel']} [{row['config']}]" if row["config"] else str(row["kernel"])


def _limits(profiled: ProfileAnalysis, rows: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """Yield why the GPU refuses launches, and what limits the kernel that takes the most time."""
    gpu = profiled.device.name if profiled.device else "the GPU"
    for row in rows:
        if isinstance(reason := row.get("cannot_launch"), str) and reason:
            text = f"`{_name(row)}` cannot launch on {gpu}: {reason}"
            yield Point(text=text, place=_place(row))
    row = rows[0]
    if profiled.device is None or not is_known(row.get("bound_s")) or not row["bound_s"]:
        return
    text = f"On {gpu}, a launch is limited by {row['limited_by']}: it takes at least "
    text += seconds(row["bound_s"])
    names = "projected_s", "projected_low_s", "projected_high_s", "projected_outside"
    own: list[Any] = [row.get(name) for name in names]
    if projected := projection_text(*own):
        text += f"; projected {projected}"
    if row.get("efficiency"):
        text += f"; {percent(row['efficiency'])} of this bound is reached"
    yield Point(text=text, place=_place(row), link="kernels")


def _place(row: Mapping[str, Any]) -> str:
    return f"{shown_path(row['file'])}:{int(row['line'])}" if row.get("file") else ""


def _advice_point(advice: Advice) -> Point:
    """Return advice as an entry of the summary, which quotes the first source line in full."""
    name = f"{advice.kernel} [{advice.config}]" if advice.config else advice.kernel
    (first, lines), *others = advice.evidence.items()
    evidence = [*excerpt(lines[0]).splitlines()] if lines else []
    evidence += [f"{lines_text(at)}: {sentence}" if at else sentence for sentence, at in others]
    return Point(
        text=f"`{name}`: {first}",
        place=lines_text(lines),
        evidence="\n".join(evidence),
        action=advice.text,
        link="advice",
    )
