"""Reads findings from a report in JSON, schema `ttools.report/1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ttools.core.findings.causes import Cause, CauseKind
from ttools.core.findings.findings import Finding, Related, Severity, Witness
from ttools.core.json_document import read_json_document
from ttools.core.location import SourceLocation, source_line
from ttools.core.reports.json import SCHEMA
from ttools.core.spec import ArgumentSpec, ObjectSpec, TensorSpec, itemsize

_Triple = tuple[int, int, int]


@dataclass(frozen=True)
class _Location:
    file: str
    line: int | None = None
    column: int | None = None
    callers: tuple[_Location, ...] = ()

    def location(self) -> SourceLocation:
        line = self.line or 0
        # Columns in reports count characters, whereas locations count UTF-8 bytes.
        before = source_line(self.file, line)[: (self.column or 1) - 1]
        column = len(before.encode(errors="replace")) + 1 if self.column else 0
        callers = tuple(caller.location() for caller in self.callers)
        return SourceLocation(self.file, line, column, callers=callers)


@dataclass(frozen=True)
class _Related:
    message: str
    location: _Location | None = None
    program: _Triple | None = None
    lane: tuple[int, ...] | None = None
    iteration: tuple[int, ...] = ()

    def related(self) -> Related:
        return Related(
            message=self.message,
            location=_location(self.location),
            program=self.program,
            lane=self.lane,
            iteration=self.iteration,
        )


@dataclass(frozen=True)
class _Argument:
    name: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage_bytes: int | None = None

    def argument(self) -> ArgumentSpec:
        if self.shape is None or self.strides is None:
            return ArgumentSpec(
                name=self.name, value=ObjectSpec(type=self.dtype) if self.dtype else None
            )
        item = itemsize(self.dtype)
        tensor = TensorSpec(
            storage=0,
            offset=self.offset * item,
            shape=self.shape,
            strides=self.strides,
            dtype=self.dtype,
            itemsize=item,
            storage_bytes=self.storage_bytes,
        )
        return ArgumentSpec(name=self.name, value=tensor)


@dataclass(frozen=True)
class _Cause:
    kind: CauseKind
    kernel: str
    name: str = ""
    source: str = ""
    location: _Location | None = None
    lanes: tuple[tuple[int, int], ...] = ()
    program: _Triple | None = None

    def cause(self) -> Cause:
        return Cause(**{**vars(self), "location": _location(self.location)})


@dataclass(frozen=True)
class _Finding:
    kind: str
    check: str
    severity: Severity
    message: str
    kernel: str
    argument: _Argument | None = None
    location: _Location | None = None
    program: _Triple | None = None
    lane: tuple[int, ...] | None = None
    shape: tuple[int, ...] = ()
    iteration: tuple[int, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    count: int = 1
    programs: int = 0
    related: tuple[_Related, ...] = ()
    launch: str | None = None
    launch_callers: tuple[str, ...] = ()
    config: dict[str, Any] | None = None
    configs: tuple[dict[str, Any], ...] = ()
    help: str | None = None
    sizes: dict[str, int] | None = None
    witness: Witness | None = None
    origin: str = ""
    cause: _Cause | None = None

    def finding(self) -> Finding:
        same = {
            name: value
            for name, value in vars(self).items()
            if name not in ("argument", "location", "related", "variables", "configs", "cause")
        }
        return Finding(
            **same,
            argument=None if self.argument is None else self.argument.argument(),
            location=_location(self.location),
            related=tuple(related.related() for related in self.related),
            variables=tuple(self.variables.items()),
            other_configs=self.configs[1:],
            cause=None if self.cause is None else self.cause.cause(),
        )


def argument_of(data: Mapping[str, Any]) -> ArgumentSpec:
    """Return the argument that `argument_data` described."""
    return msgspec.convert(data, _Argument).argument()


@dataclass(frozen=True)
class _Report:
    findings: tuple[_Finding, ...]


def read_findings(path: Path) -> tuple[Finding, ...]:
    """Return the findings of a report, without suppressed ones.

    Raises:
        UsageError: The file cannot be read, is not a report, or is damaged.
    """
    report = read_json_document(path, SCHEMA, "report", _Report)
    return tuple(finding.finding() for finding in report.findings)


def _location(location: _Location | None) -> SourceLocation | None:
    return None if location is None else location.location()
