"""The pytest plugin of a worker: keeps the marked functions and runs the cases it is told to.

The worker first sends what it collected, then runs each case whose node id it receives and answers
with the outcome (`tools/harness.py`). Loaded with `-p tools.conformance.plugin`.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tools.conformance.outcomes import EXCLUSIONS, Outcome, causes, judge
from tools.conformance.references import judge_products_by_their_terms
from tools.harness import requests

ENGINE_VARIABLE = "CONFORMANCE_ENGINE"
MARK = "interpreter"
# What a mark's condition is told that asks for the compute capability while modules are imported:
# the one whose kernels upstream skips nowhere. Tests that ask while they run meet the truth.
CAPABILITY = (10, 0)

# Skips that say that a GPU or a fork's CPU backend cannot run what upstream's interpreter runs:
# they do not mean us, so the case goes on.
LIFTED_SKIPS = re.compile(r" on CPU$|^small dots are supported only on|insufficient shared memory")


class CaseRunner:
    """The hooks that are active in one worker process."""

    def __init__(self) -> None:
        self._nodes, self._send = requests()
        self._items: dict[str, pytest.Function] = {}
        self._failed_files: dict[str, str] = {}
        self._outcome: Outcome | None = None
        self._capability: Any = None

    def pytest_collection(self) -> None:
        """Lets the modules be imported that ask for a GPU's capability in conditions of marks."""
        import torch

        self._capability = torch.cuda.get_device_capability
        torch.cuda.get_device_capability = lambda device=None: CAPABILITY

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes the files that cannot be imported."""
        if report.failed:
            self._failed_files.setdefault(report.nodeid, str(report.longrepr).strip())

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Replaces the text of a failed import by the reason, if it is a known one."""
        report = yield
        error = getattr(report, "call", None)
        if report.failed and error is not None and error.excinfo is not None:
            reasons = (rule(one) for one in causes(error.excinfo.value) for rule in EXCLUSIONS)
            known = next((reason for reason in reasons if reason), None)
            if known is not None:
                self._failed_files[report.nodeid] = known
        return report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tells the parent which cases there are."""
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
        """Runs cases in the order in which the parent names them, until it hangs up."""
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
        """Judges the first phase of a case that does not pass."""
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
                self._outcome = Outcome(item.nodeid, *judge(error))
        return report


def answer_for_newer_devices() -> None:
    """Says no to questions for a device that the installed Triton does not know.

    Tests import them from a module of Triton's: a checkout newer than the installed Triton asks for
    more devices, triton-cpu for its own CPU backend, which we are not.
    """
    import triton._internal_testing as internal

    def absent(name: str) -> Callable[[], bool]:
        if not name.startswith("is_"):
            raise AttributeError(f"module {internal.__name__!r} has no attribute {name!r}")
        return lambda: False

    setattr(internal, "__getattr__", absent)  # noqa: B010 (a module's, which mypy does not know)
    internal.is_cpu = lambda: False


def pytest_configure(config: pytest.Config) -> None:
    """Joins the parent, and says to forks of Triton that this is not their CPU backend."""
    answer_for_newer_devices()
    skip = pytest.skip

    def skip_unless_lifted(reason: str = "", **kwargs: Any) -> None:
        if not LIFTED_SKIPS.search(reason):
            skip(reason, **kwargs)

    setattr(pytest, "skip", skip_unless_lifted)  # noqa: B010 (its type differs)
    judge_products_by_their_terms()
    if os.environ.get(ENGINE_VARIABLE) == "eager":
        from ttools.interpreter import interpret

        interpret(engine="eager").__enter__()  # for as long as the worker lives
    config.pluginmanager.register(CaseRunner(), "conformance-worker")
