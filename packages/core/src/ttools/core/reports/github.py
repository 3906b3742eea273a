"""The report as workflow commands, which GitHub shows as annotations of changed lines.

GitHub describes how to escape text in commands under "workflow commands for GitHub Actions".
"""

from __future__ import annotations

from collections.abc import Mapping

from ttools.core.findings.findings import Finding
from ttools.core.location import extent
from ttools.core.reports.report import Report, summary
from ttools.core.reports.text import affected_text, witness_text

_COMMANDS = {"error": "error", "warning": "warning"}
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = {**_DATA, **str.maketrans({":": "%3A", ",": "%2C"})}


def write(report: Report) -> str:
    """Return a workflow command for each finding, and the summary as a plain line of the log."""
    commands = [_command(finding, report) for finding in report.findings]
    return "\n".join([*commands, summary(report).translate(_DATA)]) + "\n"


def _command(finding: Finding, report: Report) -> str:
    properties: dict[str, object] = {}
    if finding.location is not None:
        properties["file"] = report.path(finding.location.file)
        if finding.location.line:
            properties["line"] = finding.location.line
        if columns := extent(finding.location):
            # GitHub ignores columns unless the first and the last line are equal; its endColumn is
            # inclusive.
            properties["endLine"] = finding.location.line
            properties["col"] = columns[0]
            properties["endColumn"] = columns[1] - 1
    kernel = f" in {finding.kernel}" if finding.kernel else ""
    properties["title"] = f"{finding.check}: {finding.kind}{kernel}"
    texts = [finding.message, witness_text(finding), *finding.notes, affected_text(finding)]
    if finding.help:
        texts.append(f"help: {finding.help}")
    return workflow_command(finding.severity, properties, "\n".join(filter(None, texts)))


def workflow_command(level: str, properties: Mapping[str, object], message: str) -> str:
    """Return a log line that GitHub shows as an annotation; unknown levels become notices."""
    listed = ",".join(f"{name}={str(v).translate(_PROPERTY)}" for name, v in properties.items())
    return f"::{_COMMANDS.get(level, 'notice')} {listed}::{message.translate(_DATA)}"
