"""The pytest plugin: tests whose kernels have defects fail, with a report.

pytest loads this module in every run, so it imports nothing else until a test is checked. It does
nothing unless an option or a marker asks for checks.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ttools.sanitizer.pytest_options import add_options, keep_paths, read_options
from ttools.sanitizer.pytest_progress import TITLE, PhaseProgress, terminal_writer
from ttools.sanitizer.pytest_recompilations import MARKER, RecompilationPlugin
from ttools.sanitizer.pytest_report import RunReport, attach

if TYPE_CHECKING:
    from ttools.core.reports.report import Report
    from ttools.sanitizer.api import Sanitization

_PLUGIN = "ttools-sanitize"
_run = pytest.StashKey["Sanitization"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, and the settings of the same names in the configuration file."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Separate paths from names of checks before the options are parsed."""
    keep_paths(early_config, args)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, read the options, and prepare the process for checks."""
    config.addinivalue_line(
        "markers",
        "ttools(checks=..., allow=[...]): run these checks on the kernels that the test launches; "
        "findings of the kinds allowed do not fail it",
    )
    config.addinivalue_line(
        "markers",
        f"{MARKER}(after=1): fail the test if a Triton kernel is compiled again after this number "
        "of its launches",
    )
    plugin = _Plugin(config)
    config.pluginmanager.register(plugin, _PLUGIN)
    config.pluginmanager.register(
        RecompilationPlugin(plugin.options.summarises_compilations), f"{_PLUGIN}-recompilations"
    )
    if plugin.options.checks is not None:
        plugin.take_over_from_upstream()
        plugin.map_devices()


@pytest.fixture
def ttools_sanitizer(request: pytest.FixtureRequest) -> Sanitization:
    """Return the sanitizer run of this test, with the findings so far; start it if needed."""
    plugin = request.config.pluginmanager.get_plugin(_PLUGIN)
    assert isinstance(plugin, _Plugin)
    if plugin.options.off:
        pytest.skip("needs the sanitizer, which --ttools-sanitize=off switches off")
    return request.node.stash.get(_run, None) or plugin.begin(request.node, "default")


class _Plugin:
    """The hooks of one run, with its options and the totals of its tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.options = read_options(config)
        self._config = config
        self._run = RunReport(self.options)
        self._conclusion: list[str] = []
        self._interpreter_unset = False
        self._mapped = False
        self._progress = PhaseProgress(terminal_writer())
        config.add_cleanup(self._progress.stop)

    def take_over_from_upstream(self) -> None:
        """Unset TRITON_INTERPRET, which Triton reads when a kernel is decorated."""
        if os.environ.pop("TRITON_INTERPRET", "0") not in ("", "0"):
            self._interpreter_unset = True

    def map_devices(self) -> None:
        """Map CUDA devices to the CPU before a test module uses one."""
        from ttools.core.device_map.mapping import devices_by_default
        from ttools.core.errors import UsageError

        devices = ExitStack()
        try:
            self._mapped = devices.enter_context(devices_by_default(self.options.device_map))
        except UsageError as error:
            raise pytest.UsageError(f"--ttools-device-map: {error}") from None
        self._config.add_cleanup(devices.close)

    # ---- one test
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Check the kernels that the fixtures of a test launch, if the test is checked."""
        checks = self._checks_of(item)
        if checks is None:
            return (yield)
        with self.begin(item, checks):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Check the kernels that a test launches; fail a test that passes but has findings."""
        sanitization = item.stash.get(_run, None)
        if sanitization is None:
            return (yield)
        try:
            with sanitization:
                result = yield
        except BaseException as error:
            report = self._report(item, sanitization)
            _attach(item, report)
            if isinstance(error, (KeyboardInterrupt, pytest.exit.Exception)):
                self._run.add_interrupted(report)  # pytest makes no report of this test
            raise
        report = self._report(item, sanitization)
        if report.failing and not self.options.updates_baseline:
            pytest.fail(_text(report, item), pytrace=False)
        _attach(item, report)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Check the kernels that fixtures launch during teardown; report new findings as errors."""
        sanitization = item.stash.get(_run, None)
        if sanitization is None:
            return (yield)
        before = {(f.kind, f.location) for f in sanitization.session.findings}
        with sanitization:
            result = yield
        if all((f.kind, f.location) in before for f in sanitization.session.findings):
            return result
        report = self._report(item, sanitization)
        new = [f for f in report.findings if (f.kind, f.location) not in before]
        report = replace(report, findings=tuple(new))
        if report.failing and not self.options.updates_baseline:
            pytest.fail(_text(report, item), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the launches and findings of a test to the result of its teardown.

        With pytest-xdist, the result is read in another process.
        """
        result = yield
        sanitization = item.stash.get(_run, None)
        if call.when == "teardown" and sanitization is not None:
            report = self._report(item, sanitization)
            attach(result, report, whole=self.options.reports)
            # pytest keeps its items until the end of the run, and the sanitizer's data about a
            # test's memory can take gigabytes. The traceback of a failure also refers to this data,
            # through a reference cycle.
            del item.stash[_run], sanitization
            if report.failing:
                gc.collect()
        return result

    def begin(self, item: pytest.Item, checks: str) -> Sanitization:
        """Create the sanitizer run of a test without activating it."""
        from ttools.core.errors import UsageError
        from ttools.sanitizer.api import DEFAULT_TIMEOUT, sanitize

        try:
            sanitization = sanitize(
                checks=checks,
                view_bounds=self.options.view_bounds,
                poison=self.options.poison,
                all_configs=self.options.all_configs,
                suppressions=self.options.suppressions,
                baseline=None if self.options.updates_baseline else self.options.baseline,
                timeout=DEFAULT_TIMEOUT if self.options.timeout is None else self.options.timeout,
            )
        except UsageError as error:
            raise pytest.fail.Exception(f"{TITLE}: {error}", pytrace=False) from None
        if self.options.debugs:
            post_mortem = sanitization.debug_first(self.options.fail_on, allowed=_allowed(item))
            post_mortem.around = self._terminal
        item.stash[_run] = sanitization
        self._progress.test = item.nodeid
        self._progress.start()
        return sanitization

    @contextmanager
    def _terminal(self) -> Iterator[None]:
        """Give the user the terminal while the context is active.

        If the user quits the debugger, pytest stops, as with `--pdb`.
        """
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
        """Return the checks of the closest marker that names any; otherwise those of the run."""
        if self.options.off:
            return None
        chosen = self.options.checks
        for marker in reversed([*item.iter_markers("ttools")]):
            if marker.args or set(marker.kwargs) - {"checks", "allow"}:
                pytest.fail(
                    "@pytest.mark.ttools accepts only checks=... and allow=[...]", pytrace=False
                )
            if "checks" in marker.kwargs:
                chosen = ",".join(_listed(marker.kwargs["checks"]))
        if chosen is not None:
            _validate_allowed(item)
        return chosen

    def _report(self, item: pytest.Item, sanitization: Sanitization) -> Report:
        """Return the report of a test without the findings that its markers allow."""
        return _without_allowed(sanitization.report(fail_on=self.options.fail_on), item)

    # ---- the whole run
    def pytest_report_header(self) -> list[str]:
        """Return the lines of the header, which name the checks."""
        lines = []
        if self.options.checks is not None:
            lines.append(f"{TITLE}: {self.options.checks}, fails on {self.options.fail_on}")
        if self._interpreter_unset:
            lines.append(f"{TITLE}: TRITON_INTERPRET is set; it is unset for this run")
        if self._mapped:
            lines.append(
                f"{TITLE}: no GPU here: the CPU stands in for cuda:0 (--ttools-device-map=off "
                "to disable)"
            )
        return lines

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the launches and findings of a test, which may have run in a worker process."""
        self._run.add(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report of the whole run and the baseline, in the main process of pytest."""
        if hasattr(self._config, "workerinput") or not self.options.reports:
            return
        self._conclusion, went_well = self._run.conclude()
        if not went_well:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how much was checked, where the report is, and suggested tolerances."""
        if self.options.checks is not None or self._run.tests:
            terminalreporter.write_line(f"{TITLE}: {self._run.summary()}")
        for line in (*self._conclusion, *self._run.tolerances()):
            terminalreporter.write_line(line)


def _text(report: Report, item: pytest.Item) -> str:
    from ttools.core.reports.registry import write_report

    return write_report(report, "text", item.config.get_verbosity() > 0).rstrip()


def _attach(item: pytest.Item, report: Report) -> None:
    if report.findings:
        item.add_report_section("call", TITLE, _text(report, item))


def _without_allowed(report: Report, item: pytest.Item) -> Report:
    """Suppress the kinds that the markers allow, and drop findings about suppressions."""
    from ttools.core.findings.suppressions import CHECK, Suppressed, names

    allowed = _allowed(item)
    # A suppression that is unused in this test may be meant for another test.
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
    """Return the kinds and checks that the markers of a test allow."""
    markers = item.iter_markers("ttools")
    return {name for marker in markers for name in _listed(marker.kwargs.get("allow"))}


def _validate_allowed(item: pytest.Item) -> None:
    """Fail a test whose markers allow a kind or check that does not exist."""
    from ttools.core.findings.suppressions import KINDS
    from ttools.sanitizer.checks.registry import CHECKS, checks_named, kinds

    for name in sorted(_allowed(item).difference(CHECKS, kinds(), KINDS)):
        if checks_named(name):
            continue  # a kind of one check, such as `accuracy/overflow`
        pytest.fail(f"@pytest.mark.ttools: there is no kind or check `{name}`", pytrace=False)


def _listed(names: object) -> list[str]:
    """Return the names in a list or in a comma-separated text."""
    if names is None:
        return []
    listed = names.split(",") if isinstance(names, str) else names
    if not isinstance(listed, Iterable) or not all(isinstance(name, str) for name in listed):
        pytest.fail(f"@pytest.mark.ttools: {names!r} is not a list of names", pytrace=False)
    return [name.strip() for name in listed]
