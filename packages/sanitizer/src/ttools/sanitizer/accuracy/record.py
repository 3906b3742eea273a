"""The state of the check `accuracy` in a run: shadows, sources, and the errors of outputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ttools.core.findings.findings import Finding
from ttools.sanitizer.accuracy.memory import ShadowMemory
from ttools.sanitizer.accuracy.sources import Sources
from ttools.sanitizer.accuracy.verdicts import OutputErrors


@dataclass
class _Output:
    """An output of a kernel over all launches so far.

    Attributes:
        finding: The note about it, without numbers.
        dtype: Name of its type.
        ulps: Largest error so far, in units in the last place.
        elements: Number of the elements that were compared.
        rounding: Number of those that are as accurate as rounding the exact result once.
        is_sensitive: True if the error is only allowed because the problem is sensitive.
        limited: Sentence on programs that were not followed, or nothing.
        is_wrong: True if a launch had an error that is not allowed.
    """

    finding: Finding
    dtype: str
    ulps: float = 0.0
    elements: int = 0
    rounding: int = 0
    is_sensitive: bool = False
    limited: str = ""
    is_wrong: bool = False


class AccuracyRecord:
    """The state of the check `accuracy` in a run.

    Args:
        report: Receives the findings that are made when the run ends.

    Attributes:
        memory: Shadows of memory, from the stores of all launches.
        sources: The operations that introduce errors.
        lock: Held while a launch is followed.
    """

    def __init__(self, report: Callable[[Sequence[Finding]], None]) -> None:
        self._report = report
        self.memory = ShadowMemory()
        self.sources = Sources()
        self.lock = threading.Lock()
        self._launches = 0
        self._outputs: dict[tuple[str, str, str], _Output] = {}

    def begin(self) -> int:
        """Return the number of a new launch."""
        self._launches += 1
        return self._launches

    def add(
        self, finding: Finding, argument: str, dtype: str, errors: OutputErrors, limited: str
    ) -> None:
        """Add the errors of an output of a launch.

        Args:
            finding: Note about the output, whose message is completed at the end of the run.
            argument: Name of the parameter.
            dtype: Name of the type of its elements.
            errors: The errors of the elements that the launch has stored.
            limited: Sentence on programs that were not followed, or nothing.
        """
        key = finding.kernel, argument, dtype
        output = self._outputs.setdefault(key, _Output(finding, dtype))
        if errors.ulps >= output.ulps:
            output.ulps, output.is_sensitive = errors.ulps, errors.is_sensitive
        output.elements += errors.elements
        output.rounding += errors.rounding
        output.limited = output.limited or limited
        output.is_wrong |= bool(errors.wrong)

    def close(self) -> None:
        """Report the outputs without a defect, and forget all shadows."""
        notes = [
            _note(name, out) for (_, name, _), out in self._outputs.items() if not out.is_wrong
        ]
        self._outputs.clear()
        self.memory = ShadowMemory()
        self.sources = Sources()
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
    notes += [output.limited] if output.limited else []
    return replace(output.finding, message=f"{largest}: {why}", notes=tuple(notes))


def ulps(error: float) -> str:
    """Return an error in units in the last place as text."""
    return f"{error:,.0f} ulp" if 100 <= error < 1e6 else f"{error:.2g} ulp"
