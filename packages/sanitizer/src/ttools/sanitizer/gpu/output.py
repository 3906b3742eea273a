"""Parses the reports of compute-sanitizer's tools.

An error is a paragraph of lines with a common prefix. It contains the problem, the instruction, the
thread and block, and the address. Paragraphs in an unknown form are kept as text, so that no
information is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["error", "warning"]
Coordinates = tuple[int, int, int]

_PREFIX = b"========="


@dataclass(frozen=True)
class Frame:
    """The position of an instruction: its function, and its source line if it is known."""

    function: str
    file: str | None = None
    line: int = 0


@dataclass(frozen=True)
class HazardousAccess:
    """One of the accesses of a race in shared memory.

    Attributes:
        access: Kind of the access: `read` or `write`.
        hazards: Number of conflicting pairs of accesses that the tool counted.
    """

    access: str
    frame: Frame
    hazards: int = 0


@dataclass(frozen=True, kw_only=True)
class Record:
    """One error in a report.

    Attributes:
        position: Offset of the error in the report, in bytes.
        text: First line of the error.
        level: Severity that the tool assigns to the error.
        space: Address space of the access: `global`, `shared` …; empty if unknown.
        access: Kind of the access: `read`, `write` or `atomic`; empty if unknown.
        size: Bytes of the access; 0 if unknown.
        problem: Defect of the address: `out of bounds`, `misaligned` …
        frame: Position of the instruction.
        frames: Device functions on the call stack, innermost first.
        thread: Coordinates of the thread in the block.
        block: Coordinates of the block in the grid.
        address: Address of the access.
        accesses: Accesses of a race; the first access races with each of the others.
    """

    position: int
    text: str
    level: Level = "error"
    space: str = ""
    access: str = ""
    size: int = 0
    problem: str = ""
    frame: Frame | None = None
    frames: tuple[Frame, ...] = ()
    thread: Coordinates | None = None
    block: Coordinates | None = None
    address: int | None = None
    accesses: tuple[HazardousAccess, ...] = ()


@dataclass(kw_only=True)
class Output:
    """The parsed report of one run of a tool.

    Attributes:
        records: Errors, in the order of the report.
        remarks: Other paragraphs, such as internal errors of the tool and warnings.
        not_printed: Number of errors beyond the limit, which the tool did not print.
        crashed: True if a signal killed the program.
    """

    records: list[Record] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    not_printed: int = 0
    crashed: bool = False


def read_output(report: bytes) -> Output:
    """Parse a report, which may be incomplete."""
    output = Output()
    for position, lines in _paragraphs(report):
        _read_paragraph(position, lines, output)
    return output


def _paragraphs(report: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the position and the lines of each paragraph, without the prefix.

    The first line of a paragraph is not indented; all other lines are.
    """
    position, start, lines = 0, 0, list[str]()
    for raw in report.splitlines(keepends=True):
        complete = raw.endswith(b"\n") and raw.startswith(_PREFIX)
        text = raw[len(_PREFIX) :].decode(errors="replace").rstrip() if complete else ""
        # Some paragraphs follow the previous one without an empty line.
        if lines and not text.startswith("  "):
            yield start, lines
            lines = []
        if text:
            start = start if lines else position
            lines.append(text.removeprefix(" "))
        position += len(raw)
    if lines:
        yield start, lines


# --- one paragraph ----------------------------------------------------------------------------

_PLACE = r"(?P<function>\S.*?)[+:]0x[0-9a-f]+(?: in (?P<file>.+?):(?P<line>\d+))?"
_HEADS = tuple(
    re.compile(head)
    for head in (
        r"Invalid __(?P<space>\w+)__ (?P<access>read|write|atomic)(?: of size (?P<size>[\d,]+).*)?",
        r"Uninitialized __(?P<space>\w+)__ memory (?P<access>read)(?: of size (?P<size>[\d,]+).*)?",
    )
)
_RACE = re.compile(rf"(?P<level>\w+): Race reported between (?P<access>\w+) access at {_PLACE}")
_RACE_WITH = re.compile(rf"and (?P<access>\w+) access at {_PLACE}(?: \[(?P<n>[\d,]+) hazards?\])?")
_AT = re.compile(rf"at {_PLACE}")
_BY = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_ADDRESS = re.compile(r"(?:Address|Access (?:to|at)) (0x[0-9a-f]+)(?: is (.+))?")
_FRAME = re.compile(rf"Device Frame: *{_PLACE}")
_NOT_PRINTED = re.compile(r"([\d,]+) errors? were not printed")
_CRASHED = "process didn't terminate successfully"
#: Lines that are ignored: the banner, totals, and notes that the program itself failed.
_IDLE = re.compile(
    r"COMPUTE-SANITIZER|\w+ SUMMARY:|Target application (returned an error|terminated before)"
)


def _read_paragraph(position: int, lines: Sequence[str], output: Output) -> None:
    head, details = lines[0], [line.strip() for line in lines[1:]]
    hidden = _NOT_PRINTED.search(head)
    if hidden:
        output.not_printed += _number(hidden[1])
    elif _CRASHED in head:
        output.crashed = True
    elif _IDLE.match(head):
        return
    elif race := _RACE.match(head):
        output.records.append(_race(position, head, race, details))
    elif any(_AT.fullmatch(line) for line in details):
        output.records.append(_access(position, head, details))
    else:
        output.remarks.append(" ".join([head, *details]))


def _race(position: int, head: str, race: re.Match[str], details: Sequence[str]) -> Record:
    first = HazardousAccess(race["access"].lower(), _frame(race))
    others = [
        HazardousAccess(match["access"].lower(), _frame(match), _number(match["n"] or "0"))
        for match in map(_RACE_WITH.match, details)
        if match
    ]
    return Record(
        position=position,
        text=head,
        level="error" if race["level"].lower() == "error" else "warning",
        space="shared",
        access=first.access,
        frame=first.frame,
        accesses=(first, *others),
    )


def _access(position: int, head: str, details: Sequence[str]) -> Record:
    head_match = next(
        (match for match in (pattern.fullmatch(head) for pattern in _HEADS) if match), None
    )
    at = _first(_AT, details)
    by = _first(_BY, details)
    address = _first(_ADDRESS, details)
    numbers = [int(number) for number in by.groups()] if by else []
    return Record(
        position=position,
        text=head.rstrip("."),
        space=head_match["space"] if head_match else "",
        access=head_match["access"] if head_match else "",
        size=_number(head_match["size"] or "0") if head_match else 0,
        problem=(address[2] or "") if address else "",
        frame=_frame(at) if at else None,
        frames=tuple(_frame(frame) for frame in map(_FRAME.fullmatch, details) if frame),
        thread=(numbers[0], numbers[1], numbers[2]) if numbers else None,
        block=(numbers[3], numbers[4], numbers[5]) if numbers else None,
        address=int(address[1], 16) if address else None,
    )


def _first(form: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next((match for match in map(form.fullmatch, lines) if match), None)


def _frame(match: re.Match[str]) -> Frame:
    return Frame(match["function"], match["file"], int(match["line"] or 0))


def _number(text: str) -> int:
    return int(text.replace(",", ""))
