"""All sizes from Python: `check_sizes(run, n=range(1, 1 << 33))`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.findings.findings import Finding, FindingsError, Severity
from ttools.core.process.user_module import load_functions
from ttools.core.reports.report import Report
from ttools.prove.algebra.proofs import STRETCH

#: After which a range that is not decided yet stays so.
SECONDS = 25.0
_RANGE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([\d_]+)\s*(?::\s*([\d_]+)\s*)?")


@dataclass(frozen=True)
class SizesResult:
    """What is known of a range of sizes.

    Attributes:
        report: as written by `ttools sanitize --sizes`.
    """

    report: Report

    @property
    def verdict(self) -> str:
        """`proved`, `fails` or `not proved`."""
        assert self.report.sizes is not None
        return self.report.sizes.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The defects, each with the least size at which it appears in `sizes`."""
        return self.report.findings

    def raise_for_findings(self) -> None:
        """Raises where some sizes are wrong.

        Raises:
            FindingsError: with the report as its text.
        """
        if self.report.failing:
            raise FindingsError(str(self), self.report.failing)

    def __str__(self) -> str:
        from ttools.core.reports.registry import write_report

        return write_report(self.report, "text").rstrip()


def check_sizes(
    run: Callable[..., Any],
    *,
    target: str = "",
    fail_on: Severity = "error",
    seconds: float = SECONDS,
    assume: Mapping[str, tuple[int | str, ...]] | None = None,
    **sizes: range | tuple[int, int],
) -> SizesResult:
    """Checks what a function launches, for all sizes of a range at once.

    `run` gets a number for each size by name, makes its tensors with torch and launches as usual.
    It runs with tensors that have no memory, and once more with tensors that have some at the sizes
    of each finding, where these are small.

    Args:
        run: the function.
        target: what the report calls it.
        fail_on: from which severity on findings fail.
        seconds: of computing, after which what is left is not proved; on the clock that may take
            four times as long where others share the processor.
        assume: least and greatest of the integers in tensors, by parameter of kernels:
            `{"index": (0, "n - 1")}`; after them, or alone, `"distinct"` where no two are equal
            and `"sorted"` where none is below the one before. The report repeats it.
        sizes: the values of each: a `range` of step 1, or first and last value.

    Raises:
        UsageError: a range is empty or has gaps, a bound is no formula of sizes, or what `run` is
            known to put into a tensor is not as promised.

    Examples:
        >>> check_sizes(run, n=range(1, 1 << 20)).verdict
        'proved'
    """
    ends = {name: _ends(name, values) for name, values in sizes.items()}
    if not ends:
        raise UsageError("no sizes to check: name a range, as in `n=range(1, 1 << 20)`")
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
) -> SizesResult:
    """The same with first and last value of each size in a mapping.

    Args:
        run: as above, and so all others that are not named here.
        ends: first and last value of each size.
        stretch: so many times `seconds` it may take on the clock.
        witnesses: whether launches are made at the sizes of findings, where they are small.
    """
    from ttools.prove.analysis import Analysis
    from ttools.prove.report import make_report
    from ttools.prove.witness import with_witnesses

    result = Analysis(run, ends, seconds, assume, stretch).analyse()
    if witnesses:
        result.defects = with_witnesses(result.defects, lambda sizes: run(**sizes))
    name = target or str(getattr(run, "__name__", run))
    return SizesResult(make_report(result, target=name, fail_on=fail_on))


def _ends(name: str, values: range | tuple[int, int]) -> tuple[int, int]:
    if isinstance(values, range):
        if values.step != 1 or not len(values):
            raise UsageError(f"sizes {name}={values}: must be a range of step 1 that is not empty")
        return values.start, values.stop - 1
    first, last = values
    return int(first), int(last)


def read_sizes(texts: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Ranges as the command line has them: `n=1:4096`, both ends included.

    Raises:
        UsageError: a text is none.
    """
    found: dict[str, tuple[int, int]] = {}
    for text in texts:
        match = _RANGE.fullmatch(text)
        if match is None:
            raise UsageError(f"--sizes {text!r}: must be NAME=FIRST:LAST, as `n=1:4096`")
        first = int(match[2])
        last = first if match[3] is None else int(match[3])
        if first > last:
            raise UsageError(f"--sizes {text!r}: {first} is above {last}")
        if match[1] in found:
            raise UsageError(f"--sizes {text!r}: `{match[1]}` has a range already")
        found[match[1]] = (first, last)
    return found


def load_function(target: str, names: Mapping[str, object]) -> Callable[..., Any]:
    """The function that `FILE.py:run` names; the file is imported, not run as a script.

    Raises:
        UsageError: there is no such file or function, or it does not take these sizes.
    """
    ((_, run),) = load_functions([target])
    code = getattr(run, "__code__", None)
    takes = (
        set()
        if code is None
        else set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    )
    for each in names:
        if code is not None and each not in takes and not code.co_flags & 0x08:
            raise UsageError(f"`{target}` takes no argument `{each}`")
    return run  # type: ignore[no-any-return]
