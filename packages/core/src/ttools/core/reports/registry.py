"""The formats of reports by name.

A writer is imported only when it is needed, since the libraries for the page and for JUnit take
time to import.
"""

from __future__ import annotations

from importlib import import_module

from ttools.core.errors import UsageError
from ttools.core.reports.report import Report

#: Maps the name of a format to the module that defines `write(report) -> str`.
WRITERS = {
    "text": "ttools.core.reports.text",
    "json": "ttools.core.reports.json",
    "brief": "ttools.core.reports.brief",
    "sarif": "ttools.core.reports.sarif",
    "junit": "ttools.core.reports.junit",
    "github": "ttools.core.reports.github",
    "html": "ttools.core.reports.html",
    "markdown": "ttools.core.reports.markdown",
}
#: The module that writes the text form if the report contains a verdict on a range of sizes.
_TEXT_OF_SIZES = "ttools.core.reports.sizes_text"


def write_report(report: Report, form: str, verbose: bool = False) -> str:
    """Return the report in a format.

    Args:
        verbose: If True, the text form also shows details that it leaves out by default.

    Raises:
        UsageError: The format is unknown.
    """
    if form not in WRITERS:
        raise UsageError(f"there is no format `{form}`; choose from {', '.join(WRITERS)}")
    options = {"verbose": verbose} if form == "text" else {}
    of_sizes = form == "text" and report.sizes is not None
    writer = import_module(_TEXT_OF_SIZES if of_sizes else WRITERS[form])
    text: str = writer.write(report, **options)
    return text
