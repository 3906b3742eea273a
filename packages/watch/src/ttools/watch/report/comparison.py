"""Comparison of two recordings, which finds the first value that differs.

Kernels are matched by name. Values are matched by the name of the variable and the text of its
statement, so that recordings of different versions of a file can be compared. A compiler may move
or remove computations; values that have no unique counterpart for this reason are left out and
counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.errors import UsageError
from ttools.core.location import SourceLocation, excerpt
from ttools.core.reports.notebook import Code, Part, ShowsItself
from ttools.watch.report.summary import launch_text, number_text, target_text
from ttools.watch.trace.elements import is_pointer
from ttools.watch.trace.record import Assignment, Record, TraceEntry
from ttools.watch.trace.recording import Recording

#: Relative and absolute tolerance by type, as in torch.testing; other types are compared exactly.
_TOLERANCES = {
    "float64": (1e-7, 1e-7),
    "float32": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float8_e4m3fn": (0.125, 1e-5),
    "float8_e4m3fnuz": (0.125, 1e-5),
    "float8_e5m2": (0.25, 1e-5),
    "float8_e5m2fnuz": (0.25, 1e-5),
}


_NAMED = 8


@dataclass(frozen=True)
class Difference:
    """Two values of a variable that differ.

    Attributes:
        one: The value in the first recording.
        other: The value in the second recording.
        lane: Index of the first lane that differs.
        differing: Number of lanes that differ.
        compared: Number of lanes that were compared.
        tolerance: The relative and the absolute tolerance.
    """

    one: Record
    other: Record
    lane: tuple[int, ...]
    differing: int
    compared: int
    tolerance: tuple[float, float]


@dataclass
class Comparison(ShowsItself):
    """The result of comparing two recordings.

    Attributes:
        names: Names of the two recordings.
        first: The first difference, in the order of launches, programs and statements.
        differing: Number of differing values by variable.
        compared: Number of compared values.
        alone: Number of values without a unique counterpart, by variable of the first recording.
        launches: Number of compared launches.
        unpaired: Kernels that have different numbers of launches in the two recordings, with both
            numbers.
    """

    names: tuple[str, str]
    first: Difference | None = None
    differing: dict[str, int] = field(default_factory=dict)
    compared: int = 0
    alone: dict[str, int] = field(default_factory=dict)
    launches: int = 0
    unpaired: dict[str, tuple[int, int]] = field(default_factory=dict)

    def _shown(self) -> Iterator[Part]:
        yield Code("\n".join(text_lines(self)))


def compare(
    one: Recording,
    other: Recording,
    *,
    names: tuple[str, str] = ("one", "other"),
    rtol: float | None = None,
    atol: float | None = None,
) -> Comparison:
    """Compare two recordings of the same launches.

    Args:
        one: A recording; its order determines which difference is first.
        other: A recording that contains some of the same programs.
        names: Names of the recordings for messages.
        rtol: Relative tolerance; by default that of `torch.testing` for the type.
        atol: Absolute tolerance; by default that of `torch.testing` for the type.

    Raises:
        UsageError: The launches differ, or no value has a counterpart; the message says why.
    """
    comparison = Comparison(names)
    launches = _pair_launches(one, other, comparison)
    other_names = set(other.names)
    for record, partner in _pairs(one, other, launches):
        tolerance = (0.0, 0.0) if partner is None else _tolerance(record, partner, rtol, atol)
        wrong = None if partner is None else _wrong_lanes(record, partner, *tolerance)
        if partner is None or wrong is None:
            if record.name in other_names or not _is_implied(record):
                comparison.alone[record.name] = comparison.alone.get(record.name, 0) + 1
            continue
        comparison.compared += 1
        difference = _difference(record, partner, wrong, tolerance)
        if difference is not None:
            comparison.differing[record.name] = comparison.differing.get(record.name, 0) + 1
            comparison.first = comparison.first or difference
    if not comparison.compared:
        raise UsageError(f"nothing to compare: {_why_nothing(one, other, names)}")
    return comparison


def _is_implied(record: Record) -> bool:
    """Return whether a value is an argument or a stored value; a run as Python records neither."""
    arguments = {argument.name for argument in record.launch.spec.arguments}
    return record.name.startswith("tl.") or record.name in arguments


def _pair_launches(one: Recording, other: Recording, comparison: Comparison) -> dict[int, int]:
    """Match the n-th launch of each kernel in one recording with its n-th launch in the other.

    Returns:
        A map from the index of a launch in `other` to the index of the launch in `one`.
    """
    first, second = _by_kernel(one), _by_kernel(other)
    first_name, second_name = comparison.names
    pairs: dict[int, int] = {}
    for kernel, launches in first.items():
        for number, (a, b) in enumerate(zip(launches, second.get(kernel, ()), strict=False)):
            if a.grid != b.grid:
                raise UsageError(
                    f"launch {number} of `{kernel}` has grid {a.grid} in {first_name}, but "
                    f"{b.grid} in {second_name}: only launches of the same grid can be compared"
                )
            pairs[b.index] = a.index
    if not pairs and one.launches and other.launches:
        raise UsageError(
            f"nothing to compare: {first_name} launched {_listed(first)}, but "
            f"{second_name} {_listed(second)}"
        )
    comparison.launches = len(pairs)
    for kernel in {**first, **second}:
        counts = len(first.get(kernel, ())), len(second.get(kernel, ()))
        if counts[0] != counts[1]:
            comparison.unpaired[kernel] = counts
    return pairs


def _by_kernel(recording: Recording) -> dict[str, list[TraceEntry]]:
    launches: dict[str, list[TraceEntry]] = {}
    for _, launch in sorted(recording.launches.items()):
        launches.setdefault(launch.kernel, []).append(launch)
    return launches


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{name}`" for name in names]
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + more


def _why_nothing(one: Recording, other: Recording, names: tuple[str, str]) -> str:
    """Explain why no value has a counterpart."""
    ours, theirs = set(one.names), set(other.names)
    if not ours or not theirs:
        return f"{names[0] if not ours else names[1]} contains no values"
    if not ours & theirs:
        return f"{names[0]} contains {_listed(one.names)}, but {names[1]} {_listed(other.names)}"
    programs = [{record.linear_program for record in recording} for recording in (one, other)]
    if not programs[0] & programs[1]:
        return f"{names[0]} and {names[1]} contain values of different programs"
    shared = [name for name in one.names if name in theirs]
    return f"{_listed(shared)}: assigned by different statements in {names[0]} and {names[1]}"


# ---- matching values

_Key = tuple[int, int, str, str, str]


def _pairs(
    one: Recording, other: Recording, launches: Mapping[int, int]
) -> Iterator[tuple[Record, Record | None]]:
    """Yield the records of `one` in order, each with its counterpart or None."""
    files = _files(one, other)
    first = _grouped(one, {index: index for index in launches.values()}, files)
    second = _grouped(other, launches, files)
    partners: dict[int, Record | None] = {}
    for key, indices in first.items():
        ours = [one[n] for n in indices]
        theirs = [other[n] for n in second.get(key, ())]
        partners.update(zip(indices, _matched(ours, theirs), strict=True))
    for index, partner in sorted(partners.items()):
        yield one[index], partner


def _files(one: Recording, other: Recording) -> set[str]:
    """Return the file names that occur in both recordings.

    Statements in all other files are matched by their text alone.
    """
    ours, theirs = (
        {PurePath(assignment.file).name for assignment in recording.assignments.values()}
        for recording in (one, other)
    )
    return ours & theirs


def _grouped(
    recording: Recording, launches: Mapping[int, int], files: Container[str]
) -> dict[_Key, list[int]]:
    groups: defaultdict[_Key, list[int]] = defaultdict(list)
    texts: dict[Assignment, str] = {}
    for index, record in enumerate(recording):
        launch, assignment = launches.get(record.launch.index), record.assignment
        if launch is None:
            continue
        if assignment not in texts:
            texts[assignment] = _statement(recording, assignment)
        name = PurePath(assignment.file).name
        file = name if name in files else ""
        key = (launch, record.linear_program, record.name, file, texts[assignment])
        groups[key].append(index)
    return groups


def _statement(recording: Recording, assignment: Assignment) -> str:
    """Return the text of an assignment, or its line number if the source is not available."""
    lines, line = recording.source_lines(assignment.file), assignment.line
    return lines[line - 1].strip() if 1 <= line <= len(lines) else str(line)


def _matched(ours: Sequence[Record], theirs: Sequence[Record]) -> list[Record | None]:
    """Return the counterpart of each record of `ours`, or None if it has none.

    All records are values of the same statement in the same program.
    """
    if len(ours) == len(theirs) and all(map(_can_match, ours, theirs)):
        return list(theirs)
    return [_only_match(record, theirs) for record in ours]


def _can_match(one: Record, other: Record) -> bool:
    """Return whether two records may belong to the same iteration.

    Some loops may be unrolled in one of the recordings, so that its records do not contain the
    iterations of these loops.
    """
    short, long = sorted((one.iteration, other.iteration), key=len)
    rest = iter(long)
    return all(iteration in rest for iteration in short)


def _only_match(record: Record, candidates: Sequence[Record]) -> Record | None:
    """Return the counterpart of a record whose statement may have been moved out of loops.

    Returns:
        The counterpart; None if there is no certain match.
    """
    calls = [line for _, line in record.assignment.callers]
    same = [c for c in candidates if [line for _, line in c.assignment.callers] == calls]
    exact = [c for c in same if c.iteration == record.iteration]
    if len(exact) == 1:
        return exact[0]
    depth = len(record.iteration)
    inside = [c for c in same if c.iteration[:depth] == record.iteration]
    if inside and all(np.array_equal(inside[0].values, c.values) for c in inside[1:]):
        return inside[0]
    return None


# ---- comparing values


def _wrong_lanes(one: Record, other: Record, rtol: float, atol: float) -> NDArray[np.bool_] | None:
    """Return which lanes differ, including undefined lanes; None if values cannot be compared."""
    pointers = [is_pointer(record.assignment.element) for record in (one, other)]
    if all(pointers):
        return _other_targets(one, other)
    return None if any(pointers) else _other_numbers(one.values, other.values, rtol, atol)


def _difference(
    one: Record, other: Record, wrong: NDArray[np.bool_], tolerance: tuple[float, float]
) -> Difference | None:
    defined = np.ones(wrong.shape, np.bool_)
    for record in (one, other):
        if record.defined is not None and record.defined.shape == wrong.shape:
            defined &= record.defined
    wrong = wrong & defined
    if not wrong.any():
        return None
    lane = tuple(int(n) for n in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    counts = int(wrong.sum()), int(defined.sum())
    return Difference(one, other, lane, *counts, tolerance)


def _tolerance(
    one: Record, other: Record, rtol: float | None, atol: float | None
) -> tuple[float, float]:
    types = [str(record.values.dtype) for record in (one, other)]
    usual = [_TOLERANCES.get(type, (0.0, 0.0)) for type in types]
    return (
        max(r for r, _ in usual) if rtol is None else rtol,
        max(a for _, a in usual) if atol is None else atol,
    )


def _other_numbers(
    one: NDArray[Any], other: NDArray[Any], rtol: float, atol: float
) -> NDArray[np.bool_] | None:
    """Return a mask of the lanes in which two values differ; scalars are broadcast.

    The result is None if the values cannot be compared.
    """
    try:
        one, other = np.broadcast_arrays(one, other)
    except ValueError:
        return None
    if one.dtype.kind in "biu" and other.dtype.kind in "biu" and not (rtol or atol):
        return np.asarray(one != other)
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        close = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= atol + rtol * np.abs(b))
    return np.asarray(~close)


def _other_targets(one: Record, other: Record) -> NDArray[np.bool_] | None:
    (names, offsets), (other_names, other_offsets) = one.targets, other.targets
    if offsets.shape != other_offsets.shape:
        return None
    same = np.array([a == b for a, b in zip(names, other_names, strict=True)], np.bool_)
    return np.asarray(~same.reshape(offsets.shape) | (offsets != other_offsets))


# --- text and data --------------------------------------------------------------------------------


def text_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison as text."""
    one, other = comparison.names
    values = f"{comparison.compared:,} value{'s' * (comparison.compared != 1)}"
    if comparison.first is None:
        yield f"no difference between {one} and {other} in {values}"
    else:
        yield from _difference_lines(comparison.first, comparison)
        total = sum(comparison.differing.values())
        yield ""
        yield f"{total:,} of {values} differ: {_counts(comparison.differing)}"
    if comparison.alone:
        yield f"not compared, because {other} has no certain match: {_counts(comparison.alone)}"
    for kernel, (ours, theirs) in comparison.unpaired.items():
        yield f"launches of `{kernel}`: {ours:,} in {one}, {theirs:,} in {other}"


def _counts(counts: Mapping[str, int]) -> str:
    shown = list(counts.items())[:_NAMED]
    rest = len(counts) - len(shown)
    named = ", ".join(f"{name} ({count:,})" for name, count in shown)
    return named + (f" and {rest} more" if rest else "")


def _difference_lines(first: Difference, comparison: Comparison) -> Iterator[str]:
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
    width = max(map(len, comparison.names))
    for name, record_shown in zip(comparison.names, (first.one, first.other), strict=True):
        yield f"  {name.ljust(width)}  {_element_text(record_shown, first.lane)}"
    rtol, atol = first.tolerance
    lanes = f"{first.differing:,} of {first.compared:,} lanes differ" if first.lane else "differ"
    yield f"  {lanes} by more than {atol:g} + {rtol:g} * |{comparison.names[1]}|"


def _element_text(record: Record, lane: tuple[int, ...]) -> str:
    if is_pointer(record.assignment.element):
        names, offsets = record.targets
        index = 0
        for extent, at in zip(record.assignment.shape, lane, strict=False):
            index = index * extent + at
        return target_text(names[index], int(offsets.reshape(-1)[index]))
    values = record.values
    return number_text(values[lane] if values.ndim == len(lane) else values.reshape(-1)[0], 9)


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as data for JSON."""
    first = comparison.first
    data: dict[str, Any] = {
        "schema": "ttools.comparison/1",
        "between": list(comparison.names),
        "compared": comparison.compared,
        "differing": comparison.differing,
        "not_compared": comparison.alone,
        "launches": comparison.launches,
        "unpaired": {kernel: list(counts) for kernel, counts in comparison.unpaired.items()},
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
            "values": [
                _element_text(value_record, first.lane) for value_record in (first.one, first.other)
            ],
            "lanes_differing": first.differing,
            "lanes_compared": first.compared,
            "rtol": first.tolerance[0],
            "atol": first.tolerance[1],
        }
    return data
