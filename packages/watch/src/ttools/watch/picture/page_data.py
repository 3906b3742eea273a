"""The data of a page: launches with their source, values and accesses.

Some values are left out to limit the size of the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from ttools.core.reports.highlighting import pieces
from ttools.core.spec import ArgumentSpec
from ttools.core.syntax_trees import functions_in, lines_of, syntax_tree
from ttools.watch.picture.accesses import AccessMaps, LaunchAccesses
from ttools.watch.picture.value_cells import value_data
from ttools.watch.report.summary import assignment_text
from ttools.watch.trace.record import Assignment, Record, TraceEntry
from ttools.watch.trace.recording import Recording


def page_data(
    recording: Recording, launch_accesses: LaunchAccesses, most_values: int
) -> dict[str, Any]:
    """Return the data of a page.

    Args:
        recording: Values of the launches that are shown.
        launch_accesses: Accesses of these launches.
        most_values: Maximum number of values; the first iterations of each program are kept.
    """
    records: defaultdict[int, list[Record]] = defaultdict(list)
    for record in recording:
        if record.launch.index in launch_accesses.launches and not _is_parameter(recording, record):
            records[record.launch.index].append(record)
    share = max(1, most_values // max(1, len(launch_accesses.launches)))
    return {
        "launches": [
            _launch(recording, recording.launches[index], accesses, records[index], share)
            for index, accesses in launch_accesses.launches.items()
        ],
        "left_out": dict(launch_accesses.left_out),
    }


def _launch(
    recording: Recording,
    launch: TraceEntry,
    accesses: AccessMaps,
    records: Sequence[Record],
    share: int,
) -> dict[str, Any]:
    kept = _first_iterations(records, share)
    assignments = list(dict.fromkeys(record.assignment for record in kept))
    numbers = {assignment: n for n, assignment in enumerate(assignments)}
    values: defaultdict[str, list[Any]] = defaultdict(list)
    for record in kept:
        row = {"assignment": numbers[record.assignment], "iterations": list(record.iteration)}
        values[str(record.linear_program)].append(row | value_data(record))
    notes = list(accesses.notes)
    if len(kept) < len(records):
        notes.append(
            f"{len(records) - len(kept):,} values of later iterations are left out of the page"
        )
    return {
        "index": launch.index,
        "kernel": launch.kernel,
        "grid": list(launch.grid),
        "arguments": [
            *(_argument(argument) for argument in launch.spec.arguments),
            *(_constant(name, value) for name, value in accesses.launch.kernel.constants.items()),
        ],
        "maps": [
            {"name": launch.spec.names[n], **drawn.data()} for n, drawn in accesses.maps.items()
        ],
        "notes": notes,
        "assignments": [_assignment(assignment) for assignment in assignments],
        "functions": functions(recording, assignments),
        "values": dict(values),
    }


def _is_parameter(recording: Recording, record: Record) -> bool:
    """Return whether a value is an argument; the page lists arguments separately."""
    if all(argument.name != record.name for argument in record.launch.spec.arguments):
        return False
    lines = recording.source_lines(record.assignment.file)
    statement = "".join(lines[record.assignment.line - 1 : record.assignment.line]).lstrip()
    return statement.startswith(("def ", "@"))


def _first_iterations(records: Sequence[Record], share: int) -> list[Record]:
    """Return the first records of each program: about `share` in total, equally many for each."""
    programs: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        programs[record.linear_program].append(record)
    per_program = max(1, share // max(1, len(programs)))
    return [
        record for program_records in programs.values() for record in program_records[:per_program]
    ]


def _argument(argument: ArgumentSpec) -> dict[str, Any]:
    tensor = argument.tensor
    if tensor is None:
        return {"name": argument.name, "text": f"{argument.type} {argument.value}"}
    text = f"{argument.type.removeprefix('*')}[{', '.join(map(str, tensor.shape))}]"
    if not tensor.is_dense:
        text += f", strides {', '.join(map(str, tensor.strides))}"
    return {"name": argument.name, "text": text}


def _constant(name: str, value: Any) -> dict[str, Any]:
    named = getattr(value, "__name__", None)  # functions are shown by name
    return {"name": name, "text": f"constant {value!r}" if named is None else f"constant {named}"}


def _assignment(assignment: Assignment) -> dict[str, Any]:
    return {
        "name": assignment.name,
        "file": assignment.file,
        "line": assignment.line,
        "where": assignment_text(assignment),
        "type": assignment.type,
    }


# ---- source


def functions(recording: Recording, assignments: Sequence[Assignment]) -> list[dict[str, Any]]:
    """Return the functions that contain the assignments, with their highlighted lines."""
    lines_by_file: defaultdict[str, set[int]] = defaultdict(set)
    for assignment in assignments:
        lines_by_file[assignment.file].add(assignment.line)
        for file, line in assignment.callers:
            lines_by_file[file].add(line)
    spans = []
    for file, lines in lines_by_file.items():
        text = recording.source_lines(file)
        for first, last in _spans("\n".join(text), lines):
            shown = pieces(text[first - 1 : last])
            name = PurePath(file).name
            spans.append({"file": file, "name": name, "first": first, "lines": shown})
    return spans


def _spans(source: str, lines: set[int]) -> list[tuple[int, int]]:
    """Return the first and last line of each function that contains one of the given lines."""
    if syntax_tree(source) is None:
        return [(min(lines), max(lines))]
    spans = {
        (shown[0], shown[-1])
        for shown in map(lines_of, functions_in(source))
        if not lines.isdisjoint(shown)
    }
    # Only the innermost function is shown.
    outer = {a for a in spans for b in spans if a != b and a[0] <= b[0] and b[1] <= a[1]}
    return sorted(spans - outer)
