"""A pytest plugin: runs a sample of the cases of every function, and writes down what each came to.

Loaded with `-p tools.libraries.sampling` by `checkout.py`, which names the file to write and the
size of the sample in the environment. A line of JSON is written as soon as a case has ended, so
that a crash or a timeout loses one case only.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tools.libraries.outcomes import Outcome, first_line

REPORT = "TTOOLS_LIBRARY_REPORT"
SAMPLE = "TTOOLS_LIBRARY_SAMPLE"
SEED = "TTOOLS_LIBRARY_SEED"


def _write(message: dict[str, Any]) -> None:
    with Path(os.environ[REPORT]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(message) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps so many cases of each function as the sample is large."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        name = getattr(item, "originalname", item.name)
        if "dtensor" in name:
            reason = "spawns a process for each of several GPUs"
            _write(asdict(Outcome(item.name, "refused", reason)))
        else:
            functions[name].append(item)
    size = int(os.environ.get(SAMPLE, "0"))
    generator = random.Random(int(os.environ.get(SEED, "0")))
    kept: set[str] = set()
    for cases in functions.values():
        chosen = generator.sample(cases, size) if 0 < size < len(cases) else cases
        kept |= {case.nodeid for case in chosen}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]
    _write({"collected": [item.name for item in items]})


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Notes a file that cannot be imported, or that skips itself."""
    if report.failed:
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E  ")]
        reason = first_line(lines[-1].removeprefix("E  ") if lines else str(report.longrepr))
        _write(asdict(Outcome("(import)", "failed", reason)))
    elif report.skipped:
        _write(asdict(Outcome("(file)", "refused", first_line(str(report.longrepr)))))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Writes down the case's outcome: of its call, or of the phase that ended it early."""
    report = yield
    if report.when == "call" or not report.passed:
        verdict, reason = _judge(report, call)
        _write(asdict(Outcome(item.name, verdict, reason, report.duration)))
    return report


def _judge(report: pytest.TestReport, call: pytest.CallInfo[None]) -> tuple[str, str]:
    """The verdict and its reason."""
    from ttools.core.errors import UnsupportedError

    if report.passed:
        return "pass", ""
    error = call.excinfo.value if call.excinfo is not None else None
    if hasattr(report, "wasxfail"):
        return "refused", first_line(f"expected to fail: {report.wasxfail or 'no reason given'}")
    if report.skipped:
        return "refused", first_line(f"the test skips itself: {getattr(error, 'msg', error)}")
    if isinstance(error, AssertionError):
        return "wrong", first_line(str(error))
    if isinstance(error, UnsupportedError):
        return "unsupported", first_line(str(error))
    return "failed", first_line(f"{type(error).__name__}: {error}")
