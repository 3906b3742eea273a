"""A comparison in words: where the first difference is, and what else is to be known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ttools.core.location import SourceLocation, excerpt
from ttools.watch.report.comparison import Comparison, Difference
from ttools.watch.report.summary import launch_text, number_text, target_text
from ttools.watch.trace.elements import is_pointer
from ttools.watch.trace.record import Record

_NAMED = 8


def text_lines(found: Comparison) -> Iterator[str]:
    """The comparison as text."""
    one, other = found.names
    values = f"{found.compared:,} value{'s' * (found.compared != 1)}"
    if found.first is None:
        yield f"no difference between {one} and {other} in {values}"
    else:
        yield from _difference_lines(found.first, found)
        total = sum(found.differing.values())
        yield ""
        yield f"{total:,} of {values} differ: {_counts(found.differing)}"
    if found.alone:
        yield f"not compared, because {other} has no certain partner: {_counts(found.alone)}"
    for kernel, (ours, theirs) in found.unpaired.items():
        yield f"launches of `{kernel}`: {ours:,} in {one}, {theirs:,} in {other}"


def _counts(counts: Mapping[str, int]) -> str:
    shown = list(counts.items())[:_NAMED]
    rest = len(counts) - len(shown)
    named = ", ".join(f"{name} ({count:,})" for name, count in shown)
    return named + (f" and {rest} more" if rest else "")


def _difference_lines(first: Difference, found: Comparison) -> Iterator[str]:
    record, assignment = first.one, first.one.assignment
    callers = tuple(SourceLocation(file, line, 0) for file, line in assignment.callers)
    location = SourceLocation(assignment.file, assignment.line, 0, callers=callers)
    yield f"{location}: `{assignment.name}` differs first"
    if shown := excerpt(location):
        yield shown
    yield from (f"      called from {caller}" for caller in callers)
    where = f"  {launch_text(record.launch)}, program {record.program}"
    if record.iteration:
        where += f", iteration {', '.join(map(str, record.iteration))}"
    if first.lane:
        extents = " x ".join(map(str, first.one.assignment.shape or first.other.assignment.shape))
        where += f", lane [{', '.join(map(str, first.lane))}] of [{extents}]"
    yield where
    width = max(map(len, found.names))
    for name, held in zip(found.names, (first.one, first.other), strict=True):
        yield f"  {name.ljust(width)}  {_element_text(held, first.lane)}"
    rtol, atol = first.tolerance
    lanes = f"{first.differing:,} of {first.compared:,} lanes differ" if first.lane else "differ"
    yield f"  {lanes} by more than {atol:g} + {rtol:g} * |{found.names[1]}|"


def _element_text(record: Record, lane: tuple[int, ...]) -> str:
    if is_pointer(record.assignment.element):
        names, offsets = record.targets
        index = 0
        for extent, at in zip(record.assignment.shape, lane, strict=False):
            index = index * extent + at
        return target_text(names[index], int(offsets.reshape(-1)[index]))
    values = record.values
    return number_text(values[lane] if values.ndim == len(lane) else values.reshape(-1)[0], 9)


def as_data(found: Comparison) -> dict[str, Any]:
    """The comparison as data for JSON."""
    first = found.first
    data: dict[str, Any] = {
        "schema": "ttools.comparison/1",
        "between": list(found.names),
        "compared": found.compared,
        "differing": found.differing,
        "not_compared": found.alone,
        "launches": found.launches,
        "unpaired": {kernel: list(counts) for kernel, counts in found.unpaired.items()},
        "first": None,
    }
    if first is not None:
        assignment = first.one.assignment
        data["first"] = {
            "name": assignment.name,
            "file": assignment.file,
            "line": assignment.line,
            "launch": first.one.launch.index,
            "kernel": assignment.kernel,
            "program": list(first.one.program),
            "iteration": list(first.one.iteration),
            "lane": list(first.lane),
            "values": [_element_text(held, first.lane) for held in (first.one, first.other)],
            "lanes_differing": first.differing,
            "lanes_compared": first.compared,
            "rtol": first.tolerance[0],
            "atol": first.tolerance[1],
        }
    return data
