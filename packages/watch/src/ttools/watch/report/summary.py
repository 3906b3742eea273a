"""Reports of recorded values: one line per value, grouped by launch and program."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.reports.notebook import Part, Table, Text
from ttools.watch.trace.elements import is_pointer
from ttools.watch.trace.record import Assignment, Record, TraceEntry
from ttools.watch.trace.recording import Recording

#: Maximum number of values shown; a trace contains all of them.
MOST_LINES = 200
_FIRST = 6
SCHEMA = "ttools.watched/1"


def text_lines(recording: Recording) -> Iterator[str]:
    """Yield the first `MOST_LINES` values as text."""
    shown = recording[:MOST_LINES]
    last: tuple[int, int] | None = None
    rows = [_row(record) for record in shown]
    widths = [max((len(row[n]) for row in rows), default=0) for n in range(4)]
    for record, row in zip(shown, rows, strict=True):
        launch = record.launch
        if last is None or last[0] != launch.index:
            yield f"{'' if last is None else chr(10)}{launch_text(launch)}"
        if last != (launch.index, record.linear_program):
            yield f"  program {record.program}"
        last = launch.index, record.linear_program
        *columns, values = row
        padded = "  ".join(text.ljust(width) for text, width in zip(columns, widths, strict=True))
        yield f"    {padded}  {values}".rstrip()
    if len(recording) > MOST_LINES:
        rest = len(recording) - MOST_LINES
        yield (
            f"and {rest:,} more values: select some with --programs and --only, or save all of "
            "them with --trace FILE"
        )


def tables(recording: Recording) -> Iterator[Part]:
    """Yield the values as tables for notebooks, one per launch."""
    columns = ("program", "line", "|source", "variable", "iteration", "type", "|value")
    for index, records in groupby(recording[:MOST_LINES], lambda record: record.launch.index):
        rows = [_table_row(recording, record) for record in records]
        yield Table(launch_text(recording.launches[index]), columns, rows)
    if len(recording) > MOST_LINES:
        yield Text(f"and {len(recording) - MOST_LINES:,} more values")


def _table_row(recording: Recording, record: Record) -> tuple[str, ...]:
    lines, line = recording.source_lines(record.assignment.file), record.assignment.line
    source = lines[line - 1].strip() if 1 <= line <= len(lines) else ""
    where, name, _, type, value = _row(record)
    return str(record.program), where, source, name, _iterations(record), type, value


def _iterations(record: Record) -> str:
    return ", ".join(map(str, record.iteration))


def launch_text(launch: TraceEntry) -> str:
    """Describe a launch in one line."""
    return f"{launch.kernel}, launch {launch.index}, grid {launch.grid}"


def _row(record: Record) -> tuple[str, str, str, str, str]:
    iterations = _iterations(record)
    when = f"iteration {iterations}" if record.iteration else ""
    assignment = record.assignment
    where = assignment_text(assignment)
    return where, assignment.name, when, assignment.type, value_text(record)


def assignment_text(assignment: Assignment) -> str:
    """Return the file and line of an assignment, and those of the calls that led to it."""
    inner = f"{PurePath(assignment.file).name}:{assignment.line}"
    calls = "".join(
        f" < {line}" if file == assignment.file else f" < {PurePath(file).name}:{line}"
        for file, line in assignment.callers
    )
    return inner + calls


def value_text(record: Record) -> str:
    """Describe a value in one line by statistics and its first elements."""
    values, mask = record.values, record.mask
    if is_pointer(record.assignment.element):
        return _pointer_text(record)
    if not record.assignment.shape:
        return f"= {number_text(values.reshape(-1)[0])}"
    parts = []
    sums = record.figures
    if values.dtype == np.bool_:
        parts.append(f"true {round((sums.mean or 0) * sums.count)} of {sums.count}")
    elif sums.low is not None and sums.high is not None:
        parts.append(f"min {number_text(sums.low)}  max {number_text(sums.high)}")
        if sums.mean is not None:
            of = " of finite" * bool(sums.nans or sums.infinities)
            parts.append(f"mean{of} {number_text(sums.mean)}")
    if sums.nans:
        parts.append(f"nan {sums.nans} of {sums.count}")
    if sums.infinities:
        parts.append(f"inf {sums.infinities} of {sums.count}")
    if mask is not None and not mask.all():
        parts.append(f"masked off {values.size - int(mask.sum())} of {values.size}")
    parts.append(first_elements(values, record.defined))
    return "  ".join(parts)


def first_elements(values: NDArray[Any], mask: NDArray[np.bool_] | None) -> str:
    """Return the first elements in row-major order, with `-` for undefined ones."""
    flat = values.reshape(-1)[:_FIRST]
    defined = np.ones(len(flat), np.bool_) if mask is None else mask.reshape(-1)[:_FIRST]
    texts = [number_text(v) if d else "-" for v, d in zip(flat, defined, strict=True)]
    return f"[{' '.join(texts)}{' …' if values.size > len(flat) else ''}]"


def number_text(value: Any, digits: int = 6) -> str:
    """Return a number as text; floats are rounded to the given number of digits."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return f"{float(value):.{digits}g}"


def _pointer_text(record: Record) -> str:
    names, offsets = record.targets
    flat = offsets.reshape(-1)
    if not record.assignment.shape:
        return f"= {target_text(names[0], int(flat[0]))}"
    parts = []
    keys = [name or "address" for name in names]
    for name, group in groupby(sorted(range(len(keys)), key=keys.__getitem__), keys.__getitem__):
        offsets_of_name = flat[list(group)]
        ends = target_text("" if name == "address" else name, int(offsets_of_name.min()))
        last = int(offsets_of_name.max())
        parts.append(f"{ends} to {last if name != 'address' else hex(last)}")
    first = [target_text(n, int(o)) for n, o in list(zip(names, flat, strict=True))[:3]]
    more = " …" if len(names) > len(first) else ""
    return f"{'; '.join(parts)}  [{', '.join(first)}{more}]"


def target_text(name: str, offset: int) -> str:
    """Return the target of a pointer as text: an argument with an element offset, or an address."""
    if not name:
        return hex(offset & (2**64 - 1))
    return f"{name} - {-offset}" if offset < 0 else f"{name} + {offset}"


def as_data(recording: Recording) -> dict[str, Any]:
    """Return the values as data for JSON, with statistics and the first elements of each."""
    return {
        "schema": SCHEMA,
        "launches": [
            {"index": launch.index, "kernel": launch.kernel, "grid": list(launch.grid)}
            for launch in recording.launches.values()
        ],
        "values": [_record_data(record) for record in recording],
        "complete": recording.complete and not recording.refused,
    }


def _record_data(record: Record) -> dict[str, Any]:
    assignment, sums = record.assignment, record.figures
    data: dict[str, Any] = {
        "launch": record.launch.index,
        "program": list(record.program),
        "name": assignment.name,
        "file": assignment.file,
        "line": assignment.line,
        "callers": [{"file": file, "line": line} for file, line in assignment.callers],
        "iteration": list(record.iteration),
        "type": assignment.type,
    }
    if is_pointer(assignment.element):
        names, offsets = record.targets
        rows = zip(names[:_FIRST], offsets.reshape(-1)[:_FIRST].tolist(), strict=True)
        return data | {"first": [{"argument": name, "offset": at} for name, at in rows]}
    first = record.values.reshape(-1)[:_FIRST]
    defined = np.ones(len(first), np.bool_)
    if record.defined is not None:
        defined = record.defined.reshape(-1)[:_FIRST]
    return data | {
        "min": _plain(sums.low),
        "max": _plain(sums.high),
        "mean": _plain(sums.mean),
        "defined": sums.count,
        "nan": sums.nans,
        "inf": sums.infinities,
        "first": [_plain(v) if d else None for v, d in zip(first, defined, strict=True)],
    }


def _plain(value: Any) -> Any:
    """Return a number in a form that JSON can represent; infinities and NaN become text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, (np.bool_, np.integer)):
        return value.item()
    number = float(value)
    return number if np.isfinite(number) else str(number)
