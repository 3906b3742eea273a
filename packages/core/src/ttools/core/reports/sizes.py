"""What is known of a range of sizes: the verdict, and what stands between it and a proof.

Owns its words and its form as data. Must not know how it is found out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ttools.core.location import shown_path


@dataclass(frozen=True, kw_only=True)
class Unproved:
    """Something that is neither proved nor seen to be wrong.

    Attributes:
        reason: in words.
        file: where it is, with the line; None if it has none.
        line: of the kernel or of host code.
        kernel: concerned, if any.
        sizes: first and last of each size that it is about.
    """

    reason: str
    file: str | None = None
    line: int | None = None
    kernel: str | None = None
    sizes: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class KernelSizes:
    """What is known of the launches of one kernel.

    Attributes:
        kernel: its name.
        checked: first and last of each size.
        failing: the sizes of the first failure; None if none was seen.
        is_least: whether smaller ones (each size alone) are known to be right.
        failure: what is wrong there, in words.
        unproved: what is neither proved nor seen to be wrong.
    """

    kernel: str
    checked: Mapping[str, tuple[int, int]]
    failing: Mapping[str, int] | None = None
    is_least: bool = False
    failure: str = ""
    unproved: tuple[Unproved, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SizesVerdict:
    """What is known of a range of sizes.

    Attributes:
        checked: first and last of each size.
        verdict: `proved` where all sizes are right, `fails` where some are wrong.
        assumptions: under which it is said.
        abstained: what is not proved.
        sentences: what is to be said of each kernel.
        kernels: what is known of each, launches for all sizes of a script apart.
        by_solver: what rests on the answer of a solver.
        seconds: that it took.
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
                    "line": each.line,
                    "file": each.file,
                    "kernel": each.kernel,
                    "reason": each.reason,
                    "sizes": {name: list(ends) for name, ends in each.sizes.items()},
                }
                for each in self.abstained
            ],
            "by_solver": list(self.by_solver),
            "seconds": self.seconds,
        }

    def text(self, root: Path) -> str:
        lines = list(self.sentences)
        for each in self.abstained:
            where = "" if each.file is None else f"{shown_path(each.file, root)}:{each.line}: "
            about = f" (for {ranges_text(each.sizes)})" if each.sizes else ""
            lines.append(f"{where}not proved: {each.reason}{about}")
        lines += self.by_solver
        lines += [f"assumed: {each}" for each in self.assumptions]
        return "\n".join(lines or ["every launch is right"])


def ranges_text(ranges: Mapping[str, tuple[int, int]]) -> str:
    """`n = 1 to 4,096, m = 7`."""
    return ", ".join(
        f"{name} = {low:,}" if low == high else f"{name} = {low:,} to {high:,}"
        for name, (low, high) in ranges.items()
    )


def point_text(sizes: Mapping[str, int]) -> str:
    """`n = 4,096, m = 7`."""
    return ", ".join(f"{name} = {value:,}" for name, value in sizes.items())
