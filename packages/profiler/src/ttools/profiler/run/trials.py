"""What autotuners only tried, which a profile leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ttools.core.reports.report import counted


class Timed(Protocol):
    """What a launch, or several, took."""

    @property
    def seconds(self) -> float:
        """All of them."""

    @property
    def launches(self) -> int:
        """How many these are."""

    @property
    def kind(self) -> str:
        """`kernel`, or `copy` or `fill` of memory."""


@dataclass
class Trials:
    """What was left out of a profile because autotuners only tried configurations.

    Attributes:
        launches: of Triton's kernels.
        libraries: kernels of libraries between them, which time trials and put memory back.
        seconds: that all of these took, with copies and fills of memory between them.
    """

    launches: int = 0
    libraries: int = 0
    seconds: float = 0.0

    def add(self, samples: Iterable[Timed], *, libraries: bool = False) -> None:
        for each in samples:
            self.seconds += each.seconds
            if libraries:
                self.libraries += each.launches if each.kind == "kernel" else 0
            else:
                self.launches += each.launches

    def __str__(self) -> str:
        """As a report says it; empty where nothing was left out."""
        if not self.launches:
            return ""
        said = f"{counted(self.launches, 'trial launch', 'trial launches')} by autotuners left out"
        if self.libraries:
            said += f", with {counted(self.libraries, 'kernel')} of libraries between them"
        return said
