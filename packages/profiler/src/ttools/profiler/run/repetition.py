"""Options for repeated launches and for launches that only warm up."""

from __future__ import annotations

from dataclasses import dataclass

from ttools.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """The number of times to make launches with equal specialisation, grid and scalars.

    Attributes:
        warmup: Number of initial launches that are excluded from all figures.
        iterations: Number of times that each launch of the program is made, on the same memory. If
            this is more than one, the launches that warm up are made in addition.
    """

    warmup: int = 0
    iterations: int = 1

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise UsageError(
                f"warmup={self.warmup}: must be the number of launches that warm up, 0 or more"
            )
        if self.iterations < 1:
            raise UsageError(
                f"iterations={self.iterations}: must be the number of launches, 1 or more"
            )

    def times(self, *, first: bool) -> int:
        """Return the number of times to make a launch.

        Args:
            first: True for the first launch of its kind.
        """
        return self.iterations + (self.warmup if first and self.iterations > 1 else 0)


ONCE = Repetition()
#: The reason why a launch is not repeated.
NOT_REPEATED = "it is unknown which memory it writes, so it was not repeated"


def all_warm_up(warmup: int) -> str:
    """Return the reason why a kernel has no figures: all of its launches only warmed up."""
    return (
        f"each of its launch signatures was launched at most {warmup} times, so all launches only "
        "warmed up"
    )
