"""The state of the check `accuracy` in a run: shadows, sources, and the errors of outputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation
from ttools.core.reports.accuracy import (
    EDGES,
    GpuRange,
    LineErrors,
    OutputAccuracy,
    ulps,
    united_lines,
    united_outputs,
    united_ranges,
)
from ttools.sanitizer.accuracy.memory import ShadowMemory
from ttools.sanitizer.accuracy.sources import Sources
from ttools.sanitizer.accuracy.tolerances import Envelope
from ttools.sanitizer.accuracy.verdicts import LargestError, OutputErrors


@dataclass
class _Output:
    """An output of a kernel over all launches so far.

    Attributes:
        finding: The note about the output, without numbers.
        dtype: Name of the output's type.
        ulps: Largest error so far, in units in the last place.
        elements: Number of elements that were compared.
        rounding: Number of compared elements that are as accurate as the exact result rounded once.
        is_sensitive: True if the error is only allowed because the problem is sensitive.
        limited: Sentence on what was not followed or not observed; empty if there is nothing.
        is_wrong: True if a launch had an error that is not allowed.
        largest: The largest error, whether it is allowed or not.
        index: Index of the element with this error, as text.
        histogram: Numbers of elements by error.
        needed: The errors that a comparison with a reference must allow.
        lines: Sums of the absolute errors that each line causes.
        gpu_range: The results that a GPU may compute for the output, if that is requested.
    """

    finding: Finding
    dtype: str
    ulps: float = 0.0
    elements: int = 0
    rounding: int = 0
    is_sensitive: bool = False
    limited: str = ""
    is_wrong: bool = False
    largest: LargestError | None = None
    index: str = ""
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(EDGES) + 1, np.int64))
    needed: Envelope = field(default_factory=Envelope)
    lines: dict[SourceLocation, float] = field(default_factory=dict)
    gpu_range: GpuRange | None = None

    def add(self, errors: OutputErrors, index: Callable[[int], str], limited: str) -> None:
        """Add the errors of a launch; see `AccuracyRecord.add`."""
        if errors.ulps >= self.ulps:
            self.ulps, self.is_sensitive = errors.ulps, errors.is_sensitive
        if self.largest is None or errors.largest.ulps > self.largest.ulps:
            self.largest, self.index = errors.largest, index(errors.largest.element)
        self.elements += errors.elements
        self.rounding += errors.rounding
        self.histogram += errors.histogram
        self.needed.unite(errors.needed)
        for line, total in errors.lines.items():
            self.lines[line] = self.lines.get(line, 0.0) + total
        self.limited = self.limited or limited
        self.is_wrong |= bool(errors.wrong)

    def accuracy(self, argument: str) -> OutputAccuracy:
        """Return the errors as reports contain them."""
        assert self.largest is not None
        total = sum(self.lines.values())
        rtol, atol = (None, None) if self.is_wrong else self.needed.suggestion()
        return OutputAccuracy(
            kernel=self.finding.kernel,
            argument=argument,
            dtype=self.dtype,
            elements=self.elements,
            rounding=self.rounding,
            index=self.index,
            histogram=tuple(self.histogram.tolist()),
            shares=tuple((line, part / total) for line, part in self.lines.items()),
            rtol=rtol,
            atol=atol,
            limited=self.limited,
            gpu_range=self.gpu_range,
            **_without_element(self.largest),
        )


class AccuracyRecord:
    """The state of the check `accuracy` in a run.

    Args:
        report: Receives the findings that are made when the run ends.

    Attributes:
        memory: Shadows of memory, from the stores of all launches.
        gpu_memory: Shadows of memory whose rows describe what a GPU may compute differently.
        sources: The operations that introduce errors.
        followed: Kernels of which a launch was followed.
        sensitive: Kernels of which a launch without a finding has larger errors than rounding
            explains, so that later launches need an estimate of the sensitivity.
        lock: Held while a launch is followed.
    """

    def __init__(self, report: Callable[[Sequence[Finding]], None]) -> None:
        self._report = report
        self.memory = ShadowMemory()
        self.gpu_memory = ShadowMemory()
        self.sources = Sources()
        self.followed: set[object] = set()
        self.sensitive: set[object] = set()
        self.lock = threading.RLock()
        self._launches = 0
        self._outputs: dict[tuple[str, str, str], _Output] = {}
        self._closed: list[OutputAccuracy] = []
        self._closed_lines: list[LineErrors] = []

    def begin(self) -> int:
        """Return the number of a new launch."""
        self._launches += 1
        return self._launches

    def add(
        self,
        finding: Finding,
        argument: str,
        dtype: str,
        errors: OutputErrors,
        index: Callable[[int], str],
        limited: str,
    ) -> None:
        """Add the errors of an output of a launch.

        Args:
            finding: Note about the output, whose message is completed at the end of the run.
            argument: Name of the parameter.
            dtype: Name of the type of its elements.
            errors: The errors of the elements that the launch has stored.
            index: Returns the index of an element of the storage as text.
            limited: Sentence on what was not followed or not observed; empty if there is nothing.
        """
        key = finding.kernel, argument, dtype
        output = self._outputs.setdefault(key, _Output(finding, dtype))
        output.add(errors, index, limited)

    def add_range(self, kernel: str, argument: str, dtype: str, gpu_range: GpuRange) -> None:
        """Add what a GPU may compute for an output of a launch.

        Args:
            kernel: Name of the kernel.
            argument: Name of the parameter.
            dtype: Name of the type of its elements.
            gpu_range: The range of the launch.
        """
        output = self._outputs.get((kernel, argument, dtype))
        if output is not None:
            output.gpu_range = united_ranges(output.gpu_range, gpu_range)

    def outputs(self) -> list[OutputAccuracy]:
        """Return the errors of all outputs so far."""
        outputs = list(self._outputs.items())  # another thread may add outputs
        present = [output.accuracy(name) for (_, name, _), output in outputs if output.largest]
        return united_outputs([*self._closed, *present])

    def line_errors(self) -> list[LineErrors]:
        """Return the errors of all lines so far."""
        return united_lines([*self._closed_lines, *self.sources.line_errors()])

    def close(self) -> None:
        """Report the outputs without a defect, and forget all shadows."""
        notes = [
            _note(name, out) for (_, name, _), out in self._outputs.items() if not out.is_wrong
        ]
        self._closed, self._closed_lines = self.outputs(), self.line_errors()
        self._outputs.clear()
        self.memory = ShadowMemory()
        self.gpu_memory = ShadowMemory()
        self.sources = Sources()
        self.followed.clear()
        self.sensitive.clear()
        self._report(notes)


def _note(argument: str, output: _Output) -> Finding:
    largest = f"the largest error of `{argument}` is {ulps(output.ulps)} of {output.dtype}"
    if output.is_sensitive:
        why = (
            "more than rounding explains, but small changes of the inputs change the result as much"
        )
    else:
        why = f"within what rounding the output to {output.dtype} allows"
    compared = f"{output.rounding:,} of {output.elements:,} stored elements"
    notes = [f"{compared} are as accurate as rounding the exact result once"]
    if output.ulps:
        notes.append(f"parts of the largest error: {output.accuracy(argument).parts}")
    notes += [output.limited] if output.limited else []
    return replace(output.finding, message=f"{largest}: {why}", notes=tuple(notes))


def _without_element(error: LargestError) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if name != "element"}
