"""The verdict on a range of sizes, and what prevents a proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ttools.core.location import shown_place


@dataclass(frozen=True)
class Unproved:
    """Something that was neither proved nor shown to be wrong.

    Attributes:
        reason: A sentence for the report.
        line: Line in the kernel or in host code; None if there is no location.
        file: File of that line.
        kernel: Name of the affected kernel; None if it concerns all.
        sizes: Minimum and maximum of each size concerned.
    """

    reason: str
    line: int | None = None
    file: str | None = None
    kernel: str | None = None
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KernelSizes:
    """The verdict on the launches of one kernel.

    Attributes:
        kernel: Name of the kernel.
        checked: Minimum and maximum of each size.
        failing: The sizes of the first failure; None if none was found.
        is_least: True if smaller values (of each size separately) are known to be correct.
        failure: Description of the failure.
        unproved: Goals that were neither proved nor shown to be wrong.
    """

    kernel: str
    checked: Mapping[str, tuple[int, int]]
    failing: Mapping[str, int] | None = None
    is_least: bool = False
    failure: str = ""
    unproved: tuple[Unproved, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SizesVerdict:
    """The verdict on a range of sizes.

    Attributes:
        checked: Minimum and maximum of each size.
        verdict: `proved` if all sizes are correct, `fails` if some are wrong.
        assumptions: Conditions under which the verdict holds.
        abstained: Goals that were not proved.
        sentences: Statements about each kernel.
        kernels: Verdicts by kernel, except for launches from a script for all sizes.
        by_solver: Statements that rely on a solver.
        seconds: Duration of the analysis.
    """

    checked: Mapping[str, tuple[int, int]]
    verdict: Literal["proved", "fails", "not proved"]
    assumptions: tuple[str, ...] = ()
    abstained: tuple[Unproved, ...] = ()
    sentences: tuple[str, ...] = ()
    kernels: tuple[KernelSizes, ...] = ()
    by_solver: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def summary(self) -> str:
        return f"all sizes {ranges_text(self.checked)}: {self.verdict}"

    def as_data(self) -> dict[str, Any]:
        return {
            "checked": {name: list(ends) for name, ends in self.checked.items()},
            "verdict": self.verdict,
            "assumptions": list(self.assumptions),
            "abstained": [
                {
                    "line": unproved.line,
                    "file": unproved.file,
                    "kernel": unproved.kernel,
                    "reason": unproved.reason,
                    "sizes": {name: list(ends) for name, ends in unproved.sizes.items()},
                }
                for unproved in self.abstained
            ],
            "by_solver": list(self.by_solver),
            "seconds": self.seconds,
        }

    def text(self, root: Path) -> str:
        lines = list(self.sentences)
        for item in self.abstained:
            where = "" if item.file is None else f"{shown_place(item.file, item.line, root=root)}: "
            about = f" (for {ranges_text(item.sizes)})" if item.sizes else ""
            lines.append(f"{where}not proved: {item.reason}{about}")
        lines += self.by_solver
        lines += [f"assumed: {item}" for item in self.assumptions]
        return "\n".join(lines or ["every launch is right"])


def ranges_text(ranges: Mapping[str, tuple[int, int]]) -> str:
    """Format ranges as `n = 1 to 4,096, m = 7`."""
    return ", ".join(
        f"{name} = {low:,}" if low == high else f"{name} = {low:,} to {high:,}"
        for name, (low, high) in ranges.items()
    )


def point_text(sizes: Mapping[str, int]) -> str:
    """Format sizes as `n = 4,096, m = 7`."""
    return ", ".join(f"{name} = {value:,}" for name, value in sizes.items())
