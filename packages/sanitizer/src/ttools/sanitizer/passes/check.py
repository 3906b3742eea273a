"""`ttools.check`: the operation by which passes report defects.

Its operands are a condition, true in the lanes with a defect, and values to show; its attributes
describe the defect. Native code counts the lanes and keeps one of them as a witness. The check to
which the pass belongs creates a finding from the count and the witness.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ttools.core.location import SourceLocation
from ttools.ir import Value
from ttools.ir.rewriting import Builder

OPERATION = "ttools.check"


@dataclass(frozen=True)
class Note:
    """Describes something in a kernel that a pass cannot check.

    Attributes:
        text: One sentence without a full stop.
    """

    location: SourceLocation | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Defect:
    """The defect that a `ttools.check` reports.

    Attributes:
        check: Name of the check, for example `initcheck`.
        kind: Kind of the finding, for example `uninit_read`.
        message: One line without location and argument.
        location: Location of the defective operation; the defect may be detected at a different
            operation.
        argument: Index of the parameter concerned, or -1.
        help: Advice; if empty, that of the kind is used.
        severity: Severity; if empty, that of the kind is used.
        origin: Distinguishes defects of one kind at one location, for example `masked`.
        origins: Locations to which variables of the check refer by index; for undefined lanes, the
            location of the use that they reach.
    """

    check: str
    kind: str
    message: str
    location: SourceLocation | None
    argument: int = -1
    help: str = ""
    severity: Literal["", "error", "warning", "note"] = ""
    origin: str = ""
    origins: tuple[SourceLocation | None, ...] = ()


def insert_check(
    b: Builder, condition: Value, defect: Defect, shown: Sequence[tuple[str, Value]] = ()
) -> None:
    """Insert a `ttools.check`.

    Args:
        b: Builder positioned at the place of the check.
        condition: A scalar, or one boolean per lane; true where there is a defect.
        shown: Names and values that explain the defect. Each value is a scalar or has the shape of
            the condition.
    """
    op = b.operation(
        OPERATION,
        [condition, *(value for _, value in shown)],
        attributes={
            "check": defect.check,
            "kind": defect.kind,
            "message": defect.message,
            "names": tuple(name for name, _ in shown),
            "argument": defect.argument,
            "help": defect.help,
            "severity": defect.severity,
            "origin": defect.origin,
            "origins": _places(defect.origins),
        },
    )
    op.location = defect.location


def _places(locations: Sequence[SourceLocation | None]) -> str:
    """Serialise locations, because attributes of a check hold text."""
    numbers = [
        (location.file, location.line, location.column) if location else None
        for location in locations
    ]
    return json.dumps(numbers) if numbers else ""


def places(text: str) -> list[SourceLocation | None]:
    """Return the locations from text that `insert_check` has serialised."""
    numbers = json.loads(text) if text else []
    return [SourceLocation(*number) if number else None for number in numbers]
