"""The accuracy of outputs and source lines, as the check `accuracy` has measured it in a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from ttools.core.location import SourceLocation
from ttools.core.reports.wrapping import wrapped

#: Upper ends of the bins of histograms, in units in the last place. The first bin contains only
#: errors of zero. One more bin, after these, contains larger errors, and errors that are not
#: finite.
EDGES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0, 16384.0)
#: Reasons why the results of a GPU may differ from those of the engine.
GPU_RULES = (
    "sums of matrix products",
    "approximate functions",
    "order of sums",
    "fused products",
)
#: A source line whose share of an output's error is smaller than this is not listed.
_LEAST_SHARE = 0.005
_NOTHING_COMPARED = (
    "none, because the check `accuracy` has compared no output of floating-point numbers"
)
_HEADING = "suggested tolerances for torch.testing.assert_close:"


@dataclass(frozen=True, kw_only=True)
class GpuRange:
    """The range of results that a GPU may compute for an output, estimated to first order.

    Attributes:
        gpu: The GPU, as the user named it.
        ulps: The largest difference from the results of the engine, in ulp of the output's type.
        index: Index of the element with this difference, such as `[3, 5]`.
        low: Smallest value that the GPU may compute for this element.
        high: Largest value that the GPU may compute for this element.
        elements: Number of elements that were examined.
        equal: Number of examined elements for which the GPU computes the same bits as the engine.
        shares: Shares of `GPU_RULES` in the largest difference, largest first.
    """

    gpu: str
    ulps: float
    index: str
    low: float
    high: float
    elements: int
    equal: int
    shares: tuple[tuple[str, float], ...]

    @property
    def text(self) -> str:
        """Return the range as text."""
        if self.equal == self.elements:
            return "the same bits"
        parts = ", ".join(f"{share:.0%} {rule}" for rule, share in self.shares if share >= 0.005)
        return (
            f"up to {ulps(self.ulps)} from the results here; widest: {self.low:.9g} to "
            f"{self.high:.9g}{f' at {self.index}' if self.index else ''} ({parts})"
        )

    @property
    def data(self) -> dict[str, Any]:
        """Return the range as plain data."""
        shares = [{"rule": rule, "share": share} for rule, share in self.shares]
        return {**vars(self), "shares": shares}


@dataclass(frozen=True, kw_only=True)
class OutputAccuracy:
    """The errors of an output of a kernel, over all launches of a run.

    All errors are counted in units in the last place (ulp) of the output's type.

    Attributes:
        kernel: Name of the kernel.
        argument: Name of the parameter.
        dtype: Name of the type of the elements.
        elements: Number of elements that were compared with their exact values.
        rounding: Number of elements that are as accurate as rounding the exact value once.
        ulps: The largest error; infinite if the element is not finite but should be.
        index: Index of the element with this error, such as `[3, 5]`.
        stored: The value of this element.
        exact: Exact value of the element.
        by_rounding: The part of the largest error that results from rounding the exact value to the
            type.
        by_conditioning: The part of the largest error that is explained by the sensitivity to the
            inputs.
        by_kernel: The remaining part, which is caused by the kernel's own rounding.
        histogram: Number of elements in each bin of errors; see `EDGES`.
        shares: Source lines, with their shares in the sum of the absolute errors of all elements.
        rtol: Relative tolerance for a comparison with a reference; None if the output has errors
            that are defects.
        atol: Absolute tolerance for the same comparison.
        limited: Sentence on what was not followed or not observed; empty if there is nothing.
        gpu_range: The results that a GPU may compute for the output; None if not requested.
    """

    kernel: str
    argument: str
    dtype: str
    elements: int
    rounding: int
    ulps: float
    index: str
    stored: float
    exact: float
    by_rounding: float
    by_conditioning: float
    by_kernel: float
    histogram: tuple[int, ...]
    shares: tuple[tuple[SourceLocation, float], ...] = ()
    rtol: float | None = None
    atol: float | None = None
    limited: str = ""
    gpu_range: GpuRange | None = None

    @property
    def parts(self) -> str:
        """Return the parts of the largest error as text."""
        return (
            f"{ulps(self.by_rounding)} by rounding to {self.dtype}, "
            f"{ulps(self.by_conditioning)} by the conditioning, "
            f"{ulps(self.by_kernel)} by the kernel"
        )

    @property
    def tolerance(self) -> str:
        """Return the suggested tolerance as text, or the reason why there is none."""
        if self.rtol is None or self.atol is None:
            return "none, because the output has errors that are reported as defects"
        return f"rtol={self.rtol:g}, atol={self.atol:g}"

    @property
    def reason(self) -> str:
        """Return the reason for the suggested tolerance as text."""
        text = f"largest error {ulps(self.ulps)}: {self.parts}"
        return "; ".join(filter(None, [text, self.limited]))


@dataclass(frozen=True, kw_only=True)
class LineErrors:
    """The errors of the operations of a source line, over all launches of a run.

    Attributes:
        location: Location of the source line.
        operations: Names of the operations, as in findings.
        dtype: Name of the type of the operations' results.
        eps: Distance from 1 to the next larger number of this type.
        introduced: Sum of the absolute errors that the operations introduce by rounding.
        carried: Sum of the absolute errors that result from the errors of the operands.
        size: Sum of the absolute values of the results.
    """

    location: SourceLocation
    operations: tuple[str, ...]
    dtype: str
    eps: float
    introduced: float
    carried: float
    size: float

    @property
    def introduced_ulps(self) -> float:
        """Return the mean error that the line introduces, relative to its results, in ulp."""
        return self.introduced / (self.eps * self.size) if self.size else 0.0

    @property
    def carried_ulps(self) -> float:
        """Return the mean error that the operands contribute, relative to the results, in ulp."""
        return self.carried / (self.eps * self.size) if self.size else 0.0


def ulps(error: float) -> str:
    """Return an error in units in the last place as text."""
    return f"{error:,.0f} ulp" if 100 <= error < 1e6 else f"{error:.2g} ulp"


def bin_labels() -> list[str]:
    """Return a label for each bin of a histogram: the largest error in it."""
    return [*(f"{edge:g}" for edge in EDGES), "more"]


def united_outputs(outputs: Iterable[OutputAccuracy]) -> list[OutputAccuracy]:
    """Merge the results of several runs for the same outputs.

    The merged tolerance is sufficient for all runs. The shares of lines are taken from the result
    with the largest error.
    """
    merged: dict[tuple[str, str, str], OutputAccuracy] = {}
    for output in outputs:
        key = output.kernel, output.argument, output.dtype
        first = merged.get(key)
        merged[key] = output if first is None else _united(first, output)
    return list(merged.values())


def _united(first: OutputAccuracy, second: OutputAccuracy) -> OutputAccuracy:
    worst = second if second.ulps > first.ulps else first
    rtols, atols = (first.rtol, second.rtol), (first.atol, second.atol)
    counts = zip(first.histogram, second.histogram, strict=True)
    return replace(
        worst,
        elements=first.elements + second.elements,
        rounding=first.rounding + second.rounding,
        histogram=tuple(a + b for a, b in counts),
        rtol=None if None in rtols else max(r for r in rtols if r is not None),
        atol=None if None in atols else max(a for a in atols if a is not None),
        limited=first.limited or second.limited,
        gpu_range=united_ranges(first.gpu_range, second.gpu_range),
    )


def united_ranges(first: GpuRange | None, second: GpuRange | None) -> GpuRange | None:
    """Merge the ranges of an output in two launches or runs."""
    if first is None or second is None:
        return first or second
    return replace(
        second if second.ulps > first.ulps else first,
        elements=first.elements + second.elements,
        equal=first.equal + second.equal,
    )


def united_lines(lines: Iterable[LineErrors]) -> list[LineErrors]:
    """Merge the results of several runs for the same lines, in the order of the source."""
    merged: dict[tuple[str, int, str], LineErrors] = {}
    for line in lines:
        key = line.location.file, line.location.line, line.dtype
        first = merged.get(key)
        if first is not None:
            line = replace(
                first,
                operations=tuple(dict.fromkeys([*first.operations, *line.operations])),
                introduced=first.introduced + line.introduced,
                carried=first.carried + line.carried,
                size=first.size + line.size,
            )
        merged[key] = line
    return [merged[key] for key in sorted(merged)]


def tolerance_lines(outputs: Sequence[OutputAccuracy]) -> list[str]:
    """Return the suggested tolerances as lines of text, with a heading."""
    return [_HEADING, *(f"  {line}" for line in _tolerance_lines(outputs))]


def _tolerance_lines(outputs: Sequence[OutputAccuracy]) -> Iterator[str]:
    if not outputs:
        yield _NOTHING_COMPARED
    for output in outputs:
        yield f"`{output.argument}` of {output.kernel} ({output.dtype}): {output.tolerance}"
        yield f"  {output.reason}"


def range_lines(outputs: Sequence[OutputAccuracy]) -> list[str]:
    """Return the ranges of results on a GPU as lines of text; none if not requested."""
    ranges = [(output, output.gpu_range) for output in outputs if output.gpu_range is not None]
    if not ranges:
        return []
    lines = [f"results that {ranges[0][1].gpu} may compute (estimated to first order):"]
    for output, gpu_range in ranges:
        text = f"`{output.argument}` of {output.kernel} ({output.dtype}): {gpu_range.text}"
        lines += wrapped(text, "  ", "    ")
    return lines


def listed_shares(output: OutputAccuracy) -> list[tuple[SourceLocation, float]]:
    """Return the lines whose share of an output's error is worth listing, largest share first."""
    shares = [entry for entry in output.shares if entry[1] >= _LEAST_SHARE]
    return sorted(shares, key=lambda entry: -entry[1])


def output_data(output: OutputAccuracy) -> dict[str, Any]:
    """Return an output as plain data; numbers that are not finite become None."""
    data = {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in vars(output).items()
    }
    data["shares"] = [
        {"file": location.file, "line": location.line, "share": share}
        for location, share in listed_shares(output)
    ]
    del data["gpu_range"]
    if output.gpu_range is not None:
        data["gpu_range"] = output.gpu_range.data
    return data


def line_data(line: LineErrors) -> dict[str, Any]:
    """Return a line as plain data."""
    return {
        "file": line.location.file,
        "line": line.location.line,
        "operations": line.operations,
        "dtype": line.dtype,
        "introduced_ulps": line.introduced_ulps,
        "carried_ulps": line.carried_ulps,
    }
