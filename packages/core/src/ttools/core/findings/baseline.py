"""Baselines: the findings a project already has, so that only new ones count.

A site is known by its kind, its kernel and the text of its source line, so that it stays the same
when lines above it change. Owns the file's format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ttools.core.errors import file_errors
from ttools.core.findings.findings import Finding
from ttools.core.findings.suppressions import Ran, Suppressed, unused_note
from ttools.core.json_document import read_json_document
from ttools.core.location import SourceLocation, source_line

SCHEMA = "ttools.baseline/1"
Site = tuple[str, str, str]


@dataclass(frozen=True)
class _Entry:
    """A site of the file; its source is the text of the line."""

    kind: str
    kernel: str
    source: str
    count: int


@dataclass(frozen=True)
class _Document:
    schema: str
    findings: list[_Entry]


def site_of(finding: Finding) -> Site:
    """What a finding is known by."""
    text = ""
    if finding.location is not None:
        text = source_line(finding.location.file, finding.location.line).strip()
    return finding.kind, finding.kernel, text


class Baseline:
    """The sites of a file, each as often as it was found.

    Raises:
        UsageError: it cannot be read or is no baseline.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json_document(path, SCHEMA, "baseline", _Document)
        self._left = Counter({(e.kind, e.kernel, e.source): e.count for e in found.findings})

    def suppress(self, finding: Finding) -> Suppressed | None:
        """The finding, if the baseline still has one of its site."""
        site = site_of(finding)
        if self._left[site] <= 0:
            return None
        self._left[site] -= 1
        return Suppressed(finding=finding, by="baseline", reason=f"in {self._path.name}")

    def unused(self, ran: Ran) -> list[Finding]:
        """One note on all sites of launched kernels that are gone."""
        gone = sum(
            count
            for (kind, kernel, _), count in self._left.items()
            if count > 0 and kernel in ran.kernels and ran.active(kind)
        )
        if not gone:
            return []
        entries = "1 entry" if gone == 1 else f"{gone} entries"
        location = SourceLocation(str(self._path.absolute()), 0, 0)
        return [unused_note(f"{entries} of the baseline", location)]


def write_baseline(findings: Iterable[Finding], path: Path) -> int:
    """Writes the sites of findings more severe than notes; returns how many there are.

    Raises:
        UsageError: the file cannot be written.
    """
    sites = Counter(site_of(finding) for finding in findings if finding.severity != "note")
    entries = [_Entry(*site, count) for site, count in sorted(sites.items())]
    text = msgspec.json.format(msgspec.json.encode(_Document(SCHEMA, entries)))
    with file_errors(f"write `{path}`"):
        path.write_bytes(text + b"\n")
    return sum(sites.values())
