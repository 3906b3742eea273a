"""Real launches at the sizes of defects, under the checks of `sanitize`.

The search for a defect evaluates only some programs of a kernel. To confirm the defect, ttools'
engine, which shares no code with the search, runs the whole launch. A defect that the engine does
not detect remains a finding, because the data of that launch may simply not trigger the defect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation
from ttools.core.reports.report import counted
from ttools.core.reports.sizes import point_text
from ttools.prove.grids import REFUSED
from ttools.prove.host.launches import Memory
from ttools.prove.result import Defect

#: Makes the launches at the given sizes.
MakeLaunches = Callable[[Mapping[str, int]], object]

#: A launch is made only if its tensors take at most this number of bytes in total, and its grid has
#: at most this number of programs.
_MOST_BYTES = 1 << 26
_MOST_PROGRAMS = 1 << 16
#: Maximum number of sizes at which launches are made, and time limit of each launch in seconds. The
#: time limit includes the compilation of the kernel.
_MOST_POINTS = 8
_SECONDS = 10.0
_CHECKS = "memcheck,racecheck,overflow,launch"
#: Kinds of findings about launches that the time limit stopped.
_STOPPED = frozenset({"timeout", "not_checked"})


def with_witnesses(defects: Iterable[Defect], make: MakeLaunches) -> list[Defect]:
    """Return the defects, each with the result of a real launch at its sizes.

    Args:
        defects: The defects that the search has found.
        make: Makes the launches with real tensors.
    """
    shown: dict[tuple[tuple[str, int], ...], list[Finding] | str] = {}
    confirmed = []
    for defect in defects:
        point = tuple(defect.sizes.items())
        if reason := _too_large(defect):
            confirmed.append(replace(defect, witness="too large", witness_note=reason))
            continue
        if point not in shown:
            if len(shown) >= _MOST_POINTS:
                confirmed.append(defect)
                continue
            shown[point] = _findings(make, defect.sizes)
        confirmed.append(_with_witness(defect, shown[point]))
    return confirmed


def shown_by(findings: Iterable[Finding], defect: Defect) -> Finding | None:
    """Return the finding that is the same as the defect; None if there is none."""
    event = defect.event
    if event.kind == REFUSED:
        refused = (f for f in findings if f.kind == REFUSED and f.kernel == defect.launch.kernel)
        return next(refused, None)
    places = {_place(op.location) for op in (event.op, event.other) if op is not None}
    located = (f for f in findings if f.kind == event.kind and _place(f.location) in places)
    return next((f for f in located if f.severity != "note"), None)


def _with_witness(defect: Defect, findings: list[Finding] | str) -> Defect:
    at = point_text(defect.sizes)
    if isinstance(findings, str):
        note = f"no launch could be made at {at}: {findings}"
        return replace(defect, witness="not made", witness_note=note)
    shown = shown_by(findings, defect)
    if shown is not None:
        note = "a launch at this size reproduces the defect"
        return replace(defect, witness="confirmed", witness_note=note, shown=shown)
    if any(finding.kind in _STOPPED for finding in findings):
        note = f"a launch at {at} did not finish within {_SECONDS:g} seconds"
        return replace(defect, witness="not made", witness_note=note)
    note = f"a launch at {at} does not reproduce the defect with the data of that run"
    return replace(defect, witness="not shown", witness_note=note)


def _findings(make: MakeLaunches, sizes: Mapping[str, int]) -> list[Finding] | str:
    """Return the findings of the launches, or a message that says why they cannot be made."""
    from ttools.sanitizer.api import sanitize

    try:
        with sanitize(checks=_CHECKS, timeout=_SECONDS) as checked:
            make(sizes)
    except Exception as error:  # noqa: BLE001 - the user's function may raise anything
        return f"{type(error).__name__}: {error}".split("\n")[0]
    return list(checked.findings)


def _too_large(defect: Defect) -> str:
    """Return the reason why the launch of a defect is too large; empty if it is not too large."""
    launch, sizes = defect.launch, defect.sizes
    at = point_text(sizes)

    storages = {m.number: m for m in launch.arguments if isinstance(m, Memory)}
    size = sum(m.elements.at(sizes) * m.dtype.itemsize for m in storages.values())
    if size > _MOST_BYTES:
        return f"no launch was made at {at}, because its tensors take {counted(size, 'byte')}"
    programs = math.prod(extent.at(sizes) for extent in launch.grid)
    if programs > _MOST_PROGRAMS:
        return f"no launch was made at {at}, because it has {programs:,} programs"
    return ""


def _place(location: SourceLocation | None) -> Any:
    return location and (location.file, location.line, location.column)
