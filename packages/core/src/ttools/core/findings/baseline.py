"""Baselines: the known findings of a project, so that only new ones count.

A site is a place with a known finding. It is identified by the kind of finding, the kernel and the
text of the source line, which stays the same when lines above it change.
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
    """A site in the file; `source` is the text of the line."""

    kind: str
    kernel: str
    source: str
    count: int


@dataclass(frozen=True)
class _Document:
    schema: str
    findings: list[_Entry]


def site_of(finding: Finding) -> Site:
    """Return the site that identifies a finding in a baseline."""
    text = ""
    if finding.location is not None:
        text = source_line(finding.location.file, finding.location.line).strip()
    return finding.kind, finding.kernel, text


class Baseline:
    """The sites in a file, with their numbers of occurrences.

    Raises:
        UsageError: The file cannot be read or is not a baseline.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        document = read_json_document(path, SCHEMA, "baseline", _Document)
        self._left = Counter({(e.kind, e.kernel, e.source): e.count for e in document.findings})

    def suppress(self, finding: Finding) -> Suppressed | None:
        """Suppress the finding if the baseline still has an unused entry for its site."""
        site = site_of(finding)
        if self._left[site] <= 0:
            return None
        self._left[site] -= 1
        return Suppressed(finding=finding, by="baseline", reason=f"in {self._path.name}")

    def unused(self, ran: Ran) -> list[Finding]:
        """Return at most one note: how many sites of launched kernels no finding has matched."""
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
    """Write the sites of findings more severe than notes; return their number.

    Raises:
        UsageError: The file cannot be written.
    """
    sites = Counter(site_of(finding) for finding in findings if finding.severity != "note")
    entries = [_Entry(*site, count) for site, count in sorted(sites.items())]
    text = msgspec.json.format(msgspec.json.encode(_Document(SCHEMA, entries)))
    with file_errors(f"write `{path}`"):
        path.write_bytes(text + b"\n")
    return sum(sites.values())
