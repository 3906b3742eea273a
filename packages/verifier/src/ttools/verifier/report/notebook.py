"""Shows verifications in all formats, and in a notebook: verdict, failures, and cases."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ttools.core.json_document import json_text
from ttools.core.reports.markdown_syntax import text_as_markdown
from ttools.core.reports.notebook import Code, Part, Table, Text, reporter_of
from ttools.core.reports.registry import write_report
from ttools.core.reports.report import counted
from ttools.core.reports.result import Formats, formats_of
from ttools.verifier.report.findings import report_of
from ttools.verifier.report.text import cases_by_kind, failure_lines, statements, text_of
from ttools.verifier.result import Verification


@formats_of(Verification)
def _formats(found: Verification) -> Formats:
    def text() -> str:
        return text_of(found, found.candidate, verbose=True)

    def written(form: str) -> str:
        return write_report(report_of(found, found.candidate), form)

    return {
        "text": text,
        "markdown": lambda: text_as_markdown(text()),
        "json": lambda: json_text(found.as_dict()),
        **{form: partial(written, form) for form in ("brief", "html", "sarif", "junit", "github")},
    }


@reporter_of(Verification)
def _parts(found: Verification) -> Iterator[Part]:
    """Yield the parts of a notebook's output."""
    why = found.failures[0].detail if found.failures else found.reason
    yield Text(": ".join(filter(None, [found.outcome, why])))
    for failure in found.failures:
        yield Code("\n".join(failure_lines(failure, verbose=False)))
    for warning in found.warnings:
        lines = failure_lines(warning, verbose=False)
        yield Code("\n".join(lines), summary=f"warning: {warning.failure}")
    cases = counted(found.covered.get("cases", 0), "case")
    yield Table(f"tried {cases}", ("cases", ">number"), list(cases_by_kind(found)))
    details = [
        line for one in statements(found) for line in (one.text, *(f"  {d}" for d in one.details))
    ]
    yield Code("\n".join(details), summary="what was examined, and what was not")
