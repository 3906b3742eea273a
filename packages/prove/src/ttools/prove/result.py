"""What is known of a range of sizes: defects, and what is neither proved nor seen to be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ttools.core.findings.findings import Witness
from ttools.prove.concrete.state import Event
from ttools.prove.host.launches import Launch
from ttools.prove.symbolic.conditions import Problem


@dataclass(frozen=True)
class Defect:
    """A finding, and the least size at which it appears.

    Attributes:
        event: at that size.
        launch: where it was seen.
        sizes: by name.
        is_least: whether smaller ones (each size alone) are known to be right.
        witness: what a launch at these sizes shows, if one was to be made.
        witness_note: the same in a sentence.
    """

    event: Event
    launch: Launch
    sizes: Mapping[str, int]
    is_least: bool
    witness: Witness | None = None
    witness_note: str = ""


@dataclass(frozen=True)
class Abstention:
    """Something that is neither proved nor seen to be wrong.

    Attributes:
        reason: in words.
        line: of the kernel or of host code; None if none can be named.
        file: of that line.
        kernel: concerned.
        sizes: part of the range that it is about.
    """

    reason: str
    line: int | None = None
    file: str | None = None
    kernel: str | None = None
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Result:
    """What is known of a range of sizes.

    Attributes:
        checked: first and last of each size.
        defects: those found, each at its least size.
        assumptions: under which the rest is claimed.
        abstained: what is not proved.
        by_solver: what a solver has shown not to be wrong.
        launches: those of the host code, of one path.
        parts: what is known of each launch of a script, of which this is the sum; else empty.
        seconds: that it took.
    """

    checked: Mapping[str, tuple[int, int]]
    defects: list[Defect] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    abstained: list[Abstention] = field(default_factory=list)
    by_solver: list[Problem] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    parts: list[Result] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """`fails`, `proved` or `not proved`."""
        if self.defects:
            return "fails"
        return "not proved" if self.abstained else "proved"
