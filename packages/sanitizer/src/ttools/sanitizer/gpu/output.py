"""What compute-sanitizer prints, read into records.

Owns its words, of all its tools; nothing else may know them. An error is a paragraph of lines with
a prefix: what happened, where, by whom, at which address. Paragraphs of a form that is not known
keep their text, so that nothing printed is lost. Must not know kernels, arguments or findings.
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
    """An instruction: its function, and its line if that is known."""

    function: str
    file: str | None = None
    line: int = 0


@dataclass(frozen=True)
class HazardousAccess:
    """One side of a race in shared memory.

    Attributes:
        access: `read` or `write`.
        hazards: pairs of accesses found.
    """

    access: str
    frame: Frame
    hazards: int = 0


@dataclass(frozen=True, kw_only=True)
class Record:
    """One error.

    Attributes:
        position: where it begins in the report, in bytes.
        text: its first line.
        level: how severe the tool finds it.
        space: of the memory accessed: `global`, `shared` …
        access: `read`, `write` or `atomic`.
        size: of the access in bytes; 0 if unknown.
        problem: `out of bounds`, `misaligned` …
        frames: the functions that it was called from, innermost first.
        thread: of the block.
        block: of the grid.
        address: accessed.
        accesses: of a race, the first with each of the others.
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
    """All that one run of a tool printed.

    Attributes:
        remarks: what it says of itself: internal errors, warnings.
        not_printed: errors beyond the limit.
        crashed: whether the program ended by a signal.
    """

    records: list[Record] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    not_printed: int = 0
    crashed: bool = False


def read_output(report: bytes) -> Output:
    """Reads a report; one that was cut off is read as far as it goes."""
    output = Output()
    for position, lines in _paragraphs(report):
        _read_paragraph(position, lines, output)
    return output


def _paragraphs(report: bytes) -> Iterator[tuple[int, list[str]]]:
    """Position and lines of each paragraph, without the prefix; details are indented."""
    position, start, lines = 0, 0, list[str]()
    for raw in report.splitlines(keepends=True):
        complete = raw.endswith(b"\n") and raw.startswith(_PREFIX)
        text = raw[len(_PREFIX) :].decode(errors="replace").rstrip() if complete else ""
        # Some paragraphs follow another without an empty line between.
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
#: Lines without interest: the first line, sums, and what follows from the program's own failure.
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
    known = next((match for match in (form.fullmatch(head) for form in _HEADS) if match), None)
    at = _first(_AT, details)
    by = _first(_BY, details)
    address = _first(_ADDRESS, details)
    numbers = [int(number) for number in by.groups()] if by else []
    return Record(
        position=position,
        text=head.rstrip("."),
        space=known["space"] if known else "",
        access=known["access"] if known else "",
        size=_number(known["size"] or "0") if known else 0,
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
