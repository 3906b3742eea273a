"""How often each launch is made, and which launches only warm up."""

from __future__ import annotations

from dataclasses import dataclass

from ttools.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """How often launches are made that are alike: in kernel, specialisation, grid and numbers.

    Attributes:
        warmup: how many of them are made first and left out of all figures.
        iterations: how often each launch of the program's is made, on the same memory. If more than
            once, launches that warm up come on top.
    """

    warmup: int = 0
    iterations: int = 1

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise UsageError(f"warmup={self.warmup}: give how many launches warm up, 0 or more")
        if self.iterations < 1:
            raise UsageError(f"iterations={self.iterations}: give how often to launch, 1 or more")

    def times(self, *, first: bool) -> int:
        """How often to make a launch.

        Args:
            first: whether it is the first of its kind.
        """
        return self.iterations + (self.warmup if first and self.iterations > 1 else 0)


ONCE = Repetition()
#: Why a launch is made once after all.
NOT_REPEATED = "it is unknown what memory it writes, so it was not repeated"


def all_warm_up(warmup: int) -> str:
    """Why a kernel is missing in all figures."""
    return f"launched at most {warmup} times in each way, so all its launches only warmed up"
