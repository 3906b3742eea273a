"""Python interface to proofs for all sizes: `prove(run, n=range(1, 1 << 33))`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ttools.core.errors import UsageError
from ttools.core.findings.findings import SEVERITIES, Finding, FindingsError, Severity
from ttools.core.process.user_module import load_functions
from ttools.core.reports.report import Report
from ttools.core.reports.result import Result
from ttools.prove.algebra.proofs import STRETCH

#: Default time limit in seconds for a range of sizes. Whatever is undecided when it is reached
#: counts as not proved.
SECONDS = 25.0
_RANGE = re.compile(r"\s*([A-Za-z_]\w*(?:\.shape\[\d+\])?)\s*=\s*([\d_]+)\s*(?::\s*([\d_]+)\s*)?")


@dataclass(frozen=True)
class SizesResult(Result):
    """The result for a range of sizes; it passes only if the launches are proved.

    Attributes:
        report: The report that `ttools prove` writes.
    """

    report: Report

    _frame_title: ClassVar[str] = "ttools prove"

    @property
    def outcome(self) -> Literal["passed", "failed", "unknown"]:
        """The verdict: `passed` if the launches are proved, `failed` if some sizes fail."""
        return self.report.outcome

    @property
    def verdict(self) -> Literal["proved", "fails", "not proved"]:
        """The verdict on the sizes, as earlier releases worded it; use `outcome` instead."""
        assert self.report.sizes is not None
        return self.report.sizes.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The defects, each with the smallest size at which it appears in `sizes`."""
        return self.report.findings

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The defects that are severe enough to count as failures; see `fail_on`."""
        return self.report.failing

    @property
    def passed(self) -> bool:
        """True if the launches are proved to be correct for all sizes."""
        return self.outcome == "passed"

    def raise_for_failures(self) -> None:
        """Raise an error unless the launches are proved to be correct for all sizes.

        Raises:
            FindingsError: Some sizes fail, or the launches are not proved; the error's text is the
                report.
        """
        if not self.passed:
            raise FindingsError(str(self), self.failures)

    def raise_for_findings(self) -> None:
        """Raise an error if some sizes fail. Use `raise_for_failures`, which also requires a proof.

        Raises:
            FindingsError: Some sizes fail; the error's text is the report.
        """
        text = "raise_for_findings() is now raise_for_failures(), which also requires a proof"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        if self.failures:
            raise FindingsError(str(self), self.failures)

    def to(self, form: str) -> str:
        """Return the report as `text`, `markdown`, `json`, `sarif`, `junit`, `github` or `html`.

        Raises:
            UsageError: There is no such format.
        """
        from ttools.core.reports.registry import write_report

        return write_report(self.report, form, verbose=True)

    def __str__(self) -> str:
        return self.to("text").rstrip()


def prove(
    run: Callable[..., Any],
    *,
    target: str = "",
    fail_on: Severity = "error",
    seconds: float = SECONDS,
    assume: Mapping[str, tuple[int | str, ...]] | None = None,
    **sizes: range | tuple[int, int],
) -> SizesResult:
    """Prove the launches of a function, for all sizes of a range at once.

    `run` receives an integer for each size by name, creates its tensors with torch and launches
    kernels as usual. It is called with symbolic integers, for which tensors have no memory, and
    again with real tensors at the sizes of each finding, if these are small.

    Args:
        run: The function; it takes each size by name.
        target: Name of the function in the report; by default its own.
        fail_on: Lowest severity at which a finding counts as a failure.
        seconds: Limit on CPU time. Whatever is undecided when it is reached counts as not proved.
            The elapsed time may be up to four times as long if other processes share the processor.
        assume: Assumptions about the integers in tensors, by the kernel parameters to which the
            tensors are passed. An assumption consists of the smallest and the largest value, as in
            `{"index": (0, "n - 1")}`, of `"distinct"` if no two integers are equal, and of
            `"sorted"` if they never decrease. Each part may be missing. The report lists the
            assumptions.
        sizes: The values of each size: a `range` of step 1, or first and last value.

    Raises:
        UsageError: A range is empty or has gaps, a bound is not a formula over sizes, or `run` puts
            numbers into a tensor that contradict an assumption.

    Examples:
        >>> prove(run, n=range(1, 1 << 20)).outcome
        'passed'
    """
    ends = {name: _ends(name, values) for name, values in sizes.items()}
    if not ends:
        raise UsageError("no sizes given: name a range, as in `n=range(1, 1 << 20)`")
    return check_ranges(run, ends, target=target, fail_on=fail_on, seconds=seconds, assume=assume)


def check_ranges(
    run: Callable[..., Any],
    ends: Mapping[str, tuple[int, int]],
    *,
    target: str = "",
    fail_on: Severity = "error",
    seconds: float = SECONDS,
    assume: Mapping[str, tuple[int | str, ...]] | None = None,
    stretch: float = STRETCH,
    witnesses: bool = True,
    late: str = "",
) -> SizesResult:
    """Prove a function as `prove` does, with the sizes as a mapping and with more options.

    Args:
        ends: First and last value of each size.
        target: Name of the function in the report.
        fail_on: Lowest severity at which a finding counts as a failure.
        seconds: Limit on CPU time.
        assume: Assumptions about the integers in tensors.
        stretch: Factor by which the elapsed time may exceed `seconds`.
        witnesses: If True, real launches are made at the sizes of findings, if these sizes are
            small.
        late: What the report says about anything that is undecided because the time limit was
            reached; by default, it states the limit in seconds.
    """
    if not seconds > 0:
        raise UsageError(f"seconds={seconds}: must be positive")
    if fail_on not in SEVERITIES:
        raise UsageError(f"fail_on={fail_on!r}: must be one of {', '.join(SEVERITIES)}")
    from ttools.prove.analysis import Analysis
    from ttools.prove.report import make_report
    from ttools.prove.witness import with_witnesses

    result = Analysis(run, ends, seconds, assume, stretch, late=late).analyse()
    if witnesses:
        result.defects = with_witnesses(result.defects, lambda sizes: run(**sizes))
    name = target or str(getattr(run, "__name__", run))
    return SizesResult(make_report(result, target=name, fail_on=fail_on))


def _ends(name: str, values: range | tuple[int, int]) -> tuple[int, int]:
    if isinstance(values, range):
        if values.step != 1 or not len(values):
            raise UsageError(f"sizes {name}={values}: must be a non-empty range with step 1")
        return values.start, values.stop - 1
    first, last = values
    return int(first), int(last)


def read_sizes(texts: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Read ranges from the command line: `n=1:4096`, both ends included.

    Raises:
        UsageError: A text is not a range, or a size has two ranges.
    """
    ranges: dict[str, tuple[int, int]] = {}
    for text in texts:
        match = _RANGE.fullmatch(text)
        if match is None:
            raise UsageError(f"--sizes {text!r}: must be NAME=FIRST:LAST, such as `n=1:4096`")
        first = int(match[2])
        last = first if match[3] is None else int(match[3])
        if first > last:
            raise UsageError(f"--sizes {text!r}: {first} is above {last}")
        if match[1] in ranges:
            raise UsageError(f"--sizes {text!r}: `{match[1]}` already has a range")
        ranges[match[1]] = (first, last)
    return ranges


def load_function(target: str, names: Mapping[str, object]) -> Callable[..., Any]:
    """Return the function that `FILE.py:run` names; the file is imported, not run as a script.

    Args:
        target: The text that names the function.
        names: Names of the sizes that the function has to accept.

    Raises:
        UsageError: There is no such file or function, or it does not accept these sizes.
    """
    ((_, run),) = load_functions([target])
    code = getattr(run, "__code__", None)
    takes = (
        set()
        if code is None
        else set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    )
    for name in names:
        if code is not None and name not in takes and not code.co_flags & 0x08:
            raise UsageError(f"`{target}` does not take an argument `{name}`")
    return run  # type: ignore[no-any-return]
