"""The content of reports by file and line: findings and counts, with the time of each report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ttools.core.errors import UsageError, file_errors
from ttools.core.findings.findings import Finding
from ttools.core.json_document import parse_json, read_json_document
from ttools.core.location import SourceLocation, location_of_line, user_location
from ttools.core.reports.json import SCHEMA as REPORT
from ttools.core.reports.reading import read_findings

_PROFILE = "ttools.profile/1"


class LineCounts(msgspec.Struct, frozen=True):
    """Counts of a line in a profiled run; field names are those of `ttools.profile/1`."""

    kernel: str
    file: str
    line: int
    executions: int | None = None
    loaded: float = 0
    stored: float = 0
    atomic: float = 0
    masked_share: float | None = None
    flops: float = 0
    operations: str = ""
    time_share: float | None = None


class _Profile(msgspec.Struct):
    lines: list[LineCounts]


@dataclass(frozen=True)
class Loaded:
    """A report that was read from a file or written by a run.

    Attributes:
        made: Time of the report in seconds since 1970; for a run, the time of its start.
        findings: Findings of a run of `sanitize`.
        lines: Line counts of a run of `profile`.
        status: Exit status of the script.
        launched: False if a run of `sanitize` saw no launch of a kernel.
    """

    made: float
    findings: tuple[Finding, ...] = ()
    lines: tuple[LineCounts, ...] = ()
    status: int = 0
    launched: bool = True


def load(path: Path, made: float | None = None) -> Loaded:
    """Read a report of `sanitize` or `profile`.

    Raises:
        UsageError: The file cannot be read, or is not such a report.
    """
    with file_errors(f"read the report `{path}`"):
        written = path.stat().st_mtime
        raw = path.read_bytes()
    try:
        data = parse_json(raw)
    except ValueError as error:
        raise UsageError(f"`{path}` is not a report: {error}") from error
    when = written if made is None else made
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema == _PROFILE:
        profile = read_json_document(path, _PROFILE, "profile", _Profile)
        return Loaded(when, lines=tuple(profile.lines))
    if schema == REPORT:
        script = data.get("script")
        status = script.get("exit_code") if isinstance(script, dict) else None
        return Loaded(
            when,
            findings=read_findings(path),
            status=status if isinstance(status, int) else 0,
            launched=bool(data.get("launches", True)),
        )
    raise UsageError(
        f"`{path}` is not a report: write one with `ttools sanitize` or `ttools profile`, "
        "--format json --output FILE"
    )


def shown_at(finding: Finding) -> SourceLocation | None:
    """Return the position at which to show a finding: the innermost user line, else the launch."""
    return user_location(finding.location) or location_of_line(finding.launch)


@dataclass
class Reports:
    """The reports to show, by their source: the path of a file, or the command line of a run."""

    loaded: dict[object, Loaded] = field(default_factory=dict)

    def findings(self) -> Iterator[tuple[SourceLocation, Finding, bool]]:
        """Yield findings and their locations, and whether the file has changed since the report."""
        for report in self.loaded.values():
            for finding in report.findings:
                location = shown_at(finding)
                if location is not None:
                    yield location, finding, _changed_since(location.file, report.made)

    def lines_at(self, file: str, line: int) -> Iterator[tuple[LineCounts, bool]]:
        """Yield counts of a line, and whether its file has changed since the report."""
        for report in self.loaded.values():
            for row in report.lines:
                if row.line == line and same_file(row.file, file):
                    yield row, _changed_since(row.file, report.made)


def same_file(one: str, other: str) -> bool:
    """Return whether two paths lead to the same file, possibly through symbolic links."""
    return one == other or Path(one).resolve() == Path(other).resolve()


def _changed_since(file: str, made: float) -> bool:
    try:
        return Path(file).stat().st_mtime > made
    except OSError:
        return False


@dataclass
class Watched:
    """Report files, which are read again when they have changed.

    A partly written file looks damaged, so a file is only read if it is unchanged between two
    checks.
    """

    _observed: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _read: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def changed(self, paths: list[Path]) -> Iterator[tuple[Path, bool]]:
        """Yield (file, True) for files to read, (file, False) for removed or unwatched ones."""
        for path in paths:
            state = _state(path)
            if state is None:
                if self._read.pop(path, None) is not None:
                    yield path, False
            elif self._read.get(path) != state and (
                self._observed.get(path) == state or _is_old(state)
            ):
                self._read[path] = state
                yield path, True
            if state is not None:
                self._observed[path] = state
        for path in self._read.keys() - set(paths):
            del self._read[path]
            yield path, False


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _is_old(state: tuple[int, int]) -> bool:
    return time.time_ns() - state[0] > 2_000_000_000
