"""`ttools.check`: the operation by which passes report, and the notes of what they leave out.

Its operands are a condition, true in the lanes with a defect, and values to show; its attributes
say what the defect is. What becomes of it is the emitter's and the session's business.
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
    """Something in a kernel that a pass cannot check.

    Attributes:
        text: one sentence without a full stop.
    """

    location: SourceLocation | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Defect:
    """What a check reports where its condition holds.

    Attributes:
        check: name of the check: `initcheck` …
        kind: kind of the finding: `uninit_read` …
        message: one line without location and argument.
        location: of the operation at fault, which may be another than where it is noticed.
        argument: index of the parameter at fault, -1 if there is none.
        help: what to do about it; empty for what is said of its kind.
        severity: empty for that of its kind.
        origins: where values come from that variables name by their number.
    """

    check: str
    kind: str
    message: str
    location: SourceLocation | None
    argument: int = -1
    help: str = ""
    severity: Literal["", "error", "warning", "note"] = ""
    origins: tuple[SourceLocation | None, ...] = ()


def insert_check(
    b: Builder, condition: Value, defect: Defect, shown: Sequence[tuple[str, Value]] = ()
) -> None:
    """Makes a check.

    Args:
        b: where.
        condition: per lane, or a scalar.
        shown: names and values that explain it, of the condition's shape or scalars.
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
            "origins": _places(defect.origins),
        },
    )
    op.location = defect.location


def _places(locations: Sequence[SourceLocation | None]) -> str:
    """Files, lines and columns as text, which is what attributes of a check hold."""
    known = [(each.file, each.line, each.column) if each else None for each in locations]
    return json.dumps(known) if known else ""


def places(text: str) -> list[SourceLocation | None]:
    """The locations in such text."""
    known = json.loads(text) if text else []
    return [SourceLocation(*each) if each else None for each in known]
