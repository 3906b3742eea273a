"""The trials of autotuners that a profile leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ttools.core.reports.report import counted


class Timed(Protocol):
    """The time of a launch, or of several."""

    @property
    def seconds(self) -> float:
        """Return the total time."""

    @property
    def launches(self) -> int:
        """Return the number of launches."""

    @property
    def kind(self) -> str:
        """Return `kernel` for a launch, or `copy` or `fill` for an operation on memory."""


@dataclass
class Trials:
    """Launches left out of a profile because an autotuner only tried a configuration.

    Attributes:
        launches: Number of launches of Triton kernels.
        libraries: Number of library kernels between the trials; autotuners launch them to time
            trials and to restore memory.
        seconds: Total time, including copies and fills of memory between the trials.
    """

    launches: int = 0
    libraries: int = 0
    seconds: float = 0.0

    def add(self, samples: Iterable[Timed], *, libraries: bool = False) -> None:
        for sample in samples:
            self.seconds += sample.seconds
            if libraries:
                self.libraries += sample.launches if sample.kind == "kernel" else 0
            else:
                self.launches += sample.launches

    def __str__(self) -> str:
        """Return a sentence for reports; empty if nothing was left out."""
        if not self.launches:
            return ""
        sentence = (
            f"{counted(self.launches, 'trial launch', 'trial launches')} by autotuners left out"
        )
        if self.libraries:
            sentence += f", with {counted(self.libraries, 'library kernel')} between them"
        return sentence
