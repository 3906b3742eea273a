"""The formats a report can be written in, by name.

Owns the table. A writer is imported when it is asked for: most runs need one, and the page and
JUnit need libraries that take time to import.
"""

from __future__ import annotations

from importlib import import_module

from ttools.core.errors import UsageError
from ttools.core.reports.report import Report

#: Name of a format → module with `write(report) -> str`.
WRITERS = {
    "text": "ttools.core.reports.text",
    "json": "ttools.core.reports.json",
    "sarif": "ttools.core.reports.sarif",
    "junit": "ttools.core.reports.junit",
    "github": "ttools.core.reports.github",
    "html": "ttools.core.reports.html",
}


def write_report(report: Report, form: str) -> str:
    """The report in a format.

    Raises:
        UsageError: there is no such format.
    """
    if form not in WRITERS:
        raise UsageError(f"there is no format `{form}`; choose from {', '.join(WRITERS)}")
    text: str = import_module(WRITERS[form]).write(report)
    return text
