"""The pytest plugin of a worker, which runs single cases on request.

The worker first sends the marked cases that pytest collected. Then it receives node ids, runs each
case, and answers with the outcome; see `tools/harness.py`. The plugin is loaded with `-p
tools.conformance.plugin`.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tools.conformance.outcomes import EXCLUSIONS, Outcome, causes, classify
from tools.conformance.references import compare_products_by_their_terms
from tools.harness import requests

ENGINE_VARIABLE = "CONFORMANCE_ENGINE"
MARK = "interpreter"
# The compute capability that conditions of marks see; these are evaluated while modules are
# imported. Upstream skips no kernels for this capability. Tests that query the capability at run
# time get the real one.
CAPABILITY = (10, 0)

# Reasons with which tests skip themselves on GPUs, or on the CPU backend of a fork, that are less
# capable than Triton's interpreter. The engine has no such limits, so these skips are ignored and
# the test continues.
LIFTED_SKIPS = re.compile(r" on CPU$|^small dots are supported only on|insufficient shared memory")


class CaseRunner:
    """The pytest hooks of one worker process."""

    def __init__(self) -> None:
        self._nodes, self._send = requests()
        self._items: dict[str, pytest.Function] = {}
        self._failed_files: dict[str, str] = {}
        self._outcome: Outcome | None = None
        self._capability: Any = None

    def pytest_collection(self) -> None:
        """Replace the compute capability while modules are imported, for conditions of marks."""
        import torch

        self._capability = torch.cuda.get_device_capability
        torch.cuda.get_device_capability = lambda device=None: CAPABILITY

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record the files that cannot be imported."""
        if report.failed:
            self._failed_files.setdefault(report.nodeid, str(report.longrepr).strip())

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Replace the error of a failed import by the reason of the rule that matches, if any."""
        report = yield
        error = getattr(report, "call", None)
        if report.failed and error is not None and error.excinfo is not None:
            reasons = (rule(cause) for cause in causes(error.excinfo.value) for rule in EXCLUSIONS)
            exclusion = next((reason for reason in reasons if reason), None)
            if exclusion is not None:
                self._failed_files[report.nodeid] = exclusion
        return report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Send the collected cases to the parent."""
        import torch

        torch.cuda.get_device_capability = self._capability
        for item in session.items:
            if isinstance(item, pytest.Function) and item.get_closest_marker(MARK):
                self._items[item.nodeid] = item
        cases = [
            {"node": node, "function": f"{item.path.name}::{item.originalname}"}
            for node, item in self._items.items()
        ]
        self._send({"cases": cases, "failed_files": self._failed_files})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the cases that the parent requests, until it closes the connection."""
        for node in self._nodes:
            item = self._items[node]
            self._outcome = None
            begin = time.perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            outcome = self._outcome or Outcome(item.nodeid, "pass")
            seconds = time.perf_counter() - begin
            self._send(dataclasses.asdict(dataclasses.replace(outcome, seconds=seconds)))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Classify the first phase of a case that does not pass."""
        report = yield
        if self._outcome is None and report.outcome != "passed" and call.excinfo is not None:
            error = call.excinfo.value
            if hasattr(report, "wasxfail"):
                reason = f"upstream expects it to fail: {report.wasxfail or 'no reason given'}"
                self._outcome = Outcome(item.nodeid, "excluded", reason)
            elif report.skipped:
                reason = str(getattr(error, "msg", "")) or "no reason given"
                self._outcome = Outcome(item.nodeid, "excluded", f"the test skips itself: {reason}")
            else:
                self._outcome = Outcome(item.nodeid, *classify(error))
        return report


def answer_for_newer_devices() -> None:
    """Make Triton's functions `is_<device>` return False for unknown devices.

    Tests import these functions from a module of Triton. A checkout that is newer than the
    installed Triton imports such functions for more devices, and the fork triton-cpu imports one
    for its own CPU backend.
    """
    import triton._internal_testing as internal

    def absent(name: str) -> Callable[[], bool]:
        if not name.startswith("is_"):
            raise AttributeError(f"module {internal.__name__!r} has no attribute {name!r}")
        return lambda: False

    setattr(internal, "__getattr__", absent)  # noqa: B010 (a module's, which mypy does not know)
    internal.is_cpu = lambda: False


def pytest_configure(config: pytest.Config) -> None:
    """Register the hooks of the worker, and disable skips that are for other CPU backends."""
    answer_for_newer_devices()
    skip = pytest.skip

    def skip_unless_lifted(reason: str = "", **kwargs: Any) -> None:
        if not LIFTED_SKIPS.search(reason):
            skip(reason, **kwargs)

    setattr(pytest, "skip", skip_unless_lifted)  # noqa: B010 (its type differs)
    compare_products_by_their_terms()
    if os.environ.get(ENGINE_VARIABLE) == "eager":
        from ttools.interpreter import interpret

        interpret(engine="eager").__enter__()  # never exited: it applies until the worker ends
    config.pluginmanager.register(CaseRunner(), "conformance-worker")
