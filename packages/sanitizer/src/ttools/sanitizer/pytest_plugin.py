"""The pytest plugin: tests whose kernels have defects fail, and show the report.

Owns options, marker, fixture and which tests fail. Loaded in every pytest run of an
environment that has this package, so it imports nothing but pytest until a test is checked, and
does nothing unless asked to.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ttools.core.reports.report import Report
    from ttools.sanitizer.api import Sanitization

_OFF = ("off", "false", "no", "0", "")
_ON = ("on", "true", "yes", "1")
_TITLE = "ttools sanitize"
_PLUGIN = "ttools-sanitize"
_LAUNCHES = "ttools_launches"
_run = pytest.StashKey["Sanitization"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options and their twins in the configuration file."""
    group = parser.getgroup("ttools", "checking Triton kernels")
    group.addoption(
        "--ttools-sanitize",
        nargs="?",
        const="default",
        metavar="CHECKS",
        help="check the Triton kernels that tests launch; `off` overrules the configuration file "
        "and markers",
    )
    group.addoption(
        "--ttools-fail-on",
        choices=("error", "warning", "note"),
        help="severity from which on findings fail a test (default: error)",
    )
    group.addoption(
        "--ttools-suppressions",
        action="append",
        metavar="FILE",
        help="rules for findings that do not count; repeatable",
    )
    group.addoption(
        "--ttools-pdb-on-finding",
        action="store_true",
        help="drop into pdb at a test's first finding that fails it: in the kernel, at its line",
    )
    parser.addini("ttools_sanitize", "checks to make of the kernels that tests launch")
    parser.addini("ttools_fail_on", "severity from which on findings fail a test", default="error")
    parser.addini("ttools_suppressions", "files of suppressions", type="paths", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker, and looks at the options before the first test does."""
    config.addinivalue_line(
        "markers",
        "ttools(checks=..., allow=[...]): make these checks of the kernels that the test launches; "
        "findings of the kinds allowed do not fail it",
    )
    plugin = _Plugin(config)
    config.pluginmanager.register(plugin, _PLUGIN)
    if plugin.checks is not None:
        plugin.take_over_from_upstream()


@pytest.fixture
def ttools_sanitizer(request: pytest.FixtureRequest) -> Sanitization:
    """The sanitizer run of this test, with the findings so far; switches it on for the test."""
    plugin = request.config.pluginmanager.get_plugin(_PLUGIN)
    assert isinstance(plugin, _Plugin)
    if plugin.off:
        pytest.skip("needs the sanitizer, which --ttools-sanitize=off switches off")
    return request.node.stash.get(_run, None) or plugin.begin(request.node, "default")


class _Plugin:
    """What the options of a run ask for, and what its tests add up to."""

    def __init__(self, config: pytest.Config) -> None:
        chosen = config.getoption("--ttools-sanitize")
        if chosen is None:
            chosen = str(config.getini("ttools_sanitize") or "")
        chosen = "default" if chosen.lower() in _ON else chosen.lower()
        self.off = config.getoption("--ttools-sanitize") is not None and chosen in _OFF
        self.checks: str | None = None if chosen in _OFF else chosen
        self.fail_on = config.getoption("--ttools-fail-on") or config.getini("ttools_fail_on")
        files = config.getoption("--ttools-suppressions") or config.getini("ttools_suppressions")
        self.suppressions = [Path(file) for file in files]
        self._config = config
        self._launches = 0
        self._tests = 0
        self._interpreter_unset = False
        if self.checks is not None:
            self._validate(self.checks)
        # Tests may go to another folder.
        self.suppressions = [file.absolute() for file in self.suppressions]

    def _validate(self, checks: str) -> None:
        from ttools.core.errors import UsageError
        from ttools.core.findings.findings import SEVERITIES
        from ttools.core.findings.suppressions import SuppressionFile
        from ttools.sanitizer.checks.registry import parse_checks

        try:
            parse_checks([checks])
        except UsageError as error:
            if self._config.getoption("--ttools-sanitize") is None:
                raise pytest.UsageError(f"ttools_sanitize: {error}") from None
            hint = "write --ttools-sanitize=CHECKS, or put the bare option behind the paths"
            raise pytest.UsageError(f"--ttools-sanitize: {error} ({hint})") from None
        try:
            for file in self.suppressions:
                SuppressionFile(file)
        except UsageError as error:
            raise pytest.UsageError(f"ttools_suppressions: {error}") from None
        if self.fail_on not in SEVERITIES:
            raise pytest.UsageError(
                f"ttools_fail_on is `{self.fail_on}`: must be one of {', '.join(SEVERITIES)}"
            )

    def take_over_from_upstream(self) -> None:
        """Unsets TRITON_INTERPRET, which Triton reads when a kernel is decorated."""
        if os.environ.pop("TRITON_INTERPRET", "0") not in ("", "0"):
            self._interpreter_unset = True

    # ---- one test
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Checks what the fixtures of a test launch, if it is to be checked."""
        checks = self._checks_of(item)
        if checks is None:
            return (yield)
        with self.begin(item, checks):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Checks what a test launches; a test that passes fails when there are findings."""
        sanitization = item.stash.get(_run, None)
        if sanitization is None:
            return (yield)
        try:
            with sanitization:
                result = yield
        except BaseException:
            _attach(item, self._report(item, sanitization))
            raise
        report = self._report(item, sanitization)
        if report.failing:
            pytest.fail(_text(report), pytrace=False)
        _attach(item, report)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Checks what the fixtures of a test launch as they end; what is new there is an error."""
        sanitization = item.stash.get(_run, None)
        if sanitization is None:
            return (yield)
        before = {(each.kind, each.location) for each in sanitization.session.findings}
        try:
            with sanitization:
                result = yield
        finally:
            launches = sum(entry.count for entry in sanitization.launches)
            item.user_properties.append((_LAUNCHES, launches))
        if all((each.kind, each.location) in before for each in sanitization.session.findings):
            return result
        report = self._report(item, sanitization)
        new = [each for each in report.findings if (each.kind, each.location) not in before]
        report = replace(report, findings=tuple(new))
        if report.failing:
            pytest.fail(_text(report), pytrace=False)
        return result

    def begin(self, item: pytest.Item, checks: str) -> Sanitization:
        """The sanitizer run of a test, not yet active."""
        from ttools.core.errors import UsageError
        from ttools.sanitizer.api import sanitize

        try:
            sanitization = sanitize(checks=checks, suppressions=self.suppressions)
        except UsageError as error:
            raise pytest.fail.Exception(f"{_TITLE}: {error}", pytrace=False) from None
        if self._config.getoption("--ttools-pdb-on-finding"):
            post_mortem = sanitization.debug_first(self.fail_on, allowed=_allowed(item))
            post_mortem.around = self._terminal
        item.stash[_run] = sanitization
        return sanitization

    @contextmanager
    def _terminal(self) -> Iterator[None]:
        """Gives the user the terminal; quitting the debugger quits pytest, as with --pdb."""
        capture: Any = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is not None:
            capture.suspend(in_=True)
        try:
            yield
        except SystemExit:
            pytest.exit("Quitting debugger")
        finally:
            if capture is not None:
                capture.resume()

    def _checks_of(self, item: pytest.Item) -> str | None:
        """The checks of the closest marker that names any, else those of the run."""
        if self.off:
            return None
        chosen = self.checks
        for marker in reversed([*item.iter_markers("ttools")]):
            if marker.args or set(marker.kwargs) - {"checks", "allow"}:
                pytest.fail("@pytest.mark.ttools takes checks=..., allow=[...] only", pytrace=False)
            if "checks" in marker.kwargs:
                chosen = ",".join(_listed(marker.kwargs["checks"]))
        if chosen is not None:
            _validate_allowed(item)
        return chosen

    def _report(self, item: pytest.Item, sanitization: Sanitization) -> Report:
        """What was found in a test, without what its markers allow."""
        return _without_allowed(sanitization.report(fail_on=self.fail_on), item)

    # ---- the whole run
    def pytest_report_header(self) -> list[str]:
        """Says what is checked."""
        lines = []
        if self.checks is not None:
            lines.append(f"{_TITLE}: {self.checks}, fails on {self.fail_on}")
        if self._interpreter_unset:
            lines.append(f"{_TITLE}: TRITON_INTERPRET is set; it is unset for this run")
        return lines

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up what tests launched, wherever they ran."""
        if report.when == "teardown":
            counts = [value for name, value in report.user_properties if name == _LAUNCHES]
            launches = sum(int(str(value)) for value in counts)
            self._launches += launches
            self._tests += bool(launches)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Says how much was checked: silence must not pass for a clean run."""
        if self.checks is None and not self._tests:
            return
        if self._tests:
            from ttools.core.reports.report import counted

            launches = counted(self._launches, "launch", "launches")
            text = f"checked {launches} in {counted(self._tests, 'test')}"
        else:
            text = "no Triton kernel was launched, so nothing was checked"
        terminalreporter.write_line(f"{_TITLE}: {text}")


def _text(report: Report) -> str:
    from ttools.core.reports.registry import write_report

    return write_report(report, "text").rstrip()


def _attach(item: pytest.Item, report: Report) -> None:
    """Attaches a report to the result of its test."""
    if report.findings:
        item.add_report_section("call", _TITLE, _text(report))


def _without_allowed(report: Report, item: pytest.Item) -> Report:
    """Moves the kinds that the markers allow, and notes on the run as a whole, out of the way."""
    from ttools.core.findings.suppressions import CHECK, Suppressed, names

    allowed = _allowed(item)
    # Another test may be the one that a suppression is for.
    findings = [finding for finding in report.findings if finding.check != CHECK]
    hidden = [finding for finding in findings if allowed & set(names(finding))]
    reason = "allowed by the test's marker"
    return replace(
        report,
        findings=tuple(finding for finding in findings if finding not in hidden),
        suppressed=(
            *report.suppressed,
            *(Suppressed(finding=finding, by="marker", reason=reason) for finding in hidden),
        ),
    )


def _allowed(item: pytest.Item) -> set[str]:
    """The kinds and checks whose findings do not fail a test, by all its markers."""
    markers = item.iter_markers("ttools")
    return {name for marker in markers for name in _listed(marker.kwargs.get("allow"))}


def _validate_allowed(item: pytest.Item) -> None:
    from ttools.core.findings.suppressions import KINDS
    from ttools.sanitizer.checks.registry import CHECKS, kinds

    for name in sorted(_allowed(item).difference(CHECKS, kinds(), KINDS)):
        pytest.fail(f"@pytest.mark.ttools: there is no kind or check `{name}`", pytrace=False)


def _listed(names: object) -> list[str]:
    """The names in a list, or in text with commas."""
    if names is None:
        return []
    listed = names.split(",") if isinstance(names, str) else names
    if not isinstance(listed, Iterable) or not all(isinstance(name, str) for name in listed):
        pytest.fail(f"@pytest.mark.ttools: {names!r} is no list of names", pytrace=False)
    return [name.strip() for name in listed]
