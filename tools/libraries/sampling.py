"""A pytest plugin that runs a sample of the cases of every function, and records their outcomes.

`checkout.py` loads it with `-p tools.libraries.sampling`, and sets environment variables that
select the cases and name the report file. Each outcome is written as a line of JSON as soon as the
case has ended, so that a crash or a timeout loses one case only.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tools.libraries.outcomes import explain, first_line
from tools.libraries.reduction import reduce_modules, reduce_parameters

REPORT = "TTOOLS_LIBRARY_REPORT"
DONE = "TTOOLS_LIBRARY_DONE"
SELECTION = "TTOOLS_LIBRARY_SELECTION"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selection of the cases, and limits of their sizes.

    Attributes:
        sample: Number of cases of each function; 0 for all.
        seed: Seed of the sample.
        smallest: If True, the sample consists of the smallest cases instead of random ones.
        at_most: Limits of parameters, variables and strategies by name.
        left_out: Regular expressions of names of cases that do not run, each with the reason.
        known_keys: If True, names in a key of `triton.autotune` that are not parameters are
            removed. Triton 3.9 rejects such names, and earlier versions ignore them.
    """

    sample: int = 0
    seed: int = 0
    smallest: bool = False
    at_most: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    known_keys: bool = False


def selection() -> Selection:
    """Return the selection that the environment variable contains."""
    return Selection(**json.loads(os.environ[SELECTION]))


def _write(message: dict[str, Any]) -> None:
    with Path(os.environ[REPORT]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(message) + "\n")


def _write_outcome(
    case: str,
    verdict: str,
    reason: str = "",
    seconds: float = 0.0,
    report: str = "",
    cpu_seconds: float = 0.0,
) -> None:
    if case not in _done() | _written:
        _written.add(case)
        outcome = {"verdict": verdict, "reason": reason, "seconds": seconds, "report": report}
        _write({"case": case, **outcome, "cpu_seconds": cpu_seconds})


#: Matches the first line of a finding that fails a test.
_ERROR = re.compile(r"^\S.*: error\[\w+\]:", re.MULTILINE)
#: The cases whose outcomes this process has written.
_written: set[str] = set()


@cache
def _done() -> frozenset[str]:
    """Return the cases that an earlier process has run."""
    return frozenset(json.loads(Path(os.environ[DONE]).read_text(encoding="utf-8")))


def _case(item: pytest.Item) -> str:
    """Return the path of a case's file and the case's name in it."""
    return f"{item.path.resolve()}::{item.nodeid.partition('::')[2]}"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Prepare the reductions before a library and its tests are imported."""
    chosen = selection()
    if chosen.known_keys:
        _leave_out_unknown_keys()
    if chosen.at_most:
        reduce_modules(chosen.at_most)
    _take_first_failures()


def _take_first_failures() -> None:
    """Make Hypothesis, if it is installed, report the first failure instead of the smallest.

    Otherwise, a kernel that Triton rejects would be compiled for each of hundreds of attempts.
    """
    try:
        from hypothesis import Phase, settings
    except ImportError:
        return
    settings.register_profile("first", phases=(Phase.explicit, Phase.generate), database=None)
    settings.load_profile("first")


def _leave_out_unknown_keys() -> None:
    import triton

    autotune = triton.autotune

    def autotune_by_parameters(configs: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
        def decorate(function: Any) -> Any:
            names = [name for name in key if name in function.arg_names]
            return autotune(configs, names, *args, **kwargs)(function)

        return decorate

    triton.autotune = autotune_by_parameters


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep as many cases of each function as the sample contains."""
    chosen = selection()
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        reasons = (why for part, why in chosen.left_out.items() if re.search(part, item.name))
        reason = next(reasons, None)
        if reason is None:
            functions[_case(item).removesuffix(item.name) + _function(item)].append(item)
        else:
            _write_outcome(_case(item), "skipped", reason)
    kept = [item for cases in functions.values() for item in _chosen(cases, chosen)]
    for item in kept:
        reduce_parameters(_parameters(item), chosen.at_most)
    ids = {item.nodeid for item in kept if _case(item) not in _done()}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
    items[:] = [item for item in items if item.nodeid in ids]
    _write({"collected": [_case(item) for item in items]})


def _function(item: pytest.Item) -> str:
    return getattr(item, "originalname", item.name)


def _chosen(cases: list[pytest.Item], chosen: Selection) -> list[pytest.Item]:
    if not 0 < chosen.sample < len(cases):
        return cases
    if chosen.smallest:
        return sorted(cases, key=lambda case: _size(_parameters(case)))[: chosen.sample]
    return random.Random(f"{chosen.seed} {_function(cases[0])}").sample(cases, chosen.sample)


def _parameters(item: pytest.Item) -> dict[str, Any]:
    call = getattr(item, "callspec", None)
    return {} if call is None else call.params


def _size(parameters: Mapping[str, Any]) -> float:
    """Return the product of all numbers among the parameters."""
    return math.prod(max(_number(value), 1) for value in parameters.values())


def _number(value: Any) -> float:
    """Return a parameter's size: a number, a shape's product, or the last number of offsets."""
    if isinstance(value, (list, tuple)):
        numbers = [_number(entry) for entry in value]
        offsets = len(numbers) > 1 and not numbers[0] and numbers == sorted(numbers)
        return numbers[-1] if offsets else math.prod(max(number, 1) for number in numbers)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Record a file that cannot be imported, or that skips itself."""
    report = yield
    if report.failed:
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E  ")]
        reason = first_line(lines[-1].removeprefix("E  ") if lines else str(report.longrepr))
        _write_outcome(f"{collector.path.resolve()}::(import)", "failed", reason)
    elif report.skipped:
        reason = first_line(str(report.longrepr))
        _write_outcome(f"{collector.path.resolve()}::(file)", "skipped", reason)
    return report


#: CPU time of the calls of cases, in seconds.
_CPU_SECONDS = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Measure the CPU time of a case's call, including the checks of its launches."""
    begin = time.process_time()
    try:
        yield
    finally:
        item.stash[_CPU_SECONDS] = time.process_time() - begin


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write the outcome of a case's call, or of the phase that ended the case early.

    For cases with `unittest` subtests, the outcome is that of the first subtest that fails.
    """
    report = yield
    part = type(report).__name__ == "SubtestReport"
    if (report.when == "call" and not part) or not report.passed:
        verdict, reason = _verdict(report, call)
        findings = _findings(report, call)
        if verdict != "pass" and _ERROR.search(findings):
            verdict, reason = "finding", first_line(findings)
        seconds = item.stash.get(_CPU_SECONDS, 0.0)
        _write_outcome(_case(item), verdict, reason, report.duration, findings, seconds)
    return report


def _findings(report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    """Return the text of the checks' report on a case; empty if there is none."""
    texts = [text for title, text in report.sections if "ttools sanitize" in title]
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, pytest.fail.Exception) and _ERROR.search(str(error.msg)):
        texts.append(str(error.msg))
    return "\n".join(texts)


def _verdict(report: pytest.TestReport, call: pytest.CallInfo[None]) -> tuple[str, str]:
    """Return the verdict and its reason."""
    if report.passed:
        return "pass", ""
    error = call.excinfo.value if call.excinfo is not None else None
    if hasattr(report, "wasxfail"):
        return "skipped", first_line(f"expected to fail: {report.wasxfail or 'no reason given'}")
    if report.skipped:
        return "skipped", first_line(f"the test skips itself: {getattr(error, 'msg', error)}")
    if error is None:
        return "failed", first_line(str(report.longrepr))
    verdict, reason = explain(error)
    if verdict == "failed" and isinstance(error, AssertionError):
        return "wrong", first_line(str(error))
    return verdict, reason
