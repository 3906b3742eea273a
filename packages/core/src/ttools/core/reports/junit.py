"""The report as JUnit XML, which CI systems show as tests.

There is a suite for each kernel, with a case for each finding and a case for the kernel's launches;
the latter is an error if a launch was not checked completely. The suite of a function that was
compared with a reference has a case for the verdict, which is an error if the verdict is unknown. A
finding below the severity that fails the run becomes a case that passes and contains the finding's
text. A program that failed or launched no kernel gets its own suite, because such a result is not
clean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from junitparser import Attr, Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from ttools.core.findings.findings import Finding
from ttools.core.findings.suppressions import Suppressed
from ttools.core.reports.cases import CasesVerdict
from ttools.core.reports.report import (
    Report,
    at_least,
    counted,
    no_launch,
    summary,
    unfinished_text,
)
from ttools.core.reports.text import finding_text

# Characters that XML 1.0 does not allow, even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Case(TestCase):
    """A test case with a location; the schema allows none, but CI systems show links to it."""

    file = Attr()
    line = Attr()


def write(report: Report) -> str:
    """Return the report as one `<testsuites>` document."""
    return write_all([report])


def write_all(reports: Iterable[Report]) -> str:
    """Return several reports as one `<testsuites>` document."""
    document = JUnitXml("ttools")
    for report in reports:
        for suite in _suites(report):
            document.add_testsuite(suite)
    document.update_statistics()
    for element in document._elem.iter():
        # Python writes small numbers with exponents, which the schema's decimals do not allow.
        if (seconds := element.get("time")) is not None:
            element.set("time", f"{float(seconds):.6f}")
    return f"{document.tostring().decode()}\n"


def _suites(report: Report) -> Iterator[TestSuite]:
    launched = [entry.spec.kernel for entry in report.launches]
    reported = [finding.kernel for finding in report.findings]
    hidden = [entry.finding.kernel for entry in report.suppressed]
    compared = [report.cases.function] if report.cases is not None else []
    kernels = dict.fromkeys([*launched, *compared, *reported, *hidden])
    for kernel in kernels:
        yield _suite(kernel, report)
    if report.exit_code or not kernels:
        yield _program(report)


def _suite(kernel: str, report: Report) -> TestSuite:
    suite = TestSuite(_clean(kernel) or "suppressions")
    cases = [_case(finding, report) for finding in report.findings if finding.kernel == kernel]
    cases += [_skipped(e, report) for e in report.suppressed if e.finding.kernel == kernel]
    runs = [entry for entry in report.launches if entry.spec.kernel == kernel]
    case = TestCase("launches", _clean(kernel), sum(entry.seconds for entry in runs))
    launches = sum(entry.checked for entry in runs)
    case.system_out = f"{counted(launches, 'launch', 'launches')} checked"
    unfinished = unfinished_text(runs)
    if unfinished:
        case.result = [Error(_clean(f"not checked to the end: {unfinished}"), "unfinished")]
    if report.cases is not None and report.cases.function == kernel:
        cases.insert(0, _verdict(report.cases, report))
    for one_case in [*([case] if runs else []), *cases]:
        suite.add_testcase(one_case)
    return suite


def _verdict(compared: CasesVerdict, report: Report) -> TestCase:
    case = TestCase("verdict", _clean(compared.function), compared.seconds)
    case.system_out = _clean(summary(report))
    if compared.verdict == "unknown":
        case.result = [Error(_clean(compared.reason or compared.conclusion), "unknown")]
    return case


def _program(report: Report) -> TestSuite:
    name = _clean(report.target) or "ttools"
    suite, case = TestSuite(name), TestCase("program", name, 0)
    if report.exit_code:
        case.result = [Error(f"the program exited with status {report.exit_code}", "exit_status")]
    elif report.examined:
        case.system_out = _clean(summary(report))
    else:
        case.result = [Skipped(no_launch(report))]
    suite.add_testcase(case)
    return suite


def _case(finding: Finding, report: Report) -> TestCase:
    case = _named(finding, report)
    text = _clean(finding_text(finding, report.root))
    if at_least(finding.severity, report.fail_on):
        failure = Failure(_clean(finding.message), finding.kind)
        failure.text = text
        case.result = [failure]
    else:
        case.system_out = text
    return case


def _skipped(entry: Suppressed, report: Report) -> TestCase:
    case = _named(entry.finding, report)
    case.result = [Skipped(_clean(f"suppressed: {entry.reason}"))]
    return case


def _named(finding: Finding, report: Report) -> TestCase:
    location = ""
    if finding.location is not None:
        location = f" at {report.path(finding.location.file)}:{finding.location.line}"
    case = _Case(_clean(f"{finding.kind}{location}"), _clean(finding.kernel), 0)
    if finding.location is not None:
        case.file = _clean(report.path(finding.location.file))
        case.line = str(finding.location.line)
    return case


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
